"""tf.data on the CPU.

Its best: decoding the crop only (`decode_and_crop_jpeg`), autotuned parallelism inside a private pool of as many
threads as the others have workers, and its own layout: images stay NHWC, because turning them would be a cost it need
not pay.
The resize is antialiased, as everybody's is here; TensorFlow's default is not.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import measure  # isort: skip  first: memory is counted from here

import tensorflow as tf


def prepare(path, label, output: str):
    encoded = tf.io.read_file(path)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(encoded),
        bounding_boxes=tf.zeros([1, 0, 4]),
        min_object_covered=0.0,
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    pixels = tf.image.decode_and_crop_jpeg(encoded, window, channels=3, dct_method="INTEGER_ACCURATE")
    pixels = tf.image.resize(pixels, [measure.SIZE, measure.SIZE], antialias=True)
    pixels = tf.image.random_flip_left_right(pixels)
    if output == "f32":
        pixels = (pixels - 255 * tf.constant(measure.MEAN)) / (255 * tf.constant(measure.DEVIATION))
    else:
        pixels = tf.cast(tf.round(pixels), tf.uint8)
    return pixels, label


def open_loader(task: measure.Task):
    tf.config.threading.set_inter_op_parallelism_threads(task.workers)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    files, labels = task.files()
    photos = tf.data.Dataset.from_tensor_slices((files, labels)).shuffle(len(files), seed=0)
    photos = photos.map(lambda path, label: prepare(path, label, task.output), num_parallel_calls=tf.data.AUTOTUNE)
    photos = photos.batch(task.batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.threading.private_threadpool_size = task.workers
    options.autotune.cpu_budget = task.workers
    return photos.with_options(options)


if __name__ == "__main__":
    measure.run(open_loader, layout="NHWC", version=f"tensorflow {tf.__version__}")
