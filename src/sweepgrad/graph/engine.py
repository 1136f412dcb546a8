"""Backward: claim the ancestors, run their rules, give the gradients out.

Claiming happens at once under the graph's lock.  Running holds no lock: the
claimed rules and saved values belong to this backward alone (or were copied,
when the graph is retained), so rules, hooks and inner backwards are ordinary
code.  There is nothing to release under a lock afterwards: what a claim took has
left the registry already.

Note [Order].  Nodes run in descending level, where a node's level is one more
than the highest level among its parents; among equals, in the order in which a
walk from the root meets them.  Both depend on the shape of the graph alone.  The
rejected alternative, descending id, is a topological order too, but ids record
which thread came first: when two threads build the two halves of one forward,
the contributions to a shared leaf would be added in a different order from run
to run, and floating-point sums would differ in the last bits.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from sweepgrad.errors import GraphConsumedError
from sweepgrad.graph.locator import Graph, find
from sweepgrad.graph.node import Claim, Node, Rule, parents_of, saved_of
from sweepgrad.graph.running import Claimed, Request, Step, accumulate, hook_rest, run
from sweepgrad.graph.section import enter, join
from sweepgrad.graph.sweeper import sweep_with_backward
from sweepgrad.graph.watch import WATCH, is_watched

_by_level = attrgetter("level")
_by_id = attrgetter("id")


def backward(request: Request) -> dict[Node, Any]:
    """Back-propagate; returns the gradient of each wanted node that got one.

    Thread safety: any thread, also from inside rules and hooks.  Of two threads
    that want one node, without ``retain`` one gets it and the other an error.

    Raises:
        GraphConsumedError: if a needed rule has been taken; nothing is changed.
        ReentrantCallError: inside a critical section of this thread.
        RuntimeMismatchError: if the roots belong to two runtimes.
    """
    gradients: dict[Node, Any] = {}
    for node, seed in request.roots:
        accumulate(gradients, node, seed)
    roots = [node for node in gradients if node.graph is not None]
    kept: dict[Node, Any] = {}
    wanted: dict[Node, Any] = {}
    if len(roots) < len(gradients):
        wanted = _wanted([node for node in gradients if node.graph is None], None)
    if roots:
        claim = Claim("an earlier backward has taken its gradient rule")
        try:
            claimed = enter(_one_graph(roots), "backward", _claim, roots, request, claim)
            wanted.update(claimed.wanted)
            if claimed.plain is not None:
                _run_plain(claimed.plain, gradients)
            else:
                run(claimed, gradients, wanted, kept, request)
        finally:
            claim.let_go()
    elif WATCH and not request.cut:
        hook_rest(gradients, wanted, kept, request.targets)
    # What is left was reached but not run: leaves, and targets that no other target lies behind.
    targets = request.targets
    for node, gradient in gradients.items():
        if node in wanted if targets is None else node in targets:
            kept[node] = gradient
    return kept


def _one_graph(roots: list[Node]) -> Graph:
    """The graph of all roots, merged if they were in several: a claim is one step."""
    first = roots[0]
    for root in roots[1:] if len(roots) > 1 else ():
        if find(first) is not find(root):
            graph = find(first)
            join(graph.runtime.locator, graph.threads.state, first, root)
    return find(first)


def _claim(
    graph: Graph, garbage: list[Any], roots: list[Node], request: Request, claim: Claim
) -> Claimed:
    """Take the rules of all ancestors of the roots out of the graph, at once.

    Under the graph's lock.  Everything that can fail comes before the first
    change; then one store, ``claim.committed``, takes all the nodes.
    """
    arrived = len(graph.arrivals)  # the roots' ancestors are among these, or counted
    partly = request.targets is not None
    # A claim on a part of the ancestors marks that part once the walk has found it.
    visited = Claim(claim.why) if partly else claim
    if partly and request.cut:
        roots = _stop_at_targets(graph, roots, request.targets or frozenset(), visited)
    order, leaves = _ancestors(roots, visited)
    wanted = _wanted(leaves, request.targets)
    useful = None
    if request.targets is not None or len(wanted) < len(leaves):
        if WATCH and request.targets is None:
            wanted.update((node, node()) for node in order if is_watched(node))
        useful = _leading_to(wanted, order)
    if request.targets is not None:
        assert useful is not None
        order = [node for node in order if not useful.isdisjoint(parents_of(node))]
    if request.retain:
        # Copied now: another thread's claim may take rule and values any time later.
        steps = [(node, _rule_of(node), saved_of(node), parents_of(node)) for node in order]
        return Claimed(iter(steps), wanted, useful)
    if partly:
        for node in order:
            node.claim = claim
    claim.nodes = order
    graph.dirty = True
    # Distinct nodes, as many as there are: all of them, and none needs to be counted.
    whole = not partly and len(order) == len(graph.nodes) + arrived
    if not whole:
        graph.count_arrivals(garbage)
    claim.committed = True
    if whole:
        graph.remove_all(arrived, garbage)
    elif partly:
        graph.remove_part(order, garbage)
    else:
        graph.remove_closed(order)
    sweep_with_backward(graph, garbage, len(order))
    if useful is None and request.lift is None and not WATCH:
        return Claimed(iter(()), wanted, None, order)
    return Claimed(map(_take, order), wanted, useful)


def _stop_at_targets(
    graph: Graph, roots: list[Node], targets: frozenset[Node], visited: Claim
) -> list[Node]:
    """Mark the targets as visited, so that the walk stops there; returns the roots still to walk.

    Under the graph's lock; what belongs to another graph is no ancestor and stays as it is.
    """
    for node in sorted(targets, key=_by_id):  # not in the order of their addresses
        if node.graph is not None and find(node) is graph:
            _refuse_consumed(node)
            node.claim = visited
    return [root for root in roots if root not in targets]


def _ancestors(roots: list[Node], claim: Claim) -> tuple[list[Node], list[Node]]:
    """The nodes from the roots down in running order, and the leaves they meet.

    Marks each node with ``claim``.

    Raises:
        GraphConsumedError: at the first node that a committed claim owns.
    """
    order: list[Node] = []
    leaves: dict[Node, None] = {}
    for root in roots:
        _refuse_consumed(root)
        root.claim = claim
        order.append(root)
    # The list is its own queue: the loop goes on over what its body appends.
    for node in order:
        parents: Any = node.parents
        if type(parents) is not tuple:
            if parents.claim is None and parents.graph is not None:
                # Most nodes; as below, without the loop.
                parents.claim = claim
                order.append(parents)
                continue
            parents = (parents,)
        for parent in parents:
            seen = parent.claim
            if seen is claim:
                continue
            if parent.graph is None:
                leaves[parent] = None
                continue
            if seen is not None:
                _refuse_consumed(parent)
            parent.claim = claim
            order.append(parent)
    order.sort(key=_by_level, reverse=True)  # stable: see note [Order]
    return order, list(leaves)


def _refuse_consumed(node: Node) -> None:
    claim = node.claim
    if claim is not None and claim.committed:
        raise GraphConsumedError(
            f"backward needs {node!r}, but {claim.why}. "
            "Each graph can be back-propagated once: pass retain_graph=True to every backward "
            "but the last, add the losses up and call backward once, or .detach() the shared part."
        )


def _wanted(leaves: list[Node], targets: frozenset[Node] | None) -> dict[Node, Any]:
    """The wanted nodes with their handles; a leaf without a live handle is not wanted."""
    if targets is not None:
        return {node: node() for node in sorted(targets, key=_by_id)}
    return {leaf: handle for leaf in leaves if (handle := leaf()) is not None}


def _leading_to(wanted: dict[Node, Any], order: list[Node]) -> set[Node]:
    """The nodes among ``order`` and ``wanted`` from which a wanted node can be reached."""
    useful = set(wanted)
    for node in reversed(order):
        for parent in parents_of(node):
            if parent in useful:
                useful.add(node)
                break
    return useful


def _rule_of(node: Node) -> Rule:
    rule = node.rule
    assert rule is not None, "a node has its rule until its claimer runs it"
    return rule


def _take(node: Node) -> Step:
    """The step of a claimed node, which lets go of rule, values and parents as it is handed out."""
    step = (node, _rule_of(node), saved_of(node), parents_of(node))
    node.rule = None
    node.saved = ()
    node.parents = ()
    return step


def _run_plain(order: list[Node], gradients: dict[Node, Any]) -> None:
    """As ``_run``, for a pass that serves every parent and keeps the gradients of leaves alone.

    Apart for speed: an operation costs as much as twenty statements of Python, so a
    call for each step and one for each gradient added up are worth leaving out.
    Each node lets go of rule, saved values and parents before its rule runs; the
    list is emptied at the end, so that ``Claim.let_go`` finds nothing left to do.
    """
    take, get = gradients.pop, gradients.get
    parents: Any
    try:
        for node in order:
            rule: Any = node.rule
            saved = node.saved
            parents = node.parents
            node.rule = None
            node.saved = ()
            node.parents = ()
            gradient = take(node, None)
            if gradient is None:
                continue
            if type(saved) is not tuple:
                part = rule.backward(gradient, saved)
            elif len(saved) == 2:
                part = rule.backward(gradient, saved[0], saved[1])
            else:
                part = rule.backward(gradient, *saved)
            if type(parents) is not tuple:
                if part is not None:
                    old = get(parents)
                    gradients[parents] = part if old is None else old + part
                continue
            for parent, share in zip(parents, part, strict=True):
                if share is not None:
                    old = get(parent)
                    gradients[parent] = share if old is None else old + share
    except BaseException:
        gradient = part = share = old = None  # see running.run
        saved, parents = (), ()
        gradients.clear()
        raise
    order.clear()
