"""Swap one import: a torchvision dataset as it is, prepared by the engine where all of its transforms are known.

Run it as `python examples/drop_in.py [FOLDER]`.
"""

from forebay import DataLoader  # was: from torch.utils.data import DataLoader
from photos_folder import photos
from torchvision import datasets, transforms

known = transforms.Compose(
    [
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
)
folder = photos()
loader = DataLoader(datasets.ImageFolder(folder, known), batch_size=32, shuffle=True, num_workers=2)
print(loader.explain(), end="\n\n")
images, labels = next(iter(loader))
print(images.shape, images.dtype, labels.shape, end="\n\n")

# A transform that the engine does not have runs as it would anywhere, in threads; explain() names it.
own = transforms.Compose([known, transforms.Lambda(lambda image: image.clamp(-2, 2))])
loader = DataLoader(datasets.ImageFolder(folder, own), batch_size=32, shuffle=True, num_workers=2)
print(loader.explain())
images, labels = next(iter(loader))
assert images.abs().max() <= 2
