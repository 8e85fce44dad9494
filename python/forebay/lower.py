"""Lowering: a torchvision folder whose transforms are all known becomes a chain of native operations.

A transform is known by its own class, never by a base class: a subclass may do anything. torchvision works on pictures
until ``ToTensor`` (or its like), then on tensors of levels or of values between 0 and 1; the engine works on levels and
turns them into values last. The results differ by rounding alone, resizing by at most one level of 255; random draws
come from the loader's seed instead of torch's generator.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from forebay import spelling
from forebay.dataset import ImageFolder
from forebay.errors import ConfigError

__all__ = ["lower"]


def lower(dataset: Any) -> ImageFolder | str:
    """The native dataset that prepares the same samples, or the reason why there is none."""
    try:
        folder, indices = _folder(dataset)
        chain = _Chain(_listed(folder, indices))
        for transform in _flattened(folder.transform):
            chain.add(transform)
        return chain.end()
    except _NotKnownError as reason:
        return str(reason)
    except ConfigError as error:
        return f"the engine refuses the transforms: {error}"


class _NotKnownError(Exception):
    """Why a dataset cannot be lowered."""


def _folder(dataset: Any) -> tuple[Any, Sequence[int] | None]:
    """The torchvision folder below the subsets, and which of its samples they leave."""
    data: Any = sys.modules.get("torch.utils.data")
    if data is not None and type(dataset) is data.Subset:
        folder, outer = _folder(dataset.dataset)
        inner = [int(index) for index in dataset.indices]
        return folder, inner if outer is None else [outer[index] for index in inner]
    folders: Any = sys.modules.get("torchvision.datasets.folder")
    if folders is None or not isinstance(dataset, folders.DatasetFolder):
        raise _NotKnownError(f"{type(dataset).__name__} is not a torchvision ImageFolder")
    for method in ("__getitem__", "__len__"):
        if getattr(type(dataset), method) is not getattr(folders.DatasetFolder, method):
            raise _NotKnownError(f"{type(dataset).__name__} has a {method} of its own")
    if dataset.loader not in (folders.default_loader, folders.pil_loader):
        raise _NotKnownError(f"the loader {_name(dataset.loader)} is not torchvision's")
    if dataset.target_transform is not None:
        raise _NotKnownError(f"target_transform {_name(dataset.target_transform)} is Python")
    if dataset.transform is None:
        raise _NotKnownError("there is no transform, so that samples are PIL images; end it with ToTensor()")
    return dataset, None


def _listed(folder: Any, indices: Sequence[int] | None) -> ImageFolder:
    from forebay import _native

    samples = folder.samples if indices is None else [folder.samples[index] for index in indices]
    if not all(isinstance(label, int) and label >= 0 for _, label in samples):
        raise _NotKnownError("the labels of the samples are not whole numbers")
    return ImageFolder(_native.Folder.listed(list(folder.classes), [(path, label) for path, label in samples]))


def _flattened(transform: Any) -> Iterator[Any]:
    """The transforms one after the other, out of any nesting of Compose and Sequential."""
    if _kind(transform) == "Compose":
        for inner in transform.transforms:
            yield from _flattened(inner)
    elif type(transform).__module__ == "torch.nn.modules.container" and type(transform).__name__ == "Sequential":
        for inner in transform:
            yield from _flattened(inner)
    else:
        yield transform


def _kind(transform: Any) -> str | None:
    """The name of a transform of torchvision or of torch's own Identity; None for anything else."""
    cls = type(transform)
    if cls.__module__.startswith("torchvision.transforms."):
        return cls.__name__
    return "Identity" if (cls.__module__, cls.__name__) == ("torch.nn.modules.linear", "Identity") else None


def _name(thing: Any) -> str:
    return getattr(thing, "__name__", None) or type(thing).__name__


class _Stage(enum.Enum):
    """What torchvision's transforms would be given at a point of the chain."""

    PICTURE = "a PIL image"
    LEVELS = "a tensor of levels"
    VALUES = "a tensor of values"
    NORMAL = "a normalised tensor"


class _Chain:
    """Native operations, one for each transform so far."""

    def __init__(self, dataset: ImageFolder) -> None:
        self._dataset = dataset
        self._stage = _Stage.PICTURE
        self._dtype = "f32"
        self._is_cast = False

    def add(self, transform: Any) -> None:
        kind = _kind(transform)
        operation = None if kind is None else getattr(self, f"_{kind}", None)
        if operation is None:
            raise _NotKnownError(f"the transform {_name(transform)} is not one of the engine's")
        operation(transform)

    def end(self) -> ImageFolder:
        if self._stage is _Stage.PICTURE:
            raise _NotKnownError("samples are PIL images; end the transforms with ToTensor()")
        self._cast()
        if self._dataset._pipeline.size is None:
            raise _NotKnownError(
                "pictures may differ in size; end the transforms with a crop, or Resize((height, width))"
            )
        return self._dataset

    def _cast(self) -> None:
        """Turns levels into values, as late as can be: other operations work on levels."""
        if self._stage in (_Stage.VALUES, _Stage.NORMAL) and not self._is_cast:
            self._dataset = self._dataset.to(self._dtype)
            self._is_cast = True

    def _refuse(self, transform: Any, why: str) -> _NotKnownError:
        return _NotKnownError(f"the transform {_name(transform)}: {why}")

    def _interpolation(self, transform: Any) -> str:
        mode = transform.interpolation
        name = str(getattr(mode, "value", mode))
        if name == "nearest" and self._stage is not _Stage.PICTURE:
            raise self._refuse(transform, "nearest interpolation of tensors rounds differently")
        name = "nearest" if name == "nearest-exact" else name
        if name not in ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"):
            raise self._refuse(transform, f"the interpolation {name} is not one of the engine's")
        is_antialiased = transform.antialias is not False or self._stage is _Stage.PICTURE
        if not is_antialiased and name in ("bilinear", "bicubic"):
            raise self._refuse(transform, "antialias=False")
        return name

    # One method for each transform, named after it. Pictures and sizes:

    def _Resize(self, t: Any) -> None:  # noqa: N802
        if t.size is None:
            raise self._refuse(t, "size=None")
        self._dataset = self._dataset.resize(t.size, self._interpolation(t), t.max_size)

    def _CenterCrop(self, t: Any) -> None:  # noqa: N802
        self._dataset = self._dataset.center_crop(t.size)

    def _RandomCrop(self, t: Any) -> None:  # noqa: N802
        fill = t.fill
        if isinstance(fill, dict) or (self._stage is _Stage.VALUES and fill != 0):
            raise self._refuse(t, f"fill={fill!r} of tensors")
        self._dataset = self._dataset.random_crop(t.size, t.padding, t.pad_if_needed, fill, t.padding_mode)

    def _RandomResizedCrop(self, t: Any) -> None:  # noqa: N802
        self._dataset = self._dataset.random_resized_crop(t.size, t.scale, t.ratio, self._interpolation(t))

    def _RandomHorizontalFlip(self, t: Any) -> None:  # noqa: N802
        self._dataset = self._dataset.horizontal_flip(t.p)

    def _RandomVerticalFlip(self, t: Any) -> None:  # noqa: N802
        self._dataset = self._dataset.vertical_flip(t.p)

    # Colours:

    def _ColorJitter(self, t: Any) -> None:  # noqa: N802
        ranges = {name: getattr(t, name) for name in ("brightness", "contrast", "saturation", "hue")}
        self._dataset = self._dataset.color_jitter(**{name: 0 if r is None else r for name, r in ranges.items()})

    def _Grayscale(self, t: Any) -> None:  # noqa: N802
        self._dataset = self._dataset.grayscale(t.num_output_channels)

    def _RandomGrayscale(self, t: Any) -> None:  # noqa: N802
        self._dataset = self._dataset.grayscale(self._dataset._pipeline.channels, t.p)

    def _RandomErasing(self, t: Any) -> None:  # noqa: N802
        if self._stage is _Stage.PICTURE:
            raise self._refuse(t, "it comes before ToTensor()")
        value: Any = "random" if t.value is None else t.value
        is_zero = value == 0 or (isinstance(value, (list, tuple)) and not any(value))
        if self._stage is _Stage.VALUES and not is_zero:
            raise self._refuse(t, "a value other than 0 before Normalize()")
        self._dataset = self._dataset.random_erasing(t.p, t.scale, t.ratio, value)

    # Tensors:

    def _ToTensor(self, t: Any) -> None:  # noqa: N802
        self._leave_pictures(t, _Stage.VALUES)

    def _PILToTensor(self, t: Any) -> None:  # noqa: N802
        self._leave_pictures(t, _Stage.LEVELS)

    def _ToImage(self, t: Any) -> None:  # noqa: N802
        if self._stage is _Stage.PICTURE:
            self._stage = _Stage.LEVELS

    def _leave_pictures(self, t: Any, stage: _Stage) -> None:
        if self._stage is not _Stage.PICTURE:
            raise self._refuse(t, f"it is given {self._stage.value}")
        self._stage = stage

    def _ConvertImageDtype(self, t: Any) -> None:  # noqa: N802
        self._convert(t, t.dtype)

    def _ToDtype(self, t: Any) -> None:  # noqa: N802
        if not t.scale and str(t.dtype) != "torch.uint8":
            raise self._refuse(t, "scale=False")
        self._convert(t, t.dtype)

    def _convert(self, t: Any, dtype: Any) -> None:
        if self._stage is _Stage.PICTURE:
            raise self._refuse(t, "it is given a PIL image")
        try:
            name = spelling.dtype_name(dtype)
        except ConfigError:
            raise self._refuse(t, f"the dtype {dtype} is not one of the engine's") from None
        if name == "u8":
            if self._stage is not _Stage.LEVELS:
                raise self._refuse(t, "values cannot become levels again")
        elif self._is_cast:
            raise self._refuse(t, "the dtype changes after Normalize()")
        else:
            self._stage, self._dtype = _Stage.VALUES, str(name)

    def _Normalize(self, t: Any) -> None:  # noqa: N802
        if self._stage not in (_Stage.VALUES, _Stage.NORMAL):
            raise self._refuse(t, f"it is given {self._stage.value}")
        self._cast()
        self._dataset = self._dataset.normalize([float(m) for m in t.mean], [float(s) for s in t.std])
        self._stage = _Stage.NORMAL

    def _RGB(self, t: Any) -> None:  # noqa: N802
        """Pictures are RGB already."""
        if self._dataset._pipeline.channels != 3:
            raise self._refuse(t, "it comes after Grayscale()")

    def _Identity(self, t: Any) -> None:  # noqa: N802
        """Nothing to do."""

    _ToPureTensor = _Identity
