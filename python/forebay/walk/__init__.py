"""Walks: the ways to get the batches of an epoch out of a dataset.

| module | who prepares samples | for |
| --- | --- | --- |
| ``native`` | the engine's threads | image folders, and torchvision's where they can be lowered |
| ``threads`` | the user's Python, in threads | any dataset that can be indexed |
| ``stream`` | the user's Python, in one thread | datasets that can only be iterated |
| ``processes`` | the user's Python, in torch's worker processes | where an argument asks for processes |

A source outlives epochs; it opens one walk for each.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from forebay.order import Start

__all__ = ["Loss", "Source", "Step", "Walk", "no_counts"]


class Step(NamedTuple):
    """A batch as the user gets it, and the positions at which it begins and ends."""

    batch: Any
    begin: int
    end: int


class Loss(NamedTuple):
    """A sample that could not be prepared."""

    sample: int
    path: str | None
    replaced_by: int | None
    reason: str


class Walk(Protocol):
    """One walk over a dataset, from its start to the end of the epoch."""

    @property
    def remaining(self) -> int | None:
        """How many batches there were to come at the start, where that is known."""

    def next(self) -> Step | None:
        """The next batch, waiting for it; None at the end. After an error, the batch behind the broken one."""

    def counts(self) -> dict[str, Any]:
        """What the walk has done so far, in the keys of :func:`no_counts`."""

    def losses(self) -> list[Loss]:
        """The samples lost so far."""

    def close(self) -> None:
        """Gives up what is under way. Can be called twice, and from any thread."""


class Source(Protocol):
    """What outlives an epoch."""

    def open(self, start: Start) -> Walk:
        """Starts a walk."""

    def explain(self) -> list[tuple[str, str]]:
        """What is done where, as headings and texts."""

    def close(self) -> None:
        """Lets go of threads, processes and memory."""


def no_counts() -> dict[str, Any]:
    """The counts of a walk that has done nothing: numbers, and seconds by step, summed over threads."""
    return {
        "samples": 0,
        "batches": 0,
        "bytes": 0,
        "errors": 0,
        "waits": {"fetch": 0.0, "prepare": 0.0, "consumer": 0.0},
    }
