"""The create-and-drop loop: resident memory over many rounds, on one thread and on four."""

from __future__ import annotations

from benchmarks.plan import Plan
from benchmarks.remote import WorkerError, run_once
from benchmarks.results import CaseResult, Curve, Row, Target

GROWTH_KB = 138


def create_and_drop(plan: Plan) -> CaseResult:
    """Growth after the warm-up, each run in a process of its own."""
    result = CaseResult("memory")
    rounds = plan.pick(500_000, 10_000_000)
    lines: dict[str, list[tuple[float, float]]] = {}
    runs = [("sweepgrad", 1), ("sweepgrad", 4)]
    if not plan.quick and "torch" in plan.engines:
        runs += [("torch", 1)]
    for engine, threads in runs:
        label = f"{engine}, {threads} thread{'s' if threads > 1 else ''}"
        target = Target(GROWTH_KB) if engine == "sweepgrad" else None
        try:
            found = run_once(
                engine, "leaves", timeout=600, threads=threads, rounds=rounds, warm_up=20_000
            )
        except WorkerError as error:
            result.add_missing(label, str(error), target)
            continue
        note = f"{found['blocks']:+,} blocks, {found['seconds'] / rounds * 1e9:,.0f} ns per round"
        growth = found["growth"] / 1000
        result.rows.append(
            Row(
                "memory",
                f"resident memory growth over {rounds:,} rounds: {label}",
                growth,
                "kB",
                target,
                note=note,
            )
        )
        first = found["curve"][0][1]
        lines[label] = [(done, (size - first) / 1000) for done, size in found["curve"]]
    result.curves.append(
        Curve(
            "memory",
            "Create and drop a leaf: resident memory since the warm-up",
            "rounds",
            "kB",
            lines,
            logarithmic=False,
        )
    )
    return result
