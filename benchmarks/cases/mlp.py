"""One training step of a 64-128-10 network, batch 32, float32, cross-entropy, SGD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import engines
from benchmarks.engines import Mlp, UnsupportedError
from benchmarks.plan import Plan
from benchmarks.results import CaseResult
from benchmarks.timing import Subject, measure, ratio

SEED = 7
#: Targets, each for sweepgrad's step over the other engine's.
TARGETS = {"torch": 0.35, "numpy": 1.5, "autograd": 0.25, "mygrad": 0.4}
CHECKED_STEPS = 5


def step(plan: Plan) -> CaseResult:
    """All engines beside each other, after a check that all compute the same."""
    result = CaseResult("mlp")
    reference = _after_steps(engines.load("numpy").mlp(SEED))
    subjects = []
    for name in plan.engines:
        engine = engines.load(name)
        for label, make in ((name, engine.mlp), (f"{name} + SGD class", engine.mlp_with_optimizer)):
            try:
                network = make(SEED)
            except UnsupportedError:
                continue
            check_agreement(label, _after_steps(network), reference)
            subjects.append(Subject(label, _stepping(network)))
    series = measure(subjects, 2 * plan.seconds, **plan.timing())
    result.add_series("mlp: one step", series)
    for name, other in series.items():
        ours = series["sweepgrad + SGD class" if name.endswith("SGD class") else "sweepgrad"]
        if name != ours.engine:
            note = f"{ours.minimum * 1e6:,.1f} µs / {other.minimum * 1e6:,.1f} µs"
            result.add_ratio(f"one step / {name}", ratio(ours, other), TARGETS.get(name), note)
    return result


def _stepping(network: Mlp) -> Any:
    step_once = network.step
    return lambda _: step_once()


def _after_steps(network: Mlp) -> list[Any]:
    for _ in range(CHECKED_STEPS):
        network.step()
    return [np.array(value) for value in network.parameters()]


def check_agreement(name: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """An engine that trains towards something else is not compared."""
    for one, other in zip(found, expected, strict=True):
        if not np.allclose(one, other, rtol=1e-3, atol=1e-5):
            worst = np.abs(one - other).max()
            raise AssertionError(
                f"after {CHECKED_STEPS} steps a parameter of {name} is off by {worst:g}"
            )
