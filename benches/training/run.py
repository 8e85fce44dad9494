"""Train ResNets on a GPU from photographs, and see how long the GPU waits.

For each model, three ways to feed it, in turn, over several rounds:

- ``synthetic``: one batch that already lies on the GPU, again and again: what the GPU can do;
- ``torch``: ``torch.utils.data.DataLoader`` over torchvision's ``ImageFolder``, one worker for each core;
- ``forebay``: the same lines with ``forebay.DataLoader`` in the place of torch's: the folder is lowered to native work;
- ``forebay-bf16``: a native pipeline that delivers what the model takes, bf16 and channels last.

bf16 autocast, channels last, batch 256, SGD. The share of time the GPU waits is one minus the time it spent between the
first and the last kernel of each step, taken by CUDA events, over the wall time.

    python benches/training/run.py --photos DIR --models resnet50,resnet18 --rounds 2
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "demo"))

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Batches = Iterator[tuple[Any, Any]]


def training_folder(photos: Path) -> Any:
    """Torchvision's folder with the usual training transform."""
    from torchvision import datasets, transforms

    transform = transforms.Compose(
        [
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    return datasets.ImageFolder(str(photos), transform)


def endless(loader: Any, to_model: Callable[[Any], Any]) -> Batches:
    """Epoch after epoch of a loader, on the GPU."""
    while True:
        for images, labels in loader:
            yield to_model(images), labels.to("cuda", non_blocking=True)


def plain(images: Any) -> Any:
    """NCHW floats from main memory to channels last on the GPU."""
    import torch

    return images.to("cuda", non_blocking=True).contiguous(memory_format=torch.channels_last)


def synthetic(_: Path, batch: int, workers: int) -> Batches:
    import torch

    images = torch.randn(batch, 3, 224, 224, device="cuda").contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (batch,), device="cuda")
    while True:
        yield images, labels


def from_torch(photos: Path, batch: int, workers: int) -> Batches:
    from torch.utils.data import DataLoader

    loader = DataLoader(
        training_folder(photos),
        batch_size=batch,
        shuffle=True,
        num_workers=workers,
        pin_memory=True,
        drop_last=True,
        persistent_workers=True,
    )
    return endless(loader, plain)


def from_forebay(photos: Path, batch: int, workers: int) -> Batches:
    from forebay import DataLoader

    loader = DataLoader(
        training_folder(photos), batch_size=batch, shuffle=True, num_workers=workers, pin_memory=True, drop_last=True
    )
    return endless(loader, plain)


def from_forebay_bf16(photos: Path, batch: int, workers: int) -> Batches:
    import forebay as fb

    dataset = fb.image_folder(photos).decode().random_resized_crop(224).horizontal_flip().normalize()
    loader = fb.DataLoader(
        dataset.to("bf16", layout="NHWC"),
        batch_size=batch,
        shuffle=True,
        num_workers=workers,
        pin_memory=True,
        drop_last=True,
    )
    return endless(loader, lambda images: images.to("cuda", non_blocking=True).permute(0, 3, 1, 2))


FEEDS = {"synthetic": synthetic, "torch": from_torch, "forebay": from_forebay, "forebay-bf16": from_forebay_bf16}


def train(model_name: str, batches: Batches, batch: int, steps: int, warm_up: int) -> dict[str, float]:
    """Images a second and the share of time the GPU waits, over ``steps`` after ``warm_up``."""
    import torch
    import torchvision

    torch.backends.cudnn.benchmark = True
    model = getattr(torchvision.models, model_name)(num_classes=10).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    spans, start, waited = [], 0.0, 0.0
    for step in range(warm_up + steps):
        if step == warm_up:
            torch.cuda.synchronize()
            start, waited = time.perf_counter(), 0.0
        asked = time.perf_counter()
        images, labels = next(batches)
        waited += time.perf_counter() - asked
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        last.record()
        if step >= warm_up:
            spans.append((first, last))
    torch.cuda.synchronize()
    wall = time.perf_counter() - start
    busy = sum(first.elapsed_time(last) for first, last in spans) / 1000
    return {
        "images_per_second": steps * batch / wall,
        "gpu_waits": max(0.0, 1 - busy / wall),
        "consumer_waited": waited / wall,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="folder of photographs; made if it does not exist")
    parser.add_argument("--count", type=int, default=20_000, help="photographs to make (default 20000)")
    parser.add_argument("--models", default="resnet50,resnet18", help="torchvision models (default resnet50,resnet18)")
    parser.add_argument("--feeds", default=",".join(FEEDS), help=f"of {', '.join(FEEDS)} (default all)")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100, help="steps that count, after 20 that do not (default 100)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("this benchmark needs torch and torchvision: pip install torch torchvision", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print("this benchmark needs a CUDA GPU and torch built for it", file=sys.stderr)
        return 1
    from photos import make_photos

    make_photos(options.photos, options.count)
    gpu = torch.cuda.get_device_name()
    results: dict[str, dict[str, list[dict[str, float]]]] = {}
    for model in options.models.split(","):
        by_feed = results.setdefault(model, {})
        for round_number in range(options.rounds):
            for feed in options.feeds.split(","):
                batches = FEEDS[feed](options.photos, options.batch, options.workers)
                figures = train(model, batches, options.batch, options.steps, warm_up=20)
                del batches
                by_feed.setdefault(feed, []).append(figures)
                shown = f"{figures['images_per_second']:8.0f} images/s   GPU waits {figures['gpu_waits']:6.1%}"
                print(f"{model:9} round {round_number} {feed:13} {shown}", flush=True)
    print(f"\n{gpu}, {os.cpu_count()} cores, batch {options.batch}, median of {options.rounds}")
    for model, by_feed in results.items():
        best = {feed: statistics.median(f["images_per_second"] for f in runs) for feed, runs in by_feed.items()}
        for feed, rate in best.items():
            waits = statistics.median(f["gpu_waits"] for f in by_feed[feed])
            ratios = [f"{rate / best[other]:.2f} x {other}" for other in ("synthetic", "torch") if other in best]
            print(f"{model:9} {feed:13} {rate:8.0f} images/s   GPU waits {waits:6.1%}   {', '.join(ratios)}")
    if options.out:
        machine = {"gpu": gpu, "cores": os.cpu_count(), "torch": torch.__version__}
        options.out.write_text(json.dumps({"machine": machine, "command": sys.argv, "results": results}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
