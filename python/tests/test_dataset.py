"""Datasets as chains of operations."""

from __future__ import annotations

import pickle
from pathlib import Path

import forebay as fb
import numpy as np
import pytest


def image(dataset: fb.ImageFolder, index: int = 0) -> np.ndarray:
    return np.from_dlpack(dataset.sample(index, seed=0, epoch=0)[0])


def test_classes_and_labels_are_numbered_as_torchvision_does(photos: Path) -> None:
    dataset = fb.image_folder(photos)
    assert dataset.classes == ["a", "b", "c"]
    assert dataset.class_to_idx == {"a": 0, "b": 1, "c": 2}
    assert len(dataset) == 50
    assert dataset.samples[0] == (str(photos / "a" / "000.jpg"), 0)
    assert dataset.samples[-1] == (str(photos / "c" / "024.jpg"), 2)


def test_an_index_gives_a_prepared_sample_and_its_label(photos: Path) -> None:
    dataset = fb.image_folder(photos).resize((8, 9))
    picture, label = dataset[49]
    assert tuple(picture.shape) == (3, 8, 9)
    assert label == 2
    assert np.array_equal(np.asarray(dataset[-1][0]), np.asarray(picture))


@pytest.mark.parametrize("index", [50, -51])
def test_an_index_beyond_the_end_is_an_index_error(photos: Path, index: int) -> None:
    with pytest.raises(IndexError, match="50"):
        fb.image_folder(photos)[index]


def test_an_operation_leaves_the_dataset_it_is_called_on_as_it_was(photos: Path) -> None:
    base = fb.image_folder(photos).decode().resize((8, 8))
    base.normalize()
    assert image(base).dtype == np.uint8


@pytest.mark.parametrize("dtype", ["f16", "float16", "half", np.float16, np.dtype("float16")])
def test_an_element_type_can_be_spelt_as_numpy_and_torch_do(photos: Path, dtype: object) -> None:
    assert image(fb.image_folder(photos).resize((8, 8)).to(dtype)).dtype == np.float16


def test_levels_become_values_between_0_and_1(photos: Path) -> None:
    levels = fb.image_folder(photos).resize((8, 8))
    assert np.allclose(image(levels.to("f32")), image(levels) / 255, atol=1e-6)


def test_the_layout_puts_channels_last(photos: Path) -> None:
    first = fb.image_folder(photos).resize((8, 9))
    assert np.array_equal(image(first.to(layout="NHWC")), image(first).transpose(1, 2, 0))


def test_a_chain_prints_with_what_comes_out_of_it(photos: Path) -> None:
    text = repr(fb.image_folder(photos).random_resized_crop(16).horizontal_flip().normalize().to("f16"))
    for part in (
        str(photos),
        "50",
        "3 classes",
        "random_resized_crop(16)",
        "horizontal_flip",
        "f16",
        "NCHW",
        "3 x 16 x 16",
    ):
        assert part in text


def test_a_pickled_dataset_prepares_the_same(photos: Path) -> None:
    dataset = (
        fb.image_folder(photos).decode(scaling="fast").random_resized_crop(12).color_jitter(0.4, hue=0.1).normalize()
    )
    again = pickle.loads(pickle.dumps(dataset))
    assert repr(again) == repr(dataset)
    assert np.array_equal(image(again, 7), image(dataset, 7))


def test_every_operation_runs(photos: Path) -> None:
    dataset = (
        fb.image_folder(photos)
        .decode(orientation=True)
        .resize(40, max_size=60)
        .random_crop((32, 30), padding=(1, 2), pad_if_needed=True, fill=(1, 2, 3), padding_mode="reflect")
        .color_jitter(0.2, (0.5, 1.5), 0.1, 0.05)
        .grayscale(3, p=0.5)
        .vertical_flip()
        .center_crop(24)
        .normalize([0.5] * 3, [0.25] * 3)
        .random_erasing(1.0, value="random")
    )
    assert image(dataset).shape == (3, 24, 24)


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        (lambda d: d.resize(8).decode(), "decode() comes after"),
        (lambda d: d.decode().decode(), "decode() comes after"),
        (lambda d: d.decode(scaling="slow"), "slow"),
        (lambda d: d.resize(0), "resize"),
        (lambda d: d.resize("8"), "whole number or (height, width)"),
        (lambda d: d.resize((8, 8), max_size=9), "max_size"),
        (lambda d: d.resize(8, interpolation="cubic"), "cubic"),
        (lambda d: d.center_crop((1, 2, 3)), "center_crop"),
        (lambda d: d.random_crop(8, padding=(1, 2, 3)), "padding"),
        (lambda d: d.random_crop(8, fill=300), "fill"),
        (lambda d: d.random_crop(8, padding_mode="mirror"), "mirror"),
        (lambda d: d.random_resized_crop(8, scale=(1.0, 0.5)), "scale"),
        (lambda d: d.random_resized_crop(8, ratio=1.0), "ratio"),
        (lambda d: d.horizontal_flip(1.5), "1.5"),
        (lambda d: d.color_jitter(brightness=-1), "brightness"),
        (lambda d: d.color_jitter(hue=0.6), "hue"),
        (lambda d: d.color_jitter(contrast=(2, 1)), "contrast"),
        (lambda d: d.grayscale(2), "grayscale"),
        (lambda d: d.random_erasing(value="noise"), "noise"),
        (lambda d: d.normalize([0.5, 0.5], [0.5, 0.5, 0.5]), "mean"),
        (lambda d: d.normalize().resize(8), "before"),
        (lambda d: d.to("f64"), "f64"),
        (lambda d: d.to(layout="CHWN"), "CHWN"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_written(photos: Path, chain: object, words: str) -> None:
    with pytest.raises(fb.ConfigError) as caught:
        chain(fb.image_folder(photos))  # type: ignore[operator]
    assert words in str(caught.value)


def test_a_number_of_colour_jitter_is_a_deviation_and_a_pair_a_range(photos: Path) -> None:
    steps = fb.image_folder(photos).color_jitter(brightness=1.5, contrast=(0.5, 2), hue=0.25)._pipeline.steps[-1]
    assert "brightness=(0.0, 2.5)" in steps
    assert "contrast=(0.5, 2.0)" in steps
    assert "hue=(-0.25, 0.25)" in steps
    assert "saturation" not in steps
