"""Threads, locks, queues and identity: the only module that imports ``threading``.

Every other module gets these from here, so that one swap (:class:`Primitives`)
puts a whole :class:`~sweepgrad.graph.GraphRuntime` under the control of a
schedule explorer.  The native primitives are the plain C objects of CPython:
production pays nothing for being swappable.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

Thread = threading.Thread
Barrier = threading.Barrier
BrokenBarrierError = threading.BrokenBarrierError
Event = threading.Event
get_ident = threading.get_ident
current_thread = threading.current_thread
enumerate_threads = threading.enumerate

#: The queue of drops.  ``append`` and ``popleft`` of :class:`collections.deque`
#: are single C calls that the free-threaded build runs in the deque's own
#: critical section, so either may race with the other from any thread.
Queue = deque


#: True where each built-in container has a lock of its own: a CPython that can run without
#: a GIL.
CONTAINERS_LOCK = "free-threading" in sys.version


def contents(container: set[Any] | deque[Any] | dict[int, Any]) -> list[Any]:
    """What a container holds, in its order, read in a forked child without its lock.

    On a build where containers lock themselves a child may find one locked for ever
    (CPython 3.13 and 3.14, a plain set shared by 16 threads: 1 fork of 100 to 200):

    1. one thread is inside ``set.add``; another waits for the set's lock, for over 1 ms
    2. the first hands the lock over, still locked, to the second, which has yet to wake up
    3. a third thread forks, and the second does not exist in the child

    Copying the container would wait there, as would looping over it.  The traversal that
    the cyclic collector makes takes no lock.
    """
    # A traversal visits the class too.
    return [item for item in gc.get_referents(container) if item is not type(container)]


class SharedSet(Protocol):
    """A set that any thread changes without a lock of ours: a plain one where that will do."""

    def add(self, item: Any, /) -> None: ...
    def discard(self, item: Any, /) -> None: ...
    def copy(self) -> set[Any]: ...
    def __len__(self) -> int: ...


class RenewableSet:
    """A set that a forked child exchanges for one whose lock is free; see :func:`contents`.

    ``add`` and ``copy`` are the set's own.  ``discard`` finds the set when it is called,
    because weak references that the child inherits have it for their callback.
    """

    __slots__ = ("_items", "add", "copy")

    def __init__(self) -> None:
        self._use(set())

    def _use(self, items: set[Any]) -> None:
        self._items = items
        self.add = items.add
        self.copy = items.copy

    def discard(self, item: Any, /) -> None:
        self._items.discard(item)

    def __len__(self) -> int:
        return len(self._items)

    def renew(self) -> None:
        """Exchange the set; for a forked child, while it has one thread."""
        self._use(set(contents(self._items)))


class RenewableCache:
    """A function that remembers results, in a cache that a forked child makes anew."""

    __slots__ = ("_maxsize", "_remembering", "function")

    def __init__(self, function: Callable[..., Any], maxsize: int) -> None:
        self.function = function
        self._maxsize = maxsize
        self.renew()

    def __call__(self, *args: Any) -> Any:
        return self._remembering(*args)

    def renew(self) -> None:
        """Forget everything, and the cache's lock with it."""
        self._remembering = functools.lru_cache(self._maxsize)(self.function)


#: What lives as long as the process and a forked child renews.  Appended to by imports.
_renewed_by_child: list[RenewableSet | RenewableCache] = []


def global_set() -> SharedSet:
    """A new set for as long as the process lives; any thread may change it without a lock."""
    made = shared_set()
    if isinstance(made, RenewableSet):
        _renewed_by_child.append(made)
    return made


def shared_set() -> SharedSet:
    """A new set which any thread may change without a lock; its owner has children renew it."""
    return RenewableSet() if CONTAINERS_LOCK else set()


def cached(maxsize: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``functools.lru_cache`` for positional arguments, in forked children of any build too."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not CONTAINERS_LOCK:
            return functools.lru_cache(maxsize)(function)
        made = RenewableCache(function, maxsize)
        _renewed_by_child.append(made)
        return made

    return decorate


def renew_globals() -> None:
    """In a forked child: free the locks of the sets and caches that live as long as the process."""
    for made in _renewed_by_child:
        made.renew()


def renew_set(made: SharedSet) -> None:
    """In a forked child: free the lock of a :func:`shared_set`."""
    if isinstance(made, RenewableSet):
        made.renew()


def renewed_dict(mapping: dict[int, Any]) -> dict[int, Any]:
    """In a forked child: the dict to use in place of this one, with the same items."""
    if not CONTAINERS_LOCK:
        return mapping
    # The traversal gives each value before its key; only where all keys are strings, no keys.
    items = contents(mapping)
    return dict(zip(items[1::2], items[::2], strict=True))


def renewed_queue(queue: deque[Any]) -> deque[Any]:
    """In a forked child: the queue to use in place of this one, with the same items."""
    if type(queue) is deque and CONTAINERS_LOCK:
        return deque(contents(queue))
    return queue


class Lock(Protocol):
    """What the runtime asks of a lock: the plain C lock, or a stand-in for it."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def locked(self) -> bool: ...
    def __enter__(self) -> bool: ...
    def __exit__(self, *exc_info: Any) -> None: ...


class ThreadState:
    """What one thread is doing inside the runtime.  Touched by its own thread only."""

    __slots__ = (
        "__weakref__",
        "book",
        "deferred",
        "discarding",
        "fork",
        "garbage",
        "held",
        "rising",
        "section",
        "sweeping",
        "sweeps_asked",
    )

    def __init__(self) -> None:
        #: What the thread's critical section is about, or None outside of one.
        self.section: object | None = None
        #: Graphs with drops that a finalizer left for the end of the section.
        self.deferred: list[Any] = []
        #: Freed nodes still to be taken apart, and whether an outer call is doing it.
        self.garbage: list[Any] = []
        self.discarding = False
        #: What the thread holds while it forks.
        self.fork: Any = None
        #: True while the thread holds the SWEEP lock.
        self.sweeping = False
        #: Runtimes whose full sweep was asked for where it could not run.
        self.sweeps_asked: list[Any] = []
        #: Ranked locks held, outermost first, whether locks of one rank may be taken in
        #: rising serial just now, and notes.  Used by the order checker alone.
        self.held: list[Any] = []
        self.rising = False
        self.book: Any = None


class _MadeAtFirstLook:
    """The attribute ``state`` of a thread that has none yet; once made, the thread's own hides it.

    Making a state allocates, so a collection may start there and run a finalizer that
    uses sweepgrad in the same thread: it makes the state first, and ``setdefault``, one
    C call, hands that one to the outer look too.  With an ``__init__`` of the thread's
    part, which is not called twice, such a finalizer would find no state at all.
    """

    def __get__(self, states: ThreadStates, kind: type[ThreadStates]) -> ThreadState:
        state: ThreadState = states.__dict__.setdefault("state", ThreadState())
        return state


class ThreadStates(threading.local):
    """Gives each thread its own :class:`ThreadState`, as attribute ``state``."""

    state = _MadeAtFirstLook()


class Primitives(Protocol):
    """Everything a runtime needs from the machine it runs on."""

    threads: Any  # an object whose attribute ``state`` is this thread's ThreadState

    def lock(self) -> Lock: ...
    def queue(self) -> deque[Any]: ...


class NativePrimitives:
    """The real thing: C locks, deques and thread-local states."""

    def __init__(self) -> None:
        self.threads = ThreadStates()

    #: A plain C lock, not reentrant: see the note on reentrancy in docs/locks.md.  The C
    #: functions themselves: starting a graph calls both.
    lock = staticmethod(threading.Lock)
    queue: Callable[[], deque[Any]] = staticmethod(deque)


NATIVE = NativePrimitives()


def register_at_fork(
    before: Callable[[], None],
    after_in_parent: Callable[[], None],
    after_in_child: Callable[[], None],
) -> None:
    """Arrange for the three callbacks to run around every ``os.fork``, where it exists."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=before, after_in_parent=after_in_parent, after_in_child=after_in_child
        )


def swap_threading(names: dict[str, Any]) -> dict[str, Any]:
    """Put other objects under these names in :mod:`threading`; returns what was there.

    For the explorer, under which a program's own threads and locks are the model's.
    """
    before = {name: getattr(threading, name) for name in names}
    for name, value in names.items():
        setattr(threading, name, value)
    return before
