"""Parity: native operations against torchvision v2 on its PIL back end, on real photographs.

``pytest -s python/tests/test_parity.py`` prints how far each operation is from the original, in levels of 256.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import numpy as np
import pytest
from PIL import Image, ImageOps

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("skimage", reason="the photographs come with scikit-image")
import photos  # noqa: E402
from forebay import _native  # noqa: E402
from torchvision.transforms import InterpolationMode  # noqa: E402
from torchvision.transforms import v2 as torchvision  # noqa: E402
from torchvision.transforms.v2 import functional as tv  # noqa: E402

FILES = photos.files()
INTERPOLATIONS = ["nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"]
SAME = {"brightness": (1.0, 1.0), "contrast": (1.0, 1.0), "saturation": (1.0, 1.0), "hue": (0.0, 0.0)}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Table:
    """The measured differences, by operation."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[float, float]]] = {}

    def compare(self, operation: str, got: np.ndarray, expected: np.ndarray, *, mean: float, most: float) -> None:
        assert got.shape == expected.shape
        difference = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        self.rows.setdefault(operation, []).append((float(difference.mean()), float(difference.max())))
        assert difference.mean() <= mean, f"{operation}: {difference.mean():.4f} on average"
        assert difference.max() <= most, f"{operation}: {difference.max():.0f} at most"

    def close(
        self, operation: str, got: np.ndarray, expected: np.ndarray, box_of: tuple[int, int] | None = None
    ) -> None:
        """Within the bounds of geometry.

        Where the edge of a box runs through the middle of a pixel, rounding errors decide which of two boxes gets all
        of it. ``box_of`` is the height and width that boxes were laid over: such rows and columns may differ by more.
        """
        self.compare(operation, got, expected, mean=0.25, most=255 if box_of else 2)
        if box_of:
            height, width = box_of
            clear = ~(halved(height, got.shape[0])[:, None] | halved(width, got.shape[1])[None, :])
            difference = np.abs(got.astype(int) - expected.astype(int))[clear]
            assert difference.size == 0 or difference.max() <= 2, f"{operation}: {difference.max()} off a box's edge"

    def same(self, operation: str, got: np.ndarray, expected: np.ndarray) -> None:
        """To the bit."""
        self.compare(operation, got, expected, mean=0, most=0)

    def __str__(self) -> str:
        lines = [f"{'operation':44} {'cases':>5} {'mean':>9} {'max':>6}"]
        for name, cases in self.rows.items():
            means, most = zip(*cases)
            lines.append(f"{name:44} {len(cases):5} {np.mean(means):9.2g} {max(most):6.2g}")
        return "\n".join(lines)


def halved(source: int, target: int) -> np.ndarray:
    """Which of ``target`` boxes laid over ``source`` pixels have an edge through the middle of a pixel."""
    edges = np.arange(target + 1) * 2 * source
    through = (edges % target == 0) & (edges // target % 2 == 1)
    return through[:-1] | through[1:]


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table()
    yield table
    print(f"\n{table}")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], Path]:
    """Puts bytes into a file."""
    root = tmp_path_factory.mktemp("files")
    known: dict[bytes, Path] = {}

    def put(data: bytes) -> Path:
        if data not in known:
            known[data] = root / str(len(known))
            known[data].write_bytes(data)
        return known[data]

    return put


Put = Callable[[bytes], Path]


@pytest.fixture(scope="module", params=photos.NAMES)
def photo(request: pytest.FixtureRequest) -> Image.Image:
    return photos.photo(request.param)


def sample(pipeline: _native.Pipeline, path: Path, seed: int = 0) -> torch.Tensor:
    folder = _native.Folder.listed(["only"], [(path, 0)])
    return torch.from_dlpack(pipeline.sample(folder, 0, seed=seed, epoch=0)[0])


def levels(pipeline: _native.Pipeline, path: Path, seed: int = 0) -> np.ndarray:
    """The picture as Pillow would hand it out: rows, columns, channels."""
    return sample(pipeline.to(None, layout="NHWC"), path, seed).numpy()


def lossless(image: Image.Image) -> bytes:
    return photos.encode(image, "BMP")


def jitter(pipeline: _native.Pipeline, **ranges: tuple[float, float]) -> _native.Pipeline:
    return pipeline.color_jitter(**{**SAME, **ranges})


def resize(
    size: int | tuple[int, int], interpolation: str = "bilinear", max_size: int | None = None
) -> _native.Pipeline:
    return _native.Pipeline().resize(size, interpolation=interpolation, max_size=max_size)


# Decode


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_every_kind_decodes_to_what_pillow_gives(name: str, table: Table, file: Put) -> None:
    path = file(FILES[name])
    table.same(
        f"decode {name.split('-', maxsplit=1)[0]}",
        levels(_native.Pipeline(), path),
        np.asarray(Image.open(path).convert("RGB")),
    )


def test_a_photograph_as_it_was_taken_decodes_to_what_pillow_gives(table: Table) -> None:
    for name in ("rocket.jpg", "retina.jpg", "hubble_deep_field.jpg", "astronaut.png", "motorcycle_left.png"):
        path = photos.FOLDER / name
        table.same("decode photographs", levels(_native.Pipeline(), path), np.asarray(Image.open(path).convert("RGB")))


def test_an_animation_that_is_damaged_later_on_still_shows_its_first_frame(table: Table, file: Put) -> None:
    whole = FILES["webp-animated"]
    second = whole.index(b"ANMF", whole.index(b"ANMF") + 4)
    path = file(whole[: second + 300] + b"\x55" * 5000 + whole[second + 5300 :])
    table.same("decode webp", levels(_native.Pipeline(), path), np.asarray(Image.open(path).convert("RGB")))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("mark", range(1, 9))
def test_a_marked_picture_is_turned_as_pillow_turns_it(kind: str, mark: int, table: Table, file: Put) -> None:
    image = photos.photo("rocket.jpg").crop((100, 50, 311, 184))
    exif = Image.Exif()
    exif[0x0112] = mark
    path = file(photos.encode(image, kind, exif=exif))
    upright = ImageOps.exif_transpose(Image.open(path))
    table.same("orientation", levels(_native.Pipeline(orientation=True), path), np.asarray(upright.convert("RGB")))
    # Unasked, the mark is left alone.
    table.same("orientation", levels(_native.Pipeline(), path), np.asarray(Image.open(path).convert("RGB")))


@pytest.mark.parametrize("mark", range(1, 9))
def test_a_marked_picture_is_cropped_after_it_was_turned(mark: int, table: Table, file: Put) -> None:
    exif = Image.Exif()
    exif[0x0112] = mark
    path = file(photos.encode(photos.photo("chelsea.png"), "JPEG", quality=90, exif=exif))
    upright = ImageOps.exif_transpose(Image.open(path))
    got = levels(_native.Pipeline(orientation=True).center_crop((171, 98)).horizontal_flip(1.0), path)
    table.same("orientation", got, np.asarray(tv.horizontal_flip(tv.center_crop(upright, [171, 98]))))


# Geometry


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("size", [64, 224, 700, (224, 224), (97, 331), (800, 500)], ids=str)
def test_resize_is_torchvisions(
    interpolation: str, size: int | tuple[int, int], photo: Image.Image, table: Table, file: Put
) -> None:
    got = levels(resize(size, interpolation), file(lossless(photo)))
    target = [size] if isinstance(size, int) else list(size)
    expected = np.asarray(tv.resize(photo, target, InterpolationMode(interpolation)))
    box_of = (photo.height, photo.width) if interpolation == "box" else None
    table.close(f"resize {interpolation}", got, expected, box_of)


@pytest.mark.parametrize("shape", [(640, 427), (333, 1000), (100, 1000), (50, 50), (257, 256), (3, 400)], ids=str)
@pytest.mark.parametrize("max_size", [None, 33, 50, 300])
def test_the_longer_side_follows_as_torchvisions_does(
    shape: tuple[int, int], max_size: int | None, photo: Image.Image, table: Table, file: Put
) -> None:
    if min(shape) * (max_size or 400) < max(shape):
        pytest.skip("torchvision asks Pillow for a picture without columns here")
    image = photo.resize(shape)
    got = levels(resize(32, max_size=max_size), file(lossless(image)))
    table.close("resize max_size", got, np.asarray(tv.resize(image, [32], max_size=max_size)))


@pytest.mark.parametrize("size", [(224, 224), (99, 300), (1, 1), (299, 450), (300, 451)], ids=str)
def test_center_crop_is_torchvisions(size: tuple[int, int], photo: Image.Image, table: Table, file: Put) -> None:
    got = levels(_native.Pipeline().center_crop(size), file(lossless(photo)))
    table.same("center_crop", got, np.asarray(tv.center_crop(photo, list(size))))


@pytest.mark.parametrize("size", [(600, 700), (501, 1001), (601, 100), (100, 1000), (600, 801)], ids=str)
def test_center_crop_beyond_the_picture_pads_as_torchvision_does(
    size: tuple[int, int], photo: Image.Image, table: Table, file: Put
) -> None:
    got = levels(_native.Pipeline().center_crop(size), file(lossless(photo)))
    table.same("center_crop larger than the picture", got, np.asarray(tv.center_crop(photo, list(size))))


def coordinates(width: int, height: int) -> Image.Image:
    """A picture whose pixels say where they are."""
    y, x = np.mgrid[0:height, 0:width]
    return Image.fromarray(np.stack([x & 255, y & 255, (x >> 8) << 4 | y >> 8], axis=2).astype(np.uint8))


def place(pixel: np.ndarray) -> tuple[int, int]:
    """Where a pixel of ``coordinates`` was: column and row."""
    low_x, low_y, high = (int(level) for level in pixel)
    return (high >> 4) << 8 | low_x, (high & 15) << 8 | low_y


def random_crop(size: tuple[int, int], **options: object) -> _native.Pipeline:
    plain = {"padding": (0, 0, 0, 0), "pad_if_needed": False, "fill": (0, 0, 0), "padding_mode": "constant"}
    return _native.Pipeline().random_crop(size, **{**plain, **options})


@pytest.mark.parametrize("seed", range(8))
def test_random_crop_keeps_the_part_it_drew(seed: int, photo: Image.Image, table: Table, file: Put) -> None:
    crop = random_crop((123, 210))
    left, top = place(levels(crop, file(lossless(coordinates(*photo.size))), seed)[0, 0])
    got = levels(crop, file(lossless(photo)), seed)
    table.same("random_crop", got, np.asarray(tv.crop(photo, top, left, 123, 210)))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("padding", [(7, 7, 7, 7), (3, 0, 11, 5), (500, 700, 650, 480)], ids=str)
def test_random_crop_pads_as_torchvision_does(
    mode: str, padding: tuple[int, int, int, int], photo: Image.Image, table: Table, file: Put
) -> None:
    left, top, right, bottom = padding
    fill = (9, 200, 31) if mode == "constant" else (0, 0, 0)
    size = (photo.height + top + bottom, photo.width + left + right)  # as large as the padded picture: no choice
    got = levels(random_crop(size, padding=padding, fill=fill, padding_mode=mode), file(lossless(photo)))
    table.same(f"random_crop padding {mode}", got, np.asarray(tv.pad(photo, list(padding), fill, mode)))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (2, 1, 4, 3)], ids=str)
def test_a_picture_too_small_for_the_crop_is_padded_as_torchvision_does(
    mode: str, padding: tuple[int, int, int, int], photo: Image.Image, table: Table, file: Put
) -> None:
    image = photo.resize((40, 30))
    size = (61, 52)
    transform = torchvision.RandomCrop(size, padding=padding, pad_if_needed=True, padding_mode=mode)
    params = transform.make_params([image])
    padded = np.asarray(tv.pad(image, params["padding"], 0, mode))
    for seed in range(4):
        got = levels(
            random_crop(size, padding=padding, pad_if_needed=True, padding_mode=mode), file(lossless(image)), seed
        )
        places = [
            (top, left)
            for top in range(padded.shape[0] - size[0] + 1)
            for left in range(padded.shape[1] - size[1] + 1)
            if np.array_equal(padded[top : top + size[0], left : left + size[1]], got)
        ]
        assert places, "the crop is no part of torchvision's padded picture"
        top, left = places[0]
        table.same("random_crop pad_if_needed", got, padded[top : top + size[0], left : left + size[1]])


def resized_crop(
    size: tuple[int, int], scale: tuple[float, float], ratio: tuple[float, float], interpolation: str
) -> _native.Pipeline:
    return _native.Pipeline().random_resized_crop(size, scale=scale, ratio=ratio, interpolation=interpolation)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("seed", range(6))
def test_random_resized_crop_is_torchvisions_of_the_part_it_drew(
    interpolation: str, seed: int, photo: Image.Image, table: Table, file: Put
) -> None:
    ranges = ((0.08, 1.0), (3 / 4, 4 / 3))
    # Enlarged to the size of the picture without mixing pixels, the corners say what was drawn.
    drawn = resized_crop((photo.height, photo.width), *ranges, "nearest")
    corners = levels(drawn, file(lossless(coordinates(*photo.size))), seed)
    (left, top), (right, bottom) = place(corners[0, 0]), place(corners[-1, -1])
    height, width = bottom - top + 1, right - left + 1
    assert 0.07 <= height * width / (photo.height * photo.width) <= 1
    assert 0.7 <= width / height <= 1.4
    got = levels(resized_crop((224, 160), *ranges, interpolation), file(lossless(photo)), seed)
    expected = tv.resized_crop(photo, top, left, height, width, [224, 160], InterpolationMode(interpolation))
    box_of = (height, width) if interpolation == "box" else None
    table.close(f"random_resized_crop {interpolation}", got, np.asarray(expected), box_of)


@pytest.mark.parametrize("shape", [(700, 60), (60, 700), (400, 300)], ids=str)
def test_random_resized_crop_that_finds_no_part_takes_the_middle(
    shape: tuple[int, int], photo: Image.Image, table: Table, file: Put
) -> None:
    image = photo.resize(shape)
    ratio = (1.0, 1.0) if shape != (400, 300) else (4 / 3, 4 / 3)
    transform = torchvision.RandomResizedCrop((96, 96), scale=(1.0, 1.0), ratio=ratio)
    box = transform.make_params([image])
    got = levels(resized_crop((96, 96), (1.0, 1.0), ratio, "bilinear"), file(lossless(image)))
    expected = tv.resized_crop(image, box["top"], box["left"], box["height"], box["width"], [96, 96])
    table.close("random_resized_crop whole or middle", got, np.asarray(expected))


def test_a_crop_of_a_jpeg_is_the_crop_of_the_whole(table: Table, file: Put) -> None:
    whole = photos.photo("rocket.jpg")
    for name, options in [("4:2:0", {}), ("4:4:4", {"subsampling": 0}), ("progressive", {"progressive": True})]:
        path = file(photos.encode(whole, "JPEG", quality=90, **options))
        image = Image.open(path).convert("RGB")
        for seed in range(12):
            crop = random_crop((57 + seed, 91 + 3 * seed))
            left, top = place(levels(crop, file(lossless(coordinates(*image.size))), seed)[0, 0])
            expected = tv.crop(image, top, left, 57 + seed, 91 + 3 * seed)
            table.same(f"crop of a JPEG {name}", levels(crop, path, seed), np.asarray(expected))


def test_a_certain_flip_is_torchvisions(photo: Image.Image, table: Table, file: Put) -> None:
    path = file(lossless(photo))
    table.same("horizontal_flip", levels(_native.Pipeline().horizontal_flip(1.0), path), np.asarray(tv.hflip(photo)))
    table.same("vertical_flip", levels(_native.Pipeline().vertical_flip(1.0), path), np.asarray(tv.vflip(photo)))
    both = _native.Pipeline().horizontal_flip(1.0).vertical_flip(1.0)
    table.same("both flips", levels(both, path), np.asarray(photo.rotate(180)))
    table.same("no flip", levels(_native.Pipeline().horizontal_flip(0.0).vertical_flip(0.0), path), np.asarray(photo))


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_a_resize_after_a_flip_is_torchvisions(interpolation: str, photo: Image.Image, table: Table, file: Put) -> None:
    pipeline = _native.Pipeline().horizontal_flip(1.0).vertical_flip(1.0)
    got = levels(pipeline.resize((150, 130), interpolation=interpolation, max_size=None), file(lossless(photo)))
    expected = tv.resize(tv.vflip(tv.hflip(photo)), [150, 130], InterpolationMode(interpolation))
    box_of = (photo.height, photo.width) if interpolation == "box" else None
    table.close(f"flips, then resize {interpolation}", got, np.asarray(expected), box_of)


@pytest.mark.parametrize("quality", [60, 95])
def test_the_usual_evaluation_is_torchvisions_on_a_jpeg(
    quality: int, photo: Image.Image, table: Table, file: Put
) -> None:
    path = file(photos.encode(photo, "JPEG", quality=quality))
    usual = torchvision.Compose([torchvision.Resize(256), torchvision.CenterCrop(224)])
    got = levels(resize(256).center_crop((224, 224)), path)
    table.close("jpeg, resize 256, center_crop 224", got, np.asarray(usual(Image.open(path).convert("RGB"))))


# Colours


@pytest.mark.parametrize("factor", [0.0, 0.3, 0.75, 1.25, 2.5])
@pytest.mark.parametrize("change", ["brightness", "contrast", "saturation"])
def test_a_change_of_colour_is_torchvisions(
    change: str, factor: float, photo: Image.Image, table: Table, file: Put
) -> None:
    got = levels(jitter(_native.Pipeline(), **{change: (factor, factor)}), file(lossless(photo)))
    expected = getattr(tv, f"adjust_{change}")(photo, factor)
    table.compare(f"color_jitter {change}", got, np.asarray(expected), mean=1, most=2)


@pytest.mark.parametrize("turn", [-0.5, -0.2, 0.004, 0.1, 0.37, 0.5])
def test_a_turn_of_the_hue_is_torchvisions(turn: float, photo: Image.Image, table: Table, file: Put) -> None:
    got = levels(jitter(_native.Pipeline(), hue=(turn, turn)), file(lossless(photo)))
    table.compare("color_jitter hue", got, np.asarray(tv.adjust_hue(photo, turn)), mean=1, most=2)


def test_every_colour_turns_as_pillow_turns_it(table: Table, file: Put) -> None:
    step = np.arange(0, 256, 5)
    cube = np.stack(np.meshgrid(step, step, step), axis=-1).reshape(len(step), -1, 3).astype(np.uint8)
    cube = Image.fromarray(np.concatenate([cube, 255 - cube]))
    for turn in (-0.31, 0.15, 0.5):
        got = levels(jitter(_native.Pipeline(), hue=(turn, turn)), file(lossless(cube)))
        table.same("color_jitter hue, all colours", got, np.asarray(tv.adjust_hue(cube, turn)))


@pytest.mark.parametrize("channels", [1, 3])
def test_grayscale_is_torchvisions(channels: int, photo: Image.Image, table: Table, file: Put) -> None:
    got = levels(_native.Pipeline().grayscale(channels, p=1.0), file(lossless(photo)))
    expected = np.asarray(tv.to_grayscale(photo, channels))
    table.same("grayscale", got, expected[:, :, None] if channels == 1 else expected)


def test_a_random_grayscale_leaves_some_pictures_as_they_are(photo: Image.Image, file: Put) -> None:
    path = file(lossless(photo.resize((32, 32))))
    grey = sum(np.ptp(levels(_native.Pipeline().grayscale(3, p=0.3), path, s), axis=2).max() == 0 for s in range(400))
    assert 80 <= grey <= 160


# Values


def test_normalized_values_are_torchvisions(photo: Image.Image, file: Put) -> None:
    path = file(lossless(photo))
    expected = tv.normalize(tv.to_dtype(tv.to_image(photo), torch.float32, scale=True), MEAN, STD)
    for layout in ("NCHW", "NHWC"):
        got = sample(_native.Pipeline().normalize(MEAN, STD).to(None, layout=layout), path)
        got = got.permute(2, 0, 1) if layout == "NHWC" else got
        assert torch.allclose(got, expected, rtol=0, atol=1e-6)


def test_normalized_grey_values_are_torchvisions(photo: Image.Image, file: Put) -> None:
    expected = tv.normalize(tv.to_dtype(tv.to_image(photo.convert("L")), torch.float32, scale=True), [0.3], [0.2])
    got = sample(_native.Pipeline().grayscale(1, p=1.0).normalize([0.3], [0.2]), file(lossless(photo)))
    assert torch.allclose(got, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("name", "dtype"), [("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)])
def test_a_cast_is_torchs_within_one_step(  # noqa: PLR0917
    name: str, dtype: torch.dtype, normalized: bool, layout: str, photo: Image.Image, file: Put
) -> None:
    pipeline, values = _native.Pipeline(), tv.to_dtype(tv.to_image(photo), torch.float32, scale=True)
    if normalized:
        pipeline, values = pipeline.normalize(MEAN, STD), tv.normalize(values, MEAN, STD)
    got, expected = sample(pipeline.to(name, layout=layout), file(lossless(photo))), values.to(dtype)
    got = got.permute(2, 0, 1) if layout == "NHWC" else got
    assert got.dtype == dtype
    # The next representable number: the two orders of the arithmetic may fall on either side of a tie. Near zero,
    # where subtracting the mean cancels digits, the steps are those of the values before.
    step = torch.maximum(expected.float().abs() * torch.finfo(dtype).eps, torch.tensor(1e-6))
    assert ((got.float() - expected.float()).abs() <= step).all()
    if name != "f32":
        assert (got == expected).float().mean() > 0.99


def test_levels_are_as_they_were_in_either_layout(photo: Image.Image, file: Put) -> None:
    path = file(lossless(photo))
    for pipeline in (_native.Pipeline(), _native.Pipeline().to("u8", layout=None)):
        assert torch.equal(sample(pipeline.to(None, layout="NCHW"), path), tv.to_image(photo))
        assert torch.equal(sample(pipeline.to(None, layout="NHWC"), path), tv.to_image(photo).permute(1, 2, 0))


# Erasing


def erase(pipeline: _native.Pipeline, value: list[float] | None = None, **options: object) -> _native.Pipeline:
    plain = {"p": 1.0, "scale": (0.02, 0.33), "ratio": (0.3, 3.3)}
    return pipeline.random_erasing(**{**plain, **options}, value=value)


def erased_part(changed: np.ndarray) -> tuple[int, int, int, int]:
    """The rectangle that was painted: left, top, width, height; it must be one."""
    rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
    left, top, width, height = columns[0], rows[0], np.ptp(columns) + 1, np.ptp(rows) + 1
    assert changed.sum() == width * height, "what was erased is no rectangle"
    return left, top, width, height


def test_erasing_levels_paints_a_rectangle_of_the_size_asked_for(file: Put) -> None:
    white = Image.new("RGB", (200, 150), "white")
    areas, ratios = [], []
    for seed in range(300):
        got = levels(erase(_native.Pipeline(), [7.0, 8.0, 9.0]), file(lossless(white)), seed)
        changed = (got == [7, 8, 9]).all(axis=2)
        assert (got[~changed] == 255).all()
        _, _, width, height = erased_part(changed)
        areas.append(width * height / (200 * 150))
        ratios.append(height / width)
    # Whole pixels: a rectangle is half a pixel off its drawn size, in either direction.
    assert 0.018 <= min(areas) < 0.05 and 0.28 < max(areas) <= 0.34
    assert 0.28 <= min(ratios) < 0.4 and 2.5 < max(ratios) <= 3.5


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_erasing_values_paints_what_was_asked_for(dtype: str, layout: str, photo: Image.Image, file: Put) -> None:
    path = file(lossless(photo))
    plain = _native.Pipeline().normalize(MEAN, STD).to(dtype, layout=layout)
    for seed in range(5):
        before, got = sample(plain, path, seed), sample(erase(plain, [0.5, -3.0, 40.0]), path, seed)
        if layout == "NHWC":
            before, got = before.permute(2, 0, 1), got.permute(2, 0, 1)
        value = torch.tensor([0.5, -3.0, 40.0])[:, None]
        changed = (got[2] == 40).numpy()
        erased_part(changed)
        assert (got.float()[:, torch.from_numpy(changed)] == value).all()
        assert torch.equal(got[:, torch.from_numpy(~changed)], before[:, torch.from_numpy(~changed)])


def test_erasing_before_normalize_is_normalized_with_the_rest(photo: Image.Image, file: Put) -> None:
    path = file(lossless(photo))
    got = sample(erase(_native.Pipeline().to("f32", layout=None), [0.25]).normalize(MEAN, STD), path)
    plain = sample(_native.Pipeline().normalize(MEAN, STD), path)
    value = (0.25 - torch.tensor(MEAN)) / torch.tensor(STD)
    changed = ((got - value[:, None, None]).abs() < 1e-5).all(dim=0)
    erased_part(changed.numpy())
    assert torch.equal(got[:, ~changed], plain[:, ~changed])


def test_erasing_with_noise_paints_standard_normal_noise(photo: Image.Image, file: Put) -> None:
    path = file(lossless(photo))
    plain = _native.Pipeline().normalize(MEAN, STD)
    got = sample(erase(plain, None, scale=(0.3, 0.33), ratio=(1.0, 1.0)), path)
    changed = (got != sample(plain, path)).all(dim=0)
    noise = got[:, changed]
    assert noise.shape[1] > 20_000
    assert abs(float(noise.mean())) < 0.03 and abs(float(noise.std()) - 1) < 0.03
    assert len(noise.unique()) > 0.9 * noise.numel()


# Scaling


def test_fast_scaling_is_near_what_is_exact_by_default(table: Table, file: Put) -> None:
    """How near is printed, and promised only roughly: the decoder averages blocks before the resize sees them."""
    for side in (2000, 4000):
        whole = photos.mosaic(side)
        for name, image in (("mosaic", whole), ("enlarged", photos.photo("rocket.jpg").resize(whole.size, 3))):
            path = file(photos.encode(image, "JPEG", quality=92))
            decoded = Image.open(path).convert("RGB")
            for size in (64, 224):
                expected = np.asarray(tv.resize(decoded, [size, size]))
                table.close("large jpeg, resize", levels(resize((size, size)), path), expected)
                fast = _native.Pipeline(scaling="fast").resize((size, size), interpolation="bilinear", max_size=None)
                got = levels(fast, path)
                assert not np.array_equal(got, levels(resize((size, size)), path)), "nothing was scaled"
                table.compare(f"fast scaling, {name} {side} to {size}", got, expected, mean=0.5, most=32)
