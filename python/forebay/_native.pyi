"""The Rust engine, as the Python package sees it. Private: use ``forebay`` itself."""

import os
from collections.abc import Callable, Sequence
from typing import Any, final

__all__ = ["Array", "Batch", "Folder", "Job", "Loader", "Pipeline", "Plan", "__version__", "cuda_is_present"]

__version__: str

def cuda_is_present() -> bool:
    """Whether a CUDA driver with a device answers, so that memory can be page-locked for it."""

@final
class Folder:
    """The listing of an image folder."""

    def __new__(cls, root: str | os.PathLike[str]) -> Folder: ...
    @staticmethod
    def listed(classes: Sequence[str], samples: Sequence[tuple[str | os.PathLike[str], int]]) -> Folder: ...
    @property
    def root(self) -> str: ...
    @property
    def classes(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def path(self, index: int) -> str: ...
    def label(self, index: int) -> int: ...
    def fingerprint(self) -> int: ...

@final
class Pipeline:
    """A checked chain of operations; every method returns a new one, or raises ``forebay.ConfigError``."""

    def __new__(
        cls, *, orientation: bool = False, max_pixels: int | None = None, scaling: str = "exact"
    ) -> Pipeline: ...
    def resize(self, size: int | tuple[int, int], *, interpolation: str, max_size: int | None) -> Pipeline: ...
    def center_crop(self, size: tuple[int, int]) -> Pipeline: ...
    def random_crop(
        self,
        size: tuple[int, int],
        *,
        padding: tuple[int, int, int, int],
        pad_if_needed: bool,
        fill: tuple[int, int, int],
        padding_mode: str,
    ) -> Pipeline:
        """Padding is left, top, right, bottom."""
    def random_resized_crop(
        self, size: tuple[int, int], *, scale: tuple[float, float], ratio: tuple[float, float], interpolation: str
    ) -> Pipeline: ...
    def horizontal_flip(self, p: float) -> Pipeline: ...
    def vertical_flip(self, p: float) -> Pipeline: ...
    def color_jitter(
        self,
        *,
        brightness: tuple[float, float],
        contrast: tuple[float, float],
        saturation: tuple[float, float],
        hue: tuple[float, float],
    ) -> Pipeline: ...
    def grayscale(self, num_output_channels: int, *, p: float) -> Pipeline: ...
    def random_erasing(
        self, *, p: float, scale: tuple[float, float], ratio: tuple[float, float], value: Sequence[float] | None
    ) -> Pipeline:
        """A value of None is normal noise."""
    def normalize(self, mean: Sequence[float], std: Sequence[float]) -> Pipeline: ...
    def to(self, dtype: str | None, *, layout: str | None) -> Pipeline: ...
    @property
    def steps(self) -> list[str]: ...
    @property
    def fingerprints(self) -> list[int]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def channels(self) -> int: ...
    @property
    def size(self) -> tuple[int, int] | None: ...
    def sample(self, folder: Folder, index: int, *, seed: int, epoch: int) -> tuple[Array, int]:
        """One sample, prepared in this thread, with its label."""

@final
class Plan:
    """The batches of one rank in one epoch: sample numbers by batch."""

    def __new__(
        cls,
        n: int,
        *,
        shuffle: bool,
        seed: int,
        epoch: int,
        batch_size: int,
        rank: int,
        world_size: int,
        drop_last: bool,
        start: int,
    ) -> Plan:
        """``start`` is a global position, over all ranks, for resuming."""
    def __len__(self) -> int:
        """Batches from ``start`` to the end of the epoch."""
    def batch(self, index: int) -> list[int]: ...
    def consumed(self, batches: int) -> int:
        """The global position after that many batches."""

@final
class Loader:
    """What outlives an epoch: dataset, pipeline, threads, arena."""

    def __new__(
        cls,
        folder: Folder,
        pipeline: Pipeline,
        *,
        workers: int,
        readers: int,
        batch_size: int,
        ram_budget: int,
        pin: bool,
    ) -> Loader: ...
    @property
    def is_foreign(self) -> bool:
        """Whether this process is a fork of the one that made it."""

@final
class Job:
    """One walk over the dataset, along a plan or along what ``feed`` returns (an empty list ends it)."""

    def __new__(
        cls,
        loader: Loader,
        *,
        seed: int,
        epoch: int,
        lookahead: int,
        in_order: bool,
        on_error: str,
        error_budget: int,
        plan: Plan | None = None,
        feed: Callable[[], list[int]] | None = None,
        start: int = 0,
        timeout: float = 0.0,
    ) -> Job: ...
    def next(self) -> Batch | None:
        """The next batch; None at the end. Raises KeyboardInterrupt at once, ``forebay.Error`` for a lost sample."""
    def stats(self) -> dict[str, Any]: ...
    def losses(self) -> list[tuple[int, str, int | None, str]]:
        """Sample, path, replacement, reason."""
    def cancel(self) -> None: ...

@final
class Batch:
    @property
    def images(self) -> Array: ...
    @property
    def labels(self) -> Array: ...
    @property
    def samples(self) -> list[int]: ...
    @property
    def end(self) -> int: ...
    def __len__(self) -> int: ...

@final
class Array:
    """Memory of a batch that speaks DLPack; the batch's slab returns when the last array over it dies."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
