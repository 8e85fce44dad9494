"""Step 7, deliver: a batch of the engine becomes what the user's framework calls an array, without a copy."""

from __future__ import annotations

import collections
import importlib.util
import warnings
from typing import TYPE_CHECKING, Any

from forebay.errors import ConfigError

if TYPE_CHECKING:
    from forebay._native import Array, Batch, Pipeline

__all__ = ["PinnedSlabs", "array", "batch", "check", "warn_unpinned"]


def check(output: str, pipeline: Pipeline) -> None:
    """Fails where the framework is missing or has no such element type."""
    if output in ("torch", "jax") and importlib.util.find_spec(output) is None:
        raise ConfigError(
            f'output="{output}" needs {output}, which is not installed; install it, or pass output="numpy"'
        )
    if output == "numpy" and pipeline.dtype == "bf16":
        raise ConfigError(
            'NumPy has no bf16, which to("bf16") asks for; pass output="torch", "jax" or "dlpack", or use to("f16")'
        )


def array(output: str, array: Array) -> Any:
    """The same memory, as an array of ``output``."""
    if output == "torch":
        import torch

        return torch.utils.dlpack.from_dlpack(array)
    if output == "numpy":
        import numpy

        if array.dtype == "bf16":
            raise ConfigError('NumPy has no bf16; import torch first, or use to("f16")')
        shared = numpy.from_dlpack(array)
        return shared if shared.flags.writeable else numpy.asarray(_Writable(shared))
    if output == "jax":
        import jax

        return jax.dlpack.from_dlpack(array)
    return array


def batch(output: str, batch: Batch) -> list[Any]:
    """Images and labels, in a list, as torch's ``default_collate`` makes of pairs."""
    return [array(output, batch.images), array(output, batch.labels)]


def warn_unpinned() -> None:
    """Says, in torch's words, that ``pin_memory`` is without effect."""
    warnings.warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
        stacklevel=5,
    )


class _Writable:
    """The same memory, for writing: NumPy before 2.1 takes everything that comes by DLPack for read-only."""

    def __init__(self, shared: Any) -> None:
        self._shared = shared  # keeps the memory alive
        address, _ = shared.__array_interface__["data"]
        self.__array_interface__ = {**shared.__array_interface__, "data": (address, False)}


_MOST_LEAVING = 2


class PinnedSlabs:
    """Keeps slabs from being filled again while the GPU may still be copying out of them.

    ``images.to("cuda", non_blocking=True)`` returns before the copy is done, and the program may drop ``images`` at
    once. So the last two batches are held here. When a third comes, an event is recorded on the current stream:
    whatever the program did with the oldest batch was queued there before, so once the event has passed, its slab
    may go. A GPU that lags further behind is waited for, since slabs are few. (Copies to another device than the
    current one are not seen.)
    """

    def __init__(self) -> None:
        """Holds nothing."""
        import torch

        self._cuda: Any = torch.cuda
        self._recent: collections.deque[Batch] = collections.deque()
        self._leaving: collections.deque[tuple[Any, Batch]] = collections.deque()

    def hold(self, batch: Batch) -> None:
        """Holds a batch that is about to be handed over, and lets go of those whose copies are done."""
        self._recent.append(batch)
        if len(self._recent) > 2:
            event = self._cuda.Event()
            event.record()
            self._leaving.append((event, self._recent.popleft()))
        while self._leaving and (len(self._leaving) > _MOST_LEAVING or self._leaving[0][0].query()):
            self._leaving[0][0].synchronize()
            self._leaving.popleft()

    def close(self) -> None:
        """Waits for copies under way, and lets go of everything."""
        if self._recent or self._leaving:
            self._cuda.synchronize()
        self._recent.clear()
        self._leaving.clear()

    def __del__(self) -> None:
        """Slabs must not go before the copies out of them."""
        self.close()
