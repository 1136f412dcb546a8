"""What the workers of a stress run count, each thread in its own record."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import local

from sweepgrad.sync import NATIVE


@dataclass
class Counters:
    """One worker's counts; written by its own thread alone and read by the reporter."""

    operations: int = 0
    backwards: int = 0
    refused: int = 0
    consumed: int = 0
    overlaps: int = 0
    forks: int = 0
    finalizers: int = 0
    progress: float = field(default_factory=time.monotonic)
    #: Seconds of the longest time without a step.
    pause: float = 0.0
    where: str = "starting"
    running: bool = True

    def step(self, where: str, operations: int = 0, backwards: int = 0) -> None:
        """Note that work was done, and what."""
        self.operations += operations
        self.backwards += backwards
        self.where = where
        now = time.monotonic()
        self.pause = max(self.pause, now - self.progress)
        self.progress = now


class Overlap:
    """Counts the pieces of work during which another thread was inside a piece of work too.

    A run without overlaps tests nothing and fails.  ``busy`` is a dict whose item
    set and delete are single operations on every build; an inexact count is enough.
    """

    def __init__(self) -> None:
        self.busy: dict[int, bool] = {}

    def enter(self, worker: int, counters: Counters) -> None:
        self.busy[worker] = True
        if len(self.busy) > 1:
            counters.overlaps += 1

    def leave(self, worker: int) -> None:
        self.busy.pop(worker, None)


class _Mine(local):
    """The counters of the thread that looks; a thread that is no worker has some of its own."""

    def __init__(self) -> None:
        self.counters = Counters()


#: A collection runs the finalizers of all threads' garbage in one thread: what they do is that
#: thread's progress, and with many threads it may be minutes of it.
MINE = _Mine()


class Paced:
    """Lets one thread at a time do what holds up all others, then rests ``rest`` times as long.

    By the time that the last one took, not by the clock: with 64 threads it takes a hundred
    times as long as with four, most of it in the queue, and a run would do nothing else.
    """

    def __init__(self, rest: float) -> None:
        self._rest = rest
        self._busy = NATIVE.lock()
        self._next = 0.0

    def run(self, action: Callable[[], object]) -> bool:
        """Do it, unless it is too soon or another thread is at it; False then."""
        if time.monotonic() < self._next or not self._busy.acquire(blocking=False):
            return False
        start = time.monotonic()
        try:
            action()
        finally:
            end = time.monotonic()
            self._next = end + self._rest * (end - start)
            self._busy.release()
        return True
