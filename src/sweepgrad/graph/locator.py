"""GraphLocator: which graph a node belongs to; starting and merging graphs.

A graph is the nodes that must be claimed and swept together, behind one lock.
Nothing process-wide holds a graph: the locator's directory is weak, and a graph
hangs on its nodes alone, so a cycle that a user makes through a graph is the
cyclic collector's to find.

Leaves belong to no graph.  Otherwise one parameter used by ten threads would
weld their ten graphs into one, and every thread would wait for one lock.
"""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sweepgrad.errors import RuntimeMismatchError
from sweepgrad.graph.hierarchy import Rank, make_lock, under_pair
from sweepgrad.graph.node import Node
from sweepgrad.graph.registry import NodeRegistry
from sweepgrad.graph.truth import expect
from sweepgrad.sync import Lock, Primitives

if TYPE_CHECKING:
    from sweepgrad.graph.runtime import GraphRuntime

graph_serials = itertools.count(1)


class Graph(NodeRegistry):
    """A registry with a lock, a queue of drops and, once merged away, a forwarding."""

    __slots__ = (
        "__weakref__",
        "absorbing",
        "drops",
        "forward",
        "lock",
        "runtime",
        "serial",
        "threads",
    )

    #: Orders the locks of two graphs.  Never reused, unlike an address.
    serial: int
    #: Rank GRAPH.  Protects every field here and in NodeRegistry, and the fields of
    #: the nodes recorded here.  Never under it: user code, destructors, another wait.
    lock: Lock
    #: Nodes whose handle died while they looked like tips (note [Drop]).  Appended to
    #: without the lock, drained under it.
    drops: deque[Node]
    #: The graph this one was merged into, or None.  Written once, under both locks.
    forward: Graph | None
    #: The graph being merged into this one; not None only inside a merge, or after
    #: one that was interrupted and that the next holder of the lock completes.
    absorbing: Graph | None
    runtime: GraphRuntime
    #: The runtime's thread states, here because registering needs them at once.
    threads: Any

    def __init__(self, runtime: GraphRuntime) -> None:
        # NodeRegistry.__init__ written out: starting a graph is on the recording path.
        self.nodes = {}
        self.arrivals = runtime.primitives.queue()
        self.tips = 0
        self.saved_bytes = 0
        self.backlog = None
        self.credit = 0
        self.dirty = False
        primitives: Primitives = runtime.primitives
        self.serial = next(graph_serials)
        self.lock = make_lock(primitives, Rank.GRAPH, self.serial)
        self.drops = primitives.queue()
        self.forward = None
        self.absorbing = None
        self.runtime = runtime
        self.threads = primitives.threads

    def __repr__(self) -> str:
        state = "" if self.forward is None else f", merged into {self.forward.serial}"
        return f"<graph {self.serial}: {len(self.nodes)} nodes{state}>"

    def drain(self, garbage: list[Any]) -> None:
        """Reclaim what the drops queued so far made dead.  Needs the lock.

        The look at the queue decides nothing, it only saves an exception, which costs
        as much as ten operations of Python.  A drop appended after it is for its
        appender, or for the look that follows the release (note [Drop]); and between
        the look and the pop, a thread that moves drops after a merge may still empty
        the queue.
        """
        drops = self.drops
        while drops:
            try:
                node = drops.popleft()
            except IndexError:
                return
            if node.id not in self.nodes:
                self._take_in(node, garbage)
            self.reclaim(node, garbage)

    def _take_in(self, node: Node, garbage: list[Any]) -> None:
        """Count a node that arrived here, or in a graph merged into this one, and was not counted.

        Its handle may live: an operation was cut off before it could see to that (R3).
        """
        named = node.graph
        if named is not None and named is not self:
            move_arrivals(named, self)
        if self.arrivals:
            self.count_arrivals(garbage)

    def size(self) -> int:
        """How many nodes are recorded here, counted or not."""
        return len(self.nodes) + len(self.arrivals)

    def repair(self, garbage: list[Any]) -> None:
        """Complete whatever an interrupted holder left half-done.  Needs the lock."""
        if self.absorbing is not None:
            self._take_over(self.absorbing)
        self.rebuild(garbage)
        self.dirty = False

    def absorb(self, other: Graph) -> None:
        """Merge ``other`` into this graph.  Needs both locks, and neither graph dirty.

        1. ``absorbing`` names the other graph: an interrupt before 2 changed nothing.
        2. ``other.forward`` is set.  This commits the merge and publishes it to
           finalizers that are about to append to ``other.drops``.
        3. Records, then drops, move over.  An interrupt in between leaves this
           graph dirty and ``absorbing`` set, and ``repair`` goes on from here.
        """
        self.dirty = True
        self.absorbing = other
        other.forward = self
        tips, saved_bytes = other.tips, other.saved_bytes
        self._take_over(other)
        self.tips += tips
        self.saved_bytes += saved_bytes
        self.dirty = False

    def _take_over(self, other: Graph) -> None:
        """Steps after the commit of a merge; running them again does no harm."""
        if other.forward is self:
            self.nodes.update(other.nodes)
            for node in other.nodes.values():
                node.graph = self
            other.nodes = {}
            move_arrivals(other, self)
            self._take_backlog(other)
            self.bound_backlog()
            self.credit += other.credit
            move_drops(other, self)
            other.tips = 0
            other.saved_bytes = 0
        self.absorbing = None

    def _take_backlog(self, other: Graph) -> None:
        theirs, other.backlog = other.backlog, None
        if theirs is None:
            return
        if self.backlog is None:
            self.backlog = theirs
        else:
            self.backlog.join(theirs)

    def check_valid(self) -> None:
        """Check the graph against the truth at a moment when no other thread uses it.

        Raises:
            InvariantError: naming the first contradiction.
        """
        expect("dirty", self.dirty, False)
        if self.arrivals:
            self.dirty = True
            self.count_arrivals([])
            self.dirty = False
        NodeRegistry.check_valid(self)
        expect(f"absorbing of {self!r}", self.absorbing, None)
        for node in self.nodes.values():
            expect(f"graph of {node!r}", find(node), self)
            claim = node.claim
            expect(f"{node!r} is consumed", claim is not None and claim.committed, False)
        if not self.drops:
            expect(f"dead nodes of {self!r}", self.dead(), [])


def move_drops(source: Graph, target: Graph) -> None:
    """Move the queued drops of a graph that was merged away to its survivor.

    One C call pops and appends each drop, so no interrupt can fall between the
    two and lose it.  Merger and finalizer may both be moving: each pops other
    drops, and the one that finds the queue empty stops.
    """
    try:
        target.drops.extend(iter(source.drops.popleft, None))
    except IndexError:
        return


def move_arrivals(source: Graph, target: Graph) -> None:
    """Move what arrived in a graph that was merged away to its survivor, whose lock is held.

    One C call pops and appends each, as in ``move_drops``.
    """
    try:
        target.arrivals.extend(iter(source.arrivals.popleft, None))
    except IndexError:
        return


def find(node: Node) -> Graph:
    """The graph that ``node`` belongs to now; the caller may hold no lock.

    The answer can be out of date at once: after taking the graph's lock, look
    at its ``forward`` again.  ``node.graph`` is shortened on the way; a racing
    merge may store a newer graph there and lose to this store, which is harmless
    because every graph ever stored leads to the survivor.

    It is not shortened while the survivor is still taking over: a node that waits among
    the arrivals of the graph merged away would seem to be the survivor's already, and

    1. the merger publishes ``forward``, with the node still in the other graph's arrivals
    2. somebody finds the survivor and shortens the node's graph
    3. somebody records a child of the node, without a lock, in the survivor's arrivals
    4. the merger moves the node there, behind its child

    so that the child would be counted first and taken for one whose parent is consumed.
    """
    graph = node.graph
    assert graph is not None, "a leaf belongs to no graph"
    if graph.forward is not None:
        while graph.forward is not None:
            graph = graph.forward
        # Merges exclude each other and an interrupted one is completed before the next, so
        # only the last on the way may be going on; it set ``absorbing`` before ``forward``.
        if graph.absorbing is None:
            node.graph = graph
    return graph


class GraphLocator:
    """The weak directory of one runtime's graphs, and the only place that merges them."""

    __slots__ = ("_directory", "_runtime", "lock", "merges")

    def __init__(self, runtime: GraphRuntime) -> None:
        self._runtime = runtime
        #: Rank LOCATOR.  Held to list the graphs and for each merge, so that a list
        #: never shows a merge half-done and a merge never has to start again.
        #: Never under it: user code, destructors, waiting for SWEEP.
        self.lock = make_lock(runtime.primitives, Rank.LOCATOR, runtime.serial)
        #: How many merges there have been.  Written under the lock.
        self.merges = 0
        #: Weak references to graphs.  Changed by set.add and set.discard alone, each
        #: one C call on every build, also as a weak reference's callback.
        self._directory: set[weakref.ref[Graph]] = set()

    def start(self, node: Node) -> Graph:
        """A new graph with this one node, all of whose parents are leaves.

        No lock is needed: nobody else can reach the graph before the directory
        lists it, and by then it is complete.
        """
        graph = Graph(self._runtime)
        graph.nodes[node.id] = node
        graph.tips = 1
        graph.saved_bytes = node.nbytes
        node.graph = graph
        self._directory.add(weakref.ref(graph, self._directory.discard))
        return graph

    def list_graphs(self, look: Callable[[list[Graph]], None] | None = None) -> list[Graph]:
        """Every graph that exists, in rising serial, none of them merged away.

        Must run inside a critical section's bookkeeping (see ``section.list_graphs``).

        Args:
            look: is shown the list before a merge can make it out of date; takes no lock.
        """
        with self.lock:
            graphs = self.list_locked()
            if look is not None:
                look(graphs)
            return graphs

    def list_locked(self) -> list[Graph]:
        """As ``list_graphs``; the caller holds LOCATOR, or is the only thread."""
        return [graph for graph in self.list_all() if graph.forward is None]

    def list_all(self) -> list[Graph]:
        """As ``list_locked``, those that have been merged away included."""
        # set.copy is one C call; looping over the set itself could meet a weak
        # reference dying.
        references = self._directory.copy()
        graphs = [graph for reference in references if (graph := reference()) is not None]
        graphs.sort(key=lambda graph: graph.serial)
        return graphs

    def merge(self, one: Node, other: Node, garbage: list[Any]) -> Graph:
        """Make the graphs of two nodes one, the smaller into the larger.

        Must run inside a critical section's bookkeeping (see ``section.join``).
        Merges exclude each other, so no forwarding changes between looking and
        locking, and the forwardings form a forest.

        Raises:
            RuntimeMismatchError: if the nodes belong to two runtimes.
        """
        with self.lock:
            first, second = find(one), find(other)
            if first is second:
                return first
            if first.runtime is not second.runtime:
                raise mismatch(first.runtime, second.runtime)
            if first.serial > second.serial:
                first, second = second, first
            under_pair(first.lock, second.lock, lambda: _merge_locked(first, second, garbage))
            self.merges += 1
            return second if first.forward is second else first

    def directory(self) -> set[weakref.ref[Graph]]:
        """The directory itself; to look at, not into."""
        return self._directory

    def count(self) -> int:
        """How many graphs exist, empty ones that only consumed handles keep included."""
        return len(self._directory)

    def check_valid(self) -> None:
        """Check every graph at a quiet moment; see ``Graph.check_valid``."""
        for graph in self.list_locked():
            graph.check_valid()


def _merge_locked(first: Graph, second: Graph, garbage: list[Any]) -> None:
    if first.dirty:
        first.repair(garbage)
    if second.dirty:
        second.repair(garbage)
    survivor, other = (second, first) if first.size() < second.size() else (first, second)
    survivor.absorb(other)


def mismatch(one: GraphRuntime, other: GraphRuntime) -> RuntimeMismatchError:
    """The error for operands of two runtimes."""
    return RuntimeMismatchError(
        f"one operation got tensors of two runtimes, {one!r} and {other!r}; "
        "make both with the same runtime, or pass one of them as a constant with .detach()"
    )
