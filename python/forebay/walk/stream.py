"""The user's Python, in one thread that draws ahead: datasets that can only be iterated.

To resume, the dataset is iterated again and what was consumed is passed over; that is exact where it yields the same
again. Sharding over ranks is the dataset's own business, as in torch.
"""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Iterator
from queue import Empty
from typing import Any

from forebay.collate import caught, collation
from forebay.errors import CancelledError, ConfigError, OverBudgetError, UnavailableError
from forebay.order import Start
from forebay.spec import Spec
from forebay.walk import Loss, Step, no_counts
from forebay.walk.crew import Crew

__all__ = ["StreamSource", "StreamWalk"]


class StreamSource:
    """A dataset that is iterated."""

    def __init__(self, dataset: Any, spec: Spec) -> None:
        """Iterates nothing yet."""
        self._dataset = dataset
        self._spec = spec
        if spec.on_error.action == "replace":
            raise ConfigError('on_error="replace" needs a dataset that can be indexed; pass "skip" or "raise"')

    def open(self, start: Start) -> StreamWalk:
        """Starts a walk, with a thread of its own."""
        return StreamWalk(self._dataset, self._spec, start.position)

    def explain(self) -> list[tuple[str, str]]:
        """What is done where, as headings and texts."""
        spec = self._spec
        runs = "in Python, in one thread that draws ahead" if spec.num_workers else "in the calling thread"
        ahead = f"{spec.lookahead} batches" if spec.num_workers else "none"
        return [("runs", runs), ("source", f"{type(self._dataset).__name__}, iterated"), ("look-ahead", ahead)]

    def close(self) -> None:
        """Nothing outlives a walk."""


class _Drawing:
    """What the thread does. Knows nothing of the walk, so that a forgotten walk can be collected."""

    def __init__(self, dataset: Any, spec: Spec, start: int) -> None:
        self.counts = no_counts()
        self.losses: list[Loss] = []
        self._spec = spec
        self._samples = self._drawn(dataset, start)
        self._position = start
        self._collate = collation(spec)

    def batch(self) -> Step | None:
        """The next batch; None at the end."""
        size, began = self._spec.batch_size, time.perf_counter()
        samples = list(itertools.islice(self._samples, size or 1))
        drawn = time.perf_counter()
        self.counts["waits"]["fetch"] += drawn - began
        if not samples or (self._spec.drop_last and size is not None and len(samples) < size):
            return None
        begin = self._position
        self._position += len(samples)
        batch = self._collate(samples[0] if size is None else samples)
        self.counts["waits"]["prepare"] += time.perf_counter() - drawn
        self.counts["samples"] += len(samples)
        return Step(batch, begin, self._position)

    def _drawn(self, dataset: Any, start: int) -> Iterator[Any]:
        samples = iter(dataset)
        next(itertools.islice(samples, start, start), None)  # passes over what was consumed
        for number in itertools.count(start):
            try:
                yield next(samples)
            except StopIteration:
                return
            except Exception as error:
                self._lose(number, error)

    def _lose(self, number: int, error: Exception) -> None:
        self.counts["errors"] += 1
        if self._spec.on_error.action == "raise":
            raise error
        if self.counts["errors"] > self._spec.on_error.count(0):
            raise OverBudgetError(
                f"{self.counts['errors']} samples could not be drawn, more than on_error allows; the last: "
                f"{type(error).__name__}: {error}; repair the dataset or raise the budget of on_error"
            ) from error
        self.losses.append(Loss(number, None, None, f"{type(error).__name__}: {error}"))


class StreamWalk:
    """One walk over a dataset that is iterated."""

    def __init__(self, dataset: Any, spec: Spec, start: int) -> None:
        """Nothing is drawn before the first batch is asked for."""
        self.remaining: int | None = None
        self._spec = spec
        self._drawing = _Drawing(dataset, spec, start)
        self._crew = Crew(1 if spec.num_workers else 0)
        self._crew.serve(self)
        self._asked = 0
        self._delivered = 0
        self._is_over = False
        self._born = os.getpid()

    def next(self) -> Step | None:
        """The next batch; None at the end. After an error there are no more."""
        if self._born != os.getpid():
            raise ConfigError(
                "this iterator was made before a fork, and its thread stayed with the parent; "
                "call iter() on the loader again in the child"
            )
        if self._crew.is_stopped and not self._is_over:
            raise CancelledError("the iterator was closed; call iter() on the loader again")
        began = time.perf_counter()
        try:
            return self._take()
        except Exception:
            raise
        except BaseException:
            self._crew.stop()  # an interrupt may have struck between two lines that belong together
            raise
        finally:
            self._drawing.counts["waits"]["consumer"] += time.perf_counter() - began

    def _take(self) -> Step | None:
        if self._is_over:
            return None
        while self._asked - self._delivered < (self._spec.lookahead if self._crew.size else 1):
            self._crew.offer(functools.partial(_draw, self._drawing, self._crew))
            self._asked += 1
        try:
            outcome = self._crew.done.get(timeout=self._spec.timeout or None)
        except Empty:
            raise UnavailableError(
                f"DataLoader timed out after {self._spec.timeout} seconds; raise timeout, or look for a slow sample"
            ) from None
        self._delivered += 1
        if isinstance(outcome, BaseException):
            self._is_over = True
            try:
                raise outcome
            finally:
                del outcome  # a frame that holds an error is held by it
        if outcome is None:
            self._is_over = True
            return None
        self._drawing.counts["batches"] += 1
        step: Step = outcome
        return step

    def counts(self) -> dict[str, Any]:
        """What the walk has done so far. Bytes are not known."""
        return {**self._drawing.counts, "waits": dict(self._drawing.counts["waits"])}

    def losses(self) -> list[Loss]:
        """The samples lost so far."""
        return list(self._drawing.losses)

    def close(self) -> None:
        """Has the thread leave after the sample it is at, and waits for it."""
        self._crew.stop()
        self._crew.join()


def _draw(drawing: _Drawing, crew: Crew) -> None:
    try:
        crew.done.put(drawing.batch())
    except BaseException as error:
        if not crew.size and not isinstance(error, Exception):
            raise
        crew.done.put(caught(error, "a forebay worker thread, drawing from the dataset") if crew.size else error)
