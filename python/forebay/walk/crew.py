"""Threads that work for one walk, and are gone after it.

**Invariant:** a crew keeps neither its walk nor the interpreter alive: a walk that is forgotten stops its crew (see
:func:`Crew.serve`), and so does the end of the program.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from queue import SimpleQueue
from typing import Any, Callable

__all__ = ["Crew"]

_PATIENCE = 5.0
"""Seconds that closing waits for a sample that is being fetched."""

_at_work: weakref.WeakSet[Crew] = weakref.WeakSet()


class Crew:
    """Threads that do tasks, whichever is free first. Where there are none, the caller does them."""

    def __init__(self, size: int) -> None:
        """Threads start with the first task."""
        self.size = size
        self.done: SimpleQueue[Any] = SimpleQueue()
        """What tasks have brought about."""
        self.lock = threading.Lock()
        """Guards what tasks share."""
        self.is_stopped = False
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def serve(self, walk: object) -> None:
        """Stops when the walk is forgotten. Tasks must not refer to it, or it never will be."""
        weakref.finalize(walk, self.stop).atexit = False  # the end of the program is seen to below

    def offer(self, task: Callable[[], None]) -> None:
        """Has a task done."""
        if not self.size:
            task()
            return
        while len(self._threads) < self.size and not self.is_stopped:
            name = f"forebay-python-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
            _at_work.add(self)
        self._tasks.put(task)

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None or self.is_stopped:
                return
            task()
            del task  # so that an idle thread holds no batch

    def stop(self) -> None:
        """Has every thread leave after its task. Waits for none: the garbage collector may be calling."""
        self.is_stopped = True
        for _ in range(self.size):
            self._tasks.put(None)

    def join(self, until: float | None = None) -> None:
        """Waits until the threads have left; not for ever, since a task may hang."""
        deadline = time.monotonic() + _PATIENCE if until is None else until
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))


def _leave() -> None:
    """Threads that are still in C code when the interpreter goes away can crash it, so they leave first."""
    until = time.monotonic() + _PATIENCE
    crews = list(_at_work)
    for crew in crews:
        crew.stop()
    for crew in crews:
        crew.join(until)


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_at_work.clear)
