"""The level *state machine*: programs and schedules drawn by seed, beside the naive graph.

The programs, and what they are compared with, are those of the state machines in
``tests/stateful``; what Hypothesis draws there, a seed draws here, since nothing is to be
shrunk and drawing would cost more than running.
"""

import functools
import random

from planted.level_explorer import Priorities, Walk
from stateful.on_explorer import scenario_of
from stateful.steps import INNER, KINDS, Step
from sweepgrad.explore import explore

PROGRAMS = 200
AT_ONCE = 10
DEPTH = 4
#: More often: what changes a graph.
WEIGHTS = {"scale": 3, "multiply": 3, "drop": 6, "backward": 3, "cleanup": 2, "update": 3}


def drawn(chance):
    """A history and the programs of two or three threads.

    Each set of programs uses two kinds of steps only: a few of one kind beside a few of
    another meet each other in more ways than one of each of seventeen.
    """
    history = [Step("create", number=n) for n in (2, 3)]
    history += [_step(chance, ("scale", "add")) for _ in range(chance.randrange(2, 8))]
    kinds = [_kind(chance, KINDS) for _ in range(2)]
    threads = chance.choice([2, 2, 2, 3])
    most = chance.choice([1, 2, 4])
    return history, [
        [_step(chance, kinds) for _ in range(chance.randrange(most) + 1)] for _ in range(threads)
    ]


def _kind(chance, kinds):
    return chance.choices(kinds, [WEIGHTS.get(kind, 1) for kind in kinds])[0]


def _step(chance, kinds):
    inner = chance.choice(INNER)
    places = chance.randrange(12), chance.randrange(12)
    return Step(chance.choice(kinds), *places, chance.choice([1, 2, 3]), inner)


def run(seed):
    """What the programs of one seed show: the kind of failure or None, and how many schedules."""
    chance = random.Random(seed)
    done = 0
    for _ in range(PROGRAMS):
        scenario = scenario_of(*drawn(chance))
        length = 0
        for make in (Walk, functools.partial(Priorities, DEPTH)):
            policy = make(AT_ONCE, chance.randrange(2**32), length)
            report = explore(scenario, policy=policy, swap_threading=False, raises=False)
            length = policy.length
            done += report.schedules
            if report.failure is not None:
                return report.failure.kind, done
    return None, done
