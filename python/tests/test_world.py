"""Who we are among processes, and what of the machine is ours."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import forebay as fb
import pytest
from forebay import budget, spelling, world


def test_alone_there_is_one_rank() -> None:
    assert world.place(None, None) == (0, 1, "")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8, "torchrun")),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}, (1, 4, "Slurm")),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, (0, 1, "")),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_ID": "0"}, (0, 1, "")),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "4294967290"}, (0, 1, "")),
        (
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"},
            (0, 1, ""),
        ),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2, "Open MPI")),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2, "MPI")),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "9"},
            (0, 2, "torchrun"),
        ),
        ({"RANK": "0"}, (0, 1, "")),
    ],
)
def test_a_launcher_says_who_we_are(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[int, int, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    assert world.place(None, None) == expected


@pytest.mark.parametrize(("rank", "size"), [("2", "2"), ("-1", "2"), ("x", "2"), ("0", "")])
def test_a_launcher_that_contradicts_itself_is_an_error(monkeypatch: pytest.MonkeyPatch, rank: str, size: str) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    with pytest.raises(fb.ConfigError, match="RANK and WORLD_SIZE"):
        world.place(None, None)


def test_arguments_come_before_torch_distributed_and_that_before_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    distributed = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 1, get_world_size=lambda: 2
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    assert world.place(None, None) == (1, 2, "torch.distributed")
    assert world.place(5, 6) == (5, 6, "the arguments")
    distributed.is_initialized = lambda: False
    assert world.place(None, None) == (3, 8, "torchrun")


def test_the_seed_follows_the_generator_then_torch_then_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = SimpleNamespace(initial_seed=lambda: 7)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(initial_seed=lambda: 11))
    assert world.seed_of(5, generator, 1) == 5
    assert world.seed_of(None, generator, 1) == 7
    assert world.seed_of(None, None, 1) == 11
    monkeypatch.delitem(sys.modules, "torch")
    assert world.seed_of(None, None, 1) == 0


def test_ranks_agree_on_a_seed_that_nobody_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(initial_seed=lambda: 11))
    assert world.seed_of(None, None, 2) == 0


@pytest.mark.parametrize(
    ("text", "count"),
    [("4GB", 4 * 10**9), ("512MiB", 512 << 20), ("1.5 GiB", 3 << 29), ("100", 100), ("2k", 2000), (9, 9)],
)
def test_an_amount_of_memory_is_bytes_or_a_string(text: Any, count: int) -> None:
    assert spelling.amount("ram_budget", text) == count


def test_workers_are_as_many_as_cores_and_a_budget_is_a_hard_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "usable_cores", lambda: 8)
    assert budget.workers("auto", None) == 8
    assert budget.workers(20, None) == 20
    assert budget.workers(20, 4) == 4
    assert budget.workers("auto", 0.5) == 4
    assert budget.workers("auto", 0.01) == 1
    assert budget.workers(0, 4) == 0


def test_a_containers_quota_limits_cores_and_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(budget, "_groups", lambda controller: [tmp_path])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    assert budget.usable_cores() == 16
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    assert budget.usable_cores() == 2
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "cpu.cfs_quota_us").write_text("50000\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert budget.usable_cores() == 1
    (tmp_path / "memory.max").write_text(f"{64 << 20}\n")
    (tmp_path / "memory.current").write_text(f"{16 << 20}\n")
    assert budget.usable_memory() == 48 << 20
    assert budget.memory(None) == 24 << 20
