"""Small operations: recording, one backward step, leaves, and a dropped forward.

Everything is on 2×2 float32 arrays, so the arithmetic costs next to nothing and
what is left is the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import engines
from benchmarks.engines import Engine, UnsupportedError
from benchmarks.engines.base import factor, start_value
from benchmarks.plan import Plan
from benchmarks.results import CaseResult
from benchmarks.timing import Series, Subject, measure, ratio

LENGTH = 200
LOOP = 500

#: Engine compared with, the target for recording, and the one for backward.
PEER = "torch"
RECORDING, BACKWARD = 0.8, 0.35
LEAF, LEAF_OPERATION = 0.5, 0.9


def multiply_chain(plan: Plan) -> CaseResult:
    """A chain of 200 multiplications by a constant tensor."""
    return _chain(plan, "multiply", factor() ** LENGTH)


def tanh_chain(plan: Plan) -> CaseResult:
    """A chain of 200 tanh."""
    value, gradient = start_value().astype(np.float64), np.ones((2, 2))
    for _ in range(LENGTH):
        value = np.tanh(value)
        gradient *= 1 - value**2
    return _chain(plan, "tanh", gradient)


def _chain(plan: Plan, operation: str, expected: Any) -> CaseResult:
    result = CaseResult(operation)
    recording, stepping, dropping = [], [], []
    for engine in _engines(plan):
        try:
            chain = engine.chain(operation, LENGTH)
        except UnsupportedError:
            continue
        _check_gradient(engine.name, chain.backward(chain.record()), expected)
        # Recording keeps its result until the clock has stopped; dropping it is timed apart.
        recording.append(Subject(engine.name, _without_argument(chain.record), units=LENGTH))
        stepping.append(Subject(engine.name, chain.backward, chain.record, LENGTH))
        dropping.append(Subject(engine.name, _drop, _boxed(chain.record), LENGTH))
    for what, subjects, limit in (
        (f"record {operation}", recording, RECORDING),
        (f"backward step of {operation}", stepping, BACKWARD),
        (f"drop a recorded {operation}, no backward", dropping, None),
    ):
        series = measure(subjects, plan.seconds, **plan.timing())
        result.add_series(what, series)
        compare(result, what, series, limit)
    return result


def leaf(plan: Plan) -> CaseResult:
    """Create a tracked copy of a 2×2 array, and drop it."""
    result = CaseResult("leaf")
    loops = _loops(plan, lambda engine: engine.leaves(LOOP))
    series = measure(loops, plan.seconds, **plan.timing())
    result.add_series("leaf: create and drop", series)
    compare(result, "create and drop a leaf", series, LEAF)
    loops = _loops(plan, lambda engine: engine.sharing_leaves(LOOP))
    series = measure(loops, plan.seconds / 2, **plan.timing())
    result.add_series("leaf: create and drop, sharing memory", series)
    compare(result, "create and drop a leaf that shares memory", series, None)
    return result


def leaf_operation(plan: Plan) -> CaseResult:
    """A leaf t, t*t + t, everything dropped, no backward."""
    result = CaseResult("leaf-operation")
    loops = _loops(plan, lambda engine: engine.leaf_operations(LOOP))
    series = measure(loops, plan.seconds, **plan.timing())
    result.add_series("leaf-operation: leaf, t*t + t, drop", series)
    compare(result, "leaf, t*t + t, drop", series, LEAF_OPERATION)
    return result


def compare(
    result: CaseResult, what: str, series: dict[str, Series], limit: float | None, peer: str = PEER
) -> None:
    """Rows for sweepgrad over the peer, with the target, and over all others, without."""
    ours = series["sweepgrad"]
    if peer not in series:
        result.add_missing(f"{what} / {peer}", f"{peer} is not installed")
    for name, other in series.items():
        if name == "sweepgrad":
            continue
        note = f"{ours.minimum * 1e9:,.0f} ns / {other.minimum * 1e9:,.0f} ns"
        result.add_ratio(
            f"{what} / {name}", ratio(ours, other), limit if name == peer else None, note
        )


def _engines(plan: Plan) -> list[Engine]:
    return [engines.load(name) for name in plan.engines if name not in ("numpy", "jax")]


def _loops(plan: Plan, choose: Callable[[Engine], Callable[[Any], object]]) -> list[Subject]:
    subjects = []
    for engine in _engines(plan):
        try:
            subjects.append(Subject(engine.name, choose(engine), units=LOOP))
        except UnsupportedError:
            continue
    return subjects


def _check_gradient(name: str, found: Any, expected: Any) -> None:
    """An engine that computes something else is not compared."""
    if not np.allclose(np.asarray(found), expected, rtol=1e-3):
        raise AssertionError(f"{name} gives the gradient {found!r}, expected {expected!r}")


def _without_argument(function: Callable[[], Any]) -> Callable[[Any], object]:
    return lambda _: function()


def _boxed(record: Callable[[], Any]) -> Callable[[], list[Any]]:
    return lambda: [record()]


def _drop(box: list[Any]) -> None:
    box.clear()
