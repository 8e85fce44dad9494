"""JAX arrays. In a program of its own: JAX's threads do not bear the forks of other tests."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")


def test_batches_are_jax_arrays_of_the_same_numbers(
    program: Callable[..., subprocess.CompletedProcess[str]], photos: Path
) -> None:
    result = program(
        """
        import sys
        import jax
        import numpy as np
        import forebay as fb

        def load(dataset, **kwargs):
            return list(fb.DataLoader(dataset, batch_size=8, shuffle=True, seed=0, **kwargs))

        dataset = fb.image_folder(sys.argv[1]).random_resized_crop(16).normalize()
        ours, plain = load(dataset, output="jax"), load(dataset, output="numpy")
        assert len(ours) == len(plain) == 7
        for (images, labels), (expected, numbers) in zip(ours, plain):
            assert isinstance(images, jax.Array)
            assert np.array_equal(images, expected)
            assert np.array_equal(labels, numbers)

        (images, _), *_ = load(dataset.to("bf16"), output="jax")
        assert images.dtype == jax.numpy.bfloat16

        (batch,) = load([{"x": 1.0}, {"x": 2.0}], output="jax")
        assert isinstance(batch["x"], jax.Array)
        print("done")
        """,
        photos,
    )
    assert result.stdout == "done\n", result.stderr
