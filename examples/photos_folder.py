"""The folder that the examples read: the one named on the command line, or a small one that is made once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "demo"))

from photos import make_photos


def photos() -> Path:
    """A folder with one sub-folder of images for each class."""
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    cache = os.environ.get("FOREBAY_CACHE") or Path.home() / ".cache" / "forebay"
    return make_photos(Path(cache) / "example-photos", 256)


if __name__ == "__main__":
    print(photos())
