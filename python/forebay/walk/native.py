"""The engine's own walk: nothing but a conversion of batches happens in Python."""

from __future__ import annotations

from typing import Any, Callable

from forebay import _native, deliver
from forebay.dataset import ImageFolder
from forebay.errors import ConfigError
from forebay.order import PlannedCourse, SampledCourse, Start, course
from forebay.spec import Spec
from forebay.walk import Loss, Step

__all__ = ["NativeSource", "NativeWalk"]

_BYTES = {"u8": 1, "f16": 2, "bf16": 2, "f32": 4}


class NativeSource:
    """An image folder with the engine's threads and slabs, which start with the first walk."""

    def __init__(self, dataset: ImageFolder, spec: Spec, lowered_from: str | None = None) -> None:
        """Checks that batches can be made; starts nothing."""
        self._lowered_from = lowered_from
        self._dataset = dataset
        self._spec = spec
        self._native: _native.Loader | None = None
        self._pinned: deliver.PinnedSlabs | None = None
        if dataset._pipeline.size is None:
            raise ConfigError(
                "the pictures of a batch would have different sizes; end the pipeline with resize((height, width)), "
                "center_crop, random_crop or random_resized_crop, or pass a collate_fn"
            )
        deliver.check(spec.output, dataset._pipeline)

    def open(self, start: Start) -> NativeWalk:
        """Starts a walk; in a fork of the process, with threads of its own."""
        if self._native is None or self._native.is_foreign:
            self._native = self._started()
        return NativeWalk(self._dataset, self._spec, self._native, self._pinned, start)

    def _started(self) -> _native.Loader:
        spec = self._spec
        is_pinned = spec.pin_memory and _native.cuda_is_present()
        if spec.pin_memory and not is_pinned:
            deliver.warn_unpinned()
        self._pinned = deliver.PinnedSlabs() if is_pinned and spec.output == "torch" else None
        return _native.Loader(
            self._dataset._folder,
            self._dataset._pipeline,
            workers=spec.num_workers,
            readers=_readers(spec.num_workers),
            batch_size=spec.batch_size or 1,
            ram_budget=spec.ram_budget,
            pin=is_pinned,
        )

    def explain(self) -> list[tuple[str, str]]:
        """What is done where, as headings and texts."""
        spec, pipeline = self._spec, self._dataset._pipeline
        height, width = pipeline.size or (0, 0)
        slab = (height * width * pipeline.channels * _BYTES[pipeline.dtype] + 8) * (spec.batch_size or 1)
        ignored = {
            "worker_init_fn": spec.worker_init_fn,
            "multiprocessing_context": spec.multiprocessing_context,
            "persistent_workers": spec.persistent_workers or None,
        }
        without_effect = ", ".join(name for name, value in ignored.items() if value is not None)
        lines = [
            ("runs", "natively, in the engine's threads" if spec.num_workers else "natively, in the calling thread"),
            *(
                [("lowered", f"from {self._lowered_from} and its transforms, all of them")]
                if self._lowered_from
                else []
            ),
            ("source", f"{self._dataset.root or 'a list of files'}, {len(self._dataset):,} samples"),
            ("operations", "\n".join("." + step for step in pipeline.steps)),
            (
                "images",
                f"{pipeline.channels} x {height} x {width}, {pipeline.dtype}, {pipeline.layout}, as {spec.output}",
            ),
            ("workers", _workers(spec.num_workers)),
            ("look-ahead", f"{spec.lookahead} batches" if spec.num_workers else "none"),
            ("slabs", f"{slab / 1e6:.3g} MB each, within a budget of {spec.ram_budget / 1e6:,.0f} MB"),
            ("pinned", "yes" if spec.pin_memory and _native.cuda_is_present() else "no"),
        ]
        return [*lines, ("no effect", f"{without_effect}: there are no worker processes")] if without_effect else lines

    def close(self) -> None:
        """Lets go of threads and slabs. Arrays that the program still holds stay valid."""
        if self._pinned is not None:
            self._pinned.close()
        self._native = self._pinned = None


class NativeWalk:
    """One job of the engine."""

    def __init__(
        self,
        dataset: ImageFolder,
        spec: Spec,
        loader: _native.Loader,
        pinned: deliver.PinnedSlabs | None,
        start: Start,
    ) -> None:
        """Nothing is read before the first batch is asked for."""
        batches = course(spec, len(dataset), start)
        self.remaining = batches.remaining
        self._output = spec.output
        self._pinned = pinned
        self._begins: dict[int, int] = {}
        follow: dict[str, Any]
        if isinstance(batches, PlannedCourse):
            self._plan: _native.Plan | None = batches.plan
            follow = {"plan": batches.plan}
        else:
            assert isinstance(batches, SampledCourse)
            self._plan = None
            follow = {"feed": _feed(batches, self._begins, len(dataset))}
        self._job = _native.Job(
            loader,
            seed=start.seed,
            epoch=start.epoch,
            lookahead=spec.lookahead,
            in_order=spec.in_order,
            on_error=spec.on_error.action,
            error_budget=spec.on_error.count(len(dataset)),
            start=start.position,
            timeout=spec.timeout,
            **follow,
        )

    def next(self) -> Step | None:
        """The next batch; None at the end."""
        batch = self._job.next()
        if batch is None:
            return None
        if self._pinned is not None:
            self._pinned.hold(batch)
        return Step(deliver.batch(self._output, batch), self._begin(batch.end), batch.end)

    def _begin(self, end: int) -> int:
        plan = self._plan
        if plan is None:
            return self._begins.pop(end)
        last = len(plan) - 1
        return plan.consumed(last) if end == plan.consumed(last + 1) else end - (plan.consumed(1) - plan.consumed(0))

    def counts(self) -> dict[str, Any]:
        """What the job has done so far."""
        return self._job.stats()

    def losses(self) -> list[Loss]:
        """The samples lost so far."""
        return [Loss(sample, path, by, reason) for sample, path, by, reason in self._job.losses()]

    def close(self) -> None:
        """Gives up what is under way."""
        self._job.cancel()


def _feed(batches: SampledCourse, begins: dict[int, int], samples: int) -> Callable[[], list[int]]:
    # Holds no reference to the walk: the engine's job cannot be seen by the cycle collector.
    def feed() -> list[int]:
        draw = batches.draw()
        if draw is None:
            return []
        begins[draw.end] = draw.begin
        for sample in draw.samples:
            if not isinstance(sample, int) or not -samples <= sample < samples:
                raise IndexError(f"the sampler asked for sample {sample} of a dataset of {samples}")
        return [sample % samples for sample in draw.samples]

    return feed


def _readers(workers: int) -> int:
    """Threads that read files; they sleep in the kernel, so a few per worker cost nothing."""
    return min(32, max(8, 2 * workers))


def _workers(count: int) -> str:
    return (
        f"{count} threads, and {_readers(count)} that read files" if count else "none; the calling thread does it all"
    )
