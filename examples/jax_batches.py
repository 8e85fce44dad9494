"""Batches as JAX arrays.

Run it as `python examples/jax_batches.py [FOLDER]`.
"""

import forebay as fb
import jax
import jax.numpy as jnp
from photos_folder import photos

dataset = fb.image_folder(photos()).decode().random_resized_crop(96).horizontal_flip().normalize().to(layout="NHWC")
loader = fb.DataLoader(dataset, batch_size=32, shuffle=True, seed=0, drop_last=True, output="jax")


@jax.jit
def channel_means(images: jax.Array) -> jax.Array:
    return jnp.mean(images, axis=(0, 1, 2))


for images, labels in loader:
    print(images.shape, images.dtype, labels.shape, channel_means(images).round(3))
