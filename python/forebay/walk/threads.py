"""The user's Python, in threads: any dataset that has ``__getitem__``.

Every sample of the look-ahead window is in flight at once. Each has its slot before it is fetched, so samples may
arrive in any order and the batch is the same.

The dataset is shared by the threads, as it is, so its ``__getitem__`` must bear being called from several of them at
once. ``torch.utils.data.get_worker_info()`` returns None there, as in torch's main process.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterator
from queue import Empty
from typing import Any, NoReturn

from forebay.collate import caught, collation
from forebay.dataset import ImageFolder
from forebay.deliver import array
from forebay.errors import CancelledError, ConfigError, OverBudgetError, UnavailableError
from forebay.order import Course, Draw, Start, course
from forebay.spec import Spec
from forebay.walk import Loss, Step, no_counts
from forebay.walk.crew import Crew

__all__ = ["ThreadSource", "ThreadWalk"]

_LOST = object()
_SUBSTITUTES = 16


class ThreadSource:
    """A dataset that is indexed."""

    def __init__(self, dataset: Any, spec: Spec, reason: str | None = None) -> None:
        """``reason`` says why the engine does not do it."""
        self._dataset = dataset
        self._spec = spec
        self._reason = reason
        if spec.output == "dlpack" and spec.collate_fn is None and not isinstance(dataset, ImageFolder):
            raise ConfigError('output="dlpack" is for native pipelines; pass output="torch", "numpy" or "jax"')

    def open(self, start: Start) -> ThreadWalk:
        """Starts a walk, with threads of its own."""
        dataset = self._dataset
        if isinstance(dataset, ImageFolder):
            dataset = _Prepared(dataset, self._spec.output, start)
        samples = len(dataset) if hasattr(dataset, "__len__") else 0
        return ThreadWalk(dataset, self._spec, course(self._spec, samples, start), samples)

    def explain(self) -> list[tuple[str, str]]:
        """What is done where, as headings and texts."""
        spec = self._spec
        lines = [("runs", f"in Python, in {spec.num_workers} threads" if spec.num_workers else "in the calling thread")]
        if self._reason is not None:
            lines.append(("not native", self._reason))
        name = "a forebay image folder" if isinstance(self._dataset, ImageFolder) else type(self._dataset).__name__
        size = f", {len(self._dataset):,} samples" if hasattr(self._dataset, "__len__") else ""
        ahead = f"{spec.lookahead} batches" if spec.num_workers else "none"
        return [*lines, ("source", name + size), ("look-ahead", ahead)]

    def close(self) -> None:
        """Nothing outlives a walk."""


class _Prepared:
    """The samples of an image folder as a loader prepares them in one epoch."""

    def __init__(self, dataset: ImageFolder, output: str, start: Start) -> None:
        self._dataset, self._output, self._start = dataset, output, start

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image, label = self._dataset.sample(index, seed=self._start.seed, epoch=self._start.epoch)
        return array(self._output, image), label


class _Assembly:
    """A batch in the making."""

    __slots__ = ("draw", "failures", "number", "open", "result", "slots")

    def __init__(self, number: int, draw: Draw) -> None:
        self.number = number
        self.draw = draw
        self.slots: list[Any] = [_LOST] * len(draw.samples)
        self.open = len(draw.samples)
        self.failures: dict[int, BaseException] = {}
        self.result: Any = _LOST

    @property
    def broken(self) -> float:
        """The first slot that is known to have failed."""
        return min(self.failures, default=float("inf"))

    @contextlib.contextmanager
    def guard(self, slot: int, crew: Crew) -> Iterator[None]:
        """Keeps an error for the consumer. In the consumer's own thread, an interrupt is not held up."""
        try:
            yield
        except BaseException as error:
            if not crew.size and not isinstance(error, Exception):
                raise
            self.failures[slot] = error

    def failure(self) -> BaseException:
        """The error to raise, which the batch no longer holds: it would hold the batch in turn, by its traceback."""
        first = self.failures[min(self.failures)]
        self.failures.clear()
        return first


class _Work:
    """What threads do. Knows the dataset, and nothing of the walk, so that a forgotten walk can be collected."""

    def __init__(self, dataset: Any, spec: Spec, samples: int) -> None:
        self.dataset = dataset
        self.spec = spec
        self.samples = samples
        self.losses: list[Loss] = []
        self.counts = no_counts()
        self.budget = spec.on_error.count(samples)
        self.collate = collation(spec)
        self.is_batched = spec.batch_size is not None or spec.batch_sampler is not None
        self.takes_batches = self.is_batched and callable(getattr(dataset, "__getitems__", None))

    def tasks(self, assembly: _Assembly) -> range:
        """The parts of a batch that can be done apart: its slots, or all of them in one."""
        if self.takes_batches:
            assembly.open = 1
            return range(-1, 0)
        return range(len(assembly.slots))

    def do(self, crew: Crew, assembly: _Assembly, slot: int) -> None:
        """Fetches a slot; the last one makes the batch."""
        began = time.perf_counter()
        with assembly.guard(slot, crew):
            # Behind a sample that failed nothing needs fetching; before it, another may fail, and is the one to tell.
            if slot < 0:
                self._fill_all(crew, assembly)
            elif slot < assembly.broken:
                self._fill(crew, assembly, slot)
        fetched = time.perf_counter()
        with crew.lock:
            self.counts["waits"]["fetch"] += fetched - began
            assembly.open -= 1
            is_last = assembly.open == 0
        if is_last:
            with assembly.guard(0, crew):
                self._merge(crew, assembly)
            with crew.lock:
                self.counts["waits"]["prepare"] += time.perf_counter() - fetched
            crew.done.put(assembly)

    def _fill_all(self, crew: Crew, assembly: _Assembly) -> None:
        try:
            assembly.slots = list(self.dataset.__getitems__(list(assembly.draw.samples)))
        except Exception as error:
            if self.spec.on_error.action == "raise":
                _raise(error, crew, f"samples {_some(assembly.draw.samples)}")
            for slot in range(len(assembly.slots)):
                self._fill(crew, assembly, slot)

    def _fill(self, crew: Crew, assembly: _Assembly, slot: int) -> None:
        sample = assembly.draw.samples[slot]
        for attempt in range(_SUBSTITUTES + 1):
            try:
                assembly.slots[slot] = self.dataset[sample]
            except BaseException as error:
                substitute = self._lose(crew, sample, attempt, error)
                if substitute is None:
                    return
                sample = substitute
            else:
                return

    def _lose(self, crew: Crew, sample: Any, attempt: int, error: BaseException) -> int | None:
        """Notes a loss, and names a substitute if there is to be one; or raises it."""
        action = self.spec.on_error.action
        with crew.lock:
            self.counts["errors"] += 1
            lost = self.counts["errors"]
        if action == "raise" or not isinstance(error, Exception):
            _raise(error, crew, f"sample {sample}")
        if lost > self.budget:
            raise OverBudgetError(
                f"{lost} samples could not be fetched, more than on_error allows; the last: "
                f"{type(error).__name__}: {error} (sample {sample}); repair the dataset or raise the budget of on_error"
            ) from error
        substitute = None
        if action == "replace" and attempt < _SUBSTITUTES and self.samples > 0 and isinstance(sample, int):
            substitute = (sample + 1) % self.samples
        with crew.lock:
            self.losses.append(Loss(sample, None, substitute, f"{type(error).__name__}: {error}"))
        return substitute

    def _merge(self, crew: Crew, assembly: _Assembly) -> None:
        if assembly.failures:
            return
        kept = [value for value in assembly.slots if value is not _LOST]
        if not kept:
            return
        try:
            assembly.result = self.collate(kept if self.is_batched else kept[0])
            assembly.slots = kept
        except Exception as error:
            _raise(error, crew, f"samples {_some(assembly.draw.samples)}, collating them")


class ThreadWalk:
    """One walk over a dataset that is indexed."""

    def __init__(self, dataset: Any, spec: Spec, batches: Course, samples: int) -> None:
        """Nothing is fetched before the first batch is asked for."""
        self.remaining = batches.remaining
        self._spec = spec
        self._course = batches
        self._work = _Work(dataset, spec, samples)
        self._crew = Crew(spec.num_workers)
        self._crew.serve(self)
        self._lookahead = spec.lookahead if spec.num_workers else 1
        if self._work.takes_batches and spec.prefetch_factor is None:
            self._lookahead = max(self._lookahead, spec.num_workers)  # a batch keeps only one thread busy
        self._started = 0
        self._delivered = 0
        self._early: dict[int, _Assembly] = {}
        self._born = os.getpid()

    def next(self) -> Step | None:
        """The next batch; None at the end."""
        if self._born != os.getpid():
            raise ConfigError(
                "this iterator was made before a fork, and its threads stayed with the parent; "
                "call iter() on the loader again in the child"
            )
        if self._crew.is_stopped:
            raise CancelledError("the iterator was closed; call iter() on the loader again")
        began = time.perf_counter()
        try:
            while True:
                self._start_batches()
                if self._started == self._delivered:
                    return None
                assembly = self._take()
                self._delivered += 1
                self._start_batches()
                if assembly.failures:
                    raise assembly.failure()
                if assembly.result is not _LOST:
                    return self._step(assembly)
        except Exception:
            raise
        except BaseException:
            self._crew.stop()  # an interrupt may have struck between two lines that belong together
            raise
        finally:
            self._work.counts["waits"]["consumer"] += time.perf_counter() - began

    def _start_batches(self) -> None:
        while self._started - self._delivered < self._lookahead:
            if not self._crew.size and self._started > self._delivered:
                return
            draw = self._course.draw()
            if draw is None:
                self._lookahead = 0
                return
            assembly = _Assembly(self._started, draw)
            self._started += 1
            for slot in self._work.tasks(assembly):
                self._crew.offer(functools.partial(self._work.do, self._crew, assembly, slot))

    def _take(self) -> _Assembly:
        turn = self._delivered
        while True:
            if self._spec.in_order and turn in self._early:
                return self._early.pop(turn)
            try:
                assembly: _Assembly = self._crew.done.get(timeout=self._spec.timeout or None)
            except Empty:
                raise UnavailableError(
                    f"DataLoader timed out after {self._spec.timeout} seconds; raise timeout, or look for a slow sample"
                ) from None
            if not self._spec.in_order:
                return assembly
            self._early[assembly.number] = assembly

    def _step(self, assembly: _Assembly) -> Step:
        self._work.counts["batches"] += 1
        self._work.counts["samples"] += len(assembly.slots)
        return Step(assembly.result, assembly.draw.begin, assembly.draw.end)

    def counts(self) -> dict[str, Any]:
        """What the walk has done so far. Bytes are not known."""
        return {**self._work.counts, "waits": dict(self._work.counts["waits"])}

    def losses(self) -> list[Loss]:
        """The samples lost so far."""
        return list(self._work.losses)

    def close(self) -> None:
        """Has the threads leave after the sample they are at, and waits for them."""
        self._crew.stop()
        self._crew.join()
        self._early.clear()


def _raise(error: BaseException, crew: Crew, what: str) -> NoReturn:
    """Raises what the consumer sees. In its own thread the error comes as it is, for debuggers."""
    raise caught(error, f"a forebay worker thread for {what}") if crew.size else error


def _some(samples: list[Any]) -> str:
    shown = ", ".join(str(sample) for sample in samples[:4])
    return shown if len(samples) <= 4 else f"{shown}, ... ({len(samples)} of them)"
