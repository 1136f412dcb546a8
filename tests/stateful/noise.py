"""Locks and queues that give way now and then: they make the narrow windows of a race wide.

A switch interval of a microsecond switches threads anywhere, but seldom in the few
bytecodes that matter.  These let another thread in right before and after the moments
at which threads meet, and sometimes collect there, as an allocation could.
"""

from __future__ import annotations

import gc
import random
import threading
import time
from collections import deque
from typing import Any

from sweepgrad.sync import ThreadStates


class NoisyPrimitives:
    """Native threads; locks and queues with pauses."""

    def __init__(self, seed: int) -> None:
        self.threads = ThreadStates()
        self.random = random.Random(seed).random  # one C call, so threads may share it

    def pause(self) -> None:
        chance = self.random()
        if chance < 0.3:
            time.sleep(0)  # whoever waits for the interpreter, or the processor, goes on
        elif chance < 0.35:
            time.sleep(50e-6)  # somebody else has the time for a whole operation
        elif chance < 0.36:
            gc.collect()

    def lock(self) -> NoisyLock:
        return NoisyLock(self)

    def queue(self) -> deque[Any]:
        return NoisyQueue(self)


class NoisyLock:
    """A plain lock with pauses around it."""

    __slots__ = ("_lock", "_pause")

    def __init__(self, primitives: NoisyPrimitives) -> None:
        self._lock = threading.Lock()
        self._pause = primitives.pause

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self._pause()
        taken = self._lock.acquire(blocking, timeout)
        self._pause()
        return taken

    def release(self) -> None:
        self._pause()
        self._lock.release()
        self._pause()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self.release()


class NoisyQueue(deque[Any]):
    """A queue of drops with a pause before each append and each pop."""

    def __init__(self, primitives: NoisyPrimitives) -> None:
        super().__init__()
        self._pause = primitives.pause

    def append(self, item: Any) -> None:
        self._pause()
        super().append(item)

    def popleft(self) -> Any:
        self._pause()
        return super().popleft()
