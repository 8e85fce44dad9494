"""What can go wrong, by what the caller can do about it.

Every error of this package is an :class:`Error`; each class is also the built-in exception that a caller would have
caught anyway. The engine raises the same classes, so there is one way to catch them.

Messages name the thing, the file or sample where there is one, and the remedy.
"""

from __future__ import annotations

__all__ = [
    "CancelledError",
    "ConfigError",
    "CorruptError",
    "Error",
    "InternalError",
    "NotFoundError",
    "OverBudgetError",
    "UnavailableError",
]


class Error(Exception):
    """The root of all errors of this package."""


class ConfigError(Error, ValueError):
    """What was asked for makes no sense; ask differently."""


class NotFoundError(Error, FileNotFoundError):
    """A file or folder is not there."""


class CorruptError(Error):
    """Bytes are not what they claim to be; repair or leave out the file."""


class UnavailableError(Error, OSError):
    """Something cannot be reached now; the same call may succeed later."""


class OverBudgetError(Error, MemoryError):
    """A limit that was set is reached; raise it or ask for less."""


class CancelledError(Error):
    """The work was given up because its loader or iterator was closed."""


class InternalError(Error):
    """A defect of this package; please report it."""
