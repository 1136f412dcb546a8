"""Fork: the forking thread takes the hierarchy in order, so the child finds every graph whole.

A graph that another thread started after the forking thread listed the graphs may
be in a critical section at the moment of the fork.  The child marks every graph
that the forking thread did not hold as dirty, and whoever touches it first
derives its counts from the truth again.  So does a child forked from inside a
critical section (by a finalizer), where no lock can be waited for.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from sweepgrad.graph.hierarchy import Rank, acquire_rising, make_lock
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
    """What the forking thread holds between the hooks; one fork at a time, by SWEEP."""

    def __init__(self) -> None:
        self.taken: list[Lock] = []
        self.graphs: list[Graph] = []


_forks: list[_Held] = []


def _before() -> None:
    held = _Held()
    state = NATIVE.threads.state
    if state.section is None and not state.sweeping:
        live = live_runtimes()
        acquire_rising((runtime.sweeper.lock for runtime in live), held.taken)
        acquire_rising((runtime.locator.lock for runtime in live), held.taken)
        graphs = [graph for runtime in live for graph in runtime.locator.list_locked()]
        held.graphs = sorted(graphs, key=lambda graph: graph.serial)
        acquire_rising((graph.lock for graph in held.graphs), held.taken)
        for runtime in live:
            acquire_rising(runtime.parameters.locks, held.taken)
    _forks.append(held)


def _after_in_parent() -> None:
    held = _forks.pop()
    while held.taken:
        held.taken.pop().release()


def _after_in_child() -> None:
    held = _forks.pop()
    _forks.clear()
    NATIVE.threads.state.held.clear()
    whole = {graph.serial for graph in held.graphs}
    for runtime in live_runtimes():
        runtime.sweeper.lock = make_lock(NATIVE, Rank.SWEEP, runtime.serial)
        runtime.locator.lock = make_lock(NATIVE, Rank.LOCATOR, runtime.serial)
        runtime.parameters.renew_locks()
        for graph in runtime.locator.list_locked():
            graph.lock = make_lock(NATIVE, Rank.GRAPH, graph.serial)
            if graph.serial not in whole:
                graph.dirty = True


register_at_fork(_before, _after_in_parent, _after_in_child)
