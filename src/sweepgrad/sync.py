"""Threads, locks, queues and identity: the only module that imports ``threading``.

Every other module gets these from here, so that one swap (:class:`Primitives`)
puts a whole :class:`~sweepgrad.graph.GraphRuntime` under the control of a
schedule explorer.  The native primitives are the plain C objects of CPython:
production pays nothing for being swappable.
"""

from __future__ import annotations

import os
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
