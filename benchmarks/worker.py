"""The child's side of :mod:`benchmarks.remote`: ``python -m benchmarks.worker ENGINE``.

Reads one request a line, ``{"task": name, ...options}``, and answers each with a
line of JSON.  The garbage collector keeps its default settings in a worker, for
every engine alike, and a full collection runs, untimed, before each round.
"""

from __future__ import annotations

import gc
import itertools
import json
import platform
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks import engines
from benchmarks.engines import Engine, Mlp, UnsupportedError
from benchmarks.machine import gil_enabled
from benchmarks.memory import peak_memory, reset_peak_memory, resident_memory

Task = Callable[..., dict[str, Any]]


class Worker:
    """The tasks of one engine, with what they keep from round to round."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._networks: dict[tuple[int, bool], list[Mlp]] = {}

    def train(self, threads: int, steps: int, shared: bool = False) -> dict[str, Any]:
        """Seconds that ``threads`` threads need for ``steps`` steps each."""
        key = threads, shared
        if key not in self._networks:
            self._networks[key] = self._make(threads, shared)
        return {"seconds": in_threads([repeat(net.step, steps) for net in self._networks[key]])}

    def _make(self, threads: int, shared: bool) -> list[Mlp]:
        if shared:
            networks = self._engine.shared_mlps(threads, 7)
        else:
            networks = [self._engine.mlp(7 + index) for index in range(threads)]
        for network in networks:
            for _ in range(20):
                network.step()
        return networks

    def chain(self, length: int) -> dict[str, Any]:
        """Build, back-propagate and drop one long chain; seconds of each and peak memory."""
        chain = self._engine.chain("multiply", length)
        before = resident_memory()
        reset_peak_memory()
        clock = [time.perf_counter()]
        recorded = chain.record()
        clock.append(time.perf_counter())
        gradient = chain.backward(recorded)
        clock.append(time.perf_counter())
        del recorded
        clock.append(time.perf_counter())
        del gradient
        build, back, drop = (after - start for start, after in itertools.pairwise(clock))
        return {"build": build, "backward": back, "drop": drop, "peak": peak_memory() - before}

    def leaves(self, threads: int, rounds: int, warm_up: int, samples: int = 20) -> dict[str, Any]:
        """Create and drop leaves; resident memory after the warm-up and along the way."""
        in_threads([_argument_free(self._engine.leaves(warm_up)) for _ in range(threads)])
        gc.collect()
        blocks = sys.getallocatedblocks()
        curve = [(0, resident_memory())]
        seconds = 0.0
        share = rounds // samples // threads
        for sample in range(samples):
            loops = [_argument_free(self._engine.leaves(share)) for _ in range(threads)]
            seconds += in_threads(loops)
            curve.append(((sample + 1) * share * threads, resident_memory()))
        gc.collect()
        return {
            "curve": curve,
            "growth": curve[-1][1] - curve[0][1],
            "blocks": sys.getallocatedblocks() - blocks,
            "seconds": seconds,
        }


def repeat(function: Callable[[], object], times: int) -> Callable[[], None]:
    """A function that calls another one many times."""

    def loop() -> None:
        for _ in range(times):
            function()

    return loop


def in_threads(loops: list[Callable[[], None]]) -> float:
    """Seconds from the common start of the threads to the end of the last one."""
    if len(loops) == 1:
        start = time.perf_counter()
        loops[0]()
        return time.perf_counter() - start
    barrier = threading.Barrier(len(loops))
    times: list[tuple[float, float]] = []
    errors: list[BaseException] = []

    def run(loop: Callable[[], None]) -> None:
        try:
            barrier.wait(60)
            start = time.perf_counter()
            loop()
            times.append((start, time.perf_counter()))
        except BaseException as error:  # handed to the caller below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(loop,), daemon=True) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
        if thread.is_alive():
            raise TimeoutError("a thread of the benchmark has not ended after 600 s")
    if errors:
        raise errors[0]
    return max(end for _, end in times) - min(start for start, _ in times)


def _argument_free(loop: Callable[[Any], object]) -> Callable[[], None]:
    def run() -> None:
        loop(None)

    return run


def main(engine_name: str) -> None:
    """Answer requests until the parent closes the pipe."""
    worker = Worker(engines.load(engine_name))
    about = {"python": platform.python_version(), "gil": gil_enabled()}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        task: Task = getattr(worker, request.pop("task"))
        gc.collect()
        try:
            answer = task(**request)
        except UnsupportedError as reason:
            answer = {"error": str(reason) or f"{engine_name} has no counterpart"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
