"""Forebay in a minute: make photos, load them, compare, and prove what is promised.

1. Makes 3,000 photos, once.
2. Loads them with Forebay and, beside it, with the same transform on Pillow and a thread pool.
3. Proves on the spot that a second run delivers the same bits, and that a run resumed in mid-epoch goes on exactly.
4. Draws a chart.

Exits with 1 if a proof fails. Needs NumPy and Pillow; torch is not used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from chart import draw_chart
from photos import make_photos
from PIL import Image

SIZE = 224
BATCH = 64
MEAN = np.array((0.485, 0.456, 0.406), np.float32)
DEVIATION = np.array((0.229, 0.224, 0.225), np.float32)


# --- the two loaders --------------------------------------------------------------------------------------------------


def forebay_loader(root: Path, workers: int) -> Any:
    """What a user writes."""
    import forebay as fb

    return fb.DataLoader(
        fb.image_folder(root).decode().random_resized_crop(SIZE).horizontal_flip().normalize(),
        batch_size=BATCH,
        shuffle=True,
        seed=0,
        num_workers=workers,
        drop_last=True,
        output="numpy",
    )


class PillowLoader:
    """The same transform as one would write it by hand: Pillow, NumPy and a pool of threads, two batches ahead."""

    def __init__(self, root: Path, workers: int, count: int) -> None:
        folders = sorted(folder for folder in root.iterdir() if folder.is_dir())
        photos = [(path, label) for label, folder in enumerate(folders) for path in sorted(folder.glob("*.jpg"))]
        self.rng = np.random.default_rng(0)
        self.photos = [photos[place] for place in self.rng.permutation(len(photos))[:count]]
        self.pool = ThreadPoolExecutor(workers)
        self.scale = (1 / (255 * DEVIATION))[:, None, None]
        self.shift = (-MEAN / DEVIATION)[:, None, None]

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        order = self.rng.permutation(len(self.photos))
        starts = iter(range(0, len(order) - BATCH + 1, BATCH))
        ahead = deque(self.begin(order[start : start + BATCH]) for start in islice(starts, 3))
        while ahead:
            images, labels, jobs = ahead.popleft()
            for job in jobs:
                job.result()
            ahead.extend(self.begin(order[start : start + BATCH]) for start in islice(starts, 1))
            yield images, labels

    def begin(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, list]:
        images = np.empty((BATCH, 3, SIZE, SIZE), np.float32)
        labels = np.array([self.photos[place][1] for place in places])
        seeds = self.rng.integers(2**63, size=BATCH)
        work = zip(images, places, seeds)
        return images, labels, [self.pool.submit(self.fill, *one) for one in work]

    def fill(self, slot: np.ndarray, place: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        with Image.open(self.photos[place][0]) as photo:
            box = crop_box(rng, *photo.size)
            pixels = photo.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box)
        if rng.random() < 0.5:
            pixels = pixels.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        np.multiply(np.asarray(pixels).transpose(2, 0, 1), self.scale, out=slot)
        slot += self.shift


def crop_box(rng: np.random.Generator, width: int, height: int) -> tuple[int, int, int, int]:
    """The box of torchvision's RandomResizedCrop."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1.0)
        ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        across, down = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            left, top = int(rng.integers(width - across + 1)), int(rng.integers(height - down + 1))
            return left, top, left + across, top + down
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


# --- measuring --------------------------------------------------------------------------------------------------------


def held_bytes() -> int:
    """Anonymous and shared memory of this process; library code and the page cache are left out."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))


class MemoryPeak:
    """The most this process held between entering and leaving, looked at every 20 ms."""

    def __enter__(self) -> MemoryPeak:
        self.bytes = held_bytes()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def watch(self) -> None:
        while not self.stop.wait(0.02):
            self.bytes = max(self.bytes, held_bytes())

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


def measure(name: str, root: Path, workers: int, count: int) -> dict[str, Any]:
    """Two epochs of one loader: the first is watched for its first batch and its memory, the second is timed."""
    before = held_bytes()
    began = time.perf_counter()
    loader = forebay_loader(root, workers) if name == "forebay" else PillowLoader(root, workers, count)
    batches = iter(loader)
    images, _ = next(batches)
    first = time.perf_counter() - began
    if images.shape != (BATCH, 3, SIZE, SIZE) or images.dtype != np.float32:
        raise SystemExit(f"{name} delivered {images.dtype} {images.shape}")
    with MemoryPeak() as memory:
        deque(batches, maxlen=0)  # take them all and keep none
    del images, batches

    delivered, cpu, wall = 0, time.process_time(), time.perf_counter()
    for images, _ in loader:
        delivered += len(images)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "images": delivered,
        "images_per_second": delivered / wall,
        "cpu_seconds_per_1000": 1000 * cpu / delivered,
        "first_batch_seconds": first,
        "peak_memory_mib": (memory.bytes - before) / 2**20,
    }


def measure_apart(name: str, root: Path, workers: int, count: int) -> dict[str, Any]:
    """`measure` in a process of its own, so that neither loader inherits the other's memory."""
    options = ["--measure", name, "--photos", str(root), "--workers", str(workers), "--baseline-count", str(count)]
    done = subprocess.run([sys.executable, __file__, *options], check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"demo: measuring {name} failed, see above")
    return json.loads(done.stdout.splitlines()[-1])


# --- proofs -----------------------------------------------------------------------------------------------------------


def digest(batch: tuple[np.ndarray, np.ndarray]) -> str:
    """Every bit of a batch, images and labels, in one short word."""
    summary = hashlib.blake2b(digest_size=16)
    for array in batch:
        summary.update(np.ascontiguousarray(array).data)
    return summary.hexdigest()


def digests(batches: Iterable) -> list[str]:
    return [digest(batch) for batch in batches]


def prove(root: Path, workers: int) -> list[str]:
    """Check both promises; returns what was shown, or raises `SystemExit` with what was not."""
    first = digests(forebay_loader(root, workers))
    if len(set(first)) != len(first):
        raise SystemExit("demo: proof failed: two batches of one epoch are equal")

    second = digests(forebay_loader(root, workers + 1))
    expect_equal("a second run", second, first)
    shown = [f"a second run, on {workers + 1} workers instead of {workers}: all {len(first)} batches bit-identical"]

    half = len(first) // 2
    stopped = forebay_loader(root, workers)
    batches = iter(stopped)
    expect_equal("the run that was stopped", digests(islice(batches, half)), first[:half])
    state = pickle.dumps(stopped.state_dict())
    del batches, stopped
    resumed = forebay_loader(root, workers)
    resumed.load_state_dict(pickle.loads(state))
    expect_equal("the resumed run", digests(resumed), first[half:])
    shown.append(
        f"a run stopped after batch {half} and resumed from {len(state)} bytes of state: "
        f"the other {len(first) - half} batches bit-identical"
    )
    return shown


def expect_equal(what: str, found: list[str], expected: list[str]) -> None:
    if len(found) != len(expected):
        raise SystemExit(f"demo: proof failed: {what} delivered {len(found)} batches, not {len(expected)}")
    for number, (one, other) in enumerate(zip(found, expected)):
        if one != other:
            raise SystemExit(f"demo: proof failed: in {what}, batch {number} of {len(expected)} differs")


# --- the demo ---------------------------------------------------------------------------------------------------------


def table(results: dict[str, dict[str, Any]]) -> str:
    lines = [f"{'':32}{'images/s':>10}{'CPU s / 1,000':>16}{'first batch':>14}{'peak memory':>14}"]
    for name, result in results.items():
        lines.append(
            f"{name:32}{result['images_per_second']:>10,.0f}{result['cpu_seconds_per_1000']:>16.2f}"
            f"{result['first_batch_seconds']:>12.3f} s{result['peak_memory_mib']:>10.0f} MiB"
        )
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Forebay in a minute: load photos beside a Pillow thread pool, and prove determinism and resume.",
        epilog="The first run makes the photos (about 20 s, 330 MB); later runs reuse them. "
        "Exits with 1 if a proof fails.",
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    parser.add_argument(
        "--photos",
        type=Path,
        default=cache / "forebay" / "demo-photos",
        help="folder of the photos, made when absent (default: %(default)s)",
    )
    parser.add_argument("--count", type=int, default=3000, help="number of photos (default: %(default)s)")
    parser.add_argument(
        "--baseline-count",
        type=int,
        default=1000,
        help="how many of them the slower Pillow baseline loads (default: %(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="threads each loader may use (default: the cores of this machine, %(default)s)",
    )
    parser.add_argument(
        "--chart", type=Path, default=Path("forebay-demo.png"), help="where the chart goes (default: %(default)s)"
    )
    parser.add_argument("--measure", choices=["forebay", "pillow"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if min(arguments.count, arguments.baseline_count) < 4 * BATCH:
        parser.error(f"counts below {4 * BATCH}, four batches, show nothing")
    if arguments.workers < 1:
        parser.error("at least one worker is needed")
    return arguments


def main() -> None:
    arguments = parse()
    workers, baseline = arguments.workers, min(arguments.baseline_count, arguments.count)
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.photos, workers, baseline)))
        return
    try:
        import forebay
    except ImportError as error:
        sys.exit(f"demo: forebay cannot be imported ({error}): install it first, for instance with `pip install .`")

    began = time.perf_counter()
    try:
        root = make_photos(arguments.photos, arguments.count)
    except OSError as error:
        sys.exit(f"demo: {error}")
    print(f"Forebay {forebay.__version__}: {arguments.count:,} photos in {root}")
    print(f"decode, random crop to {SIZE}, flip, normalise; batches of {BATCH}; {workers} workers each\n", flush=True)

    results = {
        f"forebay, {arguments.count:,} photos": measure_apart("forebay", root, workers, baseline),
        f"Pillow threads, {baseline:,} photos": measure_apart("pillow", root, workers, baseline),
    }
    print(table(results))
    ours, theirs = results.values()
    speed = ours["images_per_second"] / theirs["images_per_second"]
    cost = ours["cpu_seconds_per_1000"] / theirs["cpu_seconds_per_1000"]
    print(f"\nforebay: {speed:.1f} times the images per second, for {cost:.0%} of the CPU time per image\n", flush=True)
    for shown in prove(root, workers):
        print(f"proved: {shown}")
    draw_chart(arguments.chart, results, f"{BATCH} images a batch, {workers} workers each")
    print(f"\nchart: {arguments.chart}; {time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
