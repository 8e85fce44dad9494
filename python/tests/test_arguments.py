"""What a loader refuses, and in whose words."""

from __future__ import annotations

from typing import Any

import forebay as fb
import pytest


class Numbers:
    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return 10


class Stream:
    def __iter__(self) -> Any:
        return iter(range(10))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"num_workers": "all"}, '"auto"'),
        ({"num_workers": 1.5}, '"auto"'),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"num_workers": 0, "prefetch_factor": 2}, "prefetch_factor option could only be specified"),
        ({"prefetch_factor": -1}, "prefetch_factor option should be non-negative"),
        ({"num_workers": 0, "persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"num_workers": 0, "multiprocessing_context": "spawn"}, "multiprocessing_context can only be used"),
        ({"sampler": [1], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[1]], "shuffle": True}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[1]], "drop_last": True}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[1]], "sampler": [1]}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, "batch_size should be a positive integer"),
        ({"batch_size": 2.0}, "batch_size should be a positive integer"),
        ({"on_error": "ignore"}, "raise, skip, replace"),
        ({"output": "tensorflow"}, "torch, numpy, jax, dlpack"),
        ({"output": "dlpack"}, "native"),
        ({"seed": -1}, "seed"),
        ({"seed": "x"}, "seed"),
        ({"rank": 1}, "give both"),
        ({"rank": 2, "world_size": 2}, "rank 2 of 2"),
        ({"sampler": [1], "rank": 0, "world_size": 2}, "leave out the sampler"),
        ({"cpu_budget": 0}, "cpu_budget"),
        ({"ram_budget": "much"}, "4GB"),
        ({"ram_budget": 0}, "ram_budget"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(fb.ConfigError) as caught:
        fb.DataLoader(Numbers(), **{"output": "numpy", **arguments})
    assert words in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("arguments", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}])
def test_a_stream_has_no_order_to_choose(arguments: dict[str, Any]) -> None:
    with pytest.raises(fb.ConfigError, match=f"expected unspecified {next(iter(arguments))} option"):
        fb.DataLoader(Stream(), **arguments)


def test_a_stream_has_no_samples_to_replace_with() -> None:
    with pytest.raises(fb.ConfigError, match="skip"):
        fb.DataLoader(Stream(), on_error="replace", output="numpy")


def test_what_is_no_dataset_is_refused() -> None:
    with pytest.raises(fb.ConfigError, match="__getitem__"):
        fb.DataLoader(42)


@pytest.mark.parametrize("epoch", [-1, 1.0, True, None])
def test_an_epoch_is_a_whole_number(epoch: Any) -> None:
    with pytest.raises(fb.ConfigError, match="epoch"):
        fb.DataLoader(Numbers(), output="numpy").set_epoch(epoch)


def test_a_policy_for_errors_has_a_budget_as_count_or_fraction() -> None:
    assert fb.OnError("skip").count(10_000) == 100
    assert fb.OnError("skip").count(10) == 16
    assert fb.OnError("skip", budget=3).count(10_000) == 3
    assert fb.OnError("replace", budget=0.5).count(10) == 5
    assert fb.OnError("raise").count(10_000) == 0
    for budget in (-1, 1.5, True, "all"):
        with pytest.raises(fb.ConfigError, match="budget"):
            fb.OnError("skip", budget=budget)  # type: ignore[arg-type]


def test_every_error_has_one_root_and_the_builtin_a_caller_would_catch() -> None:
    for error, builtin in [
        (fb.ConfigError, ValueError),
        (fb.NotFoundError, FileNotFoundError),
        (fb.UnavailableError, OSError),
        (fb.OverBudgetError, MemoryError),
        (fb.CorruptError, Exception),
        (fb.CancelledError, Exception),
        (fb.InternalError, Exception),
    ]:
        assert issubclass(error, (fb.Error, builtin))
        assert str(error("what went wrong")) == "what went wrong"
