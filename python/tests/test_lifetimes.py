"""Forks, spawned processes, interrupts and the end of the program: nothing hangs, nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Program = Callable[..., "subprocess.CompletedProcess[str]"]

PRELUDE = """
import gc, os, signal, sys, threading, time
import numpy as np
import forebay as fb

class Numbers:
    def __getitem__(self, index):
        return index
    def __len__(self):
        return 64

def native(**kwargs):
    dataset = fb.image_folder(sys.argv[1]).random_resized_crop(16).normalize()
    return fb.DataLoader(dataset, **{"batch_size": 4, "shuffle": True, "seed": 0, "output": "numpy", **kwargs})

def python(**kwargs):
    return fb.DataLoader(Numbers(), **{"batch_size": 4, "shuffle": True, "seed": 0, "output": "numpy", **kwargs})

make = {"native": native, "python": python}[sys.argv[2]]
"""


@pytest.fixture(params=["native", "python"])
def run(request: pytest.FixtureRequest, program: Program, photos: Path) -> Program:
    def run(code: str) -> subprocess.CompletedProcess[str]:
        return program(PRELUDE + textwrap.dedent(code), photos, request.param)

    return run


def passed(result: subprocess.CompletedProcess[str]) -> bool:
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout.strip().endswith("done")


def test_a_fork_after_use_gives_the_child_a_working_loader(run: Program) -> None:
    result = run("""
        loader = make()
        expected = [np.asarray(batch[0]).copy() for batch in make()]
        old = iter(loader)
        next(old)
        loader.set_epoch(0)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                next(old)
                os._exit(3)
            except fb.ConfigError as error:
                assert "fork" in str(error) and "iter()" in str(error), error
            got = [np.asarray(batch[0]).copy() for batch in loader]
            same = len(got) == len(expected) and all(map(np.array_equal, got, expected))
            del old, loader
            gc.collect()
            os._exit(0 if same else 4)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        assert len(list(old)) == len(loader) - 1, "the parent goes on"
        print("done")
    """)
    assert passed(result)


def test_a_forked_child_ends_normally(run: Program) -> None:
    result = run("""
        loader = make()
        batches = iter(loader)
        held = next(batches)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        list(batches)
        print("done")
    """)
    assert passed(result)


def test_a_loader_travels_to_a_spawned_process(run: Program) -> None:
    result = run("""
        import multiprocessing

        def total(loader):
            return sum(float(np.asarray(batch[0]).sum()) for batch in loader)

        if __name__ == "__main__":
            loader = make()
            next(iter(loader))
            loader.set_epoch(0)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                there = pool.apply(total, (loader,))
            assert there == total(loader), there
            print("done")
    """)
    assert passed(result)


@pytest.mark.parametrize(
    "forget",
    [
        "del loader; del batches; del held",
        "del batches; del held; del loader",
        "del held; del batches; del loader",
        "loader.batches = batches; loader.itself = loader; del loader, batches; gc.collect(); print(held is not None)",
        "pass",
    ],
)
def test_things_can_be_forgotten_in_any_order(run: Program, forget: str) -> None:
    result = run(f"""
        loader = make()
        batches = iter(loader)
        held = next(batches)
        {forget}
        gc.collect()
        print("done")
    """)
    assert passed(result)


def test_no_thread_outlives_its_loader(run: Program) -> None:
    result = run("""
        def threads():
            return len(os.listdir("/proc/self/task"))

        before = threads()
        loader = make(num_workers=4)
        next(iter(loader))
        loader.close()
        del loader
        gc.collect()
        deadline = time.monotonic() + 5
        while threads() > before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threads() <= before, (threads(), before)
        print("done")
    """)
    assert passed(result)


def test_memory_does_not_grow_over_epochs(run: Program) -> None:
    result = run("""
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        loader = make(num_workers=2)
        for _ in range(20):
            for batch in loader:
                pass
        before = resident()
        for _ in range(60):
            for batch in loader:
                pass
        gc.collect()
        assert resident() - before < 8 << 20, resident() - before
        print("done")
    """)
    assert passed(result)


ENDLESS = """
class Slow:
    def __getitem__(self, index):
        time.sleep(0.05)
        return index
    def __len__(self):
        return 1 << 30

if sys.argv[2] == "python":
    loader = fb.DataLoader(Slow(), batch_size=64, output="numpy", num_workers=int(sys.argv[3]))
else:
    dataset = fb.image_folder(sys.argv[1]).resize((64, 64))
    sampler = (n % 50 for n in range(1 << 30))
    loader = fb.DataLoader(dataset, batch_size=64, output="numpy", sampler=sampler, num_workers=int(sys.argv[3]))
print("ready", flush=True)
try:
    for batch in loader:
        pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("kind", ["native", "python"])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupt_ends_a_wait_at_once(photos: Path, tmp_path: Path, kind: str, workers: int) -> None:
    script = tmp_path / "endless.py"
    script.write_text(PRELUDE + ENDLESS)
    command = [sys.executable, str(script), str(photos), kind, str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.2)  # into the loop; whenever it strikes, it must end
        began = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=20)
        assert (out, err, child.returncode) == ("interrupted\n", "", 0)
        assert time.monotonic() - began < 8


def test_the_program_may_end_in_the_middle_of_an_epoch(run: Program) -> None:
    result = run("""
        batches = iter(make(num_workers=4, prefetch_factor=8))
        next(batches)
        print("done")
    """)
    assert passed(result)


def test_importing_forebay_imports_neither_numpy_nor_torch_nor_jax(program: Program) -> None:
    result = program("""
        import sys
        import forebay
        print(sorted({"numpy", "torch", "jax", "torchvision"} & set(sys.modules)))
    """)
    assert result.stdout.strip() == "[]"
