"""SPDL: threads in this process, FFmpeg inside.

Its best: crop, resize and flip in FFmpeg's filter graph before the colour conversion, a whole batch per task so that
Python is rarely entered, and a pipeline of as many threads as the others have workers. Images are NCHW in
channels-last memory, as FFmpeg leaves them: turning them would be a cost it need not pay.
"""

import measure  # isort: skip  first: memory is counted from here

import math
import random
from importlib.metadata import version

import spdl.io
import torch
from spdl.pipeline import PipelineBuilder


def crop_window(chance: random.Random, width: int, height: int) -> tuple[int, int, int, int]:
    """The window of torchvision's RandomResizedCrop: left, top, width, height."""
    for _ in range(10):
        area = width * height * chance.uniform(0.08, 1.0)
        ratio = math.exp(chance.uniform(math.log(3 / 4), math.log(4 / 3)))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            return chance.randint(0, width - across), chance.randint(0, height - down), across, down
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


class Loader:
    def __init__(self, task: measure.Task) -> None:
        self.task = task
        self.pairs = list(zip(*task.files()))
        self.chance = random.Random(0)
        self.mean = 255 * torch.tensor(measure.MEAN).view(1, 1, 1, 3)
        self.scale = 1 / (255 * torch.tensor(measure.DEVIATION).view(1, 1, 1, 3))
        torch.set_num_threads(1)  # the pipeline's threads are the parallelism

    def batches(self):
        pairs, size = list(self.pairs), self.task.batch_size
        self.chance.shuffle(pairs)
        for start in range(0, len(pairs) - size + 1, size):
            yield self.chance.random(), pairs[start : start + size]

    def load(self, work):
        seed, pairs = work
        chance = random.Random(seed)
        frames = [self.decode(chance, path) for path, _ in pairs]
        pixels = spdl.io.to_torch(spdl.io.convert_frames(frames))
        if self.task.output == "f32":
            pixels = torch.sub(pixels, self.mean).mul_(self.scale)
        return pixels.permute(0, 3, 1, 2), torch.tensor([label for _, label in pairs])

    def decode(self, chance: random.Random, path: str):
        packets = spdl.io.demux_image(path)
        left, top, across, down = crop_window(chance, packets.width, packets.height)
        flip = ",hflip" if chance.random() < 0.5 else ""
        window, size = f"{across}:{down}:{left}:{top}", f"{measure.SIZE}:{measure.SIZE}"
        graph = f"crop={window},scale={size}:flags=bilinear{flip},format=rgb24"
        return spdl.io.decode_packets(packets, filter_desc=graph)

    def __iter__(self):
        workers = self.task.workers
        builder = PipelineBuilder().add_source(self.batches())
        builder = builder.pipe(self.load, concurrency=workers, output_order="input").add_sink(2)
        pipeline = builder.build(num_threads=workers)
        with pipeline.auto_stop():
            yield from pipeline


if __name__ == "__main__":
    measure.run(Loader, version=f"spdl {version('spdl')}")
