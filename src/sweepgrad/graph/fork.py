"""Fork: the forking thread takes the hierarchy in order, so the child finds every graph whole.

A graph that another thread started after the forking thread listed the graphs may
be in a critical section at the moment of the fork.  The child marks every graph
that the forking thread did not hold as dirty, and whoever touches it first
derives its counts from the truth again.  So does a child forked from inside a
critical section (by a finalizer), where no lock can be waited for.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from sweepgrad.graph.hierarchy import ORDER, Rank, acquire_rising, make_lock, release_all
from sweepgrad.graph.inherited import clear_locks, lockable
from sweepgrad.graph.section import leave, settle
from sweepgrad.sync import NATIVE, Lock, register_at_fork

if TYPE_CHECKING:
    from sweepgrad.graph.locator import Graph
    from sweepgrad.graph.runtime import GraphRuntime

#: Every runtime on the native primitives.
runtimes: set[weakref.ref[GraphRuntime]] = set()


def live_runtimes() -> list[GraphRuntime]:
    """The runtimes alive now, oldest first."""
    found = [runtime for reference in runtimes.copy() if (runtime := reference()) is not None]
    return sorted(found, key=lambda runtime: runtime.serial)


class _Held:
    """What a forking thread holds between the hooks.  Also names that critical section."""

    def __init__(self) -> None:
        #: Locks taken, none when the thread forks from inside a critical section.
        self.taken: list[Lock] = []
        #: Graphs whose locks are among them.
        self.graphs: list[Graph] = []
        #: What has a lock that the child may find locked: see inherited.py.
        self.lockable: list[Any] = []


#: The process whose locks are known to be in order.
_renewed_in = os.getpid()


def _before() -> None:
    state = NATIVE.threads.state
    held = state.fork = _Held()
    if state.section is not None or state.sweeping:
        held.lockable = lockable([])
        return
    # A collection, or another library's hook, may call us before the locks are
    # released; it is refused instead of waiting for a lock its own thread holds.
    state.section = held
    live = live_runtimes()
    acquire_rising([runtime.sweeper.lock for runtime in live], held.taken)
    acquire_rising([runtime.locator.lock for runtime in live], held.taken)
    graphs = [graph for runtime in live for graph in runtime.locator.list_locked()]
    graphs.sort(key=lambda graph: graph.serial)
    acquire_rising([graph.lock for graph in graphs], held.taken)
    held.graphs = graphs
    for runtime in live:
        acquire_rising(runtime.parameters.locks, held.taken)
    held.lockable = lockable(live)


def _after_in_parent() -> None:
    state = NATIVE.threads.state
    held: _Held | None = state.fork
    if held is None:
        return
    try:
        release_all(held.taken)
    finally:
        if state.section is held:
            state.section = None
    state.fork = None
    if state.section is None:
        for graph in held.graphs:
            settle(state, graph)  # drops that found the lock taken: note [Drop], H4
        leave(state)


def _after_in_child() -> None:
    global _renewed_in
    if _renewed_in == os.getpid():
        return
    state = NATIVE.threads.state
    held: _Held | None = state.fork
    if held is not None:
        clear_locks(held.lockable)
    state.held.clear()
    ORDER.books.forget_waits()
    for runtime in live_runtimes():
        _renew(runtime)
    if held is not None and state.section is held:
        state.section = None
    state.fork = None
    _renewed_in = os.getpid()
    if state.section is None:
        leave(state)


def _renew(runtime: GraphRuntime) -> None:
    """Make the runtime's locks anew; whatever thread held them does not exist here.

    Every graph is repaired at its next touch, those too whose locks the forking thread
    held: another thread may have been about to queue a drop or to record a child.
    """
    runtime.sweeper.lock = make_lock(NATIVE, Rank.SWEEP, runtime.serial)
    runtime.locator.lock = make_lock(NATIVE, Rank.LOCATOR, runtime.serial)
    runtime.parameters.renew_locks()
    for graph in runtime.locator.list_locked():
        graph.lock = make_lock(NATIVE, Rank.GRAPH, graph.serial)
        graph.dirty = True


def _nothing() -> None:
    """Stands for the hook before a fork that must not run twice."""


register_at_fork(_before, _after_in_parent, _after_in_child)
# Once more: an interrupt that arrived during the fork is raised at the first
# bytecode of the first hook, which then does nothing and is reported by Python as
# an unraisable exception.  After a hook that ran, the second finds nothing to do.
register_at_fork(_nothing, _after_in_parent, _after_in_child)
