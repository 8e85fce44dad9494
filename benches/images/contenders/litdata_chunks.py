"""LitData: its own chunk files, streamed by worker processes.

Its best: the JPEG bytes packed once into 64 MB chunks (not timed), decoded by torchvision.io with the transforms on
tensors, persistent workers.
"""

import measure  # isort: skip  first: memory is counted from here

import json
import random
import shutil
from pathlib import Path

import litdata
import torch
from torch_io import transform
from torchvision.io import ImageReadMode, decode_jpeg


def encoded_sample(pair: tuple[str, int]) -> dict:
    path, label = pair
    return {"jpeg": Path(path).read_bytes(), "label": label}


class Photos(litdata.StreamingDataset):
    def __init__(self, *args, steps, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.steps = steps

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        encoded = torch.frombuffer(bytearray(sample["jpeg"]), dtype=torch.uint8)
        return self.steps(decode_jpeg(encoded, mode=ImageReadMode.RGB)), sample["label"]


def chunk_folder(task: measure.Task) -> Path:
    return task.prepared / f"litdata-{litdata.__version__}-{task.data.name}"


def prepare(task: measure.Task) -> None:
    """Pack the photos into chunks, unless these very photos are packed already."""
    chunks, pairs = chunk_folder(task), list(zip(*task.files()))
    packed, wanted = chunks / "packed.json", {"files": len(pairs), "manifest": task.manifest()}
    if packed.exists() and json.loads(packed.read_text()) == wanted:
        return
    shutil.rmtree(chunks, ignore_errors=True)
    random.Random(0).shuffle(pairs)  # LitData shuffles chunks and within chunks, so classes must be mixed when packing
    litdata.optimize(encoded_sample, pairs, str(chunks), chunk_bytes="64MB", num_workers=1, verbose=False)
    packed.write_text(json.dumps(wanted))


def open_loader(task: measure.Task):
    photos = Photos(str(chunk_folder(task)), shuffle=True, drop_last=True, seed=0, steps=transform(task.output))
    return litdata.StreamingDataLoader(
        photos,
        batch_size=task.batch_size,
        num_workers=task.workers,
        drop_last=True,
        persistent_workers=task.workers > 0,
        prefetch_factor=2 if task.workers else None,
    )


if __name__ == "__main__":
    measure.run(open_loader, prepare=prepare, version=f"litdata {litdata.__version__}")
