"""The level *checker*: the order checker beside an ordinary program of one thread.

The program operates, joins, drops, back-propagates, sweeps, makes cycles for the collector,
forks, and has rules and destructors that use tensors.  All that is looked at is whether the
checker saw a wrong order: nothing hangs, and what the program itself raises is not asked.
"""

import contextlib
import gc
import os
import random
import sys
import warnings

from planted.scenarios import Calls, Cycle, with_saved
from support.worlds import with_rule
from sweepgrad.graph import DEFAULT, ORDER, check_locks

OPERATIONS = 1000
FORKS = 6


class Program:
    """Tensors of the default runtime, and what may be done with them; counts what it did."""

    def __init__(self, chance):
        self.chance = chance
        self.leaf = DEFAULT.tensor([2.0], requires_grad=True)
        self.tensors = [self.leaf * 1.0, self.leaf * 3.0]

    def pick(self):
        return self.chance.choice(self.tensors)

    def operate(self):
        self.tensors.append(self.pick() * 1.0)

    def join(self):
        self.tensors.append(self.pick() * self.pick())

    def start(self):
        self.tensors.append(self.leaf * 2.0)

    def drop(self):
        if len(self.tensors) > 2:
            self.tensors.pop(self.chance.randrange(len(self.tensors)))

    def backward(self):
        self.tensors.pop(self.chance.randrange(len(self.tensors))).backward([1.0])
        self.start()

    def nested(self):
        """A rule that operates on a tensor of the graph it is in, or of another one."""
        other = self.pick()
        with_rule(self.pick(), lambda g: (other * 2.0).numpy() * 0.0 + g).backward([1.0])

    def sweep(self):
        """What it frees had saved something whose destructor operates."""
        trunk = self.leaf * 5.0
        other = self.pick()
        kept = [with_saved(trunk, Calls(lambda: other * 2.0)) for _ in range(3)]
        trunk.backward([1.0])  # one node claimed: too few to pay for a look at three
        DEFAULT.graph_cleanup()
        del kept

    def garbage(self):
        """A tensor in a cycle, for a collection at one of the next few allocations."""
        Cycle(self.pick() * 2.0)
        gc.set_threshold(self.chance.randrange(1, 40), 1000, 1000)

    def report(self):
        DEFAULT.memory_report()

    def update(self):
        self.leaf.update(lambda a: a + 0.0)

    def fork(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)


def run(seed):
    """What the checker saw in the program of one seed: the kind or None; how many operations."""
    chance = random.Random(seed)
    ordinary = ["operate", "join", "start", "drop", "backward", "nested", "sweep", "report"]
    names = chance.choices([*ordinary, "update", *["garbage"] * 6], k=OPERATIONS)
    for _ in range(FORKS):
        names[chance.randrange(OPERATIONS)] = "fork"
    before = check_locks(True)
    thresholds, unraisable = gc.get_threshold(), sys.unraisablehook
    sys.unraisablehook = lambda report: None
    ORDER.violations.clear()
    program = Program(chance)
    try:
        for done, name in enumerate(names, start=1):
            with contextlib.suppress(Exception):
                getattr(program, name)()
            if ORDER.violations:
                return "wrong order", done
        return None, OPERATIONS
    finally:
        gc.set_threshold(*thresholds)
        check_locks(before)
        program.tensors.clear()
        sys.unraisablehook = unraisable
        ORDER.violations.clear()
