"""Training steps in threads: two over one, against PyTorch and JAX, hogwild against private.

Every engine runs in workers (see ``benchmarks.remote``) whose rounds interleave;
sweepgrad once under this interpreter and once under a free-threaded one, when one
is found.  The best build of each engine counts.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from benchmarks.plan import FREE_THREADED_NAMES, FREE_THREADED_VARIABLE, Plan
from benchmarks.remote import Worker, WorkerError
from benchmarks.results import CaseResult, Curve, Row, Target
from benchmarks.timing import percentiles

#: Targets: two threads over one, over PyTorch's two, over JAX's two, shared over private.
SPEED_UP, OVER_TORCH, OVER_JAX, SHARED = 1.9, 1.8, 1.0, 0.9
#: Engines measured on the free-threaded build too.
FREE_THREADED = ("sweepgrad", "numpy")
NO_FREE_THREADED = (
    f"no free-threaded interpreter: set {FREE_THREADED_VARIABLE} or put "
    f"{' or '.join(FREE_THREADED_NAMES)} on PATH"
)


@dataclass
class Build:
    """One engine under one interpreter, with its steps per second by number of threads."""

    name: str
    worker: Worker
    rates: dict[tuple[int, bool], list[float]] = field(default_factory=dict)

    def best(self, threads: int, shared: bool = False) -> float:
        return max(self.rates[threads, shared])

    def round(self, threads: int, steps: int, shared: bool = False) -> None:
        answer = self.worker.ask("train", threads=threads, steps=steps, shared=shared)
        rate = threads * steps / answer["seconds"]
        self.rates.setdefault((threads, shared), []).append(rate)


@contextmanager
def builds(plan: Plan, result: CaseResult, names: tuple[str, ...]) -> Iterator[dict[str, Build]]:
    """Workers of the engines that run here, and of sweepgrad on the free-threaded build."""
    with ExitStack() as stack:
        found: dict[str, Build] = {}

        def add(label: str, engine: str, python: str = sys.executable) -> None:
            try:
                worker = stack.enter_context(Worker(engine, python))
                worker.ask("train", threads=1, steps=5)
            except (WorkerError, OSError) as error:
                result.add_missing(label, str(error))
            else:
                found[label] = Build(label, worker)

        for name in names:
            if name in plan.engines:
                add(name, name)
            if name in FREE_THREADED and plan.free_threaded is not None:
                add(f"{name}, free-threaded", name, plan.free_threaded)
        for build in list(found.values()):
            if build.name.endswith("free-threaded") and build.worker.about["gil"]:
                del found[build.name]
                result.add_missing(build.name, f"{plan.free_threaded} runs with the GIL")
        yield found


def two_over_one(plan: Plan) -> CaseResult:
    """Steps per second of two threads with private networks, over those of one thread."""
    result = CaseResult("threads")
    with (
        builds(plan, result, ("sweepgrad", "torch", "jax", "numpy")) as found,
        Worker("numpy") as one,
        Worker("numpy") as other,
    ):
        counts = plan.pick((1, 2), (1, 2, 4))
        steps = plan.pick(100, 400)
        control: list[float] = []
        for _ in range(plan.pick(3, 15)):
            control.append(_two_processes(one, other, steps))
            for build in found.values():
                for threads in counts:
                    build.round(threads, steps)
        low, high = percentiles(control)
        label = "two processes over one: bare NumPy (control: what the machine allows)"
        median = statistics.median(control)
        result.rows.append(Row("threads", label, max(control), "x", None, median, low, high))
        for build in found.values():
            free = build.name == "sweepgrad, free-threaded"
            target = Target(SPEED_UP, at_most=False) if free else None
            _row(result, f"two threads over one: {build.name}", build, build, target)
        if "sweepgrad, free-threaded" not in found and plan.free_threaded is None:
            target = Target(SPEED_UP, at_most=False)
            result.add_missing("two threads over one, free-threaded", NO_FREE_THREADED, target)
        _against_peers(result, found)
        lines: dict[str, list[tuple[float, float]]] = {
            build.name: [(threads, build.best(threads)) for threads in counts]
            for build in found.values()
        }
    result.curves.append(
        Curve(
            "threads",
            "Training steps in threads, one network each",
            "threads",
            "steps per second",
            lines,
            logarithmic=False,
        )
    )
    return result


def _two_processes(one: Worker, other: Worker, steps: int) -> float:
    """Steps per second of two processes at once, over those of one alone."""
    alone = one.ask("train", threads=1, steps=steps)["seconds"]
    for worker in (one, other):
        worker.send("train", threads=1, steps=steps)
    together = max(worker.receive()["seconds"] for worker in (one, other))
    return float(2 * alone / together)


def _against_peers(result: CaseResult, found: dict[str, Build]) -> None:
    ours = [build for name, build in found.items() if name.startswith("sweepgrad")]
    if not ours:
        return
    best = max(ours, key=lambda build: build.best(2))
    for peer, limit in (("torch", OVER_TORCH), ("jax", OVER_JAX)):
        if peer in found:
            label = f"two threads: steps/s of {best.name} over {peer}"
            _row(result, label, best, found[peer], Target(limit, at_most=False), (2, 2))


def _row(
    result: CaseResult,
    label: str,
    one: Build,
    other: Build,
    target: Target | None,
    threads: tuple[int, int] = (2, 1),
    shared: tuple[bool, bool] = (False, False),
) -> None:
    """Steps per second over steps per second; the best round of each, since noise only slows."""
    upper = one.rates[threads[0], shared[0]]
    lower = other.rates[threads[1], shared[1]]
    low, high = percentiles([a / b for a, b in zip(upper, lower, strict=True)])
    median = statistics.median(upper) / statistics.median(lower)
    note = f"{max(upper):,.0f} / {max(lower):,.0f} steps/s"
    value = max(upper) / max(lower)
    result.rows.append(Row(result.case, label, value, "x", target, median, low, high, note))


def hogwild(plan: Plan) -> CaseResult:
    """Two threads that share all parameters, over two with parameters of their own."""
    result = CaseResult("hogwild")
    with builds(plan, result, ("sweepgrad", "torch")) as found:
        steps = plan.pick(100, 400)
        for _ in range(plan.pick(3, 15)):
            for build in found.values():
                build.round(2, steps)
                build.round(2, steps, shared=True)
        for build in found.values():
            ours = build.name.startswith("sweepgrad")
            target = Target(SHARED, at_most=False) if ours else None
            label = f"two threads, shared over private parameters: {build.name}"
            _row(result, label, build, build, target, (2, 2), (True, False))
    return result
