"""In torch's place: the same signature, the same batches, zero copies, torch's workers where asked for."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import forebay as fb
import pytest

torch = pytest.importorskip("torch")
from torch.utils import data  # noqa: E402

OURS = {"seed", "rank", "world_size", "output", "on_error", "cpu_budget", "ram_budget"}


def test_the_signature_is_torchs_and_a_few_keywords_more() -> None:
    theirs = inspect.signature(data.DataLoader.__init__).parameters
    ours = inspect.signature(fb.DataLoader.__init__).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    for name, parameter in theirs.items():
        assert ours[name].kind == parameter.kind, name
        assert name == "num_workers" or ours[name].default == parameter.default, name
    assert set(ours) - set(theirs) == OURS
    assert all(ours[name].kind is inspect.Parameter.KEYWORD_ONLY for name in OURS)


def test_what_torch_refuses_we_refuse_in_its_words() -> None:
    for arguments in [
        {"shuffle": True, "sampler": [1]},
        {"batch_sampler": [[1]], "batch_size": 3},
        {"batch_size": None, "drop_last": True},
        {"timeout": -1},
        {"num_workers": -1},
        {"num_workers": 0, "persistent_workers": True},
    ]:
        with pytest.raises(ValueError) as theirs:
            data.DataLoader([1, 2, 3], **arguments)  # type: ignore[arg-type]
        with pytest.raises(ValueError) as ours:
            fb.DataLoader([1, 2, 3], **arguments)
        assert str(ours.value).split(";")[0] == str(theirs.value).split(";")[0]


class Samples(data.Dataset):  # type: ignore[type-arg]
    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": torch.full((2, 3), float(index)), "y": index, "name": f"s{index}", "pair": (index, 0.5)}

    def __len__(self) -> int:
        return 21


def same(ours: Any, theirs: Any) -> bool:
    assert type(ours) is type(theirs)
    if isinstance(theirs, torch.Tensor):
        return ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 4},
        {"batch_size": 4, "drop_last": True},
        {"batch_size": None},
        {"sampler": [5, 1, 1], "batch_size": 2},
        {"batch_sampler": [[3, 4], [0]]},
        {"batch_size": 5, "collate_fn": lambda samples: [sample["y"] for sample in samples]},
        {"batch_size": 5, "sampler": data.SequentialSampler(range(7))},
    ],
)
def test_batches_of_any_dataset_are_torchs(workers: int, arguments: dict[str, Any]) -> None:
    theirs = data.DataLoader(Samples(), **arguments)
    ours = fb.DataLoader(Samples(), num_workers=workers, **arguments)
    assert len(ours) == len(theirs)
    assert same(list(ours), list(theirs))


def test_tensor_datasets_with_getitems_and_subsets_are_torchs() -> None:
    dataset = data.Subset(data.TensorDataset(torch.arange(20.0).reshape(10, 2), torch.arange(10)), [8, 2, 4, 1, 0])
    assert same(list(fb.DataLoader(dataset, batch_size=2)), list(data.DataLoader(dataset, batch_size=2)))


def test_native_batches_are_tensors_over_the_engines_memory(photos: Path) -> None:
    dataset = fb.image_folder(photos).random_resized_crop(16).normalize()
    loader = fb.DataLoader(dataset, batch_size=8)
    batch = next(iter(loader))
    assert isinstance(batch, list)
    images, labels = batch
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert images.is_contiguous()
    # Labels lie behind the images, in one slab.
    assert labels.data_ptr() == images.data_ptr() + images.numel() * 4
    images += 1
    labels.zero_()


def test_a_tensor_outlives_its_loader_and_its_slab_is_not_filled_again(photos: Path) -> None:
    loader = fb.DataLoader(fb.image_folder(photos).resize((16, 16)).normalize(), batch_size=8)
    kept = [images for images, _ in loader]
    values = [images.clone() for images in kept]
    for _ in loader:
        pass
    del loader
    assert all(torch.equal(a, b) for a, b in zip(kept, values))
    assert len({images.data_ptr() for images in kept}) == len(kept)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float32])
def test_every_element_type_arrives(photos: Path, dtype: Any) -> None:
    images, _ = next(iter(fb.DataLoader(fb.image_folder(photos).resize((8, 8)).to(dtype), batch_size=2)))
    assert images.dtype == dtype
    assert fb.image_folder(photos).resize((8, 8)).to(dtype)[0][0].dtype == dtype


def test_the_seed_follows_torchs(photos: Path) -> None:
    dataset = fb.image_folder(photos).random_resized_crop(8)
    torch.manual_seed(5)
    assert fb.DataLoader(dataset).state_dict()["seed"] == 5
    assert fb.DataLoader(dataset, generator=torch.Generator().manual_seed(6)).state_dict()["seed"] == 6
    assert fb.DataLoader(dataset, rank=0, world_size=2).state_dict()["seed"] == 0


def test_a_distributed_sampler_is_obeyed(photos: Path) -> None:
    dataset = fb.image_folder(photos).resize((8, 8))
    parts = []
    for rank in range(2):
        sampler = data.DistributedSampler(dataset, num_replicas=2, rank=rank, shuffle=True, seed=1)  # type: ignore[arg-type, var-annotated]
        loader = fb.DataLoader(dataset, batch_size=5, sampler=sampler)
        loader.set_epoch(2)
        assert sampler.epoch == 2
        assert len(loader) == 5
        parts.append([label for _, labels in loader for label in labels.tolist()])
        assert parts[-1] == [dataset.samples[index][1] for index in sampler]
    assert sorted(parts[0] + parts[1]) == [0] * 10 + [1] * 15 + [2] * 25


def test_without_an_accelerator_pinning_warns_and_goes_on(photos: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is an accelerator")
    loader = fb.DataLoader(fb.image_folder(photos).resize((8, 8)), batch_size=25, pin_memory=True)
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert len(list(loader)) == 2


class Workers(data.Dataset):  # type: ignore[type-arg]
    """Says who fetched each sample."""

    def __getitem__(self, index: int) -> tuple[int, int, int]:
        info = data.get_worker_info()
        return index, os.getpid(), -1 if info is None else info.id

    def __len__(self) -> int:
        return 24


def marked(worker: int) -> None:
    os.environ["FOREBAY_TEST_WORKER"] = str(worker)


def test_in_threads_there_is_no_worker_info() -> None:
    for numbers, processes, workers in fb.DataLoader(Workers(), batch_size=4, num_workers=2):
        assert len(numbers) == 4
        assert set(processes.tolist()) == {os.getpid()}
        assert set(workers.tolist()) == {-1}


@pytest.mark.parametrize("arguments", [{"worker_init_fn": marked}, {"multiprocessing_context": "fork"}])
@pytest.mark.parametrize("persistent", [False, True])
def test_processes_are_torchs_along_our_order(arguments: dict[str, Any], persistent: bool) -> None:
    how: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 8}
    expected = [numbers.tolist() for numbers, _, _ in fb.DataLoader(Workers(), num_workers=0, **how)]
    with fb.DataLoader(Workers(), num_workers=2, persistent_workers=persistent, **how, **arguments) as loader:
        batches = list(loader)
        assert [numbers.tolist() for numbers, _, _ in batches] == expected
        assert {worker for _, _, workers in batches for worker in workers.tolist()} == {0, 1}
        assert os.getpid() not in {process for _, processes, _ in batches for process in processes.tolist()}
        assert "worker processes of torch" in loader.explain()
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (1, 4)
    again = fb.DataLoader(Workers(), num_workers=2, **how, **arguments)
    again.load_state_dict(state)
    one = fb.DataLoader(Workers(), num_workers=0, **how)
    one.set_epoch(1)
    assert [numbers.tolist() for numbers, _, _ in again] == [numbers.tolist() for numbers, _, _ in one][1:]


def test_processes_cannot_skip_and_say_so() -> None:
    with pytest.raises(fb.ConfigError, match="threads"):
        fb.DataLoader(Workers(), num_workers=2, worker_init_fn=marked, on_error="skip")


class Stream(data.IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 12, step))

    def __len__(self) -> int:
        return 12


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterable_dataset_is_torchs(workers: int) -> None:
    theirs = list(data.DataLoader(Stream(), batch_size=3, num_workers=workers))
    loader = fb.DataLoader(Stream(), batch_size=3, num_workers=workers)
    assert same(list(loader), theirs)
    assert len(loader) == 4
    batches = iter(loader)
    next(batches)
    again = fb.DataLoader(Stream(), batch_size=3, num_workers=workers)
    again.load_state_dict(loader.state_dict())
    assert same(list(again), theirs[1:])


def test_by_itself_an_iterable_dataset_is_drawn_by_one_thread() -> None:
    assert [batch.tolist() for batch in fb.DataLoader(Stream(), batch_size=6)] == [[*range(6)], [*range(6, 12)]]


def test_an_error_in_a_thread_reads_like_torchs() -> None:
    class Broken(Samples):
        def __getitem__(self, index: int) -> Any:
            if index == 6:
                raise KeyError("no such column")
            return super().__getitem__(index)

    with pytest.raises(KeyError) as caught:
        list(fb.DataLoader(Broken(), batch_size=4, num_workers=2))
    text = str(caught.value)
    assert text.startswith("Caught KeyError in a forebay worker thread for sample 6.\nOriginal Traceback")
    assert "no such column" in text


def test_default_collate_as_collate_fn_is_no_reason_to_leave_the_engine(photos: Path) -> None:
    loader = fb.DataLoader(fb.image_folder(photos).resize((8, 8)), collate_fn=data.default_collate)
    assert "natively" in loader.explain()
