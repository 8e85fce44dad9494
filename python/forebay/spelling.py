"""The ways people write a size, a range, an element type or an amount of memory, and the one way the engine takes.

Semantics are torchvision's wherever it has the same argument. What cannot be meant is a ``ConfigError`` that names the
operation and the argument.
"""

from __future__ import annotations

import numbers
import operator
import re
from collections.abc import Sequence
from typing import Any, Union

from forebay.errors import ConfigError

__all__ = [
    "Range",
    "Size",
    "amount",
    "by_channel",
    "crop_size",
    "dtype_name",
    "factors",
    "padding_sides",
    "resize_size",
]

Size = Union[int, Sequence[int]]
"""A side, or ``(height, width)``."""

Range = Union[float, Sequence[float]]
"""A deviation, or ``(from, to)``."""

_DTYPES = {
    "u8": "u8",
    "uint8": "u8",
    "byte": "u8",
    "f16": "f16",
    "float16": "f16",
    "half": "f16",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "f32": "f32",
    "float32": "f32",
    "float": "f32",
}

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def crop_size(operation: str, size: Size) -> tuple[int, int]:
    """Height and width of a crop; one number makes a square."""
    sides = _sides(operation, size)
    return (sides[0], sides[0]) if len(sides) == 1 else (sides[0], sides[1])


def resize_size(operation: str, size: Size) -> int | tuple[int, int]:
    """The shorter side, or height and width."""
    sides = _sides(operation, size)
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


def _sides(operation: str, size: Size) -> list[int]:
    sides = _whole(size)
    if len(sides) not in (1, 2):
        raise ConfigError(f"{operation}(): size={size!r} is not a size; give a whole number or (height, width)")
    if min(sides) < 1:
        raise ConfigError(f"{operation}(): size={size!r} has no pixels; give numbers of at least 1")
    return sides


def padding_sides(operation: str, padding: int | Sequence[int] | None) -> tuple[int, int, int, int]:
    """Left, top, right and bottom: from one number for all, two for left/right and top/bottom, or four."""
    if padding is None:
        return (0, 0, 0, 0)
    sides = _whole(padding)
    if len(sides) not in (1, 2, 4) or min(sides) < 0:
        raise ConfigError(f"{operation}(): padding={padding!r}; give 1, 2 or 4 whole numbers that are not negative")
    if len(sides) == 4:
        return (sides[0], sides[1], sides[2], sides[3])
    horizontal, vertical = sides[0], sides[-1]
    return (horizontal, vertical, horizontal, vertical)


def _whole(value: Any) -> list[int]:
    """The whole numbers of a number or a sequence; empty if they are none."""
    try:
        return [operator.index(value)]
    except TypeError:
        pass
    try:
        return [operator.index(number) for number in value]
    except TypeError:
        return []


def by_channel(operation: str, fill: float | Sequence[float] | None) -> tuple[int, int, int]:
    """A colour in 8-bit levels: from one level for all channels, or one each."""
    levels: list[float]
    try:
        levels = [float(fill or 0)] * 3  # type: ignore[arg-type]
    except TypeError:
        levels = list(fill) if isinstance(fill, Sequence) else []
    levels = levels * 3 if len(levels) == 1 else levels
    if len(levels) != 3 or not all(isinstance(n, numbers.Real) and 0 <= n <= 255 for n in levels):
        raise ConfigError(f"{operation}(): fill={fill!r} is not a colour; give one or three levels from 0 to 255")
    return (int(levels[0]), int(levels[1]), int(levels[2]))


def factors(
    name: str, value: Range | None, *, center: float = 1.0, bound: tuple[float, float] = (0.0, float("inf"))
) -> tuple[float, float]:
    """The range to draw a factor of ``color_jitter`` from: a deviation either side of ``center``, or from and to."""
    if value is None:
        return (center, center)
    if isinstance(value, numbers.Real):
        deviation = float(value)
        if deviation < 0:
            raise ConfigError(
                f"color_jitter(): {name}={value!r} is negative; give a deviation of at least 0 or (from, to)"
            )
        low, high = center - deviation, center + deviation
        if bound[0] == 0:
            low = max(low, 0.0)
    else:
        try:
            low, high = (float(n) for n in value)  # type: ignore[union-attr]
        except (TypeError, ValueError):
            raise ConfigError(f"color_jitter(): {name}={value!r} is neither a number nor (from, to)") from None
    if not bound[0] <= low <= high <= bound[1]:
        raise ConfigError(
            f"color_jitter(): {name}={value!r} is not a range it can draw from; stay within {bound[0]} and {bound[1]}, "
            "the smaller first"
        )
    return (low, high)


def dtype_name(dtype: Any) -> str | None:
    """``u8``, ``f16``, ``bf16`` or ``f32``: from such a name, NumPy's or torch's, or from their dtypes."""
    if dtype is None:
        return None
    name = (
        dtype
        if isinstance(dtype, str)
        else getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    )
    known = _DTYPES.get(name.rsplit(".", 1)[-1].lower())
    if known is None:
        raise ConfigError(f"the dtype {dtype!r} is unknown; give u8, f16, bf16 or f32")
    return known


def amount(name: str, value: int | str) -> int:
    """Bytes: from a number of them, or a string such as ``"4GB"`` (powers of ten) or ``"512MiB"`` (powers of two)."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", value.lower())
        if match is None:
            raise ConfigError(f"{name}={value!r} is not an amount of memory; write it as 4GB or 512MiB")
        return _positive(name, value, int(float(match[1]) * _UNITS[match[2]]))
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ConfigError(f"{name}={value!r} is not an amount of memory; give bytes, or a string such as 4GB")
    return _positive(name, value, int(value))


def _positive(name: str, value: int | str, count: int) -> int:
    if count < 1:
        raise ConfigError(f"{name}={value!r} leaves nothing; give at least one byte")
    return count
