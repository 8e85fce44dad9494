"""Samples that cannot be prepared: raised, skipped or replaced, within a budget, with a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest


@pytest.fixture
def flawed(folder: Callable[..., Path]) -> fb.ImageFolder:
    """Ten pictures, of which numbers 3 and 4 are broken."""
    files = {f"f{n}": (b"broken" if n in (3, 4) else None) for n in range(10)}
    return fb.image_folder(folder(**files)).resize((8, 8))


class Flawed:
    """The same in Python."""

    def __getitem__(self, index: int) -> tuple[int, int]:
        if index in (3, 4):
            raise OSError(f"cannot read {index}")
        return index, 0

    def __len__(self) -> int:
        return 10


class FlawedBatches(Flawed):
    def __getitems__(self, indices: list[int]) -> list[tuple[int, int]]:
        return [self[index] for index in indices]


@pytest.fixture(params=["native", "python", "batches"])
def dataset(request: pytest.FixtureRequest) -> Any:
    if request.param == "native":
        return request.getfixturevalue("flawed")
    return Flawed() if request.param == "python" else FlawedBatches()


def load(dataset: Any, **kwargs: Any) -> fb.DataLoader:
    return fb.DataLoader(dataset, **{"batch_size": 4, "output": "numpy", **kwargs})


@pytest.mark.parametrize("workers", [0, 2])
def test_skipped_samples_leave_their_batches_shorter(dataset: Any, workers: int) -> None:
    loader = load(dataset, on_error="skip", num_workers=workers)
    assert [len(batch[1]) for batch in loader] == [3, 3, 2]
    report = sorted(loader.report(), key=lambda loss: loss["sample"])
    assert [(loss["sample"], loss["replaced_by"]) for loss in report] == [(3, None), (4, None)]
    assert all(loss["reason"] for loss in report)
    assert loader.stats()["errors"] == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_replaced_samples_leave_batches_whole_and_the_same_every_time(dataset: Any, workers: int) -> None:
    loader = load(dataset, on_error="replace", num_workers=workers)
    first = [np.asarray(batch[0]).tobytes() for batch in loader]
    assert len(first) == 3
    assert [np.asarray(batch[0]).tobytes() for batch in load(dataset, on_error="replace")] == first
    assert all(loss["replaced_by"] is not None for loss in loader.report())


def test_a_batch_of_which_nothing_is_left_does_not_come(dataset: Any) -> None:
    assert [len(batch[1]) for batch in load(dataset, on_error="skip", batch_size=1)] == [1] * 8


@pytest.mark.parametrize("action", ["skip", "replace"])
def test_more_losses_than_the_budget_are_an_error(dataset: Any, action: str) -> None:
    with pytest.raises(fb.OverBudgetError, match="on_error"):
        list(load(dataset, on_error=fb.OnError(action, budget=1), num_workers=0))


def test_the_report_of_the_engine_names_files(flawed: fb.ImageFolder) -> None:
    loader = load(flawed, on_error="skip")
    list(loader)
    assert {Path(loss["path"]).name for loss in loader.report()} == {"f3.jpg", "f4.jpg"}


@pytest.mark.parametrize("cls", [Flawed, FlawedBatches])
def test_an_error_of_python_keeps_its_type_and_names_the_sample(cls: type) -> None:
    with pytest.raises(
        OSError, match=r"Caught OSError in a forebay worker thread for samples? (3|0, 1, 2, 3)"
    ) as caught:
        list(load(cls(), num_workers=2))
    assert "cannot read 3" in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


def test_in_the_calling_thread_an_error_comes_as_it_is() -> None:
    with pytest.raises(OSError, match=r"^cannot read 3$"):
        list(load(Flawed(), num_workers=0))
