"""Bad input gets a clear error that names the file and the remedy."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import forebay as fb
import pytest
from conftest import picture


def run(root: Path, **kwargs: object) -> list[object]:
    return list(fb.DataLoader(fb.image_folder(root).resize((8, 8)), batch_size=2, output="numpy", **kwargs))  # type: ignore[arg-type]


def jpeg(number: int = 0) -> bytes:
    buffer = io.BytesIO()
    picture(number).save(buffer, "JPEG")
    return buffer.getvalue()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(fb.NotFoundError, match="nowhere") as caught:
        fb.image_folder(tmp_path / "nowhere")
    assert isinstance(caught.value, FileNotFoundError)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(fb.Error, match="file"):
        fb.image_folder(tmp_path / "file")


def test_an_empty_folder_says_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(fb.NotFoundError, match="sub-folder"):
        fb.image_folder(tmp_path)


def test_a_class_without_images_is_named(folder: Callable[..., Path]) -> None:
    root = folder(good=None)
    (root / "hollow").mkdir()
    with pytest.raises(fb.NotFoundError, match="hollow"):
        fb.image_folder(root)


@pytest.mark.parametrize("data", [b"", b"not a picture", jpeg()[:200], jpeg()[:-200]], ids=range(4))
def test_a_file_that_is_no_picture_is_named(folder: Callable[..., Path], data: bytes) -> None:
    with pytest.raises(fb.CorruptError, match=r"bad\.jpg.*sample"):
        run(folder(good=None, bad=data))


def test_after_an_error_the_walk_goes_on_with_the_next_batch(folder: Callable[..., Path]) -> None:
    root = folder(a=None, b=b"", c=None, d=None)
    batches = iter(fb.DataLoader(fb.image_folder(root).resize((8, 8)), batch_size=2, output="numpy"))
    with pytest.raises(fb.CorruptError):
        next(batches)
    assert len(list(batches)) == 1


def test_a_file_that_vanished_is_named(folder: Callable[..., Path]) -> None:
    root = folder(stays=None, goes=None)
    loader = fb.DataLoader(fb.image_folder(root).resize((8, 8)), batch_size=2, output="numpy")
    (root / "only" / "goes.jpg").unlink()
    with pytest.raises(fb.NotFoundError, match=r"goes\.jpg"):
        list(loader)


def test_a_png_named_jpg_is_read_as_what_it_is(folder: Callable[..., Path]) -> None:
    buffer = io.BytesIO()
    picture(0).save(buffer, "PNG")
    assert len(run(folder(actually_png=buffer.getvalue()))) == 1


def test_a_picture_that_claims_to_be_huge_is_refused_unread(folder: Callable[..., Path]) -> None:
    data = bytearray(jpeg())
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = (30000).to_bytes(2, "big") * 2
    with pytest.raises(fb.OverBudgetError, match=r"30000 x 30000.*bomb\.jpg.*max_pixels"):
        run(folder(bomb=bytes(data)))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(folder: Callable[..., Path]) -> None:
    root = folder(secret=None)
    (root / "only" / "secret.jpg").chmod(0)
    with pytest.raises(fb.UnavailableError, match=r"secret\.jpg.*right to read"):
        run(root)


def test_a_path_that_is_not_utf_8_works(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path) + b"/caf\xe9"
    os.makedirs(root + b"/cl\xe9")
    with open(root + b"/cl\xe9/\xff.jpg", "wb") as file:
        file.write(jpeg())
    dataset = fb.image_folder(os.fsdecode(root))
    assert os.fsencode(dataset.samples[0][0]) == root + b"/cl\xe9/\xff.jpg"
    assert len(run(Path(os.fsdecode(root)))) == 1


def test_a_crop_larger_than_the_picture_names_the_file_and_the_remedy(folder: Callable[..., Path]) -> None:
    dataset = fb.image_folder(folder(small=None)).random_crop(100)
    with pytest.raises(fb.Error, match=r"small\.jpg.*pad_if_needed"):
        list(fb.DataLoader(dataset, output="numpy"))
