"""What the image benchmark says: a table, a JSON file and a chart of the same medians."""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

OUTPUTS = {"f32": "normalised floats (f32)", "u8": "bytes (u8)"}
# The mean of a channel may differ this much between contenders, whose random crops differ.
TOLERANCE = {"f32": 0.2, "u8": 12.0}


@dataclass(frozen=True)
class Row:
    """One contender at one output and number of workers, with every round it ran."""

    name: str
    output: str
    workers: int
    rounds: list[dict[str, Any]]

    def values(self, key: str) -> list[float]:
        return [made[key] for made in self.rounds]

    def median(self, key: str) -> float:
        return statistics.median(self.values(key))

    def first_batch(self) -> float:
        """Seconds from making the loader to its first batch: where the work starts differs, the wait does not."""
        return statistics.median(made["open_seconds"] + made["first_batch_seconds"] for made in self.rounds)

    def spread(self, key: str, digits: int) -> str:
        values = self.values(key)
        return f"{self.median(key):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


@dataclass(frozen=True)
class Report:
    machine: dict[str, Any]
    command: str
    date: str
    task: dict[str, Any]
    missing: dict[str, str]
    rows: list[Row]

    def chosen(self, output: str) -> list[Row]:
        """The rows of one output at the number of workers asked for, least CPU time first."""
        rows = [row for row in self.rows if row.output == output and row.workers == self.task["workers"]]
        return sorted(rows, key=lambda row: row.median("cpu_seconds_per_1000"))

    def floor(self) -> Row | None:
        return next((row for row in self.rows if row.name == "floor"), None)

    def outputs(self) -> list[str]:
        return [output for output in OUTPUTS if self.chosen(output)]

    def table(self) -> str:
        task, machine = self.task, self.machine
        work = f"{task['count']} photos, batch {task['batch_size']}, {task['workers']} workers"
        lines = [
            f"{work}, {task['rounds']} rounds: median (min-max)",
            f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}",
        ]
        for output in self.outputs():
            lines += ["", OUTPUTS[output], *self.output_table(output)]
        if (floor := self.floor()) is not None:
            cpu, speed = floor.spread("cpu_seconds_per_1000", 2), floor.spread("images_per_second", 0)
            lines += ["", f"floor, decoding the crops alone on one thread: {cpu} CPU s / 1,000, {speed} images/s"]
        lines += ["", *self.scaling(), *self.odd_content()]
        lines += [f"{name}: {reason}" for name, reason in self.missing.items()]
        return "\n".join(lines).rstrip()

    def output_table(self, output: str) -> list[str]:
        rows = self.chosen(output)
        ours = next((row for row in rows if row.name == "forebay"), None)
        lines = [
            f"{'':14}{'CPU s / 1,000':>20}{'ratio':>8}{'images/s':>18}{'ratio':>8}"
            f"{'first batch':>13}{'memory':>10}{'over imports':>14}"
        ]
        for row in rows:
            cpu, speed = row.median("cpu_seconds_per_1000"), row.median("images_per_second")
            cpu_ratio = f"{cpu / ours.median('cpu_seconds_per_1000'):.2f}x" if ours else "-"
            speed_ratio = f"{speed / ours.median('images_per_second'):.2f}x" if ours else "-"
            memory = row.median("peak_memory_bytes") / 2**20
            over = memory - row.median("imported_memory_bytes") / 2**20
            lines.append(
                f"{row.name:14}{row.spread('cpu_seconds_per_1000', 2):>20}{cpu_ratio:>8}"
                f"{row.spread('images_per_second', 0):>18}{speed_ratio:>8}"
                f"{row.first_batch():>11.3f} s{memory:>6.0f} MiB{over:>10.0f} MiB"
            )
        return lines

    def scaling(self) -> list[str]:
        """How much faster forebay is with the workers asked for than with one."""
        lines = []
        for output in self.outputs():
            by_workers = {row.workers: row for row in self.rows if row.name == "forebay" and row.output == output}
            many = self.task["workers"]
            if 1 in by_workers and many in by_workers and many != 1:
                gain = by_workers[many].median("images_per_second") / by_workers[1].median("images_per_second")
                lines.append(f"forebay, 1 -> {many} workers, {output}: {gain:.2f}x the images/s")
        return lines

    def odd_content(self) -> list[str]:
        """Contenders whose pixels are not like the others': they did some other work."""
        lines = []
        for output in self.outputs():
            rows = self.chosen(output)
            means = {row.name: row.rounds[0]["content"]["mean"] for row in rows}
            usual = [statistics.median(channel) for channel in zip(*means.values())]
            for name, mean in means.items():
                if any(abs(a - b) > TOLERANCE[output] for a, b in zip(mean, usual)):
                    lines.append(f"warning: {name}, {output}: channel means {mean}, the others' {usual}")
        return lines

    def json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    def chart(self, path: Path) -> None:
        try:
            import matplotlib
        except ImportError:
            print("no chart: matplotlib is not installed", file=sys.stderr)
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot

        outputs = self.outputs()
        if not outputs:
            return
        height = 1.3 + 0.42 * max(len(self.chosen(output)) for output in outputs)
        figure, axes = pyplot.subplots(len(outputs), 2, figsize=(11, height * len(outputs)), squeeze=False)
        for pair, output in zip(axes, outputs):
            self.bars(pair[0], output, "cpu_seconds_per_1000", "CPU s per 1,000 images (less is better)", "{:.2f}")
            self.bars(pair[1], output, "images_per_second", "images per second (more is better)", "{:.0f}")
            if (floor := self.floor()) is not None:
                pair[0].axvline(floor.median("cpu_seconds_per_1000"), color="#444444", linestyle=":", linewidth=1)
                pair[0].annotate(
                    "decode alone",
                    (floor.median("cpu_seconds_per_1000"), -0.5),
                    xytext=(3, 6),
                    textcoords="offset points",
                    fontsize=8,
                    color="#444444",
                    va="top",
                )
        task, machine = self.task, self.machine
        figure.suptitle(
            f"{task['count']} photos to 224x224 training batches, {task['workers']} workers, "
            f"{machine['cores']} cores; median and range of {task['rounds']} rounds",
            fontsize=10,
        )
        figure.tight_layout()
        figure.savefig(path, dpi=140)

    def bars(self, axis: Any, output: str, key: str, title: str, form: str) -> None:
        rows = self.chosen(output)
        medians = [row.median(key) for row in rows]
        below = [median - min(row.values(key)) for row, median in zip(rows, medians)]
        above = [max(row.values(key)) - median for row, median in zip(rows, medians)]
        colours = ["#1b6ca8" if row.name == "forebay" else "#b9c2cb" for row in rows]
        axis.barh(
            [row.name for row in rows],
            medians,
            xerr=[below, above],
            color=colours,
            error_kw={"ecolor": "#555555", "capsize": 3, "linewidth": 1},
        )
        for place, (median, over) in enumerate(zip(medians, above)):
            axis.annotate(
                form.format(median),
                (median + over, place),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
        axis.invert_yaxis()
        axis.set_title(f"{output}: {title}", fontsize=10, loc="left")
        axis.margins(x=0.15)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
