"""What becomes of a sample that cannot be prepared."""

from __future__ import annotations

import numbers
from dataclasses import dataclass

from forebay.errors import ConfigError

__all__ = ["OnError"]

_ACTIONS = ("raise", "skip", "replace")
_LEAST_BUDGET = 16


@dataclass(frozen=True)
class OnError:
    """What becomes of a sample that cannot be prepared, and how many of them are too many.

    ``raise``: the batch is an error. ``skip``: the batch comes without it. ``replace``: another sample, the same every
    time, takes its place. ``budget`` is how many may be lost in an epoch: a count, or a fraction of the dataset; one in
    a hundred unless said otherwise, but at least 16. ``DataLoader.report()`` lists the losses.

    >>> OnError("skip", budget=0.001)
    OnError(action='skip', budget=0.001)
    """

    action: str = "raise"
    budget: int | float | None = None

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        if self.action not in _ACTIONS:
            raise ConfigError(f"on_error={self.action!r} is unknown; give one of {', '.join(_ACTIONS)}, or an OnError")
        budget = self.budget
        if budget is None:
            return
        if isinstance(budget, bool) or not isinstance(budget, numbers.Real) or budget < 0:
            raise ConfigError(
                f"on_error: budget={budget!r}; give a count, or a fraction of the dataset between 0 and 1"
            )
        if not isinstance(budget, numbers.Integral) and budget > 1:
            raise ConfigError(
                f"on_error: budget={budget!r} is more than the dataset; give a whole number to mean a count"
            )

    @staticmethod
    def of(value: OnError | str) -> OnError:
        """The policy that a word, or a policy, stands for."""
        return value if isinstance(value, OnError) else OnError(value)

    def count(self, samples: int) -> int:
        """How many samples may be lost in an epoch of a dataset of that many."""
        if self.action == "raise":
            return 0
        if self.budget is None:
            return max(samples // 100, _LEAST_BUDGET)
        return int(self.budget) if isinstance(self.budget, numbers.Integral) else int(self.budget * samples)
