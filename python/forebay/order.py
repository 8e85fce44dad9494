"""Which samples make each batch of a walk: the engine's plan, or the user's sampler.

A course is drawn batch by batch, and can start anywhere, for resuming. Positions count samples from the start of the
epoch: over all ranks along a plan, this process's own along a sampler.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from forebay.errors import ConfigError
from forebay.spec import Spec

if TYPE_CHECKING:
    from forebay._native import Plan

__all__ = ["Course", "Draw", "PlannedCourse", "SampledCourse", "Start", "batches_per_epoch", "course", "plan"]


class Start(NamedTuple):
    """Where a walk starts."""

    seed: int
    epoch: int
    position: int


class Draw(NamedTuple):
    """The samples of one batch, and the positions at which it begins and ends."""

    samples: list[int]
    begin: int
    end: int


class Course(Protocol):
    """The batches of one walk."""

    @property
    def remaining(self) -> int | None:
        """How many batches there are from the start on, where that is known."""

    def draw(self) -> Draw | None:
        """The next batch; None at the end."""


def course(spec: Spec, samples: int, start: Start) -> Course:
    """The batches that a walk over a dataset of that many samples takes."""
    return SampledCourse(spec, start.position) if spec.is_sampled else PlannedCourse(plan(spec, samples, start))


def plan(spec: Spec, samples: int, start: Start) -> Plan:
    """The engine's plan of the batches of this rank; batches of one where there is no batching."""
    from forebay import _native

    return _native.Plan(
        samples,
        shuffle=spec.shuffle,
        seed=start.seed,
        epoch=start.epoch,
        batch_size=1 if spec.batch_size is None else spec.batch_size,
        rank=spec.rank,
        world_size=spec.world_size,
        drop_last=spec.drop_last,
        start=start.position,
    )


def batches_per_epoch(spec: Spec, samples: int) -> int:
    """How many batches this rank gets in a whole epoch."""
    if not spec.is_sampled:
        return len(plan(spec, samples, Start(0, 0, 0)))
    if spec.batch_sampler is not None:
        return len(spec.batch_sampler)
    count = len(spec.sampler)
    size = 1 if spec.batch_size is None else spec.batch_size
    return count // size if spec.drop_last else -(-count // size)


class PlannedCourse:
    """The batches of a plan."""

    def __init__(self, plan: Plan) -> None:
        """Starts where the plan does."""
        self.plan = plan
        self._drawn = 0

    @property
    def remaining(self) -> int:
        """How many batches the plan has."""
        return len(self.plan)

    def draw(self) -> Draw | None:
        """The next batch; None at the end."""
        number = self._drawn
        if number >= len(self.plan):
            return None
        self._drawn += 1
        return Draw(self.plan.batch(number), self.plan.consumed(number), self.plan.consumed(number + 1))


class SampledCourse:
    """The batches that a sampler draws. To resume, it draws again and passes over what was consumed.

    That is exact where the sampler draws the same again: a ``DistributedSampler`` after ``set_epoch``, a sequential
    sampler, or one whose generator was seeded alike.
    """

    def __init__(self, spec: Spec, start: int) -> None:
        """Passes over the batches before ``start``."""
        self._batches = _sampled(spec)
        self._position = 0
        skipped = 0
        while self._position < start:
            if self.draw() is None:
                break
            skipped += 1
        if self._position > start:
            raise ConfigError(
                f"the state was saved {start} samples into the epoch, but no batch of the sampler ends there; "
                "resume with the sampler and the batch size that the state was saved with"
            )
        try:
            self.remaining: int | None = max(0, batches_per_epoch(spec, 0) - skipped)
        except TypeError:  # the sampler has no len()
            self.remaining = None

    def draw(self) -> Draw | None:
        """The next batch; None at the end."""
        samples = next(self._batches, None)
        if samples is None:
            return None
        begin = self._position
        self._position += len(samples)
        return Draw(samples, begin, self._position)


def _sampled(spec: Spec) -> Iterator[list[int]]:
    if spec.batch_sampler is not None:
        for batch in spec.batch_sampler:
            samples = [_number(sample) for sample in batch]
            if not samples:
                raise ConfigError("the batch_sampler gave an empty batch; give at least one sample each")
            yield samples
        return
    size = 1 if spec.batch_size is None else spec.batch_size
    samples = map(_number, spec.sampler)  # type: ignore[assignment]
    while True:
        batch = list(itertools.islice(samples, size))
        if not batch or (spec.drop_last and len(batch) < size):
            return
        yield batch


def _number(sample: Any) -> Any:
    """Samplers may give tensors or NumPy numbers; a key that is no number, as of a dictionary, stays as it is."""
    try:
        return operator.index(sample)
    except TypeError:
        return sample
