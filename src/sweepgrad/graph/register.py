"""Registering an operation: the recording path, kept short on purpose.

Note [Arrival].  An operation is recorded without a lock, by appending its node to
its graph's ``arrivals``; it is counted by whoever holds the lock next.  The
rejected alternative, counting it at once under the lock, costs more than half of
what recording costs, for counts that a training step never looks at: its
backward claims the nodes before anybody has counted them.

Thread R records a child of a node, thread I holds the lock of the graph:

    R1  R sets ``parent.expecting``
    R2  R appends the child to ``graph.arrivals``
    R3  R reads ``graph.forward`` and ``parent.claim``; if one is set, R takes the
        lock, of the survivor if there is one, and counts or moves the arrivals

    I1  I takes a child from ``graph.arrivals``
    I2  I raises ``parent.children``
    I3  I clears ``parent.expecting``

*A drop of the parent* looks at both, ``children`` and ``expecting``, and is done if
it finds either (note [Drop], D2).  It cannot run while R does, for R's caller holds
the handle.  The last R1 is followed by R2 and the I3 of that very child, so a drop
that finds the flag set knows of a child that is still to be counted or just being
counted: whoever frees that child, or finds that it never counts, looks at the
handle.  The flag may be clear though a child has arrived, if another child's I3
came between R1 and R2.  Such a drop only tries the lock in vain.

*Freeing* does not trust the flag.  A node is freed if it has no handle and, *then*,
nothing has arrived that is not counted, and its count is zero.  A child's R2 comes
before the death of its parent's handle, so no child is missed.

*A merge* publishes ``forward`` and then moves the arrivals; R appends and then
looks at ``forward``, so one of the two sees the other.  All moves happen under the
survivor's lock: when R returns, the child has left the graph that was merged away.
Until the move is over nobody may take its parent for one of the survivor's, or a
child of it could overtake it: see ``locator.find``.

*A claim* of a parent may come between R's look at it and R2.  The child is then
unavailable, as if it had been recorded before the claim, and found so at I1; R3 sees
to it that I1 comes.  If R3 does not see the claim's mark, R2 came before the mark, so
the claim, which looks at the arrivals after its marks, finds the child.  The same holds
for a sweep that finds the parent unavailable: it marks it, then looks at the arrivals.
Where the parent is itself an arrival that is marked while it is counted, what has arrived
since the count began is left to the next look, and the graph gets a backlog for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sweepgrad.graph.locator import Graph, find, mismatch, move_arrivals
from sweepgrad.graph.node import Node, Rule, node_ids, parents_of
from sweepgrad.graph.section import enter, join, on_drop, refused, settle

_next_id = node_ids.__next__

#: Makes the record.  ``note_origins`` puts a maker here that also notes where the
#: operation was called from: a look at a switch would cost every recorded operation.
_make: Callable[[object, Callable[[Node], None]], Node] = Node


def note_origins(maker: Callable[[object, Callable[[Node], None]], Node]) -> None:
    """Make nodes with ``maker(handle, on_drop)`` from now on, for the rest of the process.

    For good, because switching back would race with a thread that switches on.
    """
    global _make
    _make = maker


def register_one(
    handle: object,
    parent: Node,
    rule: Rule,
    saved: Any,
    nbytes: int,
    parents: tuple[Node, ...] | None = None,
) -> Node:
    """Record an operation with one tracked operand; returns the node of its result.

    Args:
        handle: the tensor that will hold the node; its death is the drop.
        parent: the operand's node.  The caller holds the operand's handle
            until this returns, so that no sweep can take the parent meanwhile.
        rule: how to back-propagate.
        saved: what the rule needs: a tuple, or a single value that is no tuple.
        nbytes: bytes of the arrays in ``saved``.
        parents: all tracked operands, when there are others, leaves of the same runtime.

    Thread safety: any thread.  Takes no lock, except the GRAPH lock where a backward has
    visited the parent or the graph has been merged away (note [Arrival]).

    Raises:
        ReentrantCallError: inside a critical section of this thread; also where no lock is
            needed, so that it does not depend on what other threads did meanwhile.
    """
    node = _make(handle, on_drop)
    node.id = _next_id()
    node.parents = parent if parents is None else parents
    node.rule = rule
    node.saved = saved
    node.children = 0
    node.expecting = False
    node.level = parent.level + 1
    node.claim = None
    node.nbytes = nbytes
    graph = parent.graph
    if graph is None:
        parent.runtime.locator.start(node)
        return node
    node.graph = graph
    if graph.threads.state.section is not None:
        raise refused(rule.name)
    if parent.claim is not None or graph.forward is not None:
        enter(graph, rule.name, _place, node)
        return node
    try:
        parent.expecting = True
        graph.arrivals.append(node)
        if graph.forward is not None or parent.claim is not None:
            enter(graph, rule.name, _adopt, graph)
    except BaseException:
        # An interrupt.  A flag lost costs a drop its look, a flag left behind its node.  A
        # node that arrived and is not looked at by R3 is: as a drop.
        parent.expecting = False
        graph.drops.append(node)
        settle(graph.threads.state, graph)
        raise
    return node


def register_two(
    handle: object, one: Node, other: Node, rule: Rule, saved: Any, nbytes: int
) -> Node:
    """Record an operation with two tracked operands; see :func:`register_one`.

    Raises:
        ReentrantCallError: inside a critical section of this thread.
        RuntimeMismatchError: if the operands belong to two runtimes.
    """
    graph, graph_of_other = one.graph, other.graph
    if graph is None:
        runtime = other.runtime if graph_of_other is None else graph_of_other.runtime
        if one.runtime is not runtime:
            raise mismatch(one.runtime, runtime)
        return register_one(handle, other, rule, saved, nbytes, (one, other))
    if graph_of_other is None:
        if other.runtime is not graph.runtime:
            raise mismatch(graph.runtime, other.runtime)
        return register_one(handle, one, rule, saved, nbytes, (one, other))
    if graph is graph_of_other:
        return _register_under_two(handle, one, other, rule, saved, nbytes)
    return register_many(handle, (one, other), rule, saved, nbytes)


def _register_under_two(
    handle: object, one: Node, other: Node, rule: Rule, saved: Any, nbytes: int
) -> Node:
    """Record an operation whose two operands are in one graph; they may be the same node."""
    node = _make(handle, on_drop)
    node.id = _next_id()
    node.parents = (one, other)
    node.rule = rule
    node.saved = saved
    node.children = 0
    node.expecting = False
    node.level = (one.level if one.level > other.level else other.level) + 1
    node.claim = None
    node.nbytes = nbytes
    graph = node.graph = one.graph
    assert graph is not None, "neither operand is a leaf"
    if graph.threads.state.section is not None:
        raise refused(rule.name)
    if one.claim is not None or other.claim is not None or graph.forward is not None:
        enter(graph, rule.name, _place, node)
        return node
    try:
        one.expecting = True
        other.expecting = True
        graph.arrivals.append(node)
        if graph.forward is not None or one.claim is not None or other.claim is not None:
            enter(graph, rule.name, _adopt, graph)
    except BaseException:  # see register_one
        one.expecting = False
        other.expecting = False
        graph.drops.append(node)
        settle(graph.threads.state, graph)
        raise
    return node


def register_many(
    handle: object, parents: Sequence[Node], rule: Rule, saved: Any, nbytes: int
) -> Node:
    """Record an operation with any number of tracked operands; see :func:`register_two`."""
    anchor = _only_inner(parents)
    if anchor is not None:
        several = tuple(parents) if len(parents) > 1 else None
        return register_one(handle, anchor, rule, saved, nbytes, several)
    node = _make(handle, on_drop)
    node.id = _next_id()
    node.parents = tuple(parents)
    node.rule = rule
    node.saved = saved
    node.children = 0
    node.expecting = False
    node.level = max(parent.level for parent in parents) + 1
    node.claim = None
    node.nbytes = nbytes
    _register_joined(node)
    return node


def _only_inner(parents: Sequence[Node]) -> Node | None:
    """The one parent that is no leaf, if the others are leaves of its runtime.

    If all are leaves of one runtime, any of them.
    """
    anchor = parents[0]
    for parent in parents:
        if parent.graph is not None:
            if anchor.graph is not None and anchor is not parent:
                return None
            anchor = parent
    runtime = anchor.runtime if anchor.graph is None else anchor.graph.runtime
    for parent in parents:
        if parent.graph is None and parent.runtime is not runtime:
            return None  # refused with the words that name both
    return anchor


def _register_joined(node: Node) -> None:
    """Place a node whose parents may be leaves or sit in several graphs."""
    anchor: Node | None = None
    for parent in parents_of(node):
        if parent.graph is None:
            continue
        if anchor is None:
            anchor = parent
        elif find(anchor) is not find(parent):
            graph = find(anchor)
            join(graph.runtime.locator, graph.threads.state, anchor, parent)
    _refuse_foreign_leaves(node, anchor)
    assert anchor is not None, "leaves of one runtime have been recorded by register_one"
    graph = find(anchor)
    node.graph = graph
    assert node.rule is not None
    enter(graph, node.rule.name, _place, node)


def _refuse_foreign_leaves(node: Node, anchor: Node | None) -> None:
    parents = parents_of(node)
    runtime = parents[0].runtime if anchor is None else find(anchor).runtime
    for parent in parents:
        if parent.graph is None and parent.runtime is not runtime:
            raise mismatch(runtime, parent.runtime)


def _place(graph: Graph, garbage: list[Any], node: Node) -> None:
    """Record the node under the graph's lock, whatever state its parents are in."""
    graph.dirty = True
    node.graph = graph
    graph.arrivals.append(node)
    graph.count_arrivals(garbage)


def _adopt(graph: Graph, garbage: list[Any], named: Graph) -> None:
    """Count what has arrived, also in the graph ``named`` if that was merged into this one."""
    graph.dirty = True
    if named is not graph:
        move_arrivals(named, graph)
    graph.count_arrivals(garbage)
