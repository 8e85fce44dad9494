"""Stop in the middle of an epoch, and go on exactly there in another process.

Run it as `python examples/resume.py [FOLDER]`.
"""

import json
from itertools import islice

import forebay as fb
import numpy as np
from photos_folder import photos

folder = photos()


def make_loader() -> fb.DataLoader:
    dataset = fb.image_folder(folder).decode().random_resized_crop(96).horizontal_flip()
    return fb.DataLoader(dataset, batch_size=16, shuffle=True, seed=7, output="numpy")


whole = [images.copy() for images, _ in make_loader()]

stopped = make_loader()
for _ in islice(stopped, 5):
    pass
saved = json.dumps(stopped.state_dict())  # goes into the checkpoint, beside the model's
print("saved:", saved)

resumed = make_loader()
resumed.load_state_dict(json.loads(saved))
rest = [images.copy() for images, _ in resumed]

assert len(rest) == len(whole) - 5
assert all(np.array_equal(a, b) for a, b in zip(rest, whole[5:]))
print(f"the {len(rest)} batches that were left are those of the run that was not stopped, to the bit")
