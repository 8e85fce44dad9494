"""The loader: torch's ``DataLoader``, argument for argument, on top of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Callable

from forebay import explain, lower, order, spec, state
from forebay.dataset import ImageFolder
from forebay.errors import CancelledError
from forebay.iterate import Batches, Books
from forebay.on_error import OnError
from forebay.order import Start
from forebay.walk import Source

__all__ = ["DataLoader"]


class DataLoader:
    """Batches of a dataset, prepared ahead of the program that consumes them.

    Takes the arguments of ``torch.utils.data.DataLoader``, in its order and with its defaults, and these differences:

    - ``num_workers`` counts threads: ``"auto"``, the default, is as many as there are cores for this process, and 0
      does everything in the calling thread. A dataset written in Python is therefore called from several threads at
      once; if it cannot bear that, pass ``num_workers=1``, or a ``multiprocessing_context`` or ``worker_init_fn``,
      which bring torch's worker processes.
    - ``prefetch_factor`` counts the batches prepared ahead by the loader in all, not by each worker: 2, or what it
      takes to keep the workers busy with small batches.
    - The order is a function of seed and epoch alone, and is cut into batches over all ranks: under torchrun, Slurm or
      MPI each rank gets its part without a ``DistributedSampler``. With one, or any other sampler, it is obeyed.

    And these arguments beside:

    - ``seed``: of the order and of random operations. Follows ``generator``, then ``torch.initial_seed()`` if there is
      one rank, then is 0.
    - ``rank``, ``world_size``: found in ``torch.distributed`` or in the launcher's variables unless given.
    - ``output``: ``"torch"``, ``"numpy"``, ``"jax"`` or ``"dlpack"``; torch where it is installed, NumPy otherwise.
    - ``on_error``: ``"raise"``, ``"skip"``, ``"replace"`` or an :class:`OnError`.
    - ``cpu_budget``: the most workers, in cores, or below 1 as a fraction of them.
    - ``ram_budget``: the most memory for batches, in bytes or as ``"4GB"``; half of what is free unless given.

    >>> train = fb.image_folder("data/train").decode().random_resized_crop(224).horizontal_flip().normalize()
    >>> loader = fb.DataLoader(train, batch_size=256, shuffle=True, seed=0, drop_last=True)
    >>> for images, labels in loader:
    ...     ...
    """

    def __init__(  # noqa: PLR0917
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int | str = "auto",
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        output: str | None = None,
        on_error: OnError | str = "raise",
        cpu_budget: float | None = None,
        ram_budget: int | str | None = None,
    ) -> None:
        """Checks the arguments. Nothing is read and no thread starts before the first ``iter()``."""
        self._arguments = {
            "batch_size": batch_size,
            "shuffle": shuffle,
            "sampler": sampler,
            "batch_sampler": batch_sampler,
            "num_workers": num_workers,
            "collate_fn": collate_fn,
            "pin_memory": pin_memory,
            "drop_last": drop_last,
            "timeout": timeout,
            "worker_init_fn": worker_init_fn,
            "multiprocessing_context": multiprocessing_context,
            "generator": generator,
            "prefetch_factor": prefetch_factor,
            "persistent_workers": persistent_workers,
            "in_order": in_order,
            "seed": seed,
            "rank": rank,
            "world_size": world_size,
            "output": output,
            "on_error": on_error,
            "cpu_budget": cpu_budget,
            "ram_budget": ram_budget,
        }
        self.dataset = dataset
        self._spec = spec.check(dataset, **self._arguments)
        self._seed = self._spec.seed
        self._epochs = state.Epochs()
        self._books = Books()
        self._is_closed = False
        # What torch's users read.
        self.batch_size = self._spec.batch_size
        self.num_workers = self._spec.num_workers
        self.collate_fn = collate_fn
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.drop_last = self._spec.drop_last
        self.timeout = timeout
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._source = _source(dataset, self._spec, num_workers)

    def __iter__(self) -> Batches:
        """The batches of the next epoch, or of the one that was set; from where a loaded state says."""
        if self._is_closed:
            raise CancelledError("the loader was closed; make another")
        epoch, position = self._epochs.upcoming()
        walk = self._source.open(Start(self._seed, epoch, position))
        progress = state.Progress(epoch, position, walk.remaining, in_order=self._spec.in_order)
        batches = Batches(walk, progress, self._books, self._length())
        self._epochs.follow(progress)
        return batches

    def __len__(self) -> int:
        """Batches that this rank gets in a whole epoch."""
        length = self._length()
        if length is None:
            raise TypeError(
                f"{type(self._spec.sampler or self._spec.batch_sampler or self.dataset).__name__} has no len()"
            )
        return length

    def _length(self) -> int | None:
        samples = self._samples()
        try:
            if not spec.is_stream(self.dataset):
                return order.batches_per_epoch(self._spec, samples)
        except TypeError:  # the sampler has no length
            return None
        size = self._spec.batch_size or 1
        if samples < 0:
            return None
        return samples // size if self._spec.drop_last else -(-samples // size)

    def _samples(self) -> int:
        """How many samples the dataset has; -1 where it does not say."""
        try:
            return len(self.dataset)
        except TypeError:
            return -1

    def _order(self) -> str:
        if spec.is_stream(self.dataset):
            return "stream"
        if self._spec.is_sampled:
            return "sampler"
        return "shuffled" if self._spec.shuffle else "sequential"

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that ``iter()`` walks, until it is set again.

        If it is never set, every ``iter()`` walks the next epoch. A sampler that has ``set_epoch`` is told too.
        """
        self._epochs.set(state.check_epoch(epoch))
        self._tell_sampler(epoch)

    def _tell_sampler(self, epoch: int) -> None:
        sampler = self._spec.sampler if self._spec.sampler is not None else self._spec.batch_sampler
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iterator stands: a few plain numbers and words, equal on all ranks.

        Valid between any two batches: it counts what the iterator has yielded, whatever was prefetched. After the
        last batch of an epoch it is the start of the next. It holds for another world size of the same global batch.
        With ``in_order=False`` it is where everything before has been yielded, so that some batches may come again.
        """
        epoch, position = self._epochs.stand()
        return {
            "version": state.VERSION,
            "seed": self._seed,
            "epoch": epoch,
            "position": position,
            "samples": self._samples(),
            "order": self._order(),
            "sticky_epoch": int(self._epochs.is_sticky),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from there with the next ``iter()``, exactly: same samples, same batches, same augmentation.

        The seed becomes that of the state. A sampler of the user's is drawn from again, and what was consumed is
        passed over, so it must draw the same again.
        """
        loaded = state.checked_state(state_dict, samples=self._samples(), order=self._order())
        self._seed = loaded["seed"]
        self._epochs.resume(loaded["epoch"], loaded["position"], is_sticky=bool(loaded["sticky_epoch"]))
        if loaded["sticky_epoch"]:
            self._tell_sampler(loaded["epoch"])

    def explain(self) -> str:
        """What this loader does and how: what runs natively and what does not and why, workers, memory, order."""
        length, samples = self._length(), self._samples()
        return explain.text(self._source, self._spec, self._seed, self._order(), batches=length, samples=samples)

    def stats(self) -> dict[str, Any]:
        """Samples, batches, bytes, errors, and seconds by step summed over threads, over all iterators so far."""
        return self._books.counts()

    def report(self) -> list[dict[str, Any]]:
        """The samples that were lost and why, over all iterators so far; see ``on_error``."""
        return [
            {"sample": loss.sample, "path": loss.path, "reason": loss.reason, "replaced_by": loss.replaced_by}
            for loss in self._books.losses()
        ]

    def close(self) -> None:
        """Ends all iterators, threads and processes. Batches that were handed over stay valid."""
        self._is_closed = True
        self._books.close_all()
        self._source.close()

    def __enter__(self) -> DataLoader:
        """The loader itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()

    def __repr__(self) -> str:
        """What it was made of, in one line."""
        is_batched = self.batch_size is not None or self.batch_sampler is not None
        size = f"batch_size={self.batch_size}" if is_batched else "no batching"
        name = type(self.dataset).__name__
        return f"<forebay.DataLoader of {name}, {size}, {self._order()}, {self.num_workers} workers>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as its arguments and state; threads, iterators and counts stay behind."""
        arguments = {**self._arguments, "generator": None, "seed": self._seed}
        if not self._spec.is_sampled:
            arguments.update(rank=self._spec.rank, world_size=self._spec.world_size)
        return _remade, (self.dataset, arguments, self.state_dict())


def _remade(dataset: Any, arguments: dict[str, Any], saved: dict[str, Any]) -> DataLoader:
    loader = DataLoader(dataset, **arguments)
    loader.load_state_dict(saved)
    return loader


def _source(dataset: Any, asked: spec.Spec, num_workers: int | str) -> Source:
    """Who prepares the samples: the engine if it can, else the user's Python in threads or, if asked for, processes."""
    if spec.is_stream(dataset):
        if asked.num_workers > 0 and (num_workers != "auto" or asked.wants_processes):
            from forebay.walk.processes import ProcessSource

            return ProcessSource(dataset, asked)
        from forebay.walk.stream import StreamSource

        return StreamSource(dataset, asked)
    lowered = dataset if isinstance(dataset, ImageFolder) else lower.lower(dataset)
    if isinstance(lowered, ImageFolder):
        # Where the user's function makes the batch, samples are still prepared natively, one by one.
        is_one_by_one = asked.collate_fn is not None or (asked.batch_size is None and asked.batch_sampler is None)
        if is_one_by_one:
            from forebay.walk.threads import ThreadSource

            why = "collate_fn is Python" if asked.collate_fn is not None else "batch_size=None"
            return ThreadSource(lowered, asked, f"{why}; samples are prepared by the engine, one by one")
        from forebay.walk.native import NativeSource

        return NativeSource(lowered, asked, None if lowered is dataset else type(dataset).__name__)
    if asked.wants_processes:
        from forebay.walk.processes import ProcessSource

        return ProcessSource(dataset, asked, lowered)
    from forebay.walk.threads import ThreadSource

    return ThreadSource(dataset, asked, lowered)
