"""The lock hierarchy: the one place that states it, and the checker that enforces it.

Outermost first; an indented lock may be taken while the one above it is held::

    SWEEP         one full sweep at a time           Sweeper.sweep
      LOCATOR     the directory of graphs, merges    GraphLocator.list_graphs, merge
        GRAPH     one graph's nodes, counts, drops   section.enter, settle
          PARAM   one parameter's compare-and-swap   ParameterSwap.replace, store

Two locks of one rank are held together in two cases only, both in rising serial:
a merge holds two GRAPH locks, taken by :func:`under_pair`, and a fork holds every
lock, taken by :func:`acquire_rising`.

A rank REPORT for counters was planned and is not needed: every counter is
written under the lock of the thing it counts and read without a lock.

``docs/locks.md`` is rendered from :data:`HIERARCHY` and :data:`OPERATIONS`.
"""

from __future__ import annotations

import enum
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import methodcaller
from time import perf_counter
from types import FrameType
from typing import Any

from sweepgrad.errors import LockOrderError
from sweepgrad.graph.books import Book, Books, Edge, Stack
from sweepgrad.sync import Lock, Primitives, ThreadState, get_ident


class Rank(enum.IntEnum):
    """Place of a lock class in the hierarchy; a lock is taken only above all ranks held."""

    SWEEP = 10
    LOCATOR = 20
    GRAPH = 30
    PARAM = 40


@dataclass(frozen=True)
class LockClass:
    """What a lock of this rank protects, who takes it, and what must not happen under it."""

    rank: Rank
    protects: str
    taken_by: str
    never_under_it: str


HIERARCHY: tuple[LockClass, ...] = (
    LockClass(
        Rank.SWEEP,
        "that one full sweep runs at a time",
        "Sweeper.sweep",
        "user code; destructors of saved values",
    ),
    LockClass(
        Rank.LOCATOR,
        "the list of graphs against merges, and merges against each other",
        "GraphLocator.list_graphs, GraphLocator.merge",
        "user code; destructors of saved values; waiting for SWEEP",
    ),
    LockClass(
        Rank.GRAPH,
        "one graph's node records, child counts, statistics and forwarding",
        "section.enter, section.settle (try only), GraphLocator.merge (two)",
        "user code; destructors of saved values; waiting for SWEEP, LOCATOR or another GRAPH",
    ),
    LockClass(
        Rank.PARAM,
        "one parameter's compare-and-swap (striped: many parameters may share a lock)",
        "ParameterSwap.replace, ParameterSwap.store",
        "user code; computing the new value; freeing the old array",
    ),
)


@dataclass(frozen=True)
class Operation:
    """One row of the table: which locks an operation takes, in order."""

    name: str
    locks: str
    waits: bool
    user_code_under_them: bool


OPERATIONS: tuple[Operation, ...] = (
    Operation("create a leaf, drop a leaf", "none", False, False),
    Operation("start a graph (every operand is a leaf)", "none", False, False),
    Operation("drop a handle", "GRAPH, tried and never waited for", False, False),
    Operation("register an operation", "none", False, False),
    Operation(
        "register after a retaining backward or a merge, or with three or more operands, "
        "two of them no leaves",
        "GRAPH",
        True,
        False,
    ),
    Operation("register across two graphs", "LOCATOR, GRAPH, GRAPH; then GRAPH", True, False),
    Operation("backward: claim", "GRAPH", True, False),
    Operation("backward: run rules, hooks, inner backward", "none", False, True),
    Operation("backward: release", "none: what was claimed is the claimer's alone", False, False),
    Operation("graph_cleanup()", "SWEEP, LOCATOR to list, then GRAPH one at a time", True, False),
    Operation("memory_report()", "LOCATOR to list", True, False),
    Operation("p.assign, p.update(f)", "PARAM for the swap alone; f runs outside", True, False),
    Operation("register a hook, retain_grad()", "PARAM, to make a node's extras once", True, False),
    Operation("fork", "SWEEP, LOCATOR, every GRAPH in rising serial, PARAM", True, False),
)


def capture_stack(depth: int = 8) -> Stack:
    """The stack that called into this module, innermost first, at most ``depth`` frames."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    found: list[tuple[str, int, str]] = []
    while frame is not None and len(found) < depth:
        found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(found)


def format_stack(stack: Stack) -> str:
    """One line per frame, outermost first, as tracebacks have it."""
    return "\n".join(
        f'  File "{file}", line {line}, in {name}' for file, line, name in reversed(stack)
    )


class OrderChecker:
    """Remembers which lock class was taken under which, and every wrong order.

    Attributes:
        books: what each thread has noted.
        violations: one message per wrong order seen, also when the exception
            that reported it was swallowed.
    """

    def __init__(self) -> None:
        self.books = Books()
        self.violations: list[str] = []

    @property
    def edges(self) -> dict[tuple[Rank, Rank], Edge]:
        """Observed (outer, inner) pairs with both stacks of the first time."""
        return self.books.edges()

    @property
    def taken(self) -> dict[Rank, int]:
        """How often each class was taken."""
        return self.books.taken()

    @property
    def waiting(self) -> dict[int, tuple[RankedLock, Stack]]:
        """For each thread that waits, by identity, the lock and the stack."""
        return self.books.waiting()

    @property
    def longest_wait(self) -> float:
        """Seconds of the longest wait for any lock."""
        return self.books.longest_wait()

    def reset(self) -> None:
        """Forget everything observed so far, except who is waiting now."""
        self.books.forget()
        self.violations.clear()

    def wait_for_graph(self) -> str:
        """Who waits for which lock, who holds it, and where each was taken; for hang reports."""
        lines = []
        for thread, (lock, stack) in self.waiting.items():
            holder = lock.holder
            lines.append(f"thread {thread} waits for {lock!r} here:\n{format_stack(stack)}")
            if holder is not None:
                taken = format_stack(holder[1])
                lines.append(f"  which thread {holder[0]} holds since here:\n{taken}")
        return "\n".join(lines) or "no thread waits for a lock of sweepgrad"

    def before_wait(self, lock: RankedLock, state: ThreadState) -> None:
        """Refuse ``lock`` if waiting for it is against the hierarchy."""
        if state.rising and state.held:
            # A fork takes thousands of locks in rising serial.  The last was checked against
            # all before it; comparing each with each made a fork quadratic in its graphs.
            last = state.held[-1].lock
            if last.rank == lock.rank and last.serial < lock.serial:
                return
        for entry in state.held:
            other = entry.lock
            if other is lock:
                self._refuse(lock, entry, "its own thread already holds it: it would wait for ever")
            if lock.rank > other.rank:
                continue
            if lock.rank == other.rank and state.rising and lock.serial > other.serial:
                continue
            self._refuse(lock, entry, "a lock is taken only at a rank above all ranks held")

    def _refuse(self, lock: RankedLock, entry: Held, why: str) -> None:
        message = (
            f"{lock!r} taken while {entry.lock!r} is held: {why}.\n"
            f"The held lock was taken here:\n{format_stack(entry.stack)}\n"
            f"The new lock is taken here:\n{format_stack(capture_stack())}\n"
            "Take the locks in the order of sweepgrad.graph.hierarchy.HIERARCHY, outermost first."
        )
        self.violations.append(message)
        raise LockOrderError(message)

    def after_taken(self, lock: RankedLock, held: list[Held], book: Book) -> None:
        """Count ``lock``, the last one held, and remember the edge from the one before it."""
        book.taken[lock.rank] = book.taken.get(lock.rank, 0) + 1
        if len(held) > 1:
            outer = held[-2]
            edge = book.edges.get((outer.lock.rank, lock.rank))
            if edge is None:
                edge = Edge(outer.lock.rank, lock.rank, outer.stack, capture_stack())
                book.edges[outer.lock.rank, lock.rank] = edge
            edge.times += 1

    def never_exercised(self) -> list[Rank]:
        """Lock classes that no thread has taken since the last reset."""
        taken = self.taken
        return [entry.rank for entry in HIERARCHY if entry.rank not in taken]


@dataclass(slots=True)
class Held:
    """A lock this thread holds and the stack that took it."""

    lock: RankedLock
    stack: Stack


ORDER = OrderChecker()


class RankedLock:
    """A lock that checks the hierarchy each time it is waited for.

    A try (``acquire(blocking=False)``) cannot deadlock and is therefore not
    refused, but what is taken after it is checked against it.

    Identity is ``serial``, never an address: two short-lived locks may share an
    address and would look like one lock with two places in the order.
    """

    __slots__ = ("_inner", "_threads", "holder", "rank", "serial")

    def __init__(self, primitives: Primitives, rank: Rank, serial: int) -> None:
        self._inner = primitives.lock()
        self._threads = primitives.threads
        self.rank = rank
        self.serial = serial
        #: Identity and stack of the thread that holds the lock, or None.
        self.holder: tuple[int, Stack] | None = None

    def __repr__(self) -> str:
        return f"{self.rank.name} lock {self.serial}"

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        state: ThreadState = self._threads.state
        if blocking:
            ORDER.before_wait(self, state)
        taken: list[bool] = []
        # Made before the lock is taken: a collection that starts between taking and noting
        # would run a finalizer whose wait for this very lock nobody could see.
        entry = Held(self, capture_stack())
        book = ORDER.books.of(state)
        try:
            # One C call takes the lock and notes it, so that an interrupt cannot fall
            # between the two.
            taken.extend(map(self._inner.acquire, (False,)))
            if not taken[0]:
                if not blocking:
                    return False
                self._wait(taken, timeout, book)
                if not taken[-1]:
                    return False
            state.held.append(entry)
            self.holder = (get_ident(), entry.stack)
            ORDER.after_taken(self, state.held, book)
        except BaseException:
            if any(taken):
                self.release()
            raise
        return True

    def _wait(self, taken: list[bool], timeout: float, book: Book) -> None:
        start = perf_counter()
        # A finalizer that runs meanwhile may have to wait too.
        outer, book.wait = book.wait, (get_ident(), self, capture_stack())
        try:
            taken.extend(map(self._inner.acquire, (True,), (timeout,)))
        finally:
            book.wait = outer
        book.longest_wait = max(book.longest_wait, perf_counter() - start)

    def release(self) -> None:
        held: list[Held] = self._threads.state.held
        for position in range(len(held) - 1, -1, -1):
            if held[position].lock is self:
                del held[position]
                break
        self.holder = None
        self._inner.release()

    def locked(self) -> bool:
        return self._inner.locked()

    def allow_rising(self, allowed: bool) -> None:
        """Let this thread take locks of one rank together, in rising serial."""
        self._threads.state.rising = allowed

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc_info: Any) -> None:
        self.release()


_checking = os.environ.get("SWEEPGRAD_CHECK_LOCKS", "") not in ("", "0")


def check_locks(on: bool) -> bool:
    """Switch the order checker on or off for locks made from now on; returns the old setting.

    Off (the default, unless ``SWEEPGRAD_CHECK_LOCKS=1``), a lock is the plain C
    lock.  Thread safety: meant for start-up; locks that exist are not changed.
    """
    global _checking
    old, _checking = _checking, on
    return old


def checking_locks() -> bool:
    """True when locks made now are checked."""
    return _checking


def make_lock(primitives: Primitives, rank: Rank, serial: int) -> Lock:
    """A new lock of this rank: the primitives' own, or a :class:`RankedLock` when checking."""
    if _checking:
        return RankedLock(primitives, rank, serial)
    return primitives.lock()


def under_pair(first: Lock, second: Lock, action: Callable[[], None]) -> None:
    """Run ``action`` while holding two locks of one rank, ``first`` taken first.

    The caller puts the lock with the lower serial first.  Plain nested ``with``
    statements: a context manager written in Python could lose a lock to an
    interrupt between taking it and entering the block.
    """
    with first:
        try:
            _allow_rising(second, True)
            with second:
                _allow_rising(second, False)
                action()
        finally:
            _allow_rising(second, False)


_acquire = methodcaller("acquire")
_release = methodcaller("release")


def acquire_rising(locks: Sequence[Lock], taken: list[Lock]) -> None:
    """Take locks of one rank in rising serial, adding each to ``taken``; for a fork.

    One C call takes each lock and notes it, so that an interrupt cannot fall
    between the two and leave a lock held that nobody knows of.
    """
    for lock in locks[:1]:
        _allow_rising(lock, True)
    try:
        taken.extend(filter(_acquire, locks))
    finally:
        for lock in locks[:1]:
            _allow_rising(lock, False)


def release_all(taken: list[Lock]) -> None:
    """Release every lock of ``taken``, last taken first; one C call pops and releases each."""
    try:
        deque(map(_release, iter(taken.pop, None)), maxlen=0)
    except IndexError:
        return


def _allow_rising(lock: Lock, allowed: bool) -> None:
    if isinstance(lock, RankedLock):
        lock.allow_rising(allowed)
