"""A runtime and a naive graph side by side: what one is asked for, the other is asked for too.

The state machines share it: ``tests/graph`` drives it with one thread, ``tests/stateful``
with real threads and on the schedule explorer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support import reference
from support.reference import Ref
from sweepgrad.graph.locator import find

LIMIT = 2**20  # larger values are not multiplied, so that every result stays exact

NUMBERS = [1, 2, 3, -1, -2, 5, 0]

#: Name: the operation on tensors; the value and the slopes of the reference.
OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[[int, int], tuple[int, int, int]]]] = {
    "add": (lambda a, b: a + b, lambda a, b: (a + b, 1, 1)),
    "subtract": (lambda a, b: a - b, lambda a, b: (a - b, 1, -1)),
    "multiply": (lambda a, b: a * b, lambda a, b: (a * b, b, a)),
}


def combined(name: str, a: Ref, b: Ref) -> tuple[Ref, Callable[..., Any]]:
    """The reference's result of an operation on two values, and the operation on tensors."""
    if name == "multiply" and max(abs(a.value), abs(b.value)) > LIMIT:
        name = "add"
    run, define = OPERATIONS[name]
    value, by_a, by_b = define(a.value, b.value)
    return Ref(value, (a, b), (by_a, by_b)), run


def scaled(a: Ref, factor: int) -> tuple[Ref, Callable[..., Any]]:
    """As ``combined``, for the product with a constant."""
    if abs(a.value) > LIMIT:
        factor = 1
    return Ref(a.value * factor, (a,), (factor,)), lambda tensor: tensor * float(factor)


class Beside:
    """What is held, in both: tensors by reference, and the nodes that were ever made."""

    def __init__(self, runtime: Any) -> None:
        self.runtime = runtime
        self.tensors: dict[Ref, Any] = {}  # what is held
        self.nodes: dict[Ref, Any] = {}  # kept to look at; a node holds no handle

    def keep(self, ref: Ref, tensor: Any) -> None:
        self.tensors[ref], self.nodes[ref] = tensor, tensor._node

    def create(self, value: int) -> Ref:
        ref = Ref(value)
        self.keep(ref, self.runtime.tensor([float(value)], requires_grad=True))
        return ref

    def combine(self, name: str, a: Ref, b: Ref) -> Ref:
        ref, run = combined(name, a, b)
        self.keep(ref, run(self.tensors[a], self.tensors[b]))
        return ref

    def scale(self, a: Ref, factor: int) -> Ref:
        ref, run = scaled(a, factor)
        self.keep(ref, run(self.tensors[a]))
        return ref

    def let_go(self, ref: Ref) -> None:
        ref.held = False
        del self.tensors[ref]

    def compare(self, found: Any, expected: int) -> None:
        """A gradient is that of the oracle, bit by bit."""
        bits = found if isinstance(found, bytes) else found.tobytes()
        right = np.array([float(expected)])
        # The reference knows no -0.0.
        zero = expected == 0 and np.frombuffer(bits).tolist() == [0.0]
        assert bits == right.tobytes() or zero, (
            f"gradient {np.frombuffer(bits)}, the oracle's is {right}"
        )

    def registered(self) -> set[Ref]:
        return {
            ref
            for ref, node in self.nodes.items()
            if node.graph is not None and node.id in find(node).nodes
        }

    def check(self) -> None:
        """Everything agrees, at a moment when no thread is at work."""
        self.runtime.check_valid()
        registered = self.registered()
        assert not any(ref.consumed for ref in registered)
        # Which unavailable nodes a backward's own sweep took is its choice; all else is not.
        assert registered == reference.reachable(self.tensors, registered)
        available = [ref for ref in self.tensors if not ref.is_leaf and reference.is_available(ref)]
        needed = {ref for ref in reference.ancestors(available) if not ref.is_leaf}
        assert needed <= registered
        self._check_counts(registered)
        for ref, tensor in self.tensors.items():
            assert tensor.item() == ref.value

    def _check_counts(self, registered: set[Ref]) -> None:
        """The runtime's counts are what the reference's own marking gives."""
        ids = []
        for graph in self.runtime.locator.list_graphs():
            assert graph.dead() == []
            ids += graph.nodes
        assert sorted(ids) == sorted(self.nodes[ref].id for ref in registered)
        children = dict.fromkeys(registered, 0)
        for ref in registered:
            for parent in ref.parents:
                if parent in children:
                    children[parent] += 1
        for ref, count in children.items():
            assert self.nodes[ref].children == count
        report = self.runtime.memory_report()
        assert (report.nodes, report.pending_drops) == (len(registered), 0)
        assert report.tips == sum(not count for count in children.values())

    def check_empty(self) -> None:
        """With the last handle goes everything."""
        self.tensors.clear()
        report = self.runtime.memory_report()
        assert (report.nodes, report.graphs, report.saved_bytes) == (0, 0, 0), report
