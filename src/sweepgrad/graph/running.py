"""Running what a backward claimed: rules, hooks and inspectors, no lock held.

``engine`` has a loop of its own for the pass that most training steps are; here
are the others: for chosen targets, pruned leaves, retained graphs, gradients that
are differentiated again, and for graphs that somebody watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from sweepgrad.graph.node import Node, Rule
from sweepgrad.graph.watch import WATCH, forget_hooks, hooked, inspector, keeps_gradient

#: One step of a backward: the node, its rule, its saved values and its parents.
Step = tuple[Node, Rule, tuple[Any, ...], tuple[Node, ...]]

#: Turns the saved values of a node into what the rule gets when the gradient is
#: itself to be differentiated: ``lift(node, rule, saved, parents)``.
Lift = Callable[[Node, Rule, tuple[Any, ...], tuple[Node, ...]], tuple[Any, ...]]


@dataclass(slots=True)
class Request:
    """What a backward is asked for.

    Attributes:
        roots: nodes to start from, each with its seed gradient.
        targets: nodes whose gradients are wanted, or None for every live leaf.
        retain: leave rules and saved values in the graph for another backward.
        lift: given when gradients are to be differentiable themselves.
        cut: do not walk past a target, so that targets which depend on each
            other are treated as independent; see :class:`RegionRequest`.
    """

    roots: list[tuple[Node, Any]]
    targets: frozenset[Node] | None = None
    retain: bool = False
    lift: Lift | None = None
    cut: ClassVar[bool] = False


class RegionRequest(Request):
    """A request whose targets are the bounds of a recomputed region.

    Inside it a parameter's gradient is not final, so its hooks do not run.
    """

    cut: ClassVar[bool] = True


@dataclass(slots=True)
class Claimed:
    """What a claim took.

    Attributes:
        steps: the steps in the order they run.
        wanted: nodes whose gradient is wanted, each with its live handle, which
            is held so that the answer does not change while the rules run.
        useful: nodes that lead to a wanted one; None when all do.
        plain: the nodes in running order, for ``_run_plain``, when nothing but the
            gradients of the leaves is asked for and every node leads to one; else
            None.
    """

    steps: Iterator[Step]
    wanted: dict[Node, Any]
    useful: set[Node] | None
    plain: list[Node] | None = None


def run(
    claimed: Claimed,
    gradients: dict[Node, Any],
    wanted: dict[Node, Any],
    kept: dict[Node, Any],
    request: Request,
) -> None:
    """Run the rules in order, no lock held, adding up gradients by node.

    What is left in ``gradients`` was reached and not run; ``kept`` gets the
    gradients of targets that were run.
    """
    if WATCH:
        _run_watched(claimed, gradients, kept, request)
        if not request.cut:
            hook_rest(gradients, wanted, kept, request.targets)
    else:
        _run(claimed, gradients, kept, request)


def _run(
    claimed: Claimed, gradients: dict[Node, Any], kept: dict[Node, Any], request: Request
) -> None:
    useful, lift, targets = claimed.useful, request.lift, request.targets
    try:
        for node, rule, saved, parents in claimed.steps:
            gradient = gradients.pop(node, None)
            if gradient is None:
                continue
            if targets is not None and node in targets:
                kept[node] = gradient
            if lift is not None:
                saved = lift(node, rule, saved, parents)
            if useful is not None:
                _run_partly(rule, gradient, saved, parents, useful, gradients)
            elif len(parents) == 1:
                accumulate(gradients, parents[0], rule.backward(gradient, *saved))
            else:
                for parent, part in zip(parents, rule.backward(gradient, *saved), strict=True):
                    accumulate(gradients, parent, part)
    except BaseException:
        # The traceback keeps these frames: nothing in them may keep the graph's arrays.
        gradient = part = None
        saved, parents = (), ()
        claimed.steps = iter(())
        gradients.clear()
        kept.clear()
        raise


def _run_watched(
    claimed: Claimed, gradients: dict[Node, Any], kept: dict[Node, Any], request: Request
) -> None:
    """As ``_run``, also calling hooks, keeping marked gradients and showing rules to an inspector.

    A node's hooks run when its gradient is complete, right before its rule.
    """
    targets, useful, inspect = request.targets, claimed.useful, inspector.get()
    try:
        for node, rule, saved, parents in claimed.steps:
            gradient = gradients.pop(node, None)
            if gradient is None:
                continue
            gradient = hooked(node, gradient)
            if keeps_gradient(node) if targets is None else node in targets:
                kept[node] = gradient
            if not request.retain:
                forget_hooks(node)
            if request.lift is not None:
                saved = request.lift(node, rule, saved, parents)
            if inspect is not None:
                rule = inspect(node, rule)
            serving = set(parents) if useful is None else useful
            _run_partly(rule, gradient, saved, parents, serving, gradients)
    except BaseException:
        gradient = None  # see _run
        saved, parents = (), ()
        claimed.steps = iter(())
        gradients.clear()
        kept.clear()
        raise


def hook_rest(
    gradients: dict[Node, Any],
    wanted: dict[Node, Any],
    kept: dict[Node, Any],
    targets: frozenset[Node] | None,
) -> None:
    """Call the hooks of leaves and of targets whose rule did not run: their gradients are final."""
    try:
        for node in list(gradients):
            if node in wanted if targets is None else node in targets:
                gradients[node] = hooked(node, gradients[node])
    except BaseException:
        gradients.clear()  # see _run
        kept.clear()
        raise


def _run_partly(
    rule: Rule,
    gradient: Any,
    saved: tuple[Any, ...],
    parents: tuple[Node, ...],
    useful: set[Node],
    gradients: dict[Node, Any],
) -> None:
    """Run a rule for the parents that lead somewhere; work that serves no one is left out."""
    serves = [parent in useful for parent in parents]
    if not any(serves):
        return
    if len(parents) == 1:
        accumulate(gradients, parents[0], rule.backward(gradient, *saved))
        return
    if rule.parts is not None and not all(serves):
        for parent, serve, (function, positions) in zip(parents, serves, rule.parts, strict=True):
            if serve:
                arguments = [saved[position] for position in positions]
                accumulate(gradients, parent, function(gradient, *arguments))
        return
    for parent, serve, part in zip(parents, serves, rule.backward(gradient, *saved), strict=True):
        if serve:
            accumulate(gradients, parent, part)


def accumulate(gradients: dict[Node, Any], node: Node, part: Any) -> None:
    if part is None:
        return  # a rule says None for "no gradient"
    old = gradients.get(node)
    gradients[node] = part if old is None else old + part
