"""Forebay: the data loading engine that training jobs draw from.

>>> import forebay as fb
>>> loader = fb.DataLoader(
...     fb.image_folder("data/train").decode().random_resized_crop(224).horizontal_flip().normalize(),
...     batch_size=256, shuffle=True, seed=0, drop_last=True)
>>> for images, labels in loader:      # torch tensors where torch is installed, NumPy otherwise
...     ...

:class:`DataLoader` takes the arguments of ``torch.utils.data.DataLoader``, and any of its datasets. What it can do
without Python it does in the engine's threads: no worker processes, and nothing to start. ``loader.explain()`` says
what it does and how, ``loader.state_dict()`` where it stands.
"""

from __future__ import annotations

from forebay._native import __version__
from forebay.dataset import ImageFolder, image_folder
from forebay.errors import (
    CancelledError,
    ConfigError,
    CorruptError,
    Error,
    InternalError,
    NotFoundError,
    OverBudgetError,
    UnavailableError,
)
from forebay.loader import DataLoader
from forebay.on_error import OnError

__all__ = [
    "CancelledError",
    "ConfigError",
    "CorruptError",
    "DataLoader",
    "Error",
    "ImageFolder",
    "InternalError",
    "NotFoundError",
    "OnError",
    "OverBudgetError",
    "UnavailableError",
    "__version__",
    "image_folder",
]
