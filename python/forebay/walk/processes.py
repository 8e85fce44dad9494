"""The user's Python, in torch's worker processes, where an argument asks for them.

torch's own ``DataLoader`` does the work, along our order: ``worker_init_fn``, ``get_worker_info()``,
``multiprocessing_context``, ``persistent_workers`` and ``pin_memory`` are torch's. ``prefetch_factor`` counts batches
for each worker, as in torch. With ``in_order=False`` torch does not say which batch came, so the state counts batches.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Iterator
from typing import Any

from forebay.errors import CancelledError, ConfigError
from forebay.order import Course, Draw, Start, course
from forebay.spec import Spec, is_stream
from forebay.walk import Loss, Step, no_counts

__all__ = ["ProcessSource", "ProcessWalk"]


class ProcessSource:
    """A dataset in the hands of torch's workers."""

    def __init__(self, dataset: Any, spec: Spec, reason: str | None = None) -> None:
        """``reason`` says why the engine does not do it. Starts nothing."""
        self._dataset = dataset
        self._spec = spec
        self._reason = reason
        self._persistent: Any = None
        self._itinerary = _Itinerary()
        if spec.on_error.action != "raise":
            raise ConfigError(
                f'on_error="{spec.on_error.action}" needs threads; '
                'leave out worker_init_fn and multiprocessing_context, or pass on_error="raise"'
            )
        if spec.output != "torch":
            raise ConfigError(
                f'output="{spec.output}" needs threads; leave out worker_init_fn and multiprocessing_context, '
                'or pass output="torch"'
            )

    def open(self, start: Start) -> ProcessWalk:
        """Starts a walk, with processes of its own unless they persist."""
        if is_stream(self._dataset):
            return ProcessWalk(iter(self._workers(None, start)), self._spec, None, start.position)
        itinerary = self._itinerary if self._spec.persistent_workers else _Itinerary()
        samples = len(self._dataset) if hasattr(self._dataset, "__len__") else 0
        itinerary.course = course(self._spec, samples, start)
        itinerary.drawn = collections.deque()
        return ProcessWalk(iter(self._workers(itinerary, start)), self._spec, itinerary, start.position)

    def _workers(self, itinerary: _Itinerary | None, start: Start) -> Any:
        if self._persistent is not None:
            return self._persistent
        import torch
        from torch.utils.data import DataLoader

        spec = self._spec
        is_batched = spec.batch_size is not None or spec.batch_sampler is not None
        how: dict[str, Any]
        if itinerary is None:
            how = {"batch_size": spec.batch_size, "drop_last": spec.drop_last}
        elif is_batched:
            how = {"batch_sampler": itinerary}
        else:
            how = {"batch_size": None, "sampler": _OneByOne(itinerary)}
        if not spec.in_order:
            how["in_order"] = False  # older versions of torch do not know the argument
        # Workers are seeded by the epoch, so that a walk that is resumed draws like one that was not.
        generator = torch.Generator().manual_seed((start.seed + start.epoch) % (1 << 63))
        workers: Any = DataLoader(
            self._dataset,
            num_workers=spec.num_workers,
            collate_fn=spec.collate_fn,
            pin_memory=spec.pin_memory,
            timeout=spec.timeout,
            worker_init_fn=spec.worker_init_fn,
            multiprocessing_context=spec.multiprocessing_context,
            generator=generator,
            prefetch_factor=spec.prefetch_factor,
            persistent_workers=spec.persistent_workers,
            **how,
        )
        if spec.persistent_workers:
            self._persistent = workers
        return workers

    def explain(self) -> list[tuple[str, str]]:
        """What is done where, as headings and texts."""
        spec = self._spec
        lines = [("runs", f"in Python, in {spec.num_workers} worker processes of torch")]
        if self._reason is not None:
            lines.append(("not native", self._reason))
        return [
            *lines,
            ("source", type(self._dataset).__name__),
            ("look-ahead", f"{spec.prefetch_factor or 2} batches for each worker"),
        ]

    def close(self) -> None:
        """Ends processes that persist."""
        self._persistent = None


class _Itinerary:
    """The batches of a walk as torch's workers ask for them, with a note of what was drawn."""

    def __init__(self) -> None:
        self.course: Course | None = None
        self.drawn: collections.deque[Draw] = collections.deque()

    def __iter__(self) -> Iterator[list[int]]:
        course, drawn = self.course, self.drawn
        while course is not None:
            draw = course.draw()
            if draw is None:
                return
            drawn.append(draw)
            yield draw.samples


class _OneByOne:
    """The same, sample by sample."""

    def __init__(self, itinerary: _Itinerary) -> None:
        self._itinerary = itinerary

    def __iter__(self) -> Iterator[int]:
        for samples in self._itinerary:
            yield from samples


class ProcessWalk:
    """One walk of torch's workers."""

    def __init__(self, batches: Any, spec: Spec, itinerary: _Itinerary | None, start: int) -> None:
        """``itinerary`` is None for a dataset that is iterated: then positions count whole batches."""
        self.remaining = itinerary.course.remaining if itinerary is not None and itinerary.course is not None else None
        self._batches: Any = batches
        self._drawn = None if itinerary is None else itinerary.drawn
        self._size = spec.batch_size or 1
        self._yielded = 0
        self._counts = no_counts()
        if itinerary is None:
            self._skip(start)

    def _skip(self, start: int) -> None:
        for _ in range(-(-start // self._size)):
            if next(self._batches, None) is None:
                return
            self._yielded += 1

    def next(self) -> Step | None:
        """The next batch; None at the end."""
        if self._batches is None:
            raise CancelledError("the iterator was closed; call iter() on the loader again")
        began = time.perf_counter()
        try:
            batch = next(self._batches)
        except StopIteration:
            return None
        finally:
            self._counts["waits"]["consumer"] += time.perf_counter() - began
        number = self._yielded
        self._yielded += 1
        self._counts["batches"] += 1
        if self._drawn is None:
            return Step(batch, number * self._size, (number + 1) * self._size)
        draw = self._drawn.popleft()
        self._counts["samples"] += len(draw.samples)
        return Step(batch, draw.begin, draw.end)

    def counts(self) -> dict[str, Any]:
        """What the walk has done so far. What happens inside the workers is not known."""
        return {**self._counts, "waits": dict(self._counts["waits"])}

    def losses(self) -> list[Loss]:
        """None: an error ends the walk."""
        return []

    def close(self) -> None:
        """Ends the processes, unless they persist."""
        self._batches = None
