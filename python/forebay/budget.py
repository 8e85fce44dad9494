"""How much of the machine a loader may use: cores and memory, as the system and the user limit them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from forebay import spelling
from forebay.errors import ConfigError

__all__ = ["memory", "usable_cores", "usable_memory", "workers"]

_CGROUPS = Path("/sys/fs/cgroup")


def workers(num_workers: int | str, cpu_budget: float | None) -> int:
    """Threads that prepare samples. A budget of cores is a hard limit, but leaves at least one."""
    cores = usable_cores()
    if num_workers == "auto":
        wanted = cores
    elif isinstance(num_workers, (str, bool)) or int(num_workers) != num_workers:
        raise ConfigError(f'num_workers={num_workers!r}; give a whole number or "auto"')
    else:
        wanted = int(num_workers)
    if cpu_budget is None:
        return wanted
    if not cpu_budget > 0:
        raise ConfigError(f"cpu_budget={cpu_budget!r} leaves no core; give cores (1 or more) or a fraction of them")
    allowed = cpu_budget if cpu_budget >= 1 else cpu_budget * cores
    return min(wanted, max(1, math.floor(allowed)))


def usable_cores() -> int:
    """Cores that this process may run on, less what a container's quota takes away."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for group in _groups("cpu"):
        quota = _quota(group)
        if quota is not None:
            allowed = min(allowed, max(1, math.floor(quota)))
    return allowed


def memory(ram_budget: int | str | None) -> int:
    """The bytes that batches and files in flight may take; half of what is free, unless said otherwise."""
    return usable_memory() // 2 if ram_budget is None else spelling.amount("ram_budget", ram_budget)


def usable_memory() -> int:
    """Bytes that can be had without swapping, less what a container's limit takes away."""
    free = _available()
    for group in _groups("memory"):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _number(group / limit_name), _number(group / used_name)
            if limit is not None and used is not None:
                free = min(free, max(0, limit - used))
    return max(free, 1 << 20)


def _available() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return 4 << 30


def _quota(group: Path) -> float | None:
    """Cores' worth of time that a control group may use."""
    words = (_text(group / "cpu.max") or "").split()
    if len(words) == 2 and words[0] != "max":
        return int(words[0]) / int(words[1])
    quota, period = _number(group / "cpu.cfs_quota_us"), _number(group / "cpu.cfs_period_us")
    return quota / period if quota is not None and period and quota > 0 else None


def _groups(controller: str) -> Iterator[Path]:
    """Our control group and those around it, in both versions of the interface; any of them may set a limit."""
    for line in (_text(Path("/proc/self/cgroup")) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root = _CGROUPS
        elif controller in controllers.split(","):
            root = _CGROUPS / controller
        else:
            continue
        group = Path(path.strip("/"))
        for part in (group, *group.parents):
            yield root / part


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
