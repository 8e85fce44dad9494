"""Datasets that the engine reads and prepares itself, written as a chain of operations.

A dataset is a value: every operation returns a new one, and nothing is read before a loader, or an index, asks for a
sample. The chain is checked as it is written.
"""

from __future__ import annotations

import numbers
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from forebay import spelling
from forebay.errors import ConfigError
from forebay.spelling import Range, Size

if TYPE_CHECKING:
    from forebay._native import Array, Folder, Pipeline

__all__ = ["ImageFolder", "image_folder"]

_Call = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A method of the engine's pipeline, with its arguments."""

_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)


def image_folder(path: str | os.PathLike[str]) -> ImageFolder:
    """Open a folder that has one sub-folder of images for each class.

    Labels are the places of the class folders in sorted order, as in torchvision's ``ImageFolder``. The folder is
    listed once, here; no image is read.

    >>> train = fb.image_folder("data/train").decode().random_resized_crop(224).horizontal_flip().normalize()
    >>> val = fb.image_folder("data/val").decode().resize(256).center_crop(224).normalize()
    """
    from forebay import _native

    return ImageFolder(_native.Folder(path))


class ImageFolder:
    """Images and their labels, with the operations that prepare them. Made by :func:`image_folder`.

    ``dataset[i]`` is one prepared sample to look at, ``(image, label)``: a torch tensor where torch has been imported,
    a NumPy array otherwise. Random operations draw as a loader with ``seed=0`` does in epoch 0.
    """

    def __init__(self, folder: Folder, calls: tuple[_Call, ...] = ()) -> None:
        """Use :func:`image_folder`."""
        self._folder = folder
        self._calls = calls
        self._built: Pipeline | None = None

    # What there is.

    @property
    def root(self) -> str:
        """The folder."""
        return self._folder.root

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of their labels."""
        return self._folder.classes

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class."""
        return {name: label for label, name in enumerate(self._folder.classes)}

    @property
    def samples(self) -> list[tuple[str, int]]:
        """Path and label of every sample."""
        folder = self._folder
        return [(folder.path(i), folder.label(i)) for i in range(len(folder))]

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self._folder)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """One prepared sample, to look at."""
        from forebay import deliver

        array, label = self.sample(index, seed=0, epoch=0)
        return deliver.array("torch" if "torch" in sys.modules else "numpy", array), label

    def sample(self, index: int, *, seed: int, epoch: int) -> tuple[Array, int]:
        """One sample as a loader with that seed prepares it in that epoch, in memory that speaks DLPack."""
        count = len(self._folder)
        if not -count <= index < count:
            raise IndexError(f"sample {index} of a dataset of {count}")
        return self._pipeline.sample(self._folder, index % count, seed=seed, epoch=epoch)

    # What is done with it.

    @property
    def _pipeline(self) -> Pipeline:
        if self._built is None:
            from forebay import _native

            # A missing decode() is implied.
            is_decoded = self._calls[:1] and self._calls[0][0] == "decode"
            pipeline = _native.Pipeline(**(self._calls[0][2] if is_decoded else {}))
            for name, args, kwargs in self._calls[1 if is_decoded else 0 :]:
                pipeline = getattr(pipeline, name)(*args, **kwargs)
            self._built = pipeline
        return self._built

    def _then(self, name: str, *args: Any, **kwargs: Any) -> ImageFolder:
        """The dataset with one call on the engine's pipeline more. Calls are kept, because they pickle."""
        dataset = ImageFolder(self._folder, (*self._calls, (name, args, kwargs)))
        dataset._built = getattr(self._pipeline, name)(*args, **kwargs)
        return dataset

    def decode(
        self, *, orientation: bool = False, max_pixels: int | None = None, scaling: str = "exact"
    ) -> ImageFolder:
        """Decode files to RGB; comes first, and is implied where it is left out.

        ``orientation=True`` turns pictures upright as the camera's mark says. Pictures of more than ``max_pixels``
        (about 179 million unless said otherwise, as in Pillow) are refused. ``scaling="fast"`` may decode a large JPEG
        at 1/2, 1/4 or 1/8 when it will be shrunk anyway: faster, and by a hair softer.
        """
        if self._calls:
            raise ConfigError("decode() comes after other operations; write it first, and once")
        options = {"orientation": orientation, "max_pixels": max_pixels, "scaling": scaling}
        dataset = ImageFolder(self._folder, (("decode", (), options),))
        _ = dataset._pipeline  # so that a wrong option fails here
        return dataset

    def resize(self, size: Size, interpolation: str = "bilinear", max_size: int | None = None) -> ImageFolder:
        """Resize, antialiased: the shorter side to ``size``, or to ``(height, width)``.

        ``max_size`` limits the longer side. torchvision's ``Resize``.
        """
        target = spelling.resize_size("resize", size)
        return self._then("resize", target, interpolation=interpolation, max_size=max_size)

    def center_crop(self, size: Size) -> ImageFolder:
        """Keep the middle; black around it where the picture is smaller. torchvision's ``CenterCrop``."""
        return self._then("center_crop", spelling.crop_size("center_crop", size))

    def random_crop(
        self,
        size: Size,
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0,
        padding_mode: str = "constant",
    ) -> ImageFolder:
        """Keep a random part, of the padded picture if ``padding`` is given. torchvision's ``RandomCrop``."""
        return self._then(
            "random_crop",
            spelling.crop_size("random_crop", size),
            padding=spelling.padding_sides("random_crop", padding),
            pad_if_needed=pad_if_needed,
            fill=spelling.by_channel("random_crop", fill),
            padding_mode=padding_mode,
        )

    def random_resized_crop(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
    ) -> ImageFolder:
        """Keep a random part of random proportions, resized to ``size``. torchvision's ``RandomResizedCrop``."""
        return self._then(
            "random_resized_crop",
            spelling.crop_size("random_resized_crop", size),
            scale=_pair("random_resized_crop", "scale", scale),
            ratio=_pair("random_resized_crop", "ratio", ratio),
            interpolation=interpolation,
        )

    def horizontal_flip(self, p: float = 0.5) -> ImageFolder:
        """Mirror left to right with probability ``p``. torchvision's ``RandomHorizontalFlip``."""
        return self._then("horizontal_flip", p)

    def vertical_flip(self, p: float = 0.5) -> ImageFolder:
        """Mirror top to bottom with probability ``p``. torchvision's ``RandomVerticalFlip``."""
        return self._then("vertical_flip", p)

    def color_jitter(
        self, brightness: Range = 0, contrast: Range = 0, saturation: Range = 0, hue: Range = 0
    ) -> ImageFolder:
        """Change colours by random factors, in random order. torchvision's ``ColorJitter``.

        A number is a deviation from 1 (for ``hue``: from 0, at most 0.5); a pair is a range of factors.
        """
        return self._then(
            "color_jitter",
            brightness=spelling.factors("brightness", brightness),
            contrast=spelling.factors("contrast", contrast),
            saturation=spelling.factors("saturation", saturation),
            hue=spelling.factors("hue", hue, center=0.0, bound=(-0.5, 0.5)),
        )

    def grayscale(self, num_output_channels: int = 1, p: float = 1.0) -> ImageFolder:
        """Turn colours to grey, of 1 or 3 equal channels. torchvision's ``Grayscale`` and ``RandomGrayscale``."""
        return self._then("grayscale", num_output_channels, p=p)

    def random_erasing(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0,
    ) -> ImageFolder:
        """Paint over a random rectangle with probability ``p``. torchvision's ``RandomErasing``.

        ``value`` is one number, one a channel, or ``"random"`` for normal noise. After ``normalize()`` it is in
        normalised values, before it in levels from 0 to 255.
        """
        if isinstance(value, str) and value != "random":
            raise ConfigError(f'random_erasing(): value={value!r}; give a number, one a channel, or "random"')
        paint: list[float] | None = None
        if not isinstance(value, str):
            paint = [float(value)] if isinstance(value, numbers.Real) else [float(v) for v in value]  # type: ignore[union-attr]
        return self._then(
            "random_erasing",
            p=p,
            scale=_pair("random_erasing", "scale", scale),
            ratio=_pair("random_erasing", "ratio", ratio),
            value=paint,
        )

    def normalize(self, mean: Sequence[float] = _IMAGENET_MEAN, std: Sequence[float] = _IMAGENET_STD) -> ImageFolder:
        """Subtract a mean and divide by a deviation, by channel, from values between 0 and 1; ImageNet's by default.

        The result is ``f32`` unless ``to()`` says otherwise.
        """
        return self._then("normalize", _numbers("mean", mean), _numbers("std", std))

    def to(self, dtype: Any = None, layout: str | None = None) -> ImageFolder:
        """Choose the element type and the axes of batches.

        ``dtype`` is ``"u8"``, ``"f16"``, ``"bf16"``, ``"f32"``, or a torch or NumPy dtype; a float type turns levels
        into values between 0 and 1. ``layout`` is ``"NCHW"`` (the default) or ``"NHWC"``.
        """
        return self._then("to", spelling.dtype_name(dtype), layout=layout)

    # How it looks and travels.

    def __repr__(self) -> str:
        """The folder, the chain and what comes out of it."""
        pipeline = self._pipeline
        height, width = pipeline.size or ("any height", "any width")
        classes = len(self._folder.classes)
        return "\n".join(
            [
                f"ImageFolder {self.root or '(listed)'}",
                f"  samples     {len(self):,} in {classes:,} class{'es' if classes != 1 else ''}",
                "  operations  " + "\n              ".join("." + step for step in pipeline.steps),
                f"  images      {pipeline.channels} x {height} x {width}, {pipeline.dtype}, {pipeline.layout}",
            ]
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as the folder's path and the chain; the folder is listed again where it is unpickled."""
        listing = None if self.root else (self.classes, self.samples)
        return _reopen, (self.root, listing, self._calls)


def _reopen(
    root: str, listing: tuple[list[str], list[tuple[str, int]]] | None, calls: tuple[_Call, ...]
) -> ImageFolder:
    from forebay import _native

    return ImageFolder(_native.Folder(root) if listing is None else _native.Folder.listed(*listing), calls)


def _pair(operation: str, name: str, value: Sequence[float]) -> tuple[float, float]:
    try:
        low, high = (float(n) for n in value)
    except (TypeError, ValueError):
        raise ConfigError(f"{operation}(): {name}={value!r} is not a range; give (from, to)") from None
    return (low, high)


def _numbers(name: str, values: Sequence[float]) -> list[float]:
    try:
        return [float(v) for v in ([values] if isinstance(values, numbers.Real) else values)]
    except (TypeError, ValueError):
        raise ConfigError(f"normalize(): {name}={values!r}; give one number a channel") from None
