"""Samples of user's Python become a batch: by the user's function, torch's ``default_collate``, or NumPy alike."""

from __future__ import annotations

import collections.abc
import traceback
from typing import Any, Callable

from forebay.deliver import warn_unpinned
from forebay.errors import ConfigError
from forebay.spec import Spec

__all__ = ["caught", "collation", "each_leaf"]


def collation(spec: Spec) -> Callable[[Any], Any]:
    """What makes a batch out of a list of samples; where there is no batching, what converts one sample."""
    finish = _finish(spec)
    if spec.collate_fn is not None:
        merge: Callable[[Any], Any] = spec.collate_fn
    elif spec.output == "dlpack":
        raise ConfigError('output="dlpack" is for native pipelines; pass output="torch", "numpy" or "jax"')
    elif spec.output == "torch":
        from torch.utils.data import default_collate, default_convert

        merge = default_convert if spec.batch_size is None and spec.batch_sampler is None else default_collate
    elif spec.batch_size is None and spec.batch_sampler is None:
        merge = _same
    else:
        merge = stacked
    return merge if finish is None else lambda samples: each_leaf(finish, merge(samples))


def _same(sample: Any) -> Any:
    return sample


def _finish(spec: Spec) -> Callable[[Any], Any] | None:
    """What is done to every array of a batch."""
    if spec.output == "jax" and spec.collate_fn is None:
        import jax
        import numpy

        return lambda leaf: jax.numpy.asarray(leaf) if isinstance(leaf, numpy.ndarray) else leaf
    if spec.output == "torch" and spec.pin_memory:
        import torch

        if torch.cuda.is_available():
            return lambda leaf: leaf.pin_memory() if hasattr(leaf, "pin_memory") else leaf
        warn_unpinned()
    return None


def stacked(samples: list[Any]) -> Any:
    """torch's ``default_collate`` with NumPy arrays for tensors: keys, places and strings are kept, numbers stacked."""
    import numpy

    first = samples[0]
    if isinstance(first, (str, bytes)):
        return samples
    if isinstance(first, collections.abc.Mapping):
        return {key: stacked([sample[key] for sample in samples]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(stacked(list(column)) for column in zip(*samples)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(sample) != len(first) for sample in samples):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [stacked(list(column)) for column in zip(*samples)]
    batch = numpy.stack([numpy.asarray(sample) for sample in samples])
    if batch.dtype == object:
        raise TypeError(
            f"default_collate: batch must contain arrays, numbers, dicts or lists; found {type(first)}; pass collate_fn"
        )
    return batch


def each_leaf(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same dicts, tuples and lists, with every other value replaced by what ``function`` makes of it."""
    if isinstance(tree, collections.abc.Mapping):
        return {key: each_leaf(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(each_leaf(function, value) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(each_leaf(function, value) for value in tree)
    return function(tree)


class _PlainText(str):
    """A KeyError shows the repr of its argument; this one is legible."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def caught(error: BaseException, where: str) -> BaseException:
    """The error that the consumer sees: of the same type where that can be made, saying where it happened."""
    name = type(error).__name__
    original = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    text = f"Caught {name} in {where}.\nOriginal {original}"
    raised: BaseException
    if isinstance(error, (StopIteration, StopAsyncIteration, GeneratorExit)) or not isinstance(error, Exception):
        raised = RuntimeError(text)  # these would mean something else to the consumer's loop
    else:
        try:
            raised = type(error)(_PlainText(text) if isinstance(error, KeyError) else text)
        except Exception:
            raised = RuntimeError(text)
    raised.__cause__ = error
    return raised
