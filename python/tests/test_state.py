"""State and resume: exact, mid-epoch, on any world size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest


class Squares:
    """A dataset written in Python."""

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, float(index * index)

    def __len__(self) -> int:
        return 50


def native(photos: Path, **kwargs: Any) -> fb.DataLoader:
    dataset = fb.image_folder(photos).random_resized_crop(10).horizontal_flip().normalize()
    return fb.DataLoader(dataset, **{"batch_size": 8, "shuffle": True, "seed": 3, "output": "numpy", **kwargs})


def python(photos: Path, **kwargs: Any) -> fb.DataLoader:
    return fb.DataLoader(Squares(), **{"batch_size": 8, "shuffle": True, "seed": 3, "output": "numpy", **kwargs})


def taken(batches: Any) -> list[list[bytes]]:
    return [[np.asarray(part).tobytes() for part in batch] for batch in batches]


both = pytest.mark.parametrize("make", [native, python])


@both
@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_epoch_is_the_rest_of_the_epoch(photos: Path, make: Any, workers: int) -> None:
    whole = make(photos)
    epochs = [taken(whole), taken(whole)]
    for done in range(8):
        one = make(photos, num_workers=workers)
        batches = iter(one)
        for _ in range(done):
            next(batches)
        state = json.loads(json.dumps(one.state_dict()))
        again = make(photos, seed=99)
        again.load_state_dict(state)
        if done < 7:
            assert state["epoch"] == 0
            assert state["position"] == done * 8
            assert taken(again) == epochs[0][done:]
        else:
            assert (state["epoch"], state["position"]) == (1, 0), "after the last batch comes the next epoch"
        assert taken(again) == epochs[1]


@both
def test_state_counts_what_was_yielded_not_what_was_prefetched(photos: Path, make: Any) -> None:
    one = make(photos, prefetch_factor=6)
    assert (one.state_dict()["epoch"], one.state_dict()["position"]) == (0, 0)
    batches = iter(one)
    assert one.state_dict()["position"] == 0
    next(batches)
    next(batches)
    assert one.state_dict()["position"] == 16
    list(batches)
    assert (one.state_dict()["epoch"], one.state_dict()["position"]) == (1, 0)


@both
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_state_holds_for_another_world_size(photos: Path, make: Any, drop_last: bool) -> None:
    expected = taken(make(photos, batch_size=8, drop_last=drop_last))
    for before, after in [(1, 4), (4, 2), (2, 1)]:
        states = []
        for rank in range(before):
            one = make(photos, batch_size=8 // before, rank=rank, world_size=before, drop_last=drop_last)
            batches = iter(one)
            for _ in range(3):
                next(batches)
            states.append(one.state_dict())
        assert all(state == states[0] for state in states), "the state is equal on all ranks"
        ranks = []
        for rank in range(after):
            one = make(photos, batch_size=8 // after, rank=rank, world_size=after, drop_last=drop_last)
            one.load_state_dict(states[0])
            ranks.append(taken(one))
        whole = 3 if drop_last else 4  # the last batch, of 2, may be padded
        joined = [[b"".join(column) for column in zip(*parts)] for parts in zip(*ranks)]
        assert len(joined) == whole
        assert joined[:3] == expected[3:6]


@both
def test_a_set_epoch_keeps_the_position_of_its_own_epoch(photos: Path, make: Any) -> None:
    one = make(photos)
    one.set_epoch(4)
    expected = taken(one)
    batches = iter(one)
    next(batches)
    state = one.state_dict()
    assert (state["epoch"], state["sticky_epoch"]) == (4, 1)
    again = make(photos)
    again.load_state_dict(state)
    again.set_epoch(4)
    assert taken(again) == expected[1:]
    assert taken(again) == expected
    again.load_state_dict(state)
    again.set_epoch(5)
    assert len(taken(again)) == 7


@both
def test_a_loaded_state_is_the_state_until_a_batch_comes(photos: Path, make: Any) -> None:
    one = make(photos)
    next(iter(one))
    state = one.state_dict()
    again = make(photos)
    again.load_state_dict(state)
    assert again.state_dict() == state
    batches = iter(again)
    assert again.state_dict() == state
    next(batches)
    assert again.state_dict()["position"] == 16


@both
def test_out_of_order_a_state_never_skips_a_batch(photos: Path, make: Any) -> None:
    one = make(photos, in_order=False, prefetch_factor=5)
    batches = iter(one)
    seen = taken(next(batches) for _ in range(3))
    state = one.state_dict()
    again = make(photos)
    again.load_state_dict(state)
    assert {tuple(batch) for batch in seen + taken(again)} == {tuple(batch) for batch in taken(make(photos))}


@both
@pytest.mark.parametrize("kind", ["sampler", "batch_sampler"])
def test_a_sampler_is_drawn_again_and_what_was_consumed_is_passed_over(photos: Path, make: Any, kind: str) -> None:
    numbers = [7, 3, 49, 20, 11, 0, 5]
    how: dict[str, Any] = {"sampler": numbers, "batch_size": 2}
    if kind == "batch_sampler":
        how = {"batch_sampler": [[7], [3, 49, 20], [11, 0], [5]], "batch_size": 1}
    one = make(photos, shuffle=None, **how)
    labels = [np.asarray(batch[1]).tolist() for batch in one]
    batches = iter(one)
    next(batches)
    next(batches)
    state = one.state_dict()
    assert (state["order"], state["position"]) == ("sampler", 4)
    again = make(photos, shuffle=None, **how)
    again.load_state_dict(state)
    assert [np.asarray(batch[1]).tolist() for batch in again] == labels[2:]
    list(batches)
    assert (one.state_dict()["epoch"], one.state_dict()["position"]) == (2, 0)


def test_augmentation_along_a_sampler_is_resumed_exactly(photos: Path) -> None:
    how: dict[str, Any] = {"shuffle": None, "sampler": range(40), "batch_size": 8}
    one = native(photos, **how)
    expected = taken(one)
    one.load_state_dict({**one.state_dict(), "epoch": 0, "position": 16})
    assert taken(one) == expected[2:]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version 2"),
        ({"samples": 51}, "51 samples"),
        ({"order": "sequential"}, "shuffle"),
        ({"position": 51}, "51"),
        ({"position": -1}, "position"),
        ({"epoch": -1}, "epoch"),
        ({"seed": "x"}, "seed"),
        ({"seed": None}, "seed"),
    ],
)
def test_a_state_of_something_else_is_refused(photos: Path, change: dict[str, Any], words: str) -> None:
    one = native(photos)
    with pytest.raises(fb.ConfigError, match=words):
        one.load_state_dict({**one.state_dict(), **change})


def test_a_state_that_lacks_something_is_refused(photos: Path) -> None:
    with pytest.raises(fb.ConfigError, match="lacks seed, epoch"):
        native(photos).load_state_dict({"version": 1, "position": 0, "samples": 50})


def test_set_epoch_and_resume_tell_a_sampler_that_listens(photos: Path) -> None:
    class Listening(list):  # type: ignore[type-arg]
        told: int | None = None

        def set_epoch(self, epoch: int) -> None:
            self.told = epoch

    sampler = Listening(range(6))
    one = native(photos, shuffle=None, sampler=sampler, batch_size=2)
    one.set_epoch(3)
    assert sampler.told == 3
    next(iter(one))
    sampler.told = None
    one.load_state_dict(one.state_dict())
    assert sampler.told == 3
