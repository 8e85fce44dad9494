"""The demo's chart, drawn with Pillow alone: four small panels, one per measure, two bars each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = 1400, 670
MARGIN, GAP = 60, 50
PANEL_WIDTH, PANEL_HEIGHT = (WIDTH - 2 * MARGIN - GAP) // 2, 180
BAR_HEIGHT, BAR_PITCH = 52, 74

PAPER, INK, FAINT, TRACK = "#ffffff", "#1d2730", "#66737f", "#eef1f4"
COLOURS = ("#1b6ca8", "#a9b4be")  # ours, then the baseline

PANELS = (
    ("images_per_second", "Images per second", "more is better", "{:,.0f}"),
    ("cpu_seconds_per_1000", "CPU seconds per 1,000 images", "less is better", "{:.2f}"),
    ("first_batch_seconds", "Seconds to the first batch", "less is better", "{:.3f}"),
    ("peak_memory_mib", "Peak memory, MiB", "less is better", "{:,.0f}"),
)


def draw_chart(path: Path, results: dict[str, dict[str, Any]], note: str) -> None:
    """Draw `results`, a row of measures per name, ours first."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw = ImageDraw.Draw(picture)
    draw.text((MARGIN, 36), "Photos to training batches", fill=INK, font=ImageFont.load_default(38))
    draw.text((MARGIN, 88), note, fill=FAINT, font=ImageFont.load_default(21))
    draw_legend(draw, list(results))
    for number, panel in enumerate(PANELS):
        left = MARGIN + (number % 2) * (PANEL_WIDTH + GAP)
        top = 190 + (number // 2) * (PANEL_HEIGHT + 60)
        draw_panel(draw, left, top, panel, list(results.values()))
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path)


def draw_legend(draw: ImageDraw.ImageDraw, names: list[str]) -> None:
    font = ImageFont.load_default(21)
    left = MARGIN
    for name, colour in zip(names, COLOURS):
        draw.rounded_rectangle((left, 134, left + 22, 156), 4, fill=colour)
        draw.text((left + 32, 145), name, fill=INK, font=font, anchor="lm")
        left += 32 + draw.textlength(name, font=font) + 40


def draw_panel(draw: ImageDraw.ImageDraw, left: int, top: int, panel: tuple, results: list[dict[str, Any]]) -> None:
    key, title, sense, form = panel
    title_font, sense_font = ImageFont.load_default(25), ImageFont.load_default(19)
    draw.text((left, top), title, fill=INK, font=title_font)
    draw.text((left + PANEL_WIDTH, top + 5), sense, fill=FAINT, font=sense_font, anchor="ra")
    largest = max(result[key] for result in results) or 1
    for place, (result, colour) in enumerate(zip(results, COLOURS)):
        y = top + 48 + place * BAR_PITCH
        draw.rounded_rectangle((left, y, left + PANEL_WIDTH, y + BAR_HEIGHT), 8, fill=TRACK)
        length = max(16, int((PANEL_WIDTH - 120) * result[key] / largest))
        draw.rounded_rectangle((left, y, left + length, y + BAR_HEIGHT), 8, fill=colour)
        place_of_text = (left + length + 14, y + BAR_HEIGHT / 2)
        draw.text(place_of_text, form.format(result[key]), fill=INK, font=ImageFont.load_default(27), anchor="lm")
