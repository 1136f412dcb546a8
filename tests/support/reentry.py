"""Locks that run a function while they are held: a stand-in for a collection at a bad moment."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from sweepgrad.sync import ThreadStates


class HookedPrimitives:
    """Primitives whose locks call ``inside(lock)`` right after they are taken and right before

    they are released.  The call is not repeated for locks that it takes itself.
    """

    def __init__(self) -> None:
        self.threads = ThreadStates()
        self.inside: Callable[[HookedLock], Any] | None = None
        #: What ``inside`` raised.
        self.errors: list[BaseException] = []
        #: Every lock there is; weakly, or the locks of all graphs that were would pile up.
        self._locks: set[weakref.ref[HookedLock]] = set()
        self._busy = threading.local()
        #: Locks waited for, and tried, by code that ``inside`` called; one entry each.
        self.waited: list[HookedLock] = []
        self.tried: list[HookedLock] = []

    def lock(self) -> HookedLock:
        lock = HookedLock(self)
        self._locks.add(weakref.ref(lock, self._locks.discard))
        return lock

    def queue(self) -> deque[Any]:
        return deque()

    def held(self) -> list[HookedLock]:
        """The locks held now, by any thread."""
        references = self._locks.copy()  # one C call: other threads make locks meanwhile
        locks = [lock for reference in references if (lock := reference()) is not None]
        return [lock for lock in locks if lock.locked()]

    def is_inside(self) -> bool:
        return getattr(self._busy, "on", False)

    def call(self, lock: HookedLock) -> None:
        if self.inside is None or self.is_inside():
            return
        self._busy.on = True
        try:
            self.inside(lock)
        except BaseException as error:  # raised from acquire() it would leave the lock held
            self.errors.append(error)
        finally:
            self._busy.on = False


class HookedLock:
    """A plain lock that calls its primitives' ``inside`` while it is held."""

    def __init__(self, primitives: HookedPrimitives) -> None:
        self._primitives = primitives
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        primitives = self._primitives
        if primitives.is_inside():
            (primitives.waited if blocking else primitives.tried).append(self)
        if not self._lock.acquire(blocking, timeout):
            return False
        primitives.call(self)
        return True

    def release(self) -> None:
        self._primitives.call(self)
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self.release()
