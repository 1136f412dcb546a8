"""What NumPy's dispatch adds: ``np.tanh(t)`` beside ``t.tanh()``, and the same of a product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import sweepgrad as sg
from benchmarks.engines.base import start_value
from benchmarks.plan import Plan
from benchmarks.results import CaseResult
from benchmarks.timing import Subject, measure, ratio

LOOP = 200

#: At most this many times the method.
LIMIT = 1.3


def through_numpy(plan: Plan) -> CaseResult:
    """Recorded operations on a 2×2 array, by NumPy's function and by the tensor's own."""
    result = CaseResult("dispatch")
    t = sg.tensor(start_value(), requires_grad=True) * 1.0
    for what, by_numpy, own in (
        ("tanh", lambda: np.tanh(t), lambda: t.tanh()),
        ("multiply", lambda: np.multiply(t, t), lambda: t * t),
    ):
        subjects = [
            Subject("numpy's function", _repeated(by_numpy), units=LOOP),
            Subject("sweepgrad", _repeated(own), units=LOOP),
        ]
        series = measure(subjects, plan.seconds / 2, **plan.timing())
        result.add_series(f"dispatch: {what}", series)
        ours, theirs = series["numpy's function"], series["sweepgrad"]
        note = f"{ours.minimum * 1e9:,.0f} ns / {theirs.minimum * 1e9:,.0f} ns"
        result.add_ratio(f"np.{what} / the tensor's own", ratio(ours, theirs), LIMIT, note)
    return result


def _repeated(call: Callable[[], object]) -> Callable[[Any], object]:
    def run(_: Any) -> None:
        for _ in range(LOOP):
            call()

    return run
