"""What tests share: a folder of small photographs, and programs that run apart."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

COUNT = 50
"""Samples in the folder, in classes of unequal size."""

_LAUNCHERS = ("RANK", "WORLD_SIZE", "SLURM_", "OMPI_", "PMI_")


def picture(number: int, height: int = 48, width: int = 64) -> Image.Image:
    """A smooth picture that differs from every other: its mean tells its number."""
    rows, columns = np.mgrid[0:height, 0:width]
    waves = np.stack([np.sin(rows / 9 + number), np.cos(columns / 7 - number), np.sin((rows + columns) / 11)], axis=-1)
    return Image.fromarray(np.uint8(100 + number + 40 * waves))


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of JPEGs: classes a (10), b (15) and c (25), of several sizes."""
    root = tmp_path_factory.mktemp("photos")
    number = 0
    for name, count in (("a", 10), ("b", 15), ("c", 25)):
        (root / name).mkdir()
        for index in range(count):
            picture(number, 40 + number % 7, 56 + number % 5).save(root / name / f"{index:03}.jpg", quality=92)
            number += 1
    assert number == COUNT
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder of one class out of files: names and their bytes, or nothing for a good picture."""

    def make(**files: bytes | None) -> Path:
        (tmp_path / "only").mkdir()
        for number, (name, data) in enumerate(files.items()):
            path = tmp_path / "only" / f"{name}.jpg"
            if data is None:
                picture(number).save(path)
            else:
                path.write_bytes(data)
        return tmp_path

    return make


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is a rank of whatever launched the tests."""
    for name in list(os.environ):
        if name.startswith(_LAUNCHERS):
            monkeypatch.delenv(name)


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program of its own, and fails if it hangs."""

    def run(code: str, *args: object, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(code))
        command = [sys.executable, "-W", "error::ResourceWarning", str(script), *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)

    return run
