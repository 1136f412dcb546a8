"""Schedules a second of the explorer beside frontrun's, on one program in one run."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

from benchmarks.plan import Plan
from benchmarks.results import CaseResult, Row, Target

#: Schedules a second on two threads with two locks, and how many times frontrun's default.
AT_LEAST = Target(5_000, at_most=False)
TIMES = Target(50, at_most=False)


def beside_frontrun(plan: Plan) -> CaseResult:
    """By processor time; see ``benchmarks/against_frontrun.py``."""
    result = CaseResult("explorer")
    missing = [name for name in ("greenlet", "frontrun") if importlib.util.find_spec(name) is None]
    if missing:
        why = f"not installed: {', '.join(missing)} (extra explore)"
        result.add_missing("explorer: schedules per second over frontrun", why, TIMES)
        return result
    command = [sys.executable, "-m", "benchmarks.against_frontrun"]
    command += ["--schedules", str(plan.pick(4_000, 20_000))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        result.add_missing("explorer: schedules per second", done.stderr[-500:], AT_LEAST)
        return result
    rates = {name: rate["per_cpu_second"] for name, rate in json.loads(done.stdout).items()}
    ours = rates.pop("explorer, random walk")
    label = "explorer: schedules per second, two threads with two locks"
    result.rows.append(Row("explorer", label, ours, "/s", AT_LEAST))
    for name, rate in rates.items():
        target = TIMES if name == "frontrun, dpor" else None  # frontrun's default strategy
        note = f"{ours:,.0f} / {rate:,.0f} schedules/s"
        label = f"explorer: schedules per second over {name}"
        result.rows.append(Row("explorer", label, ours / rate, "x", target, note=note))
    return result
