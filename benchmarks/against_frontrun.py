"""Schedules a second of the explorer and of frontrun on one program, in one run; prints JSON.

A script of its own, because frontrun patches the locks of the whole process.
The program: two threads, each of which takes two locks in the same order and
adds to a shared number under them.  Rates are given by wall clock and by processor
time; the latter does not depend on what else the machine does, and favours
frontrun, whose threads also wait for each other without using the processor.
"""

import argparse
import json
import os
import threading
import time

os.environ["FRONTRUN_ACTIVE"] = "1"  # what its command-line wrapper sets

import frontrun

from sweepgrad.explore import RandomWalk, explore


class State:
    def __init__(self):
        self.outer, self.inner = threading.Lock(), threading.Lock()
        self.total = 0

    def add(self):
        with self.outer, self.inner:
            self.total += 1


def ours(m):
    state = State()
    m.spawn(state.add)
    m.spawn(state.add)

    @m.check
    def both_counted():
        assert state.total == 2


def timed(run):
    begun, cpu = time.perf_counter(), time.process_time()
    count = run()
    return count / (time.perf_counter() - begun), count / (time.process_time() - cpu)


def explorer(policy):
    return lambda: explore(ours, policy=policy).schedules


def other(strategy, **limits):
    def run():
        result = frontrun.explore(
            setup=State,
            workers=State.add,
            count=2,
            invariant=lambda state: state.total == 2,
            strategy=strategy,
            detect_io=False,
            **limits,
        )
        assert result.property_holds, result.explanation
        return result.num_explored

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=20_000, help="of the explorer")
    schedules = parser.parse_args().schedules
    explorer(RandomWalk(500))()  # warm
    figures = {}
    for name, run in {
        "explorer, random walk": explorer(RandomWalk(schedules, seed=1)),
        "frontrun, random": other("random", max_attempts=200, seed=1),
        "frontrun, dpor": other("dpor", preemption_bound=None),
    }.items():
        wall, cpu = timed(run)
        figures[name] = {"per_second": wall, "per_cpu_second": cpu}
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
