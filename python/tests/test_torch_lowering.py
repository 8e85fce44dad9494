"""torchvision's folders and transforms, lowered to native operations where they are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import forebay as fb
import pytest
from forebay.lower import lower

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
from torch.utils import data  # noqa: E402
from torchvision import datasets  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

LEVEL = 1.01 / 255
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

TO_VALUES = {"v1": [v1.ToTensor()], "v2": [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]}


def folder(photos: Path, *steps: Any) -> datasets.ImageFolder:
    return datasets.ImageFolder(str(photos), transform=v1.Compose(list(steps)))


def lowered(dataset: Any) -> fb.ImageFolder:
    native = lower(dataset)
    assert isinstance(native, fb.ImageFolder), native
    return native


def compare(dataset: Any, tolerance: float) -> None:
    """Every batch of a loader over the lowered dataset is torch's."""
    ours = fb.DataLoader(dataset, batch_size=8)
    assert "natively" in ours.explain()
    theirs = data.DataLoader(dataset, batch_size=8)
    count = 0
    for (images, labels), (expected, numbers) in zip(ours, theirs):
        assert images.dtype == expected.dtype
        assert images.shape == expected.shape
        assert torch.equal(labels, numbers)
        allowed = {torch.uint8: 255 * tolerance, torch.float16: tolerance + 1e-3}.get(expected.dtype, tolerance)
        assert (images.float() - expected.float()).abs().max() <= allowed
        count += 1
    assert count == len(theirs)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_usual_validation_pipeline_gives_torchvisions_numbers(photos: Path, version: str) -> None:
    t = {"v1": v1, "v2": v2}[version]
    steps = [t.Resize(36), t.CenterCrop(32), *TO_VALUES[version], t.Normalize(MEAN, STD)]
    compare(folder(photos, *steps), LEVEL / min(STD))


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Resize", ((20, 24),)),
        ("Resize", ((20, 24), "bicubic")),
        ("Resize", ((20, 24), "nearest-exact")),
        ("Resize", ((20, 24), "lanczos")),
        ("CenterCrop", (64,)),
        ("RandomHorizontalFlip", (1.0,)),
        ("RandomVerticalFlip", (1.0,)),
        ("Grayscale", (1,)),
        ("Grayscale", (3,)),
        ("RandomGrayscale", (1.0,)),
        ("RandomGrayscale", (0.0,)),
        ("ColorJitter", ((1.3, 1.3),)),
        ("ColorJitter", (0, (1.3, 1.3))),
        ("ColorJitter", (0, 0, (1.3, 1.3))),
        ("ColorJitter", (0, 0, 0, (0.1, 0.1))),
        ("ColorJitter", ()),
        ("RandomCrop", ((32, 32), 0)),
        ("RandomResizedCrop", ((16, 16), (1.0, 1.0), (1.0, 1.0))),
    ],
)
def test_a_transform_without_chance_gives_torchvisions_numbers(
    photos: Path, version: str, name: str, arguments: tuple[Any, ...]
) -> None:
    t = {"v1": v1, "v2": v2}[version]
    if name == "Resize" and len(arguments) > 1:
        arguments = (arguments[0], v1.InterpolationMode(arguments[1]))
    before = [] if name == "Resize" else [t.CenterCrop(32)]
    compare(folder(photos, *before, getattr(t, name)(*arguments), *TO_VALUES[version]), LEVEL)


@pytest.mark.parametrize(
    "steps",
    [
        [v2.PILToTensor(), v2.Resize((20, 20)), v2.CenterCrop(16)],
        [v2.ToImage(), v2.Resize((20, 20)), v2.RandomHorizontalFlip(1.0), v2.ToDtype(torch.uint8, scale=True)],
        [v2.RGB(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Resize((20, 20)), v2.ToPureTensor()],
        [v1.ToTensor(), v1.CenterCrop(20), v1.RandomVerticalFlip(1.0)],
        [v1.Resize((20, 20)), v1.PILToTensor(), v1.ConvertImageDtype(torch.float16)],
        [v1.Compose([v1.Resize((20, 20))]), torch.nn.Sequential(torch.nn.Identity(), v1.CenterCrop(9)), v1.ToTensor()],
    ],
)
def test_tensors_may_come_early_and_transforms_may_be_nested(photos: Path, steps: list[Any]) -> None:
    compare(folder(photos, *steps), LEVEL)


@pytest.mark.parametrize(
    ("steps", "native"),
    [
        ([v1.RandomResizedCrop(16), v1.ToTensor()], "random_resized_crop(16)"),
        ([v1.RandomResizedCrop(16, (0.5, 1.0), (0.9, 1.1)), v1.ToTensor()], "scale=(0.5, 1.0), ratio=(0.9, 1.1)"),
        ([v1.RandomCrop(16, padding=(1, 2), pad_if_needed=True, fill=9), v1.ToTensor()], "random_crop(16"),
        ([v2.RandomCrop(16, padding=4, padding_mode="reflect"), v1.ToTensor()], "reflect"),
        ([v1.CenterCrop(8), v1.ColorJitter(0.1, (0.5, 2), 0, 0.1), v1.ToTensor()], "contrast=(0.5, 2.0)"),
        ([v1.CenterCrop(8), v1.ToTensor(), v1.RandomErasing()], "random_erasing()"),
        ([v2.CenterCrop(8), v1.ToTensor(), v1.Normalize(MEAN, STD), v2.RandomErasing(value="random")], '"random"'),
        (
            [v2.CenterCrop(8), v1.ToTensor(), v1.Normalize(MEAN, STD), v1.RandomErasing(value=(1, 2, 3))],
            "1.0, 2.0, 3.0",
        ),
        ([v1.Resize(8, max_size=9), v1.CenterCrop(8), v1.ToTensor()], "max_size=9"),
        ([v1.CenterCrop(8), v1.RandomHorizontalFlip(0.3), v1.ToTensor()], "0.3"),
    ],
)
def test_random_transforms_become_operations_with_the_same_numbers(photos: Path, steps: list[Any], native: str) -> None:
    assert native in ".".join(lowered(folder(photos, *steps))._pipeline.steps)


class Subclass(v1.CenterCrop):
    pass


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([v1.CenterCrop(8)], "PIL images"),
        ([v1.CenterCrop(8), v1.Lambda(lambda x: x), v1.ToTensor()], "Lambda"),
        ([v1.CenterCrop(8), lambda x: x, v1.ToTensor()], "<lambda>"),
        ([Subclass(8), v1.ToTensor()], "Subclass"),
        ([v1.RandomRotation(9), v1.ToTensor()], "RandomRotation"),
        ([v1.RandomApply([v1.CenterCrop(8)]), v1.ToTensor()], "RandomApply"),
        ([v1.Resize(8), v1.ToTensor()], "differ in size"),
        ([v1.CenterCrop(8), v1.ToTensor(), v1.RandomErasing(value=1)], "RandomErasing"),
        ([v1.CenterCrop(8), v1.ToTensor(), v1.RandomErasing(value="random"), v1.Normalize(MEAN, STD)], "RandomErasing"),
        ([v2.CenterCrop(8), v2.ToImage(), v2.ToDtype(torch.float32)], "scale=False"),
        ([v2.CenterCrop(8), v2.ToImage(), v2.ToDtype(torch.float64, scale=True)], "float64"),
        ([v2.CenterCrop(8), v2.ToImage(), v2.Normalize(MEAN, STD)], "Normalize"),
        ([v2.ToImage(), v2.Resize((8, 8), antialias=False)], "antialias=False"),
        ([v2.ToImage(), v2.Resize((8, 8), v1.InterpolationMode.NEAREST)], "nearest"),
        ([v1.CenterCrop(8), v1.ToTensor(), v1.Normalize((0.5, 0.5), (0.5, 0.5))], "mean"),
    ],
)
def test_what_is_not_known_is_named_and_run_in_python(photos: Path, steps: list[Any], words: str) -> None:
    dataset = folder(photos, *steps)
    reason = lower(dataset)
    assert isinstance(reason, str)
    assert words in reason
    text = fb.DataLoader(dataset, collate_fn=list).explain()
    assert "in Python" in text
    assert words in text


def test_antialias_makes_no_difference_to_pil_images(photos: Path) -> None:
    lowered(folder(photos, v1.Resize((8, 8), antialias=False), v1.ToTensor()))


def test_python_in_the_dataset_prevents_lowering(photos: Path) -> None:
    transform = v1.Compose([v1.CenterCrop(8), v1.ToTensor()])

    class Own(datasets.ImageFolder):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index)

    class Renamed(datasets.ImageFolder):
        pass

    root = str(photos)
    assert "Own" in str(lower(Own(root, transform)))
    lowered(Renamed(root, transform))
    assert "target_transform" in str(lower(datasets.ImageFolder(root, transform, target_transform=abs)))
    assert "loader" in str(lower(datasets.ImageFolder(root, transform, loader=open)))
    assert "PIL" in str(lower(datasets.ImageFolder(root)))
    assert "TensorDataset" in str(lower(data.TensorDataset(torch.zeros(3))))
    lowered(datasets.ImageFolder(root, transform, is_valid_file=lambda path: path.endswith(("1.jpg", "2.jpg"))))


def test_an_unlowered_dataset_gives_torchs_batches_in_threads(photos: Path) -> None:
    dataset = folder(photos, v1.CenterCrop(16), v1.Lambda(lambda x: x), v1.ToTensor())
    ours, theirs = fb.DataLoader(dataset, batch_size=8), data.DataLoader(dataset, batch_size=8)
    for (images, labels), (expected, numbers) in zip(ours, theirs):
        assert torch.equal(images, expected)
        assert torch.equal(labels, numbers)


def test_subsets_are_lowered_too(photos: Path) -> None:
    whole = folder(photos, v1.Resize((16, 16)), v1.ToTensor())
    compare(data.Subset(data.Subset(whole, [40, 3, 12, 7, 20]), [4, 0, 1]), LEVEL)


def test_a_collate_function_gets_lowered_samples(photos: Path) -> None:
    dataset = folder(photos, v1.Resize((16, 16)), v1.ToTensor())
    loader = fb.DataLoader(dataset, batch_size=8, collate_fn=lambda samples: samples)
    assert "prepared by the engine" in loader.explain()
    image, label = next(iter(loader))[0]
    expected, number = dataset[0]
    assert type(image) is type(expected)
    assert (image - expected).abs().max() <= LEVEL
    assert label == number
    assert type(label) is type(number)
