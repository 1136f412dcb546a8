"""What one operation executes and takes: figures that repeat exactly on one Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import sweepgrad as sg
from benchmarks.counting import CountingPrimitives, count, kept_blocks
from benchmarks.engines.base import factor, start_value
from benchmarks.plan import Plan
from benchmarks.results import CaseResult, Row

LENGTH = 100


class Scene:
    """Tensors of one runtime and the operations to count; each is run once before it counts."""

    def __init__(self, runtime: sg.GraphRuntime) -> None:
        self.runtime = runtime
        self.leaf = runtime.tensor(start_value(), requires_grad=True)
        self.constant = runtime.tensor(factor())
        self.inner = self.leaf * self.constant
        self.box: list[Any] = []

    def actions(self) -> dict[str, tuple[Callable[[], object], Callable[[], object], int]]:
        """By name: what comes before uncounted, what is counted, and for how many operations."""
        leaf, constant, inner, box = self.leaf, self.constant, self.inner, self.box
        seed = np.ones((2, 2), np.float32)

        def chain() -> None:
            y = leaf * constant
            for _ in range(LENGTH - 1):
                y = y * constant
            box[:] = [y]

        def nothing() -> None:
            return None

        def one_node() -> None:
            box[:] = [leaf * constant]

        return {
            "record multiply by a constant": (nothing, lambda: inner * constant, 1),
            "record multiply of two nodes": (nothing, lambda: inner * inner, 1),
            "record multiply with a leaf": (nothing, lambda: inner * leaf, 1),
            "record tanh": (nothing, inner.tanh, 1),
            "start a graph": (nothing, lambda: leaf * constant, 1),
            "drop a graph of one node": (one_node, box.clear, 1),
            "drop a chain, one node": (chain, box.clear, LENGTH),
            "one backward step of multiply": (chain, lambda: box[0].backward(seed), LENGTH),
            "make a leaf": (
                nothing,
                lambda: self.runtime.tensor(seed, requires_grad=True),
                1,
            ),
        }


def executed(plan: Plan) -> CaseResult:
    """Bytecodes, calls, attribute accesses and locks of each operation."""
    result = CaseResult("counts")
    plain = Scene(sg.GraphRuntime()).actions()
    primitives = CountingPrimitives()
    counted = Scene(sg.GraphRuntime(primitives)).actions()
    for name, (before, action, units) in plain.items():
        for _ in range(10):  # until the interpreter has specialised what it will
            before()
            action()
        found = count(_named(action), before)
        locks, made = _locks(counted[name], primitives)
        note = (
            f"{found.python_calls / units:.2f} Python calls, {found.all_calls / units:.1f} calls, "
            f"{found.attribute_loads / units:.1f} attribute loads, "
            f"{found.attribute_stores / units:.1f} stores, "
            f"{locks / units:.2f} locks taken, {made / units:.2f} made"
        )
        result.rows.append(Row("counts", name, found.total / units, "bytecodes", note=note))
    result.rows += _memory(plan)
    return result


def _named(action: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        return action()

    return run


def _locks(entry: Any, primitives: CountingPrimitives) -> tuple[int, int]:
    before, action, _ = entry
    before()
    taken, made = primitives.taken["taken"], primitives.made["locks"]
    result = action()
    counts = primitives.taken["taken"] - taken, primitives.made["locks"] - made
    del result
    return counts


def _memory(plan: Plan) -> list[Row]:
    """Blocks that recorded operations and leaves keep, each with its handle's array."""
    scene = Scene(sg.GraphRuntime())
    length = plan.pick(1000, 1000)

    def chain() -> Any:
        y = scene.inner
        for _ in range(length):
            y = y * scene.constant
        return y

    def leaves() -> Any:
        return [scene.runtime.tensor(start_value(), requires_grad=True) for _ in range(length)]

    rows = []
    for label, make in (
        ("node of a chain, handle dropped", chain),
        ("leaf with handle and array", leaves),
    ):
        blocks = kept_blocks(make) / length
        rows.append(Row("counts", f"blocks kept by a {label}", blocks, "blocks"))
    return rows
