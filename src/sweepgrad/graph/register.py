"""Registering an operation: the recording path, kept short on purpose.

The section that places a node in its graph makes no call and no backward jump
on its fast path, so on CPython no collection, signal handler or interrupt runs
inside it.  That is speed, not safety: ``dirty`` and ``ThreadState.section`` are
kept as everywhere, and tests interrupt it at each line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sweepgrad.graph.locator import Graph, find, mismatch
from sweepgrad.graph.node import UNAVAILABLE, Node, Rule, node_ids
from sweepgrad.graph.section import enter, join, leave, on_drop, refused
from sweepgrad.sync import ThreadState

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
    saved: tuple[Any, ...],
    nbytes: int,
    parents: tuple[Node, ...] | None = None,
) -> Node:
    """Record an operation with one tracked operand; returns the node of its result.

    Args:
        handle: the tensor that will hold the node; its death is the drop.
        parent: the operand's node.  The caller holds the operand's handle
            until this returns, so that no sweep can take the parent meanwhile.
        rule: how to back-propagate.
        saved: what the rule needs.
        nbytes: bytes of the arrays in ``saved``.
        parents: all tracked operands, when the others are leaves of the same runtime.

    Thread safety: any thread.  Takes the GRAPH lock, or none when the parent is a leaf.

    Raises:
        ReentrantCallError: inside a critical section of this thread.
    """
    node = _make(handle, on_drop)
    node.id = _next_id()
    node.parents = (parent,) if parents is None else parents
    node.rule = rule
    node.saved = saved
    node.children = 0
    node.level = parent.level + 1
    node.claim = None
    node.nbytes = nbytes
    graph = parent.graph
    if graph is None:
        parent.runtime.locator.start(node)
        return node
    node.graph = graph
    state: ThreadState = graph.threads.state
    if state.section is not None:
        raise refused(rule.name)
    placed = False
    try:
        state.section = graph
        with graph.lock:
            if parent.claim is None and graph.forward is None and not graph.dirty:
                graph.dirty = True
                graph.nodes[node.id] = node
                if parent.children:
                    graph.tips += 1
                parent.children += 1
                graph.saved_bytes += nbytes
                graph.dirty = False
                placed = True
    finally:
        state.section = None
    if not placed:
        enter(graph, rule.name, _place, node)
    elif graph.drops or state.deferred or state.sweeps_asked:
        leave(state, graph)
    return node


def register_two(
    handle: object, one: Node, other: Node, rule: Rule, saved: tuple[Any, ...], nbytes: int
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
    handle: object, one: Node, other: Node, rule: Rule, saved: tuple[Any, ...], nbytes: int
) -> Node:
    """Record an operation whose two operands are in one graph; they may be the same node."""
    node = _make(handle, on_drop)
    node.id = _next_id()
    node.parents = (one, other)
    node.rule = rule
    node.saved = saved
    node.children = 0
    node.level = (one.level if one.level > other.level else other.level) + 1
    node.claim = None
    node.nbytes = nbytes
    graph = node.graph = one.graph
    assert graph is not None, "neither operand is a leaf"
    state: ThreadState = graph.threads.state
    if state.section is not None:
        raise refused(rule.name)
    placed = False
    try:
        state.section = graph
        with graph.lock:
            if (
                one.claim is None
                and other.claim is None
                and graph.forward is None
                and not graph.dirty
            ):
                graph.dirty = True
                graph.nodes[node.id] = node
                graph.tips += 1
                if not one.children:
                    graph.tips -= 1
                one.children += 1
                if not other.children:
                    graph.tips -= 1
                other.children += 1
                graph.saved_bytes += nbytes
                graph.dirty = False
                placed = True
    finally:
        state.section = None
    if not placed:
        enter(graph, rule.name, _place, node)
    elif graph.drops or state.deferred or state.sweeps_asked:
        leave(state, graph)
    return node


def register_many(
    handle: object, parents: Sequence[Node], rule: Rule, saved: tuple[Any, ...], nbytes: int
) -> Node:
    """Record an operation with any number of tracked operands; see :func:`register_two`."""
    node = _make(handle, on_drop)
    node.id = _next_id()
    node.parents = tuple(parents)
    node.rule = rule
    node.saved = saved
    node.children = 0
    node.level = max(parent.level for parent in parents) + 1
    node.claim = None
    node.nbytes = nbytes
    _register_joined(node)
    return node


def _register_joined(node: Node) -> None:
    """Place a node whose parents may be leaves or sit in several graphs."""
    anchor: Node | None = None
    for parent in node.parents:
        if parent.graph is None:
            continue
        if anchor is None:
            anchor = parent
        elif find(anchor) is not find(parent):
            graph = find(anchor)
            join(graph.runtime.locator, graph.threads.state, anchor, parent)
    _refuse_foreign_leaves(node, anchor)
    if anchor is None:
        node.parents[0].runtime.locator.start(node)
        return
    graph = find(anchor)
    node.graph = graph
    assert node.rule is not None
    enter(graph, node.rule.name, _place, node)


def _refuse_foreign_leaves(node: Node, anchor: Node | None) -> None:
    runtime = node.parents[0].runtime if anchor is None else find(anchor).runtime
    for parent in node.parents:
        if parent.graph is None and parent.runtime is not runtime:
            raise mismatch(runtime, parent.runtime)


def _place(graph: Graph, garbage: list[Any], node: Node) -> None:
    """Record the node under the graph's lock, whatever state its parents are in."""
    node.graph = graph
    for parent in node.parents:
        claim = parent.claim
        if claim is not None and claim.committed:
            # Unavailable from birth: no backward can ever run from it, so what its
            # rule saved goes now and nobody has to sweep it.
            node.claim = UNAVAILABLE
            node.nbytes = 0
            garbage.append(node)
            return
    graph.dirty = True
    graph.add(node)
