"""The full sweep: against garbage, against live nodes, and how long others wait for it.

Dead nodes are reclaimed by drops alone, so what a sweep finds are *unavailable*
nodes: a backward through one of many results of a common trunk consumes the
trunk, and the other results, whose handles are alive, can never be used.
"""

from __future__ import annotations

import gc
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sweepgrad as sg
from benchmarks.counting import HoldTimedPrimitives
from benchmarks.engines.base import factor, start_value
from benchmarks.plan import Plan
from benchmarks.results import CaseResult, Curve, Row, Target
from benchmarks.timing import percentiles
from sweepgrad.sync import NATIVE, Primitives

#: Targets: seconds per freed node, growth with live nodes, longest wait in seconds.
PER_NODE, WITH_LIVE, WAIT = 1e-6, 1.1, 2e-3
#: Switch interval while the wait is measured.  At Python's default of 5 ms a thread
#: waits 5 ms for any other that computes, sweep or not.
SWITCH_INTERVAL = 1e-4


class Scene:
    """A runtime of its own with garbage that only a sweep can see, and live nodes.

    There are more than two nodes of garbage: the backward, which claims two,
    would sweep as many by itself.
    """

    def __init__(
        self, garbage: int, live: int = 0, together: bool = False, primitives: Primitives = NATIVE
    ) -> None:
        self.runtime = sg.GraphRuntime(primitives)
        self.leaf = self.runtime.tensor(start_value(), requires_grad=True)
        constant = sg.tensor(factor())
        trunk = self.leaf * constant
        self.handles = [trunk * constant for _ in range(garbage)]
        last = trunk * constant
        # Alive: a chain whose tip has a handle; in the trunk's graph, or in one of its own.
        self.live: Any = self.leaf * constant
        for _ in range(live - 1):
            self.live = self.live * constant
        if together:
            # An operation on both graphs merges them; its own node goes with its handle.
            _ = self.live * last
            del _
        last.backward(np.ones((2, 2), np.float32))

    def sweep(self, expected: int) -> float:
        """Seconds of one full sweep, which must free exactly what it should."""
        gc.collect()
        start = time.perf_counter()
        report = self.runtime.graph_cleanup()
        taken = time.perf_counter() - start
        if report.nodes_freed != expected:
            raise AssertionError(f"the sweep freed {report.nodes_freed} nodes, not {expected}")
        return taken


def against_garbage(plan: Plan) -> CaseResult:
    """Seconds per freed node for more and more garbage."""
    result = CaseResult("sweep-garbage")
    points: list[tuple[float, float]] = []
    for size in plan.pick((1_000, 10_000, 30_000), (1_000, 10_000, 100_000, 1_000_000)):
        rounds = plan.pick(3, 7) if size <= 100_000 else 3
        samples = [_without_collector(Scene(size), size) / size for _ in range(rounds)]
        points.append((size, min(samples) * 1e9))
        low, high = percentiles(samples)
        result.rows.append(
            Row(
                "sweep-garbage",
                f"full sweep of {size:,} unavailable nodes, per node",
                min(samples) * 1e6,
                "µs",
                Target(PER_NODE * 1e6),
                sorted(samples)[len(samples) // 2] * 1e6,
                low * 1e6,
                high * 1e6,
            )
        )
    lines = {"full sweep": points}
    result.curves.append(
        Curve(
            "sweep-garbage", "Full sweep against garbage", "nodes freed", "ns per freed node", lines
        )
    )
    return result


def _without_collector(scene: Scene, garbage: int) -> float:
    gc.disable()
    try:
        return scene.sweep(garbage)
    finally:
        gc.enable()


def against_live(plan: Plan) -> CaseResult:
    """The same garbage beside more and more live nodes."""
    result = CaseResult("sweep-live")
    garbage = plan.pick(10_000, 10_000)
    sizes = plan.pick((1_000, 20_000), (1_000, 10_000, 100_000, 1_000_000))
    lines: dict[str, list[tuple[float, float]]] = {}
    for where, together in (("other graphs", False), ("the same graph", True)):
        found: dict[int, list[float]] = {size: [] for size in sizes}
        for _ in range(plan.pick(2, 4)):
            for size in sizes:
                scene = Scene(garbage, size, together)
                found[size].append(_without_collector(scene, garbage))
        lines[where] = [(size, min(found[size]) * 1e3) for size in sizes]
        first, last = found[sizes[0]], found[sizes[-1]]
        pairs = [b / a for a, b in zip(first, last, strict=True)]
        result.rows.append(
            Row(
                "sweep-live",
                f"same garbage, {sizes[-1]:,} over {sizes[0]:,} live nodes in {where}",
                min(last) / min(first),
                "x",
                Target(WITH_LIVE),
                low=min(pairs),
                high=max(pairs),
                note=f"{min(last) * 1e3:.1f} ms / {min(first) * 1e3:.1f} ms",
            )
        )
    result.curves.append(
        Curve(
            "sweep-live",
            f"Full sweep of {garbage:,} unavailable nodes against live nodes",
            "live nodes",
            "ms per sweep",
            lines,
        )
    )
    return result


def longest_wait(plan: Plan) -> CaseResult:
    """Longest pause of a thread that records in its own graph, or in the swept one.

    Beside plain Python in the same rounds, since a virtual machine itself pauses for
    milliseconds; and the longest time that a sweep holds a lock, which it has no part in.
    """
    result = CaseResult("sweep-wait")
    size = plan.pick(30_000, 1_000_000)
    # As long as the sweep: the longest of many pauses.
    busy = _busy_for(size * PER_NODE)
    found: dict[str, list[float]] = {"control": [], "another graph": [], "the swept graph": []}
    for _ in range(plan.pick(2, 5)):
        found["control"].append(_pause_during(busy, Scene(10), own_graph=True))
        for where, own_graph in (("another graph", True), ("the swept graph", False)):
            scene = Scene(size, 0 if own_graph else 2, together=not own_graph)
            pause = _pause_during(scene.runtime.graph_cleanup, scene, own_graph)
            found[where].append(pause)
    control = found.pop("control")
    result.rows.append(
        _wait_row("longest pause beside a thread of plain Python (control)", control, None)
    )
    for where, pauses in found.items():
        title = f"longest pause of a thread recording in {where}, sweep of {size:,}"
        result.rows.append(_wait_row(title, pauses, Target(WAIT * 1e3)))
    holds = [_longest_hold(size) for _ in range(2)]
    row = _wait_row(
        f"longest hold of a graph's or the locator's lock, sweep of {size:,}",
        holds,
        Target(WAIT * 1e3),
    )
    row.note = "processor time of the holder"
    result.rows.append(row)
    return result


def _wait_row(title: str, seconds: list[float], target: Target | None) -> Row:
    low, high = min(seconds) * 1e3, max(seconds) * 1e3
    middle = statistics.median(seconds) * 1e3
    note = f"switch interval {SWITCH_INTERVAL * 1e3:g} ms; median {middle:.1f}"
    return Row("sweep-wait", title, low, "ms", target, low=low, high=high, note=note)


def _longest_hold(size: int) -> float:
    """Seconds of processor time for which one sweep holds a lock at most, but for SWEEP's.

    That one is held from start to end, and nobody but another sweep waits for it.
    """
    primitives = HoldTimedPrimitives()
    scene = Scene(size, 2, together=True, primitives=primitives)
    scene.runtime.sweeper.lock = NATIVE.lock()
    primitives.longest[0] = 0.0
    scene.sweep(size)
    return primitives.longest[0]


def _busy_for(seconds: float) -> Callable[[], None]:
    def busy() -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sum(range(100))

    return busy


def _pause_during(action: Any, scene: Scene, own_graph: bool) -> float:
    """The longest time between two recorded operations of a thread while ``action`` runs."""
    constant = sg.tensor(factor())
    base = (scene.leaf * constant) if own_graph else scene.live
    started, stop = threading.Event(), threading.Event()
    longest = [0.0]

    def record() -> None:
        clock = time.perf_counter
        for _ in range(1000):  # a running start
            base * constant
        started.set()
        last = clock()
        while not stop.is_set():
            base * constant  # recorded, and dropped at once
            now = clock()
            longest[0] = max(longest[0], now - last)
            last = now

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.collect()
    gc.disable()
    thread = threading.Thread(target=record, daemon=True)
    try:
        thread.start()
        started.wait(60)
        longest[0] = 0.0  # what is measured begins with the action
        action()
    finally:
        stop.set()
        thread.join(60)
        gc.enable()
        sys.setswitchinterval(before)
    if thread.is_alive():
        raise TimeoutError("the recording thread has not ended after 60 s")
    return longest[0]
