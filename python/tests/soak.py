"""Ten minutes of rough treatment: breaks, exceptions, interrupts, re-iterations, forks and kill -9.

Each act is a process of its own that uses a loader and is treated badly in one way; after it, nothing may be left: no
process, no shared memory, no thread, no descriptor. A last act runs in this process for the whole time and must not
grow. Not a pytest file: ``make soak`` runs it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

ACTS = {
    "break": """
        for _ in range(6):
            for i, batch in enumerate(loader()):
                if i == rng.randrange(6): break
    """,
    "exception": """
        for _ in range(4):
            try:
                for i, batch in enumerate(loader()):
                    if i == rng.randrange(4): raise RuntimeError("the training step failed")
            except RuntimeError:
                pass
    """,
    "several iterators": """
        one = loader()
        a, b = iter(one), iter(one)
        for _ in range(5):
            next(a); next(b)
        del a
        list(b)
    """,
    "hoarding": """
        kept = list(loader(ram_budget="1GB"))
        total = sum(int(labels.sum()) for _, labels in kept)
        del kept
    """,
    "fork": """
        one = loader()
        it = iter(one)
        next(it)
        pid = os.fork()
        if pid == 0:
            try:
                next(it)
                os._exit(3)
            except fb.Error:
                pass
            for i, batch in enumerate(one):
                if i == 3: break
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        list(it)
    """,
    "bad files": """
        victims = rng.sample(sorted(copy.glob("*/*.jpg")), 3)
        victims[0].write_bytes(b"")
        victims[1].write_bytes(victims[1].read_bytes()[:300])
        victims[2].unlink()
        one = loader(root=copy, on_error="skip", dataset=listed)
        assert sum(len(labels) for _, labels in one) == len(listed) - 3, "three are lost"
        assert len(one.report()) == 3
        try:
            list(loader(root=copy, dataset=listed))
            raise AssertionError("a bad file went unnoticed")
        except fb.Error:
            pass
    """,
    "threads": """
        import threading
        def walk():
            for i, batch in enumerate(loader()):
                if i == rng.randrange(8): break
        crowd = [threading.Thread(target=walk) for _ in range(4)]
        [t.start() for t in crowd]; [t.join() for t in crowd]
    """,
    "endless": """
        while True:
            for batch in loader(): pass
    """,
}

PRELUDE = """
import os, random, shutil, sys
from pathlib import Path
import forebay as fb
rng = random.Random({seed})
root = Path({root!r})
def prepared(root):
    return fb.image_folder(root).random_resized_crop(64).horizontal_flip().normalize()
def loader(root=root, dataset=None, **options):
    return fb.DataLoader(
        prepared(root) if dataset is None else dataset, batch_size=16, shuffle=True, seed=rng.randrange(99),
        num_workers=rng.choice([0, 1, 2, 4]), in_order=rng.random() < 0.5, output="numpy", **options)
if {needs_copy}:
    copy = Path({scratch!r}) / "copy"
    shutil.copytree(root, copy)
    listed = prepared(copy)
def threads():
    found = []
    for task in os.listdir("/proc/self/task"):
        try:
            found.append(Path(f"/proc/self/task/{{task}}/comm").read_text().strip())
        except OSError:
            pass  # it has ended meanwhile
    return [name for name in found if name.startswith("forebay")]
"""

ENDING = """
import gc, time
one = it = a = b = batch = None
gc.collect()
deadline = time.monotonic() + 20
while threads() and time.monotonic() < deadline: time.sleep(0.01)
assert not threads(), f"threads are left: {threads()}"
"""


def make_folder(root: Path) -> None:
    from PIL import Image

    rng = random.Random(0)
    for i in range(160):
        path = root / f"class{i % 4}" / f"{i:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = Image.frombytes("RGB", (16, 12), rng.randbytes(16 * 12 * 3))
        noise.resize((200, 150), Image.Resampling.BICUBIC).save(path, quality=92)


def shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm"))


def memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def run(name: str, root: Path, seed: int) -> None:
    """One act, to its end or to a signal."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        prelude = PRELUDE.format(seed=seed, root=str(root), scratch=scratch, needs_copy=name == "bad files")
        process = subprocess.Popen(
            [sys.executable, "-c", prelude + textwrap.dedent(ACTS[name]) + ENDING],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        end = None
        if name == "endless" or rng.random() < 0.2:
            time.sleep(rng.uniform(0.2, 1.5))
            end = rng.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
            process.send_signal(end)
        try:
            output, _ = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"act {name!r} with seed {seed} hangs") from None
        text = output.decode(errors="replace")
        interrupted = end is not None and (process.returncode == -end or "KeyboardInterrupt" in text)
        if process.returncode != 0 and not interrupted:
            raise AssertionError(f"act {name!r} with seed {seed} ended with {process.returncode}:\n{text}")
        try:
            os.killpg(process.pid, 0)
            raise AssertionError(f"act {name!r} with seed {seed} left a process behind")
        except ProcessLookupError:
            pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    import forebay as fb

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_folder(root)
        before = shared_memory()
        rng = random.Random(options.seed)
        start, acts, growth = time.monotonic(), 0, []
        own = fb.DataLoader(
            fb.image_folder(root).random_resized_crop(64).normalize(), batch_size=16, shuffle=True, output="numpy"
        )
        while time.monotonic() - start < options.minutes * 60:
            name = rng.choice(list(ACTS))
            run(name, root, rng.randrange(1 << 30))
            for i, _ in enumerate(own):
                if i == rng.randrange(10):
                    break
            acts += 1
            growth.append((memory_mb(), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))))
            if acts % 20 == 0:
                minutes = (time.monotonic() - start) / 60
                print(f"{minutes:5.1f} min, {acts} acts, memory {growth[-1][0]:.0f} MB, {growth[-1][1:]}", flush=True)
        own.close()
        left = shared_memory() - before
        assert not left, f"shared memory is left: {left}"
        settled = growth[min(10, len(growth) - 1)]
        assert growth[-1][0] < settled[0] + 30, f"memory grew from {settled[0]:.0f} to {growth[-1][0]:.0f} MB"
        assert growth[-1][1] <= settled[1] and growth[-1][2] <= settled[2] + 1, (
            f"descriptors or threads grew: {settled} to {growth[-1]}"
        )
        print(f"{acts} acts in {options.minutes:g} minutes: 0 hangs, 0 leaks")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
