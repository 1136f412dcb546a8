"""GraphRuntime: locator, sweeper and parameter swaps wired together; fork and exit.

A runtime is an island: tensors of two runtimes do not meet in one operation.
Most programs use the default one without naming it.
"""

from __future__ import annotations

import atexit
import itertools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from sweepgrad.graph import fork
from sweepgrad.graph.locator import Graph, GraphLocator
from sweepgrad.graph.node import Node, make_leaf
from sweepgrad.graph.parameters import ParameterSwap
from sweepgrad.graph.section import enter, list_graphs, stop_settling
from sweepgrad.graph.sweeper import Sweeper, SweepReport
from sweepgrad.sync import NATIVE, Primitives

_STRIPES = 8
_serials = itertools.count(1)


@dataclass(frozen=True)
class MemoryReport:
    """What a runtime holds at one moment; see ``memory_report``.

    Attributes:
        graphs: graphs with at least one node.
        nodes: nodes that are not leaves and have not been consumed.
        leaves: leaves that a handle or a child keeps.
        tips: nodes without a child.
        saved_bytes: bytes of the arrays that nodes have saved for backward; an
            array saved by two nodes counts twice.
        pending_drops: dropped handles that no thread has drained yet.
        update_retries: how often ``p.update(f)`` had to run ``f`` again.
    """

    graphs: int
    nodes: int
    leaves: int
    tips: int
    saved_bytes: int
    pending_drops: int
    update_retries: int = 0


class GraphRuntime:
    """An independent graph runtime.

    Attributes:
        locator: which graph a node belongs to.
        sweeper: full sweeps.
        parameters: compare-and-swap of parameters.

    Thread safety: every method may be called from any thread at any time.
    """

    def __init__(self, primitives: Primitives = NATIVE, name: str | None = None) -> None:
        self.primitives = primitives
        self.serial = next(_serials)
        self.name = name if name is not None else f"runtime {self.serial}"
        self.locator = GraphLocator(self)
        self.sweeper = Sweeper(self)
        self.parameters = ParameterSwap(self)
        # Weak references to leaf nodes, striped so that threads making leaves
        # seldom meet in one set.  Only set.add and set.discard change them, each one
        # C call on every build, so that creating and dropping a leaf takes no lock.
        self._leaves: tuple[set[weakref.ref[Node]], ...] = tuple(set() for _ in range(_STRIPES))
        if primitives is NATIVE:
            fork.runtimes.add(weakref.ref(self, fork.runtimes.discard))

    def __repr__(self) -> str:
        return f"<GraphRuntime {self.name!r}>"

    #: ``make_tensor(runtime, array, dtype, requires_grad)``; installed by sweepgrad.tensor,
    #: which this package does not know.
    make_tensor: ClassVar[Callable[..., Any]]

    def tensor(self, array: Any, dtype: Any = None, requires_grad: bool = False) -> Any:
        """A new tensor that belongs to this runtime; otherwise as :func:`sweepgrad.tensor`."""
        return GraphRuntime.make_tensor(self, array, dtype, requires_grad)

    def leaf(self, handle: object) -> Node:
        """The node of a new leaf with this handle.  Takes no lock."""
        leaf = make_leaf(handle, self)
        stripe = self._leaves[leaf.id % _STRIPES]
        stripe.add(weakref.ref(leaf, stripe.discard))
        return leaf

    def graph_cleanup(self, full: bool = False) -> SweepReport:
        """Sweep every graph: free what is dead or unavailable, and report.

        Never needed to keep memory bounded by what is alive: dropped nodes go by
        themselves.  What it adds are *unavailable* nodes: those with a live
        handle from which no backward can ever run, because an ancestor was
        consumed.  Never waits for a running backward, which holds no lock.
        Costs O(graphs) and the nodes of those graphs that a backward has visited
        since the last sweep, a piece at a time (note [Sweep]).

        Args:
            full: look at every node and derive every count anew.  Needed only after an
                exception that arrived from outside (Ctrl-C) in the very moment in which a
                tensor was dropped.

        Thread safety: any thread; one full sweep runs at a time and others wait.  A thread
        that waited while two came to their end does not sweep again, and reports nothing
        freed; the arrays go in the thread that swept, a moment later.
        From a finalizer inside a critical section of its own thread, the sweep
        is deferred to the end of that section and the report says so.
        """
        return self.sweeper.sweep(full)

    def memory_report(self) -> MemoryReport:
        """Graphs, nodes, leaves, tips, bytes and pending drops.

        Costs O(graphs), and counts what was recorded since somebody last looked
        (note [Arrival]).

        Thread safety: any thread.  What is added up of each graph is right at some
        moment during the call; while other threads work these need not be the same
        moment, but a merge falls before or after all of them.

        Raises:
            ReentrantCallError: from a finalizer inside a critical section of its
                own thread.
        """
        state = self.primitives.threads.state
        totals: list[_Totals] = []

        def look(graphs: list[Graph]) -> None:
            totals.append(_totals(graphs))

        uncounted = [g for g in list_graphs(self.locator, state, look) if g.arrivals]
        for graph in uncounted:
            enter(graph, "memory_report", _count_arrivals)
        if uncounted:
            list_graphs(self.locator, state, look)
        count, nodes, tips, saved_bytes, pending_drops = totals[-1]
        return MemoryReport(
            graphs=count,
            nodes=nodes,
            leaves=sum(len(stripe) for stripe in self._leaves),
            tips=tips,
            saved_bytes=saved_bytes,
            pending_drops=pending_drops,
            update_retries=self.parameters.retries(),
        )

    def shared_sets(self) -> tuple[Any, ...]:
        """The sets that any thread changes without a lock; to look at, not into."""
        return (self.locator.directory(), *self._leaves)

    def leaves(self) -> Iterator[Node]:
        """The leaf nodes alive now."""
        for stripe in self._leaves:
            for reference in stripe.copy():
                leaf = reference()
                if leaf is not None:
                    yield leaf

    def check_valid(self) -> None:
        """Check every structure against the truth, at a moment when no thread is active.

        Raises:
            InvariantError: naming the first contradiction.
        """
        self.locator.check_valid()


#: Graphs, nodes, tips, saved bytes and pending drops.
_Totals = tuple[int, int, int, int, int]


def _totals(graphs: list[Graph]) -> _Totals:
    """What the graphs with nodes hold; merges wait meanwhile, or one graph's nodes count twice."""
    full = [graph for graph in graphs if graph.nodes]
    return (
        len(full),
        sum(len(graph.nodes) for graph in full),
        sum(graph.tips for graph in full),
        sum(graph.saved_bytes for graph in full),
        sum(len(graph.drops) for graph in full),
    )


def _count_arrivals(graph: Graph, garbage: list[Any]) -> None:
    graph.dirty = True
    graph.count_arrivals(garbage)


#: The runtime of every tensor that is not made with another one.
DEFAULT = GraphRuntime(name="default")

atexit.register(stop_settling)
