"""Sweeper: the full sweep over all graphs, and the cheap one with every backward.

Freed without being asked, by drops alone: whatever is dead (note [Drop]).  What
only a sweep can see is a node that is *unavailable*: it has a live handle, or a
live descendant, but some backward took the rule of one of its ancestors.  Its
saved arrays go with a sweep; the node's handle stays a plain value.

The order in which graphs are swept makes no difference, because a sweep of one
graph reads and writes nothing of another.

Note [Sweep].  A sweep costs what it frees, not what is alive, in whichever graph that
is.  Only a claim makes nodes unavailable: the recorded children of what it took, and
all that descends from them.  It puts these children into ``Graph.backlog``, so a graph
without one is passed over with one look.  Elsewhere a full sweep goes down from there,
a thousand ids at a time, and lets the graph's lock go in between:

    S1  under the lock: what has been found until now is what the sweep has ``begun`` with
    S2  under the lock, again until nothing of it is left: some of it goes; a node's
        children are put in its place, but those recorded since S1 are left to the next sweep

All that is left to do is in the graph at any time, and nowhere else.  *An interrupt
between two pieces* leaves it to the next sweep.  *A merge* brings it along, and a graph that was
merged away since the sweep listed it is looked at in its survivor.  *A claim*
adds to ``found``, which this sweep leaves to the next one.  So it ends, however many
claims are made meanwhile, and though three threads record below unavailable nodes faster
than it frees them.  *A child recorded* under a node that has been found unavailable goes
when it is counted, with that very piece (note [Arrival]).  *An operation cut off* by an
interrupt after its append, whose parent was claimed just before, is in the drops.

A claim may come between another thread's append of a child and its look at the claim,
and that child must not wait for a sweep that passes over the graph: after its marks the
claim looks at the arrivals once more, and counts them.

What this passes over is a *dead* node whose finalizer an asynchronous exception stopped
before its first step: ``full=True`` finds it, and derives every count anew in one piece.

Note [Queue].  One full sweep runs at a time, and a thread that waited for its turn needs
none of its own if two have come to their end since it asked: the second began after the
first had ended, so after the thread asked, and freed all that was to be freed then.  The
report is that of a sweep which found nothing; what the other freed may still be on its way
out, in the thread that swept.  So nobody waits for more than two sweeps,
however many threads ask; 64 threads that each waited for all before them waited 38 s.

Rejected: looking at every node in every sweep made a sweep beside 100,000 live nodes 4
to 9 times slower than beside none; looking at every node of the graphs that were
claimed from, as an earlier version did, 25 times beside a million in the same graph.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sweepgrad.graph.hierarchy import Rank, make_lock
from sweepgrad.graph.locator import Graph
from sweepgrad.graph.node import Node, next_id
from sweepgrad.graph.section import discard, enter, leave, list_graphs, live_graph

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

    __slots__ = ("_last", "_runtime", "full_sweeps", "lock", "sweeps")

    def __init__(self, runtime: GraphRuntime) -> None:
        self._runtime = runtime
        #: Rank SWEEP, outermost.  One full sweep at a time.  Taken by ``sweep`` alone.
        #: Never under it: user code, destructors of saved values.
        self.lock = make_lock(runtime.primitives, Rank.SWEEP, runtime.serial)
        #: How many full sweeps have come to their end, and how many of them derived every
        #: count anew.  Written under the lock, read without it (note [Queue]).
        self.sweeps = 0
        self.full_sweeps = 0
        #: What the last of them reported.
        self._last = SweepReport(0, 0, 0, 0, 0, 0.0)

    def sweep(self, full: bool = False) -> SweepReport:
        """Sweep every graph; see ``GraphRuntime.graph_cleanup``."""
        state = self._runtime.primitives.threads.state
        if state.section is not None or state.sweeping:
            if self._runtime not in state.sweeps_asked:
                state.sweeps_asked.append(self._runtime)
            return SweepReport(0, 0, 0, 0, 0, 0.0, deferred=True)
        report = self.run(state, full)
        leave(state)
        return report

    def run(self, state: ThreadState, full: bool = False) -> SweepReport:
        """Sweep now; the caller is in no critical section and answers what was deferred."""
        outer_discards = state.discarding
        asked = self._ended(full)
        try:
            # Before the lock is taken, so that a finalizer that runs while this thread
            # waits for it, or has just got it, defers its own sweep.
            state.sweeping = True
            state.discarding = True  # what is freed waits until SWEEP is released
            with self.lock:
                if self._ended(full) - asked < 2:
                    report = self._last = self._sweep_locked(full)
                    self.sweeps += 1
                    self.full_sweeps += full
                else:
                    report = replace(self._last, nodes_freed=0, graphs_freed=0, bytes_freed=0)
        finally:
            state.sweeping = False
            state.discarding = outer_discards
        discard(state)
        return report

    def _ended(self, full: bool) -> int:
        return self.full_sweeps if full else self.sweeps

    def _sweep_locked(self, full: bool) -> SweepReport:
        start = time.perf_counter()
        nodes_freed = graphs_freed = bytes_freed = 0
        runtime = self._runtime
        graphs = list_graphs(runtime.locator, runtime.primitives.threads.state)
        for graph in graphs:
            if full or _has_work(graph):
                freed, saved = _sweep_graph(graph, full)
                nodes_freed += freed
                bytes_freed += saved
                graphs_freed += freed > 0 and graph.forward is None and graph.size() == 0
        # In its survivor, what was merged away meanwhile; each graph once.
        live = dict.fromkeys(map(live_graph, graphs))
        left = [size for graph in live if (size := graph.size())]
        seconds = time.perf_counter() - start
        return SweepReport(nodes_freed, graphs_freed, bytes_freed, sum(left), len(left), seconds)


def _has_work(graph: Graph) -> bool:
    """Whether a sweep may find anything in a graph that was listed when it began.

    Dirty: an interrupted holder left work, or another thread is at work.  Looked at first: a
    claim is dirty from before its commit until its backlog is in place, so who finds neither
    looked before the commit.  Merged away since: what it had to sweep may now be in a graph
    that has been passed already.  Looked at last: a merge takes the backlog after it has
    published the forwarding.
    """
    if graph.dirty or graph.backlog is not None or graph.drops:
        return True
    return graph.forward is not None


#: Ids looked at before a sweep lets go of a graph's lock, at half a microsecond each.
_PIECE = 1_000


def _sweep_graph(graph: Graph, full: bool) -> tuple[int, int]:
    """Sweep one graph in pieces; the number of nodes freed and of their saved bytes."""
    more, nodes, saved = enter(graph, "graph_cleanup", _begin, full)
    newest = next_id()
    while more:
        more, more_nodes, more_saved = enter(graph, "graph_cleanup", _sweep_piece, newest)
        nodes += more_nodes
        saved += more_saved
    return nodes, saved


def _begin(graph: Graph, garbage: list[Any], full: bool) -> tuple[bool, int, int]:
    """S1; what the drops queued until now make dead goes at once.  True if S2 is to come."""
    start = len(garbage)
    graph.dirty = True
    if full:
        graph.rebuild(garbage)
    graph.count_arrivals(garbage)
    graph.drain(garbage)
    backlog = graph.backlog
    if backlog is not None:
        backlog.begin()
    return backlog is not None, *_freed(garbage, start)


def _sweep_piece(graph: Graph, garbage: list[Any], newest: int) -> tuple[bool, int, int]:
    """S2; True if there is more of it."""
    start = len(garbage)
    backlog = graph.backlog
    if backlog is None:  # a backward has taken all that was left
        return False, 0, 0
    graph.sweep(garbage, backlog.begun, _PIECE, newest)
    return bool(backlog.begun), *_freed(garbage, start)


def _freed(garbage: list[Any], start: int) -> tuple[int, int]:
    """How many nodes were freed since the list had ``start`` items, and their saved bytes.

    The change of the graph's own counts would not say: other threads record meanwhile.
    """
    nodes = [item for item in garbage[start:] if type(item) is Node]
    return len(nodes), sum(node.nbytes for node in nodes)


def sweep_with_backward(graph: Graph, garbage: list[Any], claimed: int) -> None:
    """Sweep the graph if as many nodes have been claimed since its last sweep as are left.

    Called under the graph's lock by a claim that took ``claimed`` nodes.  What it costs is
    bounded by what has been claimed: a claim must not keep the lock for as long as it takes
    to free a million nodes that it made unavailable.  The rejected alternative, a look at
    the graph with every backward, is what makes Burn's sweep quadratic when many losses
    share a graph.  What one claim's share of it is too little for goes with the next ones.
    """
    graph.credit += claimed
    backlog = graph.backlog
    if backlog is None:
        return
    if graph.credit >= len(graph.nodes):
        # Nothing of it becomes work of a sweep that is under way, which must come to its end.
        graph.sweep(garbage, backlog.found or backlog.begun, max(claimed, _PIECE))
