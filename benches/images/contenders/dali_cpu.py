"""NVIDIA DALI on the CPU.

Its best: the fused decoder that skips what lies outside the crop; the dynamic executor, which hands batches to torch
without a copy; a thread pool of as many threads as the others have workers; and the reader's whole-set shuffle, which
holds no buffer of files.
"""

import measure  # isort: skip  first: memory is counted from here

import random

import nvidia.dali
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.base_iterator import LastBatchPolicy
from nvidia.dali.plugin.pytorch import DALIGenericIterator


@pipeline_def
def photo_pipeline(files: list[str], labels: list[int], output: str):
    encoded, label = fn.readers.file(files=files, labels=labels, name="photos", shuffle_after_epoch=True)
    pixels = fn.decoders.image_random_crop(
        encoded, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
    )
    pixels = fn.resize(pixels, size=[measure.SIZE, measure.SIZE], interp_type=types.INTERP_LINEAR, antialias=True)
    scaled = output == "f32"
    pixels = fn.crop_mirror_normalize(
        pixels,
        mirror=fn.random.coin_flip(),
        dtype=types.FLOAT if scaled else types.UINT8,
        output_layout="CHW",
        mean=[255 * value for value in measure.MEAN] if scaled else [0.0],
        std=[255 * value for value in measure.DEVIATION] if scaled else [1.0],
    )
    return pixels, label


class Loader:
    """DALI's iterator, as pairs."""

    def __init__(self, task: measure.Task) -> None:
        pairs = list(zip(*task.files()))
        random.Random(0).shuffle(pairs)  # the reader shuffles after an epoch, not before the first
        files, labels = (list(column) for column in zip(*pairs))
        pipeline = photo_pipeline(
            files,
            labels,
            task.output,
            batch_size=task.batch_size,
            num_threads=task.workers,
            device_id=None,
            exec_dynamic=True,
            prefetch_queue_depth=2,
            seed=0,
        )
        self.batches = DALIGenericIterator(
            pipeline,
            ["images", "labels"],
            reader_name="photos",
            last_batch_policy=LastBatchPolicy.DROP,
            auto_reset=True,
        )

    def __iter__(self):
        for (batch,) in self.batches:
            yield batch["images"], batch["labels"]


if __name__ == "__main__":
    measure.run(Loader, version=f"dali {nvidia.dali.__version__}")
