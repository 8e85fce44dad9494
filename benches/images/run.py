"""The image workload: who turns photos into training batches for the least CPU time?

Runs every contender in a process of its own, in rotated order over several rounds, and prints medians with their
spread, memory and the time to the first batch; writes images.json (machine, versions, command, every round) and
images.png. A contender that is not installed, or that fails, is listed as such.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "demo"))

import report  # noqa: E402
from photos import make_photos  # noqa: E402

FLOOR_VARIABLE = "FOREBAY_FLOOR"


@dataclass(frozen=True)
class Contender:
    """A rival, the file that runs it and the modules it needs."""

    name: str
    script: str
    modules: tuple[str, ...]
    prepares: bool = False


CONTENDERS = (
    Contender("forebay", "forebay_loader.py", ("forebay",)),
    Contender("torch-pillow", "torch_pillow.py", ("torch", "torchvision", "PIL")),
    Contender("torch-io", "torch_io.py", ("torch", "torchvision")),
    Contender("dali", "dali_cpu.py", ("nvidia.dali", "torch")),
    Contender("tf-data", "tf_data.py", ("tensorflow",)),
    Contender("spdl", "spdl_ffmpeg.py", ("spdl.io", "torch")),
    Contender("litdata", "litdata_chunks.py", ("litdata", "torch", "torchvision"), prepares=True),
)
NAMES = [contender.name for contender in CONTENDERS] + ["floor"]


@dataclass(frozen=True)
class Entry:
    """One row of the result: a contender at one output and number of workers."""

    name: str
    output: str
    workers: int


class Bench:
    """The set-up shared by all runs, and how to make one of them."""

    def __init__(self, arguments: argparse.Namespace, data: Path) -> None:
        self.arguments = arguments
        self.data = data
        self.interpreters = dict(pair.split("=", 1) for pair in arguments.python)
        self.contenders = {contender.name: contender for contender in CONTENDERS}
        self.missing: dict[str, str] = {}

    def interpreter(self, name: str) -> str:
        return self.interpreters.get(name, sys.executable)

    def find_missing(self, names: list[str]) -> None:
        """Note why a contender cannot run: its module or, for the floor, its program is absent."""
        for name in names:
            if name == "floor":
                if not os.environ.get(FLOOR_VARIABLE):
                    self.missing[name] = f"not built: set {FLOOR_VARIABLE} to the program"
                continue
            for module in self.contenders[name].modules:
                probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
                if subprocess.call([self.interpreter(name), "-c", probe]) != 0:
                    self.missing[name] = f"not installed: no module {module}"
                    break

    def command(self, name: str, *extra: str) -> list[str]:
        script = HERE / "contenders" / self.contenders[name].script
        return [self.interpreter(name), str(script), str(self.data), "--prepared", str(self.prepared()), *extra]

    def prepared(self) -> Path:
        return self.data.with_name(self.data.name + "-prepared")

    def prepare(self, name: str) -> None:
        if name in self.missing or name == "floor" or not self.contenders[name].prepares:
            return
        print(f"preparing {name}", file=sys.stderr)
        done = subprocess.run(self.command(name, "--prepare"), check=False, capture_output=True, text=True)
        if done.returncode != 0:
            self.missing[name] = f"failed to prepare: {last_line(done.stderr)}"

    def measure(self, entry: Entry) -> dict[str, Any] | str:
        """Run one contender once: its result, or why there is none."""
        if entry.name == "floor":
            command = [os.environ[FLOOR_VARIABLE], str(self.data), str(self.arguments.count)]
        else:
            command = self.command(entry.name, "--output", entry.output, "--workers", str(entry.workers))
        load = os.getloadavg()[0]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=self.arguments.timeout)
        except subprocess.TimeoutExpired:
            return f"failed: no result within {self.arguments.timeout} s"
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not lines:
            return f"failed: {last_line(done.stderr)}"
        result = json.loads(lines[-1])
        if entry.name == "floor":
            result.setdefault("images_per_second", result["images"] / result["seconds"])
            result.setdefault("cpu_seconds_per_1000", 1000 * result["cpu_seconds"] / result["images"])
        return {**result, "load_before": load}


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no message"


def entries(names: list[str], outputs: list[str], workers: int) -> list[Entry]:
    """Every row to measure, with forebay once more on one worker, to show how it scales."""
    rows = []
    for output in outputs:
        rows += [Entry(name, output, workers) for name in names if name != "floor"]
        if "forebay" in names and workers != 1:
            rows.append(Entry("forebay", output, 1))
    if "floor" in names:
        rows.append(Entry("floor", "decode", 1))
    return rows


def rotated(rows: list[Entry], turn: int, turns: int) -> list[Entry]:
    """The rows, beginning elsewhere each round, so that none is always first or always after the same neighbour."""
    start = turn * len(rows) // turns
    turned = rows[start:] + rows[:start]
    return turned if turn % 2 == 0 else turned[::-1]


def warm_cache(data: Path) -> None:
    for path in data.glob("*/*.jpg"):
        path.read_bytes()


def machine() -> dict[str, Any]:
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def measure_all(bench: Bench, rows: list[Entry], rounds: int) -> dict[Entry, list[dict[str, Any]]]:
    results: dict[Entry, list[dict[str, Any]]] = {row: [] for row in rows}
    for turn in range(rounds):
        for row in rotated(rows, turn, rounds):
            if row.name in bench.missing:
                continue
            print(f"round {turn + 1}/{rounds}: {row.name}, {row.output}, {row.workers} workers", file=sys.stderr)
            result = bench.measure(row)
            if isinstance(result, str):
                print(f"  {result}", file=sys.stderr)
                bench.missing[row.name] = result
            else:
                results[row].append(result)
    return {row: made for row, made in results.items() if made}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compare image loaders on one training transform: CPU time, speed, first batch and memory.",
        epilog="Example: python benches/images/run.py --only forebay,torch-io --python forebay=.venv/bin/python",
    )
    parser.add_argument("--rounds", type=int, default=3, help="times each contender runs (default: %(default)s)")
    parser.add_argument("--count", type=int, default=4000, help="number of photos (default: %(default)s)")
    parser.add_argument("--only", default=",".join(NAMES), help="contenders, by commas (default: %(default)s)")
    parser.add_argument("--outputs", default="f32,u8", help="what batches hold, by commas (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="threads or processes for each (default: %(default)s)")
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    parser.add_argument(
        "--data",
        type=Path,
        default=cache / "forebay" / "bench-photos",
        help="folder of the photos, made when absent (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, default=Path("."), help="where the results go (default: here)")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="interpreter for one contender, when it lives in another environment; may be repeated",
    )
    parser.add_argument("--timeout", type=int, default=600, help="seconds one run may take (default: %(default)s)")
    arguments = parser.parse_args()
    for chosen, known, what in ((arguments.only, NAMES, "contender"), (arguments.outputs, ["f32", "u8"], "output")):
        for name in chosen.split(","):
            if name not in known:
                parser.error(f"no {what} named {name!r}: choose from {', '.join(known)}")
    if any(pair.partition("=")[0] not in NAMES or "=" not in pair for pair in arguments.python):
        parser.error(f"--python takes NAME=PATH, NAME one of {', '.join(NAMES)}")
    return arguments


def main() -> None:
    arguments = parse()
    names, outputs = arguments.only.split(","), arguments.outputs.split(",")
    data = make_photos(arguments.data, arguments.count)
    bench = Bench(arguments, data)
    bench.find_missing(names)
    for name in names:
        bench.prepare(name)
    warm_cache(data)

    results = measure_all(bench, entries(names, outputs, arguments.workers), arguments.rounds)

    summary = report.Report(
        machine=machine(),
        command=shlex.join(["python", *sys.argv]).replace(str(Path.home()), "~"),
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        task={"count": arguments.count, "rounds": arguments.rounds, "workers": arguments.workers, "batch_size": 64},
        missing=bench.missing,
        rows=[report.Row(row.name, row.output, row.workers, made) for row, made in results.items()],
    )
    print(summary.table())
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "images.json").write_text(summary.json() + "\n")
    summary.chart(arguments.out / "images.png")


if __name__ == "__main__":
    main()
