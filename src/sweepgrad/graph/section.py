"""Critical sections: how a graph's lock is taken, and what happens to drops meanwhile.

Note [Drop].  Why the last drop into a dead graph always leads to a drain.

A handle dies in thread D while thread H holds, or is about to take, the lock.

    D1  the interpreter clears the weak reference: ``node()`` is None from here on
    D2  D reads ``node.children``; if it is not zero, D is done
    D3  D appends the node to ``graph.drops``
    D4  D reads ``graph.forward`` and moves the drops if it is set
    D5  D tries the lock; if it gets it, D drains

    H1  H, under the lock, brings some count to zero
    H2  H reads that node's handle and frees the node if it is dead
    H3  H releases the lock
    H4  H reads ``graph.drops`` and, if there are any, settles the graph as D does

*A drop that saw children.*  Both orders are store-then-look: D clears the handle
(D1) and looks at the count (D2); H lowers the count (H1) and looks at the handle
(H2).  One of the two sees the other, so whoever frees the last child frees the
node too.  If both see it, the registry's ``pop`` lets one of them win.

*A drop that saw none.*  D appends (D3), then tries the lock (D5).  If the try
fails, a holder has not yet released; that holder's look at the queue (H4) comes
after its release (H3), hence after D3, and finds the drop.  If another thread
takes the lock in between, the same holds for it.

*A drop that races with a merge.*  The merger publishes ``forward`` and then moves
the queue; D appends and then looks at ``forward``.  Either the merger's move
finds D's node or D finds the forwarding and moves it itself.

The steps rely on the interpreter for: a weak reference is cleared before its
callback runs; ``deque.append``, ``deque.popleft`` and ``dict.pop`` are atomic;
a failed try and a release of one lock are ordered.  They hold on the
free-threaded build as well; docs/ownership.md lists them.

Note [Section].  A collection may start inside a critical section and run a
stranger's ``__del__`` there.  ``ThreadState.section`` tells our entry points:
anything that would wait for a lock is refused, a drop is only queued and its
graph remembered in ``deferred``, a full sweep is remembered too, and both are
done when the section has been left.  The rejected alternative, a reentrant lock,
would let the second call see the first one's half-finished change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sweepgrad.errors import ReentrantCallError
from sweepgrad.graph.locator import Graph, GraphLocator, find, move_drops
from sweepgrad.graph.node import Node
from sweepgrad.sync import ThreadState

Result = TypeVar("Result")

_NONBLOCKING = (False,)


def refused(operation: str) -> ReentrantCallError:
    """The error for a call from inside one of this thread's critical sections."""
    return ReentrantCallError(
        f"{operation} was called while this thread is inside one of sweepgrad's critical sections "
        "(from a __del__, a weakref callback, or a signal or trace handler that interrupted it); "
        "waiting would hang for ever. Do the work later, for instance by appending to a queue "
        "that the training loop empties."
    )


def discard(state: ThreadState, garbage: list[Any]) -> None:
    """Take freed nodes apart and let go of them; call it with no lock held.

    Never recursive.  A node lets go of its parents before they can be destroyed,
    so a chain of a million nodes is taken apart in a loop.  A saved value may
    hold the handle of another node, whose drop frees that node and arrives here
    again: the inner call leaves its garbage to the outer one.
    """
    heap = state.garbage
    heap.extend(garbage)
    garbage.clear()
    if state.discarding:
        return
    try:
        state.discarding = True
        while heap:
            item = heap.pop()
            if type(item) is Node:
                item.parents = ()
                item.rule = None
                item.saved = ()
                item.extras = None
    finally:
        state.discarding = False


def enter(graph: Graph, operation: str, action: Callable[..., Result], *args: Any) -> Result:
    """Run ``action(graph, garbage, *args)`` under the lock of the graph that ``graph`` became.

    Before the action, a graph that an interrupted holder left dirty is repaired.
    After it, queued drops are drained.  The action marks the graph dirty before
    its first change; what it puts into ``garbage`` is destroyed outside the lock.

    Raises:
        ReentrantCallError: if this thread is inside a critical section already.
    """
    state: ThreadState = graph.threads.state
    if state.section is not None:
        raise refused(operation)
    garbage: list[Any] = []
    try:
        while True:
            graph = _live(graph)
            results: list[Result] = []
            _locked(state, graph, garbage, results, action, args)
            if results:
                return results[0]
    finally:
        discard(state, garbage)
        leave(state, graph)


def _live(graph: Graph) -> Graph:
    while graph.forward is not None:
        graph = graph.forward
    return graph


def _locked(
    state: ThreadState,
    graph: Graph,
    garbage: list[Any],
    results: list[Result],
    action: Callable[..., Result],
    args: tuple[Any, ...],
) -> None:
    """One try at the section; leaves ``results`` empty if the graph was merged away meanwhile."""
    try:
        state.section = graph
        with graph.lock:
            if graph.forward is None:
                if graph.dirty:
                    graph.repair(garbage)
                results.append(action(graph, garbage, *args))
                if graph.drops:
                    graph.dirty = True
                    graph.drain(garbage)
                graph.dirty = False
    finally:
        state.section = None


def join(locator: GraphLocator, state: ThreadState, one: Node, other: Node) -> Graph:
    """Merge the graphs of two nodes, as a critical section."""
    if state.section is not None:
        raise refused("joining two graphs")
    garbage: list[Any] = []
    try:
        try:
            state.section = locator
            return locator.merge(one, other, garbage)
        finally:
            state.section = None
    finally:
        discard(state, garbage)
        leave(state, find(one))


def list_graphs(locator: GraphLocator, state: ThreadState) -> list[Graph]:
    """Every graph of the locator's runtime, listed as a critical section.

    Without it a collection that starts while the list is made, and whose
    finalizer joins two graphs or asks for a report, would wait for a lock that
    its own thread holds; so would a report asked for under a graph's lock.

    Raises:
        ReentrantCallError: if this thread is inside a critical section already.
    """
    if state.section is not None:
        raise refused("listing the graphs (memory_report)")
    try:
        try:
            state.section = locator
            return locator.list_graphs()
        finally:
            state.section = None
    finally:
        leave(state)


def leave(state: ThreadState, graph: Graph | None = None) -> None:
    """After a section: look at the queue once more, and do what was deferred meanwhile."""
    if graph is not None and (graph.drops or graph.forward is not None):
        settle(state, graph)
    while state.deferred:
        settle(state, state.deferred.pop())
    while state.sweeps_asked and not state.sweeping:
        state.sweeps_asked.pop().graph_cleanup()


def settle(state: ThreadState, graph: Graph) -> None:
    """Drain the graph's drops, unless the holder of its lock is sure to (note [Drop]).

    Never waits: safe in a finalizer.
    """
    while True:
        while graph.forward is not None:
            move_drops(graph, graph.forward)
            graph = graph.forward
        if not graph.drops or not _try_drain(state, graph):
            return


def _try_drain(state: ThreadState, graph: Graph) -> bool:
    """Drain under the lock if it is free now; False if somebody holds it."""
    taken: list[bool] = []
    garbage: list[Any] = []
    lock = graph.lock  # a child forked while it is held finds another in its place
    try:
        state.section = graph
        # One C call takes the lock and notes that it did.  With a plain
        # ``if lock.acquire(False)`` an interrupt could fall between the two and
        # leave the lock held for ever.
        taken.extend(map(lock.acquire, _NONBLOCKING))
        if not taken[0]:
            return False
        if graph.forward is None:
            if graph.dirty:
                graph.repair(garbage)
            graph.dirty = True
            graph.drain(garbage)
            graph.dirty = False
    finally:
        try:
            if taken and taken[0]:
                lock.release()
        finally:
            state.section = None
            discard(state, garbage)
    return True


#: Set to True when the interpreter exits: from then on a drop is left to the exit itself.
#: Compared with ``is False`` because module teardown turns it into None.
_exiting = False


def stop_settling() -> None:
    """Called at exit; see :data:`_exiting`."""
    global _exiting
    _exiting = True


def on_drop(node: Node) -> None:
    """The finalizer of a handle (a weak reference's callback); takes no lock it must wait for."""
    if node.children or _exiting is not False:
        return  # freed with its last child: note [Drop], D2
    graph = node.graph
    if graph is None:
        return
    graph.drops.append(node)
    state: ThreadState = graph.threads.state
    if state.section is not None:
        state.deferred.append(graph)
        return
    settle(state, graph)
    if state.deferred or state.sweeps_asked:
        leave(state)
