"""The lock hierarchy as text, and a short exercise that shows it in use."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

import numpy as np

from sweepgrad.graph import HIERARCHY, OPERATIONS, ORDER, GraphRuntime, Rank, check_locks
from sweepgrad.ops import arithmetic
from sweepgrad.tensor import tensor


def tree() -> str:
    """The hierarchy, outermost first, each lock under the ones that may be held around it."""
    lines = []
    for depth, entry in enumerate(HIERARCHY):
        indent = "  " * depth
        lines.append(f"{indent}{entry.rank.name} ({int(entry.rank)})")
        lines.append(f"{indent}    protects  {entry.protects}")
        lines.append(f"{indent}    taken by  {entry.taken_by}")
        lines.append(f"{indent}    never     {entry.never_under_it}")
    return "\n".join(lines)


def table() -> str:
    """Which locks each operation takes, whether it may wait and whether it runs user code."""
    rows = [("operation", "locks, in order", "may wait", "user code")]
    for operation in OPERATIONS:
        waits = "yes" if operation.waits else "no"
        code = "yes" if operation.user_code_under_them else "no"
        rows.append((operation.name, operation.locks, waits, code))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    rows.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True)
class Observation:
    """What the order checker saw.

    Attributes:
        taken: how often each lock class was taken.
        edges: how often the second class was taken with the first as the innermost held.
        violations: messages of wrong orders.
        classes_missing: lock classes that were never taken.
        edges_missing: pairs that the hierarchy allows and that were not seen.
    """

    taken: dict[Rank, int]
    edges: dict[tuple[Rank, Rank], int]
    violations: list[str]
    classes_missing: list[Rank]
    edges_missing: list[tuple[Rank, Rank]]


def observe() -> Observation:
    """Run the exercise on a runtime of its own with the order checker on.

    What the checker remembered before is forgotten.  Thread safety: for one
    thread, when no other makes a runtime meanwhile.
    """
    before = check_locks(True)
    try:
        ORDER.reset()
        _exercise(GraphRuntime(name="exercise"))
        edges = {pair: edge.times for pair, edge in ORDER.edges.items()}
        ranks = [entry.rank for entry in HIERARCHY]
        allowed = [(o, i) for o in ranks for i in ranks if i > o] + [(Rank.GRAPH, Rank.GRAPH)]
        return Observation(
            dict(ORDER.taken),
            edges,
            list(ORDER.violations),
            ORDER.never_exercised(),
            [pair for pair in allowed if pair not in edges],
        )
    finally:
        check_locks(before)


def _exercise(runtime: GraphRuntime) -> None:
    """Every row of the operations table once."""
    x = tensor(np.ones((2, 2)), requires_grad=True, runtime=runtime)
    left = arithmetic.multiply(x, x)
    right = arithmetic.add(x, x)
    joined = arithmetic.multiply(arithmetic.add(left, right), x)  # two graphs become one
    joined.backward(np.ones((2, 2)), retain_graph=True)
    del left
    gradients = joined.backward(np.ones((2, 2)))
    x.update(lambda a: a - gradients[x])
    x.assign(np.zeros((2, 2)))
    unused = arithmetic.multiply(x, x)
    runtime.graph_cleanup()
    runtime.memory_report()
    del unused, right
    _fork()


def _fork() -> None:
    """A child that ends at once, where there is fork: it takes the whole hierarchy."""
    if not hasattr(os, "fork"):
        return
    with warnings.catch_warnings():
        # Python warns of forking while threads run (NumPy's BLAS may have some).  This
        # child calls nothing but _exit.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def report(observation: Observation) -> str:
    """The observation as text."""
    lines = ["locks taken:"]
    lines += [f"  {rank.name:<8} {times:>6} times" for rank, times in observation.taken.items()]
    lines.append("taken while another was held (outer -> inner):")
    for (outer, inner), times in sorted(observation.edges.items()):
        lines.append(f"  {outer.name} -> {inner.name}: {times} times")
    if not observation.edges:
        lines.append("  none")
    missing = [rank.name for rank in observation.classes_missing]
    missing += [f"{outer.name} -> {inner.name}" for outer, inner in observation.edges_missing]
    lines.append("allowed and never exercised: " + (", ".join(missing) or "nothing"))
    lines.append(f"wrong orders: {len(observation.violations)}")
    lines += observation.violations
    return "\n".join(lines)
