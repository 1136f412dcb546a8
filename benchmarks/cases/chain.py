"""A chain of a million nodes: build, backward, drop; time and peak memory.

Each round is a fresh process, because the peak of resident memory belongs to the
process and because a deep chain ends some engines with it.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.plan import Plan
from benchmarks.remote import WorkerError, run_once
from benchmarks.results import CaseResult, Curve, Row, Target, Timing
from benchmarks.timing import Ratio, percentiles

PHASES = ("build", "backward", "drop")
TIME, MEMORY = 0.6, 0.35


def million(plan: Plan) -> CaseResult:
    """The chain in every engine, rounds interleaved."""
    result = CaseResult("chain")
    length = plan.pick(40_000, 1_000_000)
    names = [name for name in plan.engines if name not in ("numpy", "jax")]
    found = _rounds(result, names, length, plan.pick(1, 3))
    for name, rounds in found.items():
        for phase in (*PHASES, "total"):
            samples = [_seconds(one, phase) / length for one in rounds]
            low, high = percentiles(samples)
            result.timings.append(
                Timing(
                    f"chain of {length:,}: {phase}",
                    name,
                    min(samples),
                    statistics.median(samples),
                    low,
                    high,
                    len(samples),
                )
            )
    _compare(result, found, length)
    if not plan.quick:
        _curve(result, names)
    return result


def _rounds(
    result: CaseResult, names: list[str], length: int, count: int
) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(count):
        for name in list(found):
            try:
                found[name].append(run_once(name, "chain", length=length))
            except WorkerError as error:
                del found[name]
                result.add_missing(f"{name}: chain of {length:,}", str(error))
    return found


def _compare(result: CaseResult, found: dict[str, list[dict[str, Any]]], length: int) -> None:
    ours = found.get("sweepgrad")
    if not ours:
        return
    for name, theirs in found.items():
        if name == "sweepgrad":
            continue
        peer = name == "torch"
        for phase in ("total", *PHASES):
            one, other = ([_seconds(r, phase) for r in rounds] for rounds in (ours, theirs))
            if phase != "total" and not peer:
                continue
            limit = TIME if peer and phase == "total" else None
            note = f"{min(one):.2f} s / {min(other):.2f} s"
            label = "build, backward, drop" if phase == "total" else phase
            result.add_ratio(f"{length:,} nodes: {label} / {name}", _ratio(one, other), limit, note)
        one, other = ([r["peak"] for r in rounds] for rounds in (ours, theirs))
        note = f"{min(one) / 1e6:,.0f} MB / {min(other) / 1e6:,.0f} MB"
        limit = MEMORY if peer else None
        result.add_ratio(f"{length:,} nodes: peak memory / {name}", _ratio(one, other), limit, note)


def _seconds(round_: dict[str, Any], phase: str) -> float:
    return float(sum(round_[p] for p in PHASES) if phase == "total" else round_[phase])


def _ratio(one: list[float], other: list[float]) -> Ratio:
    pairs = [a / b for a, b in zip(one, other, strict=True)]
    low, high = percentiles(pairs)
    return Ratio(
        min(one) / min(other), statistics.median(one) / statistics.median(other), low, high
    )


def _curve(result: CaseResult, names: list[str]) -> None:
    """Cost against size, and the check that it grows no faster than the size."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for length in (1_000, 10_000, 100_000, 400_000):
        for name in names:
            try:
                seconds = _seconds(run_once(name, "chain", length=length), "total")
            except WorkerError:
                continue
            lines.setdefault(name, []).append((length, seconds / length * 1e9))
    result.curves.append(
        Curve(
            "chain",
            "Build, backward and drop of a chain",
            "nodes in the chain",
            "ns per node",
            lines,
        )
    )
    points = dict(lines.get("sweepgrad", ()))
    if len(points) == 4:
        growth = points[400_000] / points[10_000]
        result.rows.append(
            Row("chain", "cost per node at 400,000 over 10,000 nodes", growth, "x", Target(1.5))
        )
