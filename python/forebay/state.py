"""Where a loader stands: which epoch, how far into it, and what it takes to go on from there elsewhere.

The state is a handful of numbers, equal on all ranks, and says what has been *yielded*, whatever was prefetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forebay.errors import ConfigError

__all__ = ["Epochs", "Progress", "check_epoch", "checked_state"]

VERSION = 1

_FIELDS = ("version", "seed", "epoch", "position", "samples", "order", "sticky_epoch")


class Progress:
    """How far one walk has come."""

    def __init__(self, epoch: int, position: int, remaining: int | None, *, in_order: bool) -> None:
        """At its start, with that many batches to go, where known."""
        self.epoch = epoch
        self.position = position
        self.is_over = False
        self._remaining = remaining
        self._in_order = in_order
        self._ahead: dict[int, int] = {}

    def yielded(self, begin: int, end: int) -> None:
        """Notes a batch that was handed over.

        Batches that come out of order count once all before them have come: nothing is lost by resuming, though some
        batches may come again.
        """
        if self._in_order:
            self.position = end
        else:
            self._ahead[begin] = end
            while self.position in self._ahead:
                self.position = self._ahead.pop(self.position)
        if self._remaining is not None:
            self._remaining -= 1
            self.is_over = self._remaining == 0

    def finished(self) -> None:
        """Notes that there are no more batches."""
        self.is_over = True


class Epochs:
    """Counts epochs: by itself, one for each walk, until somebody sets the number."""

    def __init__(self) -> None:
        """The first epoch is number 0."""
        self.next = 0
        self.is_sticky = False
        self._resume_at = 0
        self._latest: Progress | None = None

    def set(self, epoch: int) -> None:
        """Sets the number that walks use until it is set again. A position to resume at is kept for its own epoch."""
        if epoch != self.next:
            self._resume_at = 0
        self.next, self.is_sticky, self._latest = epoch, True, None

    def upcoming(self) -> tuple[int, int]:
        """Epoch and position at which the next walk starts."""
        return (self.next, self._resume_at)

    def follow(self, progress: Progress) -> None:
        """From now on, stand where this walk does, which has started."""
        self._latest = progress
        self._resume_at = 0
        if not self.is_sticky:
            self.next += 1

    def stand(self) -> tuple[int, int]:
        """Epoch and position at which to go on: after the last batch of an epoch, the start of the next."""
        latest = self._latest
        if latest is None:
            return self.upcoming()
        return (latest.epoch + 1, 0) if latest.is_over else (latest.epoch, latest.position)

    def resume(self, epoch: int, position: int, *, is_sticky: bool) -> None:
        """Goes on from there with the next walk."""
        self.next, self._resume_at, self.is_sticky, self._latest = epoch, position, is_sticky, None


def check_epoch(epoch: Any) -> int:
    """An epoch's number, or an error."""
    if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
        raise ConfigError(f"the epoch {epoch!r} is no epoch; give a whole number from 0 on")
    return epoch


def checked_state(state: Mapping[str, Any], *, samples: int, order: str) -> dict[str, Any]:
    """The state, if a loader over that many samples in that order can go on from it."""
    missing = [name for name in _FIELDS if name not in state]
    if missing:
        raise ConfigError(f"the state lacks {', '.join(missing)}; pass what state_dict() of a forebay loader returned")
    if state["version"] != VERSION:
        raise ConfigError(
            f"the state has version {state['version']}, this forebay reads {VERSION}; "
            "resume with the forebay that saved it"
        )
    if state["samples"] != samples:
        raise ConfigError(
            f"the state was saved with a dataset of {state['samples']} samples, this one has {samples}; "
            "resume with the same dataset"
        )
    if state["order"] != order:
        raise ConfigError(
            f"the state was saved in {state['order']} order, this loader is in {order} order; "
            "pass the same shuffle or sampler as when it was saved"
        )
    for name in ("seed", "position"):
        if isinstance(state[name], bool) or not isinstance(state[name], int) or state[name] < 0:
            raise ConfigError(f"the state's {name} is {state[name]!r}, not a whole number; the state is damaged")
    check_epoch(state["epoch"])
    if 0 <= samples < state["position"] and order in ("shuffled", "sequential"):
        raise ConfigError(
            f"the state's position {state['position']} lies beyond the {samples} samples; the state is damaged"
        )
    return dict(state)
