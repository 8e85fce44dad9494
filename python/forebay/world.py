"""Who we are among the processes of a job, and which seed they share."""

from __future__ import annotations

import operator
import os
import sys
from typing import Any

from forebay.errors import ConfigError

__all__ = ["place", "seed_of"]

_SEEDS = 1 << 64

# Batch scripts and interactive shells are steps with numbers from here on.
_SLURM_SPECIAL_STEPS = 0xFFFF_FFF0

_LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_NTASKS"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MPI", "PMI_RANK", "PMI_SIZE"),
)


def place(rank: int | None, world_size: int | None) -> tuple[int, int, str]:
    """Rank, world size and who said so: the caller, else ``torch.distributed``, else the launcher, else nobody."""
    if rank is not None or world_size is not None:
        if rank is None or world_size is None:
            raise ConfigError(f"rank={rank} and world_size={world_size} go together; give both or neither")
        return (*_checked("the arguments", rank, world_size), "the arguments")
    found = _torch_distributed()
    if found is not None:
        return (*found, "torch.distributed")
    for launcher, rank_name, size_name in _LAUNCHERS:
        rank_text, size_text = os.environ.get(rank_name), os.environ.get(size_name)
        if rank_text is None or size_text is None:
            continue
        if launcher == "Slurm" and not _is_slurm_task(size_text):
            continue
        return (*_checked(f"{rank_name} and {size_name}", rank_text, size_text), launcher)
    return (0, 1, "")


def _torch_distributed() -> tuple[int, int] | None:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return (distributed.get_rank(), distributed.get_world_size())


def _is_slurm_task(tasks: str) -> bool:
    # A shell inside an allocation carries the variables too, but only `srun` makes a step of several tasks.
    step = os.environ.get("SLURM_STEP_ID", "")
    is_step = step.isdigit() and int(step) < _SLURM_SPECIAL_STEPS
    return is_step and os.environ.get("SLURM_STEP_NUM_TASKS", tasks) != "1"


def _checked(said_by: str, rank: Any, world_size: Any) -> tuple[int, int]:
    try:
        numbers = (int(rank), int(world_size))
    except (TypeError, ValueError):
        raise ConfigError(f"{said_by} give rank {rank!r} of {world_size!r}; both must be whole numbers") from None
    if not 0 <= numbers[0] < numbers[1]:
        raise ConfigError(f"{said_by} give rank {rank} of {world_size}; ranks count from 0 to the world size less one")
    return numbers


def seed_of(seed: int | None, generator: Any, world_size: int) -> int:
    """The seed: the caller's, else that of the generator, else torch's, else 0.

    Ranks must agree on the order, and ``torch.initial_seed()`` differs between processes that did not set it. With
    more than one rank it is therefore passed over, and the seed is 0, as in torch's ``DistributedSampler``.
    """
    if seed is not None:
        try:
            number = operator.index(seed)
        except TypeError:
            number = -1
        if not 0 <= number < _SEEDS:
            raise ConfigError(f"seed={seed!r} is not a seed; give a whole number from 0 to 2**64 - 1")
        return number
    if generator is not None:
        return int(generator.initial_seed()) % _SEEDS
    torch: Any = sys.modules.get("torch")
    if torch is None or world_size > 1:
        return 0
    return int(torch.initial_seed()) % _SEEDS
