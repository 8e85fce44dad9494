"""What ``for batch in loader`` runs on, and the books that a loader keeps over all of its walks."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from forebay.errors import CancelledError
from forebay.state import Progress
from forebay.walk import Loss, Walk, no_counts

__all__ = ["Batches", "Books"]


class Books:
    """Counts and losses, summed over the walks of a loader: those that are over, and those that still go on."""

    def __init__(self) -> None:
        """Nothing has happened."""
        self._closed = no_counts()
        self._losses: list[Loss] = []
        self._open: weakref.WeakSet[Batches] = weakref.WeakSet()

    def open(self, batches: Batches) -> None:
        """Counts a walk from now on."""
        self._open.add(batches)

    def close(self, batches: Batches, walk: Walk) -> None:
        """Keeps the sums of a walk that ends."""
        _add(self._closed, walk.counts())
        self._losses += walk.losses()
        self._open.discard(batches)

    def counts(self) -> dict[str, Any]:
        """The sums."""
        total = no_counts()
        _add(total, self._closed)
        for batches in list(self._open):
            _add(total, batches.counts())
        return total

    def losses(self) -> list[Loss]:
        """Every loss."""
        return self._losses + [loss for batches in list(self._open) for loss in batches.losses()]

    def close_all(self) -> None:
        """Ends all walks."""
        for batches in list(self._open):
            batches.close()


def _add(total: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict):
            _add(total[key], value)
        else:
            total[key] += value


class Batches(Iterator[Any]):
    """The batches of one epoch, from where it was started or resumed. Made by ``iter(loader)``."""

    def __init__(self, walk: Walk, progress: Progress, books: Books, length: int | None) -> None:
        """Takes the walk over, and closes it."""
        self._walk: Walk | None = walk
        self._progress = progress
        self._books = books
        self._length = length
        self._is_closed = False
        books.open(self)

    def __iter__(self) -> Batches:
        """Itself."""
        return self

    def __next__(self) -> Any:
        """The next batch. After an error, the batch behind the broken one."""
        if self._walk is None:
            if self._is_closed:
                raise CancelledError("the iterator was closed; call iter() on the loader again")
            raise StopIteration
        step = self._walk.next()
        if step is None:
            self._progress.finished()
            self._release()
            raise StopIteration
        self._progress.yielded(step.begin, step.end)
        return step.batch

    def __len__(self) -> int:
        """Batches in a whole epoch."""
        if self._length is None:
            raise TypeError("the dataset has no length")
        return self._length

    def counts(self) -> dict[str, Any]:
        """What this walk has done so far."""
        return no_counts() if self._walk is None else self._walk.counts()

    def losses(self) -> list[Loss]:
        """The samples it has lost so far."""
        return [] if self._walk is None else self._walk.losses()

    def close(self) -> None:
        """Gives up what is under way. Batches that were handed over stay valid."""
        if self._walk is not None:
            self._is_closed = True
            self._release()

    def _release(self) -> None:
        walk, self._walk = self._walk, None
        if walk is not None:
            walk.close()
            self._books.close(self, walk)

    def __del__(self) -> None:
        """Keeps the sums; the walk sees to its own end when it is forgotten, without waiting."""
        walk = getattr(self, "_walk", None)
        if walk is not None:
            self._walk = None
            self._books.close(self, walk)

    def __reduce__(self) -> Any:
        """Threads do not travel."""
        raise TypeError("an iterator cannot be pickled; pickle the loader, or its state_dict()")
