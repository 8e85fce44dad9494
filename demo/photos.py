"""Make photographs that cost what real ones cost.

A benchmark of image loading is only as honest as its images: noise compresses too badly, gradients too well, and
both decode at the wrong speed. These photos are made to resemble the ones people train on, ImageNet's: 500x375 on
average, some portrait, some a little larger or smaller, about 110 KB each, three in four with halved chroma (4:2:0).

How: thirty *scenes* are painted first, each a larger picture with a sky, ridges, ground and a few hundred occluding
things of power-law sizes ("dead leaves"), all textured with 1/f noise, because that is the spectrum of natural images.
A *photo* is then cheap: a random crop of a scene at one of a few zooms, flipped, its colours shifted, plus sensor
noise, encoded.

The folder is laid out as torchvision's `ImageFolder` expects: ROOT/CLASS/00000.jpg, ten classes.

**Invariant:** photo number `i` is a function of (seed, i) and of nothing else, whatever the count or the number of
threads, so a larger set begins with the smaller one. Bytes are equal for equal versions of NumPy and Pillow.

**Invariant:** the folder appears whole or not at all. Photos are written beside it and renamed into place, the
manifest last; a run that was killed leaves nothing that a later one could mistake for a finished set.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

VERSION = 1
MANIFEST = "manifest.json"

SCENE_WIDTH, SCENE_HEIGHT = 1088, 832
SCENES_PER_CLASS = 3
ZOOMS = (1.0, 1.2, 1.45, 1.7)  # every scene is kept at these scales down, so that a photo is a plain crop
NOISE_SIDE = 1024

# Independent random streams: the first word of every seed sequence.
SCENE_STREAM, NOISE_STREAM, PHOTO_STREAM, TEXTURE_STREAM = 1, 2, 3, 4


@dataclass(frozen=True)
class Palette:
    """What a class of photos looks like: its colours, and how busy it is."""

    name: str
    sky: tuple[int, int, int]
    haze: tuple[int, int, int]
    ground: tuple[int, int, int]
    things: tuple[tuple[int, int, int], ...]
    horizon: float  # height of the horizon, as a part of the picture from the top
    ruggedness: float  # amplitude of the ridges, as a part of the picture
    count: int  # things per scene
    boxiness: float  # part of the things that are boxes, not leaves


PALETTES = (
    Palette(
        "beach",
        (92, 150, 210),
        (205, 220, 225),
        (214, 190, 150),
        ((235, 220, 190), (60, 120, 150), (200, 70, 60), (250, 240, 220), (120, 90, 60)),
        0.38,
        0.02,
        170,
        0.25,
    ),
    Palette(
        "city",
        (140, 165, 195),
        (200, 200, 205),
        (95, 95, 100),
        ((150, 110, 90), (110, 120, 130), (190, 185, 175), (70, 75, 85), (170, 60, 50)),
        0.55,
        0.04,
        240,
        0.85,
    ),
    Palette(
        "desert",
        (110, 160, 215),
        (235, 205, 170),
        (190, 130, 80),
        ((160, 95, 55), (215, 165, 110), (110, 75, 50), (90, 100, 60)),
        0.35,
        0.10,
        200,
        0.05,
    ),
    Palette(
        "forest",
        (170, 190, 190),
        (120, 145, 110),
        (65, 75, 40),
        ((40, 70, 30), (80, 110, 45), (115, 130, 60), (70, 55, 40), (30, 45, 30)),
        0.18,
        0.08,
        420,
        0.08,
    ),
    Palette(
        "garden",
        (150, 185, 215),
        (160, 185, 140),
        (85, 120, 55),
        ((200, 60, 90), (230, 190, 60), (90, 140, 60), (240, 235, 230), (130, 70, 150)),
        0.22,
        0.05,
        380,
        0.05,
    ),
    Palette(
        "harbour",
        (125, 155, 185),
        (190, 200, 205),
        (55, 85, 105),
        ((230, 230, 225), (170, 50, 45), (40, 60, 100), (200, 160, 90), (80, 70, 65)),
        0.42,
        0.04,
        210,
        0.55,
    ),
    Palette(
        "market",
        (150, 140, 130),
        (180, 160, 140),
        (120, 100, 85),
        ((210, 120, 40), (180, 40, 40), (230, 200, 90), (80, 110, 60), (90, 60, 50), (225, 215, 200)),
        0.12,
        0.02,
        460,
        0.45,
    ),
    Palette(
        "mountain",
        (85, 130, 195),
        (175, 190, 210),
        (90, 100, 75),
        ((120, 120, 120), (85, 95, 65), (60, 75, 50), (150, 145, 140)),
        0.48,
        0.22,
        260,
        0.05,
    ),
    Palette(
        "night",
        (18, 22, 42),
        (60, 50, 60),
        (32, 30, 36),
        ((60, 50, 45), (235, 190, 110), (40, 45, 60), (120, 80, 50), (200, 210, 230)),
        0.50,
        0.05,
        260,
        0.65,
    ),
    Palette(
        "snow",
        (165, 185, 210),
        (215, 222, 230),
        (222, 226, 232),
        ((90, 100, 95), (235, 238, 240), (60, 70, 60), (150, 160, 170), (140, 60, 50)),
        0.36,
        0.12,
        200,
        0.10,
    ),
)


def make_photos(root: Path, count: int, seed: int = 0) -> Path:
    """Make `count` photos under `root`, or return at once where they already are.

    A folder that holds another set of photos is replaced; one that holds anything else is left alone, with an error.
    """
    root = Path(root).expanduser().absolute()
    if count < 1:
        raise ValueError(f"count is {count}: at least one photo is needed")
    wanted = {"version": VERSION, "count": count, "seed": seed}
    if root.exists():
        found = read_manifest(root)
        if found is None and any(root.iterdir()):
            raise FileExistsError(f"{root} holds something other than photos made here: name another folder")
        if found is not None and all(found.get(key) == value for key, value in wanted.items()):
            return root

    root.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(root)
    partial = root.with_name(f".{root.name}.partial-{os.getpid()}")
    partial.mkdir()
    alive = lock(partial)
    try:
        total_bytes = write_photos(partial, count, seed)
        made_with = {"numpy": np.__version__, "pillow": Image.__version__}
        text = json.dumps({**wanted, "bytes": total_bytes, "made_with": made_with}, indent=2)
        (partial / MANIFEST).write_text(text + "\n")
        if root.exists():
            shutil.rmtree(root)
        partial.rename(root)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.close(alive)
    return root


def read_manifest(root: Path) -> dict | None:
    """What `root` says it holds, or None where it says nothing readable."""
    try:
        manifest = json.loads((root / MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and "count" in manifest else None


def lock(folder: Path) -> int:
    """Lock `folder` until the descriptor returned is closed, which a killed process does too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def remove_abandoned(root: Path) -> None:
    """Remove what killed runs left beside `root`; a run still alive holds its lock and keeps its own."""
    for left in root.parent.glob(f".{root.name}.partial-*"):
        try:
            abandoned = lock(left)
        except OSError:
            continue
        shutil.rmtree(left, ignore_errors=True)
        os.close(abandoned)


def write_photos(folder: Path, count: int, seed: int) -> int:
    """Paint the scenes, write every photo, and return their bytes in all.

    Threads are enough: painting, scaling and encoding all release the interpreter lock.
    """
    for palette in PALETTES:
        (folder / palette.name).mkdir()
    scene_count = SCENES_PER_CLASS * len(PALETTES)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        noise = pool.submit(paint_noise, seed)
        textures = paint_textures(seed)
        progress = Progress("painting scenes", scene_count)
        scenes = []
        for views in pool.map(lambda number: paint_scene(number, seed, textures), range(scene_count)):
            scenes.append(views)
            progress.advance()
        progress.close()
        grain = noise.result()

        def write(index: int) -> int:
            path = folder / PALETTES[index % len(PALETTES)].name / f"{index:05d}.jpg"
            take_photo(path, index, seed, scenes, grain)
            return path.stat().st_size

        progress = Progress("writing photos", count)
        total_bytes = 0
        for size in pool.map(write, range(count)):
            total_bytes += size
            progress.advance()
        progress.close()
    return total_bytes


# --- scenes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Textures:
    """Fields of 1/f noise as large as a scene, from slow to busy. Each scene shifts them by its own amounts."""

    coarse: np.ndarray
    middle: np.ndarray
    fine: np.ndarray
    hue: np.ndarray

    def shifted(self, rng: np.random.Generator) -> Textures:
        fields = (self.coarse, self.middle, self.fine, self.hue)
        return Textures(*(np.roll(field, tuple(rng.integers(field.shape)), axis=(0, 1)) for field in fields))


def paint_textures(seed: int) -> Textures:
    rng = np.random.default_rng([TEXTURE_STREAM, seed])
    return Textures(*(spectrum_field(rng, SCENE_HEIGHT, SCENE_WIDTH, exponent) for exponent in (1.35, 1.0, 0.55, 1.5)))


def paint_scene(number: int, seed: int, textures: Textures) -> list[Image.Image]:
    """Paint one scene: sky, ridges, ground, and things from the far ones to the near ones; one view of it per zoom."""
    palette = PALETTES[number % len(PALETTES)]
    rng = np.random.default_rng([SCENE_STREAM, seed, number])
    textures = textures.shifted(rng)

    canvas = paint_backdrop(rng, palette, textures)
    paint_things(rng, palette, canvas, textures, far=True)
    if rng.random() < 0.5:  # a shallow depth of field: what lies behind is soft
        soft = Image.fromarray(to_bytes(canvas)).filter(ImageFilter.BoxBlur(float(rng.uniform(0.7, 2.0))))
        canvas = np.asarray(soft).astype(np.float32)
    paint_things(rng, palette, canvas, textures, far=False)

    canvas *= 1.0 + 0.06 * textures.coarse[::-1, :, None]  # one slow light over everything
    canvas += textures.hue[..., None] * np.array([5.0, -1.5, -5.0], np.float32)
    scene = Image.fromarray(to_bytes(canvas))
    sizes = [(int(SCENE_WIDTH / zoom), int(SCENE_HEIGHT / zoom)) for zoom in ZOOMS]
    return [scene.resize(size, Image.Resampling.BICUBIC) for size in sizes]


def spectrum_field(rng: np.random.Generator, height: int, width: int, exponent: float) -> np.ndarray:
    """A random field whose amplitude falls as 1/f**exponent, with mean 0 and deviation 1."""
    spectrum = np.fft.rfft2(rng.standard_normal((height, width), dtype=np.float32))
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
    frequency[0, 0] = 1.0
    spectrum *= frequency**-exponent
    spectrum[0, 0] = 0.0
    field = np.fft.irfft2(spectrum, s=(height, width)).astype(np.float32)
    return field / field.std()


def paint_backdrop(rng, palette: Palette, textures: Textures) -> np.ndarray:
    """Sky down to the horizon, ridges that fade into haze, ground in front."""
    height, width = SCENE_HEIGHT, SCENE_WIDTH
    sky, haze, ground = (np.array(colour, np.float32) for colour in (palette.sky, palette.haze, palette.ground))
    horizon = height * min(max(palette.horizon + rng.uniform(-0.06, 0.06), 0.05), 0.8)
    rows = np.arange(height, dtype=np.float32)

    depth = np.clip(rows / horizon, 0, 1)[:, None, None]
    canvas = (sky * (1 - depth) + haze * depth) + (textures.coarse * 13)[..., None]

    ridges = 3
    for ridge in range(ridges):
        nearness = (ridge + 1) / ridges
        line = spectrum_field(rng, 1, width, 1.5)[0] * (palette.ruggedness * height * (1.1 - 0.8 * nearness))
        line += horizon - palette.ruggedness * height * (1 - nearness)
        first = int(max(line.min(), 0))  # above the ridge's highest point nothing changes
        down = rows[first:, None]
        below = np.clip(down - line, 0, 1)[..., None]
        slope = np.clip((down - horizon) / (height - horizon), 0, 1)
        texture = np.roll(textures.middle, 173 * ridge, axis=1)[first:] * (6 + 14 * nearness)
        texture += np.roll(textures.fine, 311 * ridge, axis=1)[first:] * ((6 + 15 * nearness) * (0.5 + slope))
        layer = (haze * (1 - nearness) + ground * nearness) * (1.08 - 0.35 * slope[..., None]) + texture[..., None]
        canvas[first:] += below * (layer - canvas[first:])
    return canvas


def paint_things(rng, palette: Palette, canvas: np.ndarray, textures: Textures, *, far: bool) -> None:
    """Occluding things of power-law sizes, with shading, texture and a shadow each; onto `canvas`."""
    height, width = canvas.shape[:2]
    count = int(palette.count * (0.65 if far else 0.35))
    smallest, largest = (7, 90) if far else (14, 260)
    # The number of things falls as size**-2.6, near the cube law under which dead leaves look alike at every scale.
    part = rng.random(count)
    sizes = (smallest**-1.6 + part * (largest**-1.6 - smallest**-1.6)) ** (-1 / 1.6)
    low, high = (palette.horizon, 0.95) if far else (palette.horizon + 0.1, 1.1)
    tops = np.sort(rng.uniform(low, high, count)) * height
    for size, foot in zip(sizes, tops):
        across = max(4, int(size * rng.uniform(0.6, 1.7)))
        tall = max(4, int(size * rng.uniform(0.6, 1.7)))
        left = int(rng.uniform(-across / 2, width - across / 2))
        top = int(foot - tall)
        box = rng.random() < palette.boxiness
        mask = box_mask(across, tall) if box else leaf_mask(rng, across, tall)
        colour = np.array(palette.things[rng.integers(len(palette.things))], np.float32) * rng.uniform(0.7, 1.25)
        body = thing_body(rng, colour, across, tall, textures, windows=box and size > 24)
        shadow_left, shadow_top = left + max(1, across // 10), top + max(1, tall // 12)
        blend(canvas, shadow_left, shadow_top, mask * 0.45, np.zeros_like(body))
        blend(canvas, left, top, mask, body)


def leaf_mask(rng, across: int, tall: int) -> np.ndarray:
    """A rounded, lobed outline, drawn at double size and halved so that its edge is smooth."""
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    radius = 0.80 + 0.12 * np.sin(angle * rng.integers(2, 6) + rng.uniform(0, 6))
    radius += 0.08 * np.sin(angle * rng.integers(5, 12) + rng.uniform(0, 6))
    outline = np.stack([across * (1 + radius * np.cos(angle)), tall * (1 + radius * np.sin(angle))], axis=1)
    drawn = Image.new("L", (2 * across, 2 * tall))
    ImageDraw.Draw(drawn).polygon([tuple(point) for point in outline.tolist()], fill=255)
    return np.asarray(drawn.reduce(2)).astype(np.float32) / 255


def box_mask(across: int, tall: int) -> np.ndarray:
    """An upright box with a soft edge of one pixel."""
    mask = np.ones((tall, across), np.float32)
    mask[[0, -1], :] = 0.5
    mask[:, [0, -1]] = 0.5
    return mask


def thing_body(rng, colour, across: int, tall: int, textures: Textures, *, windows: bool) -> np.ndarray:
    """The surface of a thing: its colour, lit from one side, textured, with rows of windows where it is a building."""
    y, x = int(rng.integers(SCENE_HEIGHT - tall)), int(rng.integers(SCENE_WIDTH - across))
    texture = textures.middle[y : y + tall, x : x + across] * rng.uniform(2, 14)
    texture += textures.fine[y : y + tall, x : x + across] * rng.uniform(2, 18)
    across_light = np.linspace(1.25, 0.65, across, dtype=np.float32)[:: 1 if rng.random() < 0.7 else -1]
    down_light = np.linspace(1.1, 0.85, tall, dtype=np.float32)
    body = colour * (down_light[:, None] * across_light[None, :])[..., None] + texture[..., None]
    if windows:
        pitch_x, pitch_y = int(rng.integers(6, 16)), int(rng.integers(7, 20))
        in_row, in_column = np.arange(tall) % pitch_y > pitch_y // 2, np.arange(across) % pitch_x > pitch_x // 2
        grid = in_row[:, None] & in_column[None, :]
        lit = np.where(rng.random((tall // pitch_y + 1, across // pitch_x + 1)) < 0.3, 1.7, 0.5).astype(np.float32)
        panes = np.repeat(np.repeat(lit, pitch_y, axis=0), pitch_x, axis=1)[:tall, :across]
        body *= np.where(grid, panes, 1.0)[..., None]
    return body.astype(np.float32)


def blend(canvas: np.ndarray, left: int, top: int, mask: np.ndarray, body: np.ndarray) -> None:
    """Lay `body` over `canvas` where `mask` covers it; what falls outside is cut off."""
    height, width = canvas.shape[:2]
    tall, across = mask.shape
    y0, y1, x0, x1 = max(top, 0), min(top + tall, height), max(left, 0), min(left + across, width)
    if y0 >= y1 or x0 >= x1:
        return
    within = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
    under = canvas[y0:y1, x0:x1]
    under += mask[within][..., None] * (body[within] - under)


def to_bytes(canvas: np.ndarray) -> np.ndarray:
    return np.clip(canvas + 0.5, 0, 255).astype(np.uint8)


# --- photos -----------------------------------------------------------------------------------------------------------


def paint_noise(seed: int) -> np.ndarray:
    """One large tile of sensor noise, deviation 64: mostly in the luma and a little soft, as cameras leave it."""
    rng = np.random.default_rng([NOISE_STREAM, seed])
    luma = rng.standard_normal((NOISE_SIDE, NOISE_SIDE), dtype=np.float32)
    luma = 0.8 * luma + 0.35 * (np.roll(luma, 1, axis=0) + np.roll(luma, 1, axis=1))
    chroma = rng.standard_normal((NOISE_SIDE, NOISE_SIDE, 3), dtype=np.float32)
    chroma = chroma + np.roll(chroma, 1, axis=0) + np.roll(chroma, 1, axis=1) + np.roll(chroma, (1, 1), axis=(0, 1))
    noise = luma[..., None] / luma.std() + 0.35 * chroma / chroma.std()
    return np.clip(noise * (64 / noise.std()), -290, 290).astype(np.int16)


def take_photo(path: Path, index: int, seed: int, scenes: list[list[Image.Image]], noise: np.ndarray) -> None:
    """Write photo number `index` to `path`. Saving to a file, not to memory, is what lets Pillow encode in parallel."""
    rng = np.random.default_rng([PHOTO_STREAM, seed, index])
    classes = len(PALETTES)
    views = scenes[index % classes + classes * int(rng.integers(SCENES_PER_CLASS))]
    width, height = photo_size(rng)

    fitting = [view for view in views if view.width > width and view.height > height]
    view = fitting[rng.integers(len(fitting))]
    left, top = int(rng.integers(view.width - width)), int(rng.integers(view.height - height))
    photo = view.crop((left, top, left + width, top + height))
    if rng.random() < 0.5:
        photo = photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    photo = photo.point(tone_curves(rng))

    strength = int(np.clip(rng.lognormal(np.log(62), 0.40), 10, 112))  # in 1/16 of a grey level
    y, x = int(rng.integers(NOISE_SIDE - height)), int(rng.integers(NOISE_SIDE - width))
    grain = noise[y : y + height, x : x + width] * np.int16(strength)
    grain >>= 10
    grain += np.asarray(photo)
    pixels = np.clip(grain, 0, 255, out=grain).astype(np.uint8)

    quality = int(rng.choice([91, 94, 95, 96, 96, 97, 97]))
    subsampling = "4:4:4" if rng.random() < 0.25 else "4:2:0"
    Image.fromarray(pixels).save(path, "JPEG", quality=quality, subsampling=subsampling)


def photo_size(rng: np.random.Generator) -> tuple[int, int]:
    """Width and height: mostly 500x375, some upright, some cropped a little differently, as in ImageNet."""
    kind = rng.random()
    if kind < 0.62:
        return 500, 375
    if kind < 0.80:
        return 375, 500
    if kind < 0.92:
        return 500, int(rng.integers(330, 401))
    return int(rng.integers(400, 561)), int(rng.integers(340, 461))


def tone_curves(rng: np.random.Generator) -> list[int]:
    """A look-up table for red, green and blue: white balance, contrast and gamma."""
    level = np.arange(256) / 255
    gamma = rng.uniform(0.8, 1.2)
    contrast = rng.uniform(0.9, 1.15)
    table = []
    for gain in rng.uniform(0.93, 1.07, 3):
        curve = (level**gamma - 0.5) * contrast + 0.5
        table.extend(np.clip(curve * gain * 255 + 0.5, 0, 255).astype(int).tolist())
    return table


# --- progress and command line ----------------------------------------------------------------------------------------


class Progress:
    """Progress on stderr: a bar on a terminal, a line every ten seconds elsewhere."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total, self.done = title, total, 0
        self.terminal = sys.stderr.isatty()
        self.began = self.shown = time.monotonic()

    def advance(self) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self.shown >= (0.1 if self.terminal else 10.0):
            self.shown = now
            self.show(now)

    def show(self, now: float) -> None:
        text = f"{self.title} {self.done}/{self.total}, {now - self.began:.0f} s"
        if self.terminal:
            filled = 30 * self.done // self.total
            print(f"\r[{'#' * filled}{'.' * (30 - filled)}] {text}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.terminal:
            self.show(time.monotonic())
            print(file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Make photo-like JPEGs (about 110 KB at 500x375) in ten class folders, "
        "as torchvision's ImageFolder reads them.",
        epilog="The same count and seed give the same photos. A folder already made is left as it is, "
        "and the command returns at once.",
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="folder to make; older photos there are replaced")
    parser.add_argument("--count", type=int, default=3000, help="number of photos (default: %(default)s, about 330 MB)")
    parser.add_argument("--seed", type=int, default=0, help="which photos (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        root = make_photos(arguments.directory, arguments.count, arguments.seed)
    except (OSError, ValueError) as error:
        sys.exit(f"photos: {error}")
    manifest = read_manifest(root)
    print(f"{root}: {manifest['count']} photos, {manifest['bytes'] / manifest['count'] / 1000:.0f} KB on average")


if __name__ == "__main__":
    main()
