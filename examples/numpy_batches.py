"""Batches without torch: NumPy arrays over the engine's own memory, not copies of it.

Run it as `python examples/numpy_batches.py [FOLDER]`.
"""

import forebay as fb
from photos_folder import photos

dataset = fb.image_folder(photos()).decode().resize(256).center_crop(224).to(layout="NHWC")
loader = fb.DataLoader(dataset, batch_size=32, output="numpy")

for images, labels in loader:
    print(
        images.shape, images.dtype, "mean level", round(float(images.mean()), 1), "labels", sorted(set(labels.tolist()))
    )

# A batch's memory is used again once nobody holds an array over it, so keep what you need as a copy.
kept = [labels.copy() for _, labels in loader]
print("samples seen:", sum(len(labels) for labels in kept))
