"""frontrun runs three core scenarios of the runtime, switching between bytecodes; prints JSON.

An independent opinion: it knows nothing of our steps and switches inside what the
explorer takes for one.  A script of its own, because it patches the locks of the
whole process.
"""

import json
import os
import sys

os.environ["FRONTRUN_ACTIVE"] = "1"  # what its command-line wrapper sets

import frontrun
from frontrun._cooperative import patch_locks

patch_locks()  # before sweepgrad is imported, so that its locks are frontrun's

import sweepgrad as sg  # noqa: E402


class Shared:
    """w = 2, two graphs that hang on it, and a tip on each, in a runtime of their own."""

    def __init__(self):
        self.runtime = sg.GraphRuntime()
        self.w = self.runtime.tensor([2.0], requires_grad=True)
        self.trunk, self.side = self.w * self.w, self.w * 3.0
        self.tips = [self.trunk * 5.0, self.side * 7.0]
        self.results = [None, None]


def operate_and_drop(shared):
    shared.results[0] = (shared.trunk * 2.0).item()
    shared.tips.pop()


def join(shared):
    shared.results[1] = (shared.side * shared.trunk).item()


def backward(index):
    def run(shared):
        try:
            shared.results[index] = (shared.trunk * 11.0).backward()[shared.w][0]
        except sg.GraphConsumedError:
            shared.results[index] = "consumed"

    return run


def sweep(shared):
    shared.runtime.graph_cleanup()
    shared.results[1] = 0


def at_rest(*allowed):
    """The results are among those allowed by hand, and the runtime is whole."""

    def holds(shared):
        shared.runtime.check_valid()
        for graph in shared.runtime.locator.list_graphs():
            if graph.drops or graph.dead():
                return False
        return tuple(shared.results) in allowed

    return holds


#: Workers and the results allowed: 2 trunk = 8, side trunk = 24, d 11 trunk / dw = 44.
SCENARIOS = {
    "drop against join": ([operate_and_drop, join], at_rest((8.0, 24.0))),
    "backward against backward": (
        [backward(0), backward(1)],
        at_rest((44.0, "consumed"), ("consumed", 44.0)),
    ),
    "drop against sweep": ([operate_and_drop, sweep], at_rest((8.0, 0))),
}


def main():
    attempts = int(sys.argv[1])
    verdicts = {}
    for name, (workers, invariant) in SCENARIOS.items():
        for strategy, limits in (
            ("random", {"max_attempts": attempts, "max_ops": 3000, "seed": 1}),
            ("dpor", {"max_executions": attempts}),
        ):
            result = frontrun.explore(
                setup=Shared,
                workers=workers,
                invariant=invariant,
                strategy=strategy,
                trace_packages=["sweepgrad", "sweepgrad.*"],
                detect_io=False,
                timeout_per_run=20.0,
                **limits,
            )
            verdicts[f"{name}, {strategy}"] = {
                "holds": result.property_holds,
                "schedules": result.num_explored,
                "explanation": result.explanation,
            }
    print(json.dumps(verdicts, indent=1))


if __name__ == "__main__":
    main()
