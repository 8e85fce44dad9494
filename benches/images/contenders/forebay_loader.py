"""Forebay: threads in this process, no worker processes."""

import measure  # isort: skip  first: memory is counted from here

import forebay as fb


def open_loader(task: measure.Task):
    photos = fb.image_folder(task.data).decode().random_resized_crop(measure.SIZE).horizontal_flip()
    if task.output == "f32":
        photos = photos.normalize()
    return fb.DataLoader(
        photos,
        batch_size=task.batch_size,
        shuffle=True,
        seed=0,
        num_workers=task.workers,
        drop_last=True,
        output="numpy",
    )


if __name__ == "__main__":
    measure.run(open_loader, version=fb.__version__)
