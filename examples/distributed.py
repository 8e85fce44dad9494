"""Several ranks, shown in one process: each gets its part of every global batch, and the parts make a whole.

Under torchrun, Slurm or MPI leave rank and world_size out: the loader finds them.

Run it as `python examples/distributed.py [FOLDER]`.
"""

import forebay as fb
import numpy as np
from photos_folder import photos

dataset = fb.image_folder(photos()).decode().random_resized_crop(64)


def loader(rank: int, world_size: int, batch_size: int) -> fb.DataLoader:
    return fb.DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=True,
        seed=0,
        drop_last=True,
        rank=rank,
        world_size=world_size,
        output="numpy",
    )


# The same global batch of 32, by one rank, by two and by four.
alone = [images.copy() for images, _ in loader(0, 1, 32)]
for world_size in (2, 4):
    ranks = [loader(rank, world_size, 32 // world_size) for rank in range(world_size)]
    for number, parts in enumerate(zip(*ranks)):
        together = np.concatenate([images for images, _ in parts])
        assert np.array_equal(together, alone[number])
    print(f"{world_size} ranks: all {len(alone)} global batches are those of one rank, to the bit")
