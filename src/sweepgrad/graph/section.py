"""Critical sections: how a graph's lock is taken, and what happens to drops meanwhile.

Note [Drop].  Why the last drop into a dead graph always leads to a drain.

A handle dies in thread D while thread H holds, or is about to take, the lock.

    D1  the interpreter clears the weak reference: ``node()`` is None from here on
    D2  D reads ``node.children`` and ``node.expecting``; if either is set, D is done;
        so it is if the node is consumed, and whoever consumed it has finished
    D3  D tries the lock; if it gets it, D frees the node and drains, and is done
    D4  D appends the node to ``graph.drops``
    D5  D reads ``graph.forward`` and moves the drops if it is set
    D6  D tries the lock; if it gets it, D drains

    H1  H, under the lock, brings some count to zero
    H2  H reads that node's handle and frees the node if it is dead
    H3  H releases the lock
    H4  H reads ``graph.drops`` and, if there are any, settles the graph as D does

*A drop that saw children.*  Both orders are store-then-look: D clears the handle
(D1) and looks at the count (D2); H lowers the count (H1) and looks at the handle
(H2).  One of the two sees the other, so whoever frees the last child frees the
node too.  If both see it, the registry's ``pop`` lets one of them win.

*A drop that saw none.*  The first try (D3) only saves the queue when nobody holds
the lock, which is nearly always; its failure proves nothing.  D then appends (D4)
and tries again (D6).  If this try fails, a holder has not yet released; that
holder's look at the queue (H4) comes after its release (H3), hence after D4, and
finds the drop.  If another thread
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


def discard(state: ThreadState) -> None:
    """Take the thread's freed nodes apart and let go of them; call it with no lock held.

    Sections put what they free into ``state.garbage`` and not into a list of their
    own, so that what an interrupt keeps from being discarded is still known, and
    goes with the next section: a node that left its registry and has a live handle
    would otherwise keep its saved values for as long as the handle lives.

    Never recursive.  A node lets go of its parents before they can be destroyed,
    so a chain of a million nodes is taken apart in a loop.  A saved value may
    hold the handle of another node, whose drop frees that node and arrives here
    again: the inner call leaves its garbage to the outer one.
    """
    if state.discarding:
        return
    try:
        state.discarding = True
        _take_apart(state.garbage)
    finally:
        state.discarding = False


def _take_apart(heap: list[Any]) -> None:
    """Empty the list, node by node.

    A function of its own: on CPython 3.13 the backward jump of a loop that stands
    directly in a ``try`` body is not protected by it, and an interrupt there would
    leave ``discarding`` set for the life of the thread.
    """
    while heap:
        # Taken apart first and off the list second: an interrupt between the two must
        # not lose the item, and what is held in `kept` is not destroyed before both are
        # done, because destructors may append to the list.
        position = len(heap) - 1
        item = heap[position]
        kept: object = None
        if type(item) is Node:
            kept = item.parents, item.rule, item.saved
            item.parents = ()
            item.rule = None
            item.saved = ()
            del heap[position]
            item.extras = None
        else:
            del heap[position]
        del item, kept


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
    try:
        return _until_done(state, graph, action, args)
    finally:
        if state.garbage:
            discard(state)
        if graph.drops or graph.forward is not None or state.deferred or state.sweeps_asked:
            leave(state, live_graph(graph))


def _until_done(
    state: ThreadState,
    graph: Graph,
    action: Callable[..., Result],
    args: tuple[Any, ...],
) -> Result:
    """The loop of ``enter``, apart for the reason that ``_take_apart`` gives."""
    while True:
        graph = live_graph(graph)
        results: list[Result] = []
        _locked(state, graph, results, action, args)
        if results:
            return results[0]


def live_graph(graph: Graph) -> Graph:
    """What ``graph`` was merged into, or itself."""
    while graph.forward is not None:
        graph = graph.forward
    return graph


def _locked(
    state: ThreadState,
    graph: Graph,
    results: list[Result],
    action: Callable[..., Result],
    args: tuple[Any, ...],
) -> None:
    """One try at the section; leaves ``results`` empty if the graph was merged away meanwhile."""
    garbage = state.garbage
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
    try:
        try:
            state.section = locator
            return locator.merge(one, other, state.garbage)
        finally:
            state.section = None
    finally:
        discard(state)
        leave(state, find(one))


def list_graphs(
    locator: GraphLocator,
    state: ThreadState,
    look: Callable[[list[Graph]], None] | None = None,
) -> list[Graph]:
    """Every graph of the locator's runtime, listed as a critical section.

    Without it a collection that starts while the list is made, and whose
    finalizer joins two graphs or asks for a report, would wait for a lock that
    its own thread holds; so would a report asked for under a graph's lock.

    Args:
        look: as for ``GraphLocator.list_graphs``.

    Raises:
        ReentrantCallError: if this thread is inside a critical section already.
    """
    if state.section is not None:
        raise refused("listing the graphs (memory_report)")
    try:
        try:
            state.section = locator
            return locator.list_graphs(look)
        finally:
            state.section = None
    finally:
        leave(state)


def leave(state: ThreadState, graph: Graph | None = None) -> None:
    """After a section: look at the queue once more, and do what was deferred meanwhile."""
    if graph is not None and (graph.drops or graph.forward is not None):
        settle(state, graph)
    while state.deferred:
        try:
            waiting = state.deferred.pop()
        except IndexError:
            break  # a signal handler of this thread came between the look and the pop
        settle(state, waiting)
    if state.sweeps_asked and not state.sweeping:
        # Only those asked for until now: what is asked for during these sweeps waits for
        # the next section, so that finalizers which always ask cannot keep us here.
        asked, state.sweeps_asked = state.sweeps_asked, []
        for runtime in asked:
            runtime.sweeper.run(state)


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


def _try_drain(state: ThreadState, graph: Graph, dropped: Node | None = None) -> bool:
    """Drain under the lock if it is free now; False if somebody holds it.

    With ``dropped``, a node whose handle died but which is not queued: it is reclaimed
    too, and the answer is False if the graph was merged away meanwhile.
    """
    taken: list[bool] = []
    garbage = state.garbage
    lock = graph.lock  # a child forked while it is held finds another in its place
    try:
        state.section = graph
        # One C call takes the lock and notes that it did.  With a plain
        # ``if lock.acquire(False)`` an interrupt could fall between the two and
        # leave the lock held for ever.
        taken.extend(map(lock.acquire, _NONBLOCKING))
        if not taken[0]:
            return False
        if graph.forward is not None:
            return dropped is None
        if graph.dirty:
            graph.repair(garbage)
        graph.dirty = True
        if dropped is not None:
            graph.reclaim(dropped, garbage)
        if graph.drops:
            graph.drain(garbage)
        graph.dirty = False
    finally:
        try:
            if taken and taken[0]:
                lock.release()
        finally:
            state.section = None
            discard(state)
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
    try:
        if node.children or node.expecting or _exiting is not False:
            return  # freed with its last child: note [Drop], D2
        graph = node.graph
        if graph is None:
            return
        claim = node.claim
        if claim is not None and claim.committed and graph.forward is None and not graph.dirty:
            return  # a loss after its backward: it has left the registry with the claim
        state: ThreadState = graph.threads.state
        if state.section is not None:
            graph.drops.append(node)
            state.deferred.append(graph)
            return
        if not _try_drain(state, graph, node):
            graph.drops.append(node)
            settle(state, graph)
        elif graph.drops:
            settle(state, graph)
        if state.deferred or state.sweeps_asked:
            leave(state)
    except BaseException:
        # An interrupt.  A drop queued twice, or in vain, does no harm; the next holder of
        # the lock, or a sweep, finds it.
        graph = node.graph
        if graph is not None:
            graph.drops.append(node)
        raise
