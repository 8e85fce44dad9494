"""What a loader is asked for: torch's arguments and ours, checked together and complete.

Which arguments exclude each other, and the words that say so, are those of ``torch.utils.data.DataLoader``.
"""

from __future__ import annotations

import importlib.util
import numbers
import sys
from dataclasses import dataclass
from typing import Any, Callable

from forebay import budget, world
from forebay.errors import ConfigError
from forebay.on_error import OnError

__all__ = ["OUTPUTS", "Spec", "check", "is_stream"]

OUTPUTS = ("torch", "numpy", "jax", "dlpack")


@dataclass(frozen=True)
class Spec:
    """What a loader was asked for. A plain value: defaults are filled in, contradictions have been refused."""

    batch_size: int | None
    shuffle: bool
    sampler: Any
    batch_sampler: Any
    num_workers: int
    """Threads, or processes where those are asked for; 0 does everything in the calling thread."""
    collate_fn: Callable[[list[Any]], Any] | None
    pin_memory: bool
    drop_last: bool
    timeout: float
    worker_init_fn: Callable[[int], None] | None
    multiprocessing_context: Any
    lookahead: int
    """Batches prepared ahead of the consumer."""
    prefetch_factor: int | None
    persistent_workers: bool
    in_order: bool
    seed: int
    rank: int
    world_size: int
    ranked_by: str
    output: str
    on_error: OnError
    ram_budget: int

    @property
    def is_sampled(self) -> bool:
        """Whether the user's own sampler says which samples come."""
        return self.sampler is not None or self.batch_sampler is not None

    @property
    def wants_processes(self) -> bool:
        """Whether arguments were given that only worker processes can honour."""
        return self.num_workers > 0 and (self.worker_init_fn is not None or self.multiprocessing_context is not None)


def is_stream(dataset: Any) -> bool:
    """Whether a dataset is only iterated: a torch ``IterableDataset``, or an iterable that cannot be indexed."""
    data: Any = sys.modules.get("torch.utils.data")
    if data is not None and isinstance(dataset, data.IterableDataset):
        return True
    return hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__")


def check(
    dataset: Any,
    *,
    batch_size: int | None,
    shuffle: bool | None,
    sampler: Any,
    batch_sampler: Any,
    num_workers: int | str,
    collate_fn: Callable[[list[Any]], Any] | None,
    pin_memory: bool,
    drop_last: bool,
    timeout: float,
    worker_init_fn: Callable[[int], None] | None,
    multiprocessing_context: Any,
    generator: Any,
    prefetch_factor: int | None,
    persistent_workers: bool,
    in_order: bool,
    seed: int | None,
    rank: int | None,
    world_size: int | None,
    output: str | None,
    on_error: OnError | str,
    cpu_budget: float | None,
    ram_budget: int | str | None,
) -> Spec:
    """The specification, or a ``ConfigError``."""
    _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
    if is_stream(dataset):
        _check_stream(shuffle, sampler, batch_sampler)
    elif not hasattr(dataset, "__getitem__"):
        raise ConfigError(
            f"{type(dataset).__name__} is no dataset; give one with __getitem__ and __len__, or an iterable"
        )
    _check_batches(batch_size, shuffle, sampler, batch_sampler, drop_last)
    if not is_stream(dataset) and sampler is None and batch_sampler is None and not hasattr(dataset, "__len__"):
        raise ConfigError(f"{type(dataset).__name__} has no __len__; give it one, or pass a sampler")
    is_sampled = sampler is not None or batch_sampler is not None
    if is_sampled and world_size not in (None, 1):
        raise ConfigError(
            "a sampler says which samples this process gets, so rank and world_size have no part in it; "
            "leave them out, or leave out the sampler"
        )
    # A sampler is this rank's own, as in torch: a DistributedSampler already shards.
    placed = (0, 1, "the sampler") if is_sampled else world.place(rank, world_size)
    workers = budget.workers(num_workers, cpu_budget)
    return Spec(
        batch_size=None if batch_sampler is not None else batch_size,
        shuffle=bool(shuffle),
        sampler=sampler,
        batch_sampler=batch_sampler,
        num_workers=workers,
        collate_fn=None if _is_default_collate(collate_fn) else collate_fn,
        pin_memory=bool(pin_memory),
        drop_last=bool(drop_last),
        timeout=float(timeout),
        worker_init_fn=worker_init_fn,
        multiprocessing_context=multiprocessing_context,
        lookahead=_lookahead(prefetch_factor, batch_size, batch_sampler, workers),
        prefetch_factor=prefetch_factor,
        persistent_workers=bool(persistent_workers),
        in_order=bool(in_order),
        seed=world.seed_of(seed, generator, placed[1]),
        rank=placed[0],
        world_size=placed[1],
        ranked_by=placed[2],
        output=_output(output),
        on_error=OnError.of(on_error),
        ram_budget=budget.memory(ram_budget),
    )


def _check_workers(
    num_workers: int | str, timeout: float, prefetch_factor: int | None, persistent_workers: bool, context: Any
) -> None:
    is_number = isinstance(num_workers, numbers.Real) and not isinstance(num_workers, bool)
    if not is_number and num_workers != "auto":
        raise ConfigError(f'num_workers={num_workers!r}; give a whole number or "auto"')
    if is_number and num_workers < 0:  # type: ignore[operator]
        raise ConfigError("num_workers option should be non-negative; use num_workers=0 to load in the calling thread")
    if timeout < 0:
        raise ConfigError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ConfigError(
            "prefetch_factor option could only be specified with workers; "
            "let num_workers > 0, otherwise set prefetch_factor to None"
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ConfigError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ConfigError("persistent_workers option needs num_workers > 0")
    if context is not None and num_workers == 0:
        raise ConfigError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
            "but got num_workers=0"
        )


def _check_stream(shuffle: bool | None, sampler: Any, batch_sampler: Any) -> None:
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _check_batches(
    batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if sampler is not None and shuffle:
        raise ConfigError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ConfigError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
    elif batch_size is None:
        if drop_last:
            raise ConfigError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
    elif isinstance(batch_size, bool) or not isinstance(batch_size, numbers.Integral) or batch_size < 1:
        raise ConfigError(f"batch_size should be a positive integer value, but got batch_size={batch_size!r}")


def _lookahead(prefetch_factor: int | None, batch_size: int | None, batch_sampler: Any, workers: int) -> int:
    """Batches ahead: two, or as many as it takes to have two samples under way for every worker."""
    if prefetch_factor is not None:
        return max(1, prefetch_factor)
    if batch_sampler is not None:
        size = getattr(batch_sampler, "batch_size", None) or workers
    else:
        size = 1 if batch_size is None else batch_size
    return max(2, -(-2 * workers // max(1, size)))


def _is_default_collate(collate_fn: Any) -> bool:
    data: Any = sys.modules.get("torch.utils.data")
    return collate_fn is not None and data is not None and collate_fn is data.default_collate


def _output(output: str | None) -> str:
    if output is None:
        return "torch" if "torch" in sys.modules or importlib.util.find_spec("torch") is not None else "numpy"
    if output not in OUTPUTS:
        raise ConfigError(f"output={output!r} is unknown; give one of {', '.join(OUTPUTS)}")
    return output
