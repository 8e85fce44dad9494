"""What every contender shares: the task, and the measuring of one run.

Import this first: memory is counted above the interpreter as it stands when this module is loaded.

One run is two epochs of one loader. The first warms up and is watched: the time to its first batch, and, after that
batch, the memory of the whole process tree every 20 ms. The second is timed and left alone: wall time, and the CPU time
of the process tree, taken from /proc at both ends, so that worker processes count in full.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIZE = 224
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)

MEMORY_INTERVAL = 0.02
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Task:
    """What every contender is asked to do."""

    data: Path  # a folder per class
    prepared: Path  # where a contender may keep a format of its own, made before the clock starts
    output: str  # "f32": normalised floats; "u8": bytes
    workers: int
    batch_size: int

    def manifest(self) -> str:
        """What the photos say they are: two sets with equal manifests are equal."""
        manifest = self.data / "manifest.json"
        return manifest.read_text() if manifest.exists() else ""

    def files(self) -> tuple[list[str], list[int]]:
        """Every photo and its label, in the order of torchvision's ImageFolder."""
        folders = sorted(entry for entry in self.data.iterdir() if entry.is_dir())
        pairs = [(str(path), label) for label, folder in enumerate(folders) for path in sorted(folder.glob("*.jpg"))]
        return [path for path, _ in pairs], [label for _, label in pairs]


def process_tree(root: int) -> list[int]:
    """`root` and every living descendant."""
    tree = [root]
    for pid in tree:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except FileNotFoundError:
            continue
        for thread in threads:
            try:
                tree.extend(int(child) for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return tree


def cpu_seconds() -> float:
    """User and system time of the tree so far; a child that was reaped lives on in its parent's account."""
    ticks = 0
    for pid in process_tree(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / CLOCK_TICKS


def memory_bytes() -> int:
    """Anonymous and shared memory of the tree, shared pages divided among their owners (PSS).

    Pages of files are left out: library code and the page cache are not what a loader holds.
    """
    total = 0
    for pid in process_tree(os.getpid()):
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for line in rollup.splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                total += int(line.split()[1]) * 1024
    return total


BARE_MEMORY = memory_bytes()


class MemoryPeak:
    """The highest memory of the tree between entering and leaving."""

    def __enter__(self) -> MemoryPeak:
        self.bytes = memory_bytes()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def watch(self) -> None:
        while not self.stop.wait(MEMORY_INTERVAL):
            self.bytes = max(self.bytes, memory_bytes())

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


@dataclass
class Content:
    """What the batches held: enough to notice swapped channels, a missing normalisation or a stuck label."""

    layout: str
    output: str
    sums: Any = 0.0
    squares: Any = 0.0
    batches: int = 0

    def __post_init__(self) -> None:
        self.labels: set[int] = set()

    def look(self, images: Any, labels: Any, batch_size: int) -> None:
        import numpy as np

        images, labels = np.asarray(images), np.asarray(labels)
        shape = (batch_size, 3, SIZE, SIZE) if self.layout == "NCHW" else (batch_size, SIZE, SIZE, 3)
        dtype = np.float32 if self.output == "f32" else np.uint8
        if images.shape != shape or images.dtype != dtype:
            raise SystemExit(f"wrong output: {images.dtype} {images.shape}, not {np.dtype(dtype)} {shape}")
        axes = (0, 2, 3) if self.layout == "NCHW" else (0, 1, 2)
        self.sums = self.sums + images.mean(axis=axes, dtype=np.float64)
        self.squares = self.squares + np.square(images, dtype=np.float32).mean(axis=axes, dtype=np.float64)
        self.labels.update(labels.ravel().tolist())
        self.batches += 1

    def summary(self) -> dict[str, Any]:
        mean = self.sums / self.batches
        deviation = (self.squares / self.batches - mean**2) ** 0.5
        return {
            "layout": self.layout,
            "mean": [round(float(value), 3) for value in mean],
            "deviation": [round(float(value), 3) for value in deviation],
            "labels": len(self.labels),
        }


def run(
    open_loader: Callable[[Task], Iterable[tuple[Any, Any]]],
    *,
    version: str,
    layout: str = "NCHW",
    prepare: Callable[[Task], None] = lambda task: None,
) -> None:
    """Measure one contender and print one line of JSON.

    `open_loader` returns the loader; every `iter()` of it is an epoch of (images, labels). `layout` is the shape its
    images have. `prepare` makes whatever format it wants; that happens in a process of its own and is not measured.
    """
    task, preparing = parse_task()
    if preparing:
        prepare(task)
        return
    imported = memory_bytes() - BARE_MEMORY
    content = Content(layout, task.output)

    opened = time.perf_counter()
    loader = open_loader(task)
    began = time.perf_counter()
    batches = iter(loader)
    images, labels = next(batches)
    first = time.perf_counter()

    content.look(images, labels, task.batch_size)
    with MemoryPeak() as memory:
        for number, (images, labels) in enumerate(batches):
            if number % 4 == 0:
                content.look(images, labels, task.batch_size)
    del images, labels, batches

    cpu, wall, delivered = cpu_seconds(), time.perf_counter(), 0
    for images, _ in loader:
        delivered += len(images)
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu

    result = {
        "version": version,
        "images": delivered,
        "seconds": wall,
        "images_per_second": delivered / wall,
        "cpu_seconds_per_1000": 1000 * cpu / delivered,
        "open_seconds": began - opened,
        "first_batch_seconds": first - began,
        "peak_memory_bytes": memory.bytes - BARE_MEMORY,
        "imported_memory_bytes": imported,
        "content": content.summary(),
    }
    print(json.dumps(result), flush=True)
    # Some loaders hang or complain while the interpreter tears them down; the result is out, so leave at once.
    sys.stderr.flush()
    os._exit(0)


def parse_task() -> tuple[Task, bool]:
    parser = argparse.ArgumentParser(description="Run one contender and print one line of JSON; run.py runs them all.")
    parser.add_argument("data", type=Path, help="folder of photos, one folder per class")
    parser.add_argument("--output", choices=["f32", "u8"], default="f32", help="batches of (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="worker threads or processes (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="images per batch (default: %(default)s)")
    parser.add_argument("--prepared", type=Path, help="where a contender's own format is (default: beside the data)")
    parser.add_argument("--prepare", action="store_true", help="make that format and measure nothing")
    given = parser.parse_args()
    data = given.data.absolute()
    prepared = given.prepared or data.with_name(data.name + "-prepared")
    return Task(data, prepared, given.output, given.workers, given.batch_size), given.prepare
