"""torch's DataLoader on torchvision.io.decode_jpeg, with the transforms on tensors.

Its best: libjpeg-turbo without Pillow in between, and torchvision's vectorised resize of bytes.
"""

import measure  # isort: skip  first: memory is counted from here

import torch
import torchvision
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2


def transform(output: str) -> v2.Compose:
    steps = [v2.RandomResizedCrop(measure.SIZE, antialias=True), v2.RandomHorizontalFlip()]
    if output == "f32":
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(measure.MEAN, measure.DEVIATION, inplace=True)]
    return v2.Compose(steps)


def load(path: str) -> torch.Tensor:
    return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


def open_loader(task: measure.Task):
    photos = torchvision.datasets.ImageFolder(task.data, transform(task.output), loader=load)
    return torch.utils.data.DataLoader(
        photos,
        batch_size=task.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=task.workers,
        persistent_workers=task.workers > 0,
        prefetch_factor=2 if task.workers else None,
    )


if __name__ == "__main__":
    measure.run(open_loader, version=f"torch {torch.__version__}, torchvision {torchvision.__version__}")
