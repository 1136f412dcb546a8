"""Sweeper: the full sweep over all graphs, and the cheap one with every backward.

Freed without being asked, by drops alone: whatever is dead (note [Drop]).  What
only a sweep can see is a node that is *unavailable*: it has a live handle, or a
live descendant, but some backward took the rule of one of its ancestors.  Its
saved arrays go with a sweep; the node's handle stays a plain value.

The order in which graphs are swept makes no difference, because a sweep of one
graph reads and writes nothing of another.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sweepgrad.graph.hierarchy import Rank, make_lock
from sweepgrad.graph.locator import Graph
from sweepgrad.graph.section import discard, enter, leave, list_graphs

if TYPE_CHECKING:
    from sweepgrad.graph.runtime import GraphRuntime
    from sweepgrad.sync import ThreadState


@dataclass(frozen=True)
class SweepReport:
    """What one ``graph_cleanup()`` did and what it left.

    Attributes:
        nodes_freed: nodes reclaimed, dead and unavailable together.
        graphs_freed: graphs that the sweep left without a node.
        bytes_freed: bytes of the arrays that the freed nodes had saved.
        nodes_left: nodes that remain, leaves not counted.
        graphs_left: graphs with at least one node that remain.
        seconds: wall-clock time the sweep took.
        deferred: True when the call came from inside a critical section of its
            own thread; the sweep then runs when that section ends, and the
            other fields are zero.
    """

    nodes_freed: int
    graphs_freed: int
    bytes_freed: int
    nodes_left: int
    graphs_left: int
    seconds: float
    deferred: bool = False


class Sweeper:
    """Runs full sweeps of one runtime, one at a time."""

    __slots__ = ("_runtime", "lock", "sweeps")

    def __init__(self, runtime: GraphRuntime) -> None:
        self._runtime = runtime
        #: Rank SWEEP, outermost.  One full sweep at a time.  Taken by ``sweep`` alone.
        #: Never under it: user code, destructors of saved values.
        self.lock = make_lock(runtime.primitives, Rank.SWEEP, runtime.serial)
        #: How many full sweeps there have been.  Written under the lock.
        self.sweeps = 0

    def sweep(self) -> SweepReport:
        """Sweep every graph; see ``GraphRuntime.graph_cleanup``."""
        state = self._runtime.primitives.threads.state
        if state.section is not None or state.sweeping:
            if self._runtime not in state.sweeps_asked:
                state.sweeps_asked.append(self._runtime)
            return SweepReport(0, 0, 0, 0, 0, 0.0, deferred=True)
        report = self.run(state)
        leave(state)
        return report

    def run(self, state: ThreadState) -> SweepReport:
        """Sweep now; the caller is in no critical section and answers what was deferred."""
        outer_discards = state.discarding
        try:
            # Before the lock is taken, so that a finalizer that runs while this thread
            # waits for it, or has just got it, defers its own sweep.
            state.sweeping = True
            state.discarding = True  # what is freed waits until SWEEP is released
            with self.lock:
                report = self._sweep_locked()
                self.sweeps += 1
        finally:
            state.sweeping = False
            state.discarding = outer_discards
        discard(state)
        return report

    def _sweep_locked(self) -> SweepReport:
        start = time.perf_counter()
        nodes_freed = graphs_freed = bytes_freed = nodes_left = graphs_left = 0
        runtime = self._runtime
        for graph in list_graphs(runtime.locator, runtime.primitives.threads.state):
            nodes, saved, left = enter(graph, "graph_cleanup", _sweep_graph)
            nodes_freed += nodes
            bytes_freed += saved
            nodes_left += left
            graphs_left += left > 0
            graphs_freed += nodes > 0 and left == 0
        seconds = time.perf_counter() - start
        return SweepReport(nodes_freed, graphs_freed, bytes_freed, nodes_left, graphs_left, seconds)


def _sweep_graph(graph: Graph, garbage: list[Any]) -> tuple[int, int, int]:
    before, saved = len(graph.nodes), graph.saved_bytes
    graph.dirty = True
    graph.drain(garbage)
    graph.sweep(garbage)
    graph.credit = 0
    return before - len(graph.nodes), saved - graph.saved_bytes, len(graph.nodes)


def sweep_with_backward(graph: Graph, garbage: list[Any], claimed: int) -> None:
    """Sweep the graph if the claims since its last sweep have paid for looking at it.

    Called under the graph's lock by a claim that took ``claimed`` nodes.  Looking
    at the rest of the graph costs as much as the rest has nodes; doing it only
    when that many nodes have been claimed keeps the cost per claimed node
    constant.  The rejected alternative, a look with every backward, is what
    makes Burn's sweep quadratic when many losses share a graph.
    """
    left = len(graph.nodes)
    graph.credit += claimed
    if left and graph.credit >= left:
        graph.credit = 0
        graph.sweep(garbage)
