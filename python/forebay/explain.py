"""What a loader does and how, in words."""

from __future__ import annotations

from forebay.spec import Spec
from forebay.walk import Source

__all__ = ["text"]


def text(source: Source, spec: Spec, seed: int, order: str, *, batches: int | None, samples: int) -> str:
    """One heading a line, with its text beside it."""
    size = "" if spec.batch_size is None else f" of {spec.batch_size}"
    length = "as many as there are" if batches is None else f"{batches:,}"
    left = ", the last one dropped if it is not whole" if spec.drop_last else ""
    action = spec.on_error.action
    lines = [
        *source.explain(),
        ("batches", f"{length}{size} an epoch{left}{'' if spec.in_order else ', in any order'}"),
        ("order", f"{order}, seed {seed}" if order == "shuffled" else order),
        ("rank", f"{spec.rank} of {spec.world_size}" + (f", says {spec.ranked_by}" if spec.ranked_by else "")),
        (
            "on error",
            f"{action}, at most {spec.on_error.count(samples)} samples an epoch" if action != "raise" else action,
        ),
    ]
    width = max(len(heading) for heading, _ in lines) + 2
    return "\n".join(heading.ljust(width) + words.replace("\n", "\n" + " " * width) for heading, words in lines)
