"""The loader: order, epochs, iterators, outputs."""

from __future__ import annotations

import gc
import pickle
from itertools import chain
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest


def loader(photos: Path, **kwargs: Any) -> fb.DataLoader:
    dataset = fb.image_folder(photos).random_resized_crop(12).horizontal_flip().color_jitter(0.3).normalize()
    return fb.DataLoader(dataset, **{"batch_size": 8, "shuffle": True, "seed": 1, "output": "numpy", **kwargs})


def taken(batches: Any) -> list[tuple[bytes, list[int]]]:
    """Batches as plain values, which hold no slab."""
    return [(images.tobytes(), labels.tolist()) for images, labels in batches]


def test_an_epoch_holds_every_sample_once(photos: Path) -> None:
    batches = taken(loader(photos))
    assert [len(labels) for _, labels in batches] == [8] * 6 + [2]
    assert sorted(chain.from_iterable(labels for _, labels in batches)) == [0] * 10 + [1] * 15 + [2] * 25


def test_without_shuffle_samples_come_as_listed(photos: Path) -> None:
    labels = list(chain.from_iterable(labels for _, labels in taken(loader(photos, shuffle=False))))
    assert labels == [0] * 10 + [1] * 15 + [2] * 25


def test_batches_are_bit_identical_whatever_the_number_of_workers(photos: Path) -> None:
    expected = taken(loader(photos, num_workers=0))
    for workers in (1, 2, 8):
        assert taken(loader(photos, num_workers=workers)) == expected


def test_look_ahead_does_not_change_batches(photos: Path) -> None:
    assert taken(loader(photos, prefetch_factor=7)) == taken(loader(photos, prefetch_factor=1))


def test_out_of_order_batches_are_the_same_batches(photos: Path) -> None:
    assert sorted(taken(loader(photos, in_order=False))) == sorted(taken(loader(photos)))


def test_epochs_advance_by_themselves_and_differ(photos: Path) -> None:
    one = loader(photos)
    first, second = taken(one), taken(one)
    assert first != second
    again = loader(photos)
    again.set_epoch(1)
    assert taken(again) == second
    assert taken(again) == second, "an epoch that was set stays"


def test_the_seed_decides_order_and_augmentation(photos: Path) -> None:
    assert taken(loader(photos, seed=1)) == taken(loader(photos))
    assert taken(loader(photos, seed=2)) != taken(loader(photos))


def test_the_length_is_that_of_an_epoch(photos: Path) -> None:
    assert len(loader(photos)) == 7
    assert len(loader(photos, drop_last=True)) == 6
    assert len(taken(loader(photos, drop_last=True))) == 6
    assert len(loader(photos, batch_size=8, rank=1, world_size=2)) == 4


def test_ranks_share_an_epoch(photos: Path) -> None:
    alone = [labels for _, labels in taken(loader(photos, batch_size=8, drop_last=True))]
    ranks = [
        [labels for _, labels in taken(loader(photos, batch_size=2, rank=r, world_size=4, drop_last=True))]
        for r in range(4)
    ]
    assert [list(chain.from_iterable(parts)) for parts in zip(*ranks)] == alone


def test_iterators_do_not_disturb_each_other(photos: Path) -> None:
    whole, one = loader(photos), loader(photos)
    expected = [taken(whole), taken(whole)]
    first, second = iter(one), iter(one)
    both = [taken([next(first)]) + taken([next(second)]) for _ in range(7)]
    assert [pair[0] for pair in both] == expected[0]
    assert [pair[1] for pair in both] == expected[1]
    assert next(first, None) is None


def test_after_a_break_the_loader_starts_again(photos: Path) -> None:
    one = loader(photos)
    one.set_epoch(0)
    for _ in one:
        break
    assert taken(one) == taken(loader(photos))


def test_an_iterator_at_its_end_stays_there(photos: Path) -> None:
    batches = iter(loader(photos))
    assert len(list(batches)) == 7
    assert next(batches, None) is None


def test_a_closed_loader_ends_its_iterators_and_makes_no_more(photos: Path) -> None:
    with loader(photos) as one:
        batches = iter(one)
        kept, _ = next(batches)
    with pytest.raises(fb.CancelledError):
        next(batches)
    with pytest.raises(fb.CancelledError):
        iter(one)
    assert np.isfinite(kept).all()
    one.close()


def test_batches_outlive_their_loader(photos: Path) -> None:
    one = loader(photos)
    images, labels = next(iter(one))
    expected = images.copy()
    del one
    gc.collect()
    assert np.array_equal(images, expected)
    assert labels.shape == (8,)


def test_batches_can_be_written_to_and_do_not_overlap(photos: Path) -> None:
    batches = list(loader(photos))
    for number, (images, labels) in enumerate(batches):
        images[:] = number
        labels[:] = number
    assert all((images == number).all() and (labels == number).all() for number, (images, labels) in enumerate(batches))


def test_holding_every_batch_of_a_small_budget_is_an_error_that_says_so(photos: Path) -> None:
    dataset = fb.image_folder(photos).resize((64, 64)).normalize()
    held = []
    with pytest.raises(fb.OverBudgetError, match="ram_budget"):
        for images, _ in fb.DataLoader(dataset, batch_size=8, output="numpy", ram_budget="2MB"):
            held.append(images)
    assert len(held) >= 2


def test_a_budget_below_two_batches_is_refused(photos: Path) -> None:
    dataset = fb.image_folder(photos).resize((64, 64)).normalize()
    with pytest.raises(fb.OverBudgetError, match="ram_budget"):
        iter(fb.DataLoader(dataset, batch_size=50, output="numpy", ram_budget="1MB"))


def test_a_sampler_says_which_samples_come(photos: Path) -> None:
    sampler = [3, -1, 12, 3, 30]
    batches = taken(loader(photos, shuffle=None, sampler=sampler, batch_size=2))
    assert [labels for _, labels in batches] == [[0, 2], [1, 0], [2]]
    assert len(loader(photos, shuffle=None, sampler=sampler, batch_size=2)) == 3


def test_a_batch_sampler_says_which_batches_come(photos: Path) -> None:
    one = loader(photos, shuffle=None, batch_size=1, batch_sampler=[[0], [10, 25, 0], [26, 27]])
    assert [labels for _, labels in taken(one)] == [[0], [1, 2, 0], [2, 2]]
    assert len(one) == 3
    assert one.batch_size is None


def test_a_sampler_that_asks_for_too_much_is_an_error(photos: Path) -> None:
    with pytest.raises(IndexError, match="50"):
        list(loader(photos, shuffle=None, sampler=[0, 50]))


def test_an_empty_batch_of_a_batch_sampler_is_an_error(photos: Path) -> None:
    with pytest.raises(fb.ConfigError, match="empty"):
        list(loader(photos, shuffle=None, batch_size=1, batch_sampler=[[0], []]))


def test_a_collate_function_gets_samples_that_the_engine_prepared(photos: Path) -> None:
    dataset = fb.image_folder(photos)
    sizes = list(
        fb.DataLoader(
            dataset, batch_size=8, output="numpy", collate_fn=lambda batch: [image.shape for image, _ in batch]
        )
    )
    assert len(sizes) == 7
    assert len(set(chain.from_iterable(sizes))) > 1, "pictures differ in size"


def test_samples_for_a_collate_function_are_those_of_native_batches(photos: Path) -> None:
    native = taken(loader(photos))
    python = taken(
        loader(photos, collate_fn=lambda batch: [np.stack([i for i, _ in batch]), np.array([y for _, y in batch])])
    )
    assert python == native


def test_without_batching_samples_come_one_by_one(photos: Path) -> None:
    samples = list(loader(photos, batch_size=None, shuffle=False))
    assert len(samples) == 50
    assert samples[0][0].shape == (3, 12, 12)
    assert [label for _, label in samples] == [0] * 10 + [1] * 15 + [2] * 25


def test_dlpack_arrays_are_the_engines_own(photos: Path) -> None:
    images, labels = next(iter(loader(photos, output="dlpack")))
    assert images.shape == (8, 3, 12, 12)
    assert labels.dtype == "i64"
    assert np.from_dlpack(images).shape == images.shape


def test_numpy_has_no_bf16_and_the_error_says_what_does(photos: Path) -> None:
    dataset = fb.image_folder(photos).resize((8, 8)).to("bf16")
    with pytest.raises(fb.ConfigError, match="torch"):
        fb.DataLoader(dataset, output="numpy")


def test_pictures_of_different_sizes_are_refused_at_construction(photos: Path) -> None:
    with pytest.raises(fb.ConfigError, match="center_crop"):
        fb.DataLoader(fb.image_folder(photos).resize(16), output="numpy")


def test_a_pickled_loader_goes_on_where_it_stood(photos: Path) -> None:
    one = loader(photos)
    batches = iter(one)
    next(batches)
    again = pickle.loads(pickle.dumps(one))
    assert again.state_dict() == one.state_dict()
    assert taken(again) == taken(batches)
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(batches)


def test_stats_sum_over_iterators(photos: Path) -> None:
    one = loader(photos)
    assert one.stats()["batches"] == 0
    list(one)
    for _ in one:
        break
    live = iter(one)
    next(live)
    stats = one.stats()
    assert stats["batches"] == 9
    assert stats["samples"] == 66
    assert stats["bytes"] > 0
    assert set(stats["waits"]) == {"fetch", "prepare", "consumer"}
    assert all(seconds > 0 for seconds in stats["waits"].values())


def test_explain_says_what_is_done_where(photos: Path) -> None:
    one = loader(photos, num_workers=2, worker_init_fn=print, persistent_workers=True, rank=1, world_size=2)
    text = one.explain()
    for part in (
        "natively",
        "50 samples",
        "random_resized_crop",
        "2 threads",
        "2 batches",
        "shuffled, seed 1",
        "1 of 2",
    ):
        assert part in text
    assert "worker_init_fn, persistent_workers" in text


def test_attributes_that_torch_users_read_are_there(photos: Path) -> None:
    one = loader(photos, num_workers=3, drop_last=True)
    assert (one.batch_size, one.num_workers, one.drop_last, one.sampler, one.pin_memory) == (8, 3, True, None, False)
    assert len(one.dataset) == 50


def test_a_timeout_is_passed_on(photos: Path) -> None:
    assert len(list(loader(photos, timeout=30))) == 7
