"""Train a small network with torch. Only the two lines that make the loader are Forebay's.

Run it as `python examples/train_torch.py [FOLDER]`.
"""

import forebay as fb
import torch
from photos_folder import photos
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"

dataset = fb.image_folder(photos()).decode().random_resized_crop(64).horizontal_flip().normalize()
loader = fb.DataLoader(dataset, batch_size=32, shuffle=True, seed=0, drop_last=True, pin_memory=device == "cuda")

model = nn.Sequential(
    nn.Conv2d(3, 16, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(32, len(dataset.classes)),
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

for epoch in range(3):
    total = 0.0
    for images, labels in loader:  # every pass over the loader is the next epoch
        loss = nn.functional.cross_entropy(
            model(images.to(device, non_blocking=True)), labels.to(device, non_blocking=True)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: mean loss {total / len(loader):.3f}")
