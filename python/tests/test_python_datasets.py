"""Datasets written in Python, in threads: with NumPy alone."""

from __future__ import annotations

import gc
import threading
import time
from collections import namedtuple
from typing import Any

import forebay as fb
import numpy as np
import pytest


class Rows:
    """Twenty rows, with their numbers."""

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return np.full(3, index, np.float32), index

    def __len__(self) -> int:
        return 20


def load(dataset: Any, **kwargs: Any) -> fb.DataLoader:
    return fb.DataLoader(dataset, **{"batch_size": 4, "output": "numpy", "num_workers": 3, **kwargs})


def threads() -> int:
    return sum(thread.name.startswith("forebay-python") for thread in threading.enumerate())


def no_threads_are_left() -> bool:
    deadline = time.monotonic() + 5
    while threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    return threads() == 0


@pytest.mark.parametrize("workers", [0, 1, 5])
def test_rows_come_stacked_and_in_order(workers: int) -> None:
    batches = list(load(Rows(), num_workers=workers))
    assert [labels.tolist() for _, labels in batches] == np.arange(20).reshape(5, 4).tolist()
    assert all(rows.shape == (4, 3) and rows.dtype == np.float32 for rows, _ in batches)
    assert isinstance(batches[0], list)


def test_a_shuffled_epoch_is_the_engines_order() -> None:
    order = [label for _, labels in load(Rows(), shuffle=True, seed=5) for label in labels.tolist()]
    assert sorted(order) == list(range(20))
    assert order != sorted(order)
    again = [label for _, labels in load(Rows(), shuffle=True, seed=5, batch_size=3) for label in labels.tolist()]
    assert again == order, "the batch size does not change the order"


def test_samples_of_the_whole_window_are_in_flight_at_once() -> None:
    class Waiting(Rows):
        def __init__(self) -> None:
            self.barrier = threading.Barrier(8)

        def __getitem__(self, index: int) -> tuple[Any, int]:
            self.barrier.wait(timeout=10)  # passes when eight samples, of two batches, are here together
            return super().__getitem__(index)

    assert sum(1 for _ in load(Waiting(), num_workers=8, prefetch_factor=2, sampler=range(16))) == 4


def test_a_slow_sample_does_not_change_its_slot() -> None:
    class Uneven(Rows):
        def __getitem__(self, index: int) -> tuple[Any, int]:
            time.sleep(0.02 if index % 4 == 0 else 0)
            return super().__getitem__(index)

    assert [labels.tolist() for _, labels in load(Uneven())] == np.arange(20).reshape(5, 4).tolist()


def test_out_of_order_a_slow_batch_does_not_hold_up_the_others() -> None:
    go = threading.Event()

    class Blocked(Rows):
        def __getitem__(self, index: int) -> tuple[Any, int]:
            if index == 0:
                assert go.wait(timeout=10)
            return super().__getitem__(index)

    batches = iter(load(Blocked(), in_order=False, prefetch_factor=3))
    first = next(batches)[1].tolist()
    assert first in ([4, 5, 6, 7], [8, 9, 10, 11])
    go.set()
    rest = [labels.tolist() for _, labels in batches]
    assert sorted([first, *rest]) == np.arange(20).reshape(5, 4).tolist()


def test_getitems_is_called_once_a_batch() -> None:
    calls = []

    class Many(Rows):
        def __getitems__(self, indices: list[int]) -> list[tuple[Any, int]]:
            calls.append(indices)
            return [self[index] for index in indices]

    batches = list(load(Many(), num_workers=1))
    assert calls == np.arange(20).reshape(5, 4).tolist()
    assert batches[0][0].shape == (4, 3)


def test_nested_samples_keep_their_shape() -> None:
    point = namedtuple("point", "x y")

    class Nested(Rows):
        def __getitem__(self, index: int) -> Any:
            return {"p": point(index, float(index)), "name": str(index), "pair": (index, [index])}

    batch = next(iter(load(Nested())))
    assert batch["p"].x.tolist() == [0, 1, 2, 3]
    assert batch["p"].y.dtype == np.float64
    assert batch["name"] == ["0", "1", "2", "3"]
    assert batch["pair"][1][0].tolist() == [0, 1, 2, 3]


def test_a_collate_function_gets_the_list_of_samples() -> None:
    assert list(load(Rows(), collate_fn=lambda samples: [label for _, label in samples])) == [
        list(range(start, start + 4)) for start in range(0, 20, 4)
    ]


def test_an_error_of_a_collate_function_keeps_its_type() -> None:
    def fails(samples: list[Any]) -> Any:
        raise KeyError("no such column")

    with pytest.raises(KeyError, match="collating"):
        next(iter(load(Rows(), collate_fn=fails)))


def test_a_stop_iteration_of_a_dataset_does_not_end_the_epoch() -> None:
    class Ending(Rows):
        def __getitem__(self, index: int) -> Any:
            raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(load(Ending()))


def test_without_batching_samples_come_as_they_are() -> None:
    samples = list(load(Rows(), batch_size=None))
    assert [label for _, label in samples] == list(range(20))


def test_a_timeout_says_so() -> None:
    class Slow(Rows):
        def __getitem__(self, index: int) -> Any:
            time.sleep(0.5)
            return super().__getitem__(index)

    with (
        load(Slow(), timeout=0.05) as loader,
        pytest.raises(fb.UnavailableError, match=r"timed out after 0\.05 seconds"),
    ):
        next(iter(loader))


def test_a_list_is_a_dataset() -> None:
    assert [batch.tolist() for batch in load([10, 11, 12, 13, 14])] == [[10, 11, 12, 13], [14]]


def test_a_dataset_without_a_length_needs_a_sampler() -> None:
    class Endless:
        def __getitem__(self, index: int) -> int:
            return index * 2

    with pytest.raises(fb.ConfigError, match="__len__"):
        load(Endless())
    assert [batch.tolist() for batch in load(Endless(), sampler=[1, 5])] == [[2, 10]]


@pytest.mark.parametrize("end", ["exhaust", "break", "close", "error", "forget a cycle"])
def test_no_thread_is_left_behind(end: str) -> None:
    class Sometimes(Rows):
        def __getitem__(self, index: int) -> Any:
            if end == "error" and index == 9:
                raise ValueError
            return super().__getitem__(index)

    gc.collect()  # errors that other tests caught hold on to their iterators
    assert no_threads_are_left()
    loader = load(Sometimes())
    if end == "exhaust":
        list(loader)
    elif end == "close":
        batches = iter(loader)
        next(batches)
        loader.close()
        assert threads() == 0, "closing waits for the threads"
    elif end == "forget a cycle":
        batches = iter(loader)
        next(batches)
        batches.itself = batches  # type: ignore[attr-defined]
        del batches
        gc.collect()
    else:
        try:
            for number, _ in enumerate(loader):
                if end == "break" and number == 1:
                    break
        except ValueError:
            pass
    assert no_threads_are_left()


class Counting:
    """A dataset that can only be iterated."""

    def __init__(self, count: int = 10) -> None:
        self.count = count

    def __iter__(self) -> Any:
        for number in range(self.count):
            yield number, float(number)


@pytest.mark.parametrize("workers", [0, "auto"])
def test_a_stream_is_drawn_ahead_and_batched(workers: Any) -> None:
    assert [a.tolist() for a, _ in load(Counting(), num_workers=workers)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(list(load(Counting(), num_workers=workers, drop_last=True))) == 2
    assert list(load(Counting(3), num_workers=workers, batch_size=None)) == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert no_threads_are_left()


def test_a_stream_is_drawn_no_further_than_the_window() -> None:
    drawn = []

    class Watched:
        def __iter__(self) -> Any:
            for number in range(1000):
                drawn.append(number)
                yield number

    batches = iter(load(Watched(), num_workers="auto", prefetch_factor=2))
    next(batches)
    time.sleep(0.05)
    assert len(drawn) <= 4 * 3


def test_a_stream_resumes_where_it_stood() -> None:
    loader = load(Counting(), num_workers="auto")
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    assert (state["order"], state["position"], state["samples"]) == ("stream", 4, -1)
    again = load(Counting(), num_workers="auto")
    again.load_state_dict(state)
    assert [a.tolist() for a, _ in again] == [[4, 5, 6, 7], [8, 9]]
    assert again.state_dict()["epoch"] == 1


def test_a_stream_that_fails_says_where() -> None:
    class Failing:
        def __iter__(self) -> Any:
            yield 1
            raise ValueError("the connection is gone")

    batches = iter(load(Failing(), num_workers="auto", batch_size=1))
    assert next(batches).tolist() == [1]
    with pytest.raises(ValueError, match="the connection is gone"):
        next(batches)
    assert next(batches, None) is None


def test_a_length_that_is_unknown_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="Counting"):
        len(load(Counting(), num_workers="auto"))


def test_explain_says_that_python_runs_and_why() -> None:
    text = load(Rows()).explain()
    assert "in Python, in 3 threads" in text
    assert "Rows is not a torchvision ImageFolder" in text
