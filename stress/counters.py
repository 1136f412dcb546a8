"""What the workers of a stress run count, each thread in its own record."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Counters:
    """One worker's counts; written by its own thread alone and read by the reporter."""

    operations: int = 0
    backwards: int = 0
    refused: int = 0
    consumed: int = 0
    overlaps: int = 0
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
