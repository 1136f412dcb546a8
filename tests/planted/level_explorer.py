"""The level *explorer*: random schedules of a fixed set of scenarios.

Every scenario in turn, in an order that the seed decides, a few schedules at a time,
by random walk and by PCT in alternation, until a schedule fails or the budget is spent.
"""

import random

from scenarios import workload

from sweepgrad.explore import PCT, RandomWalk, explore

#: Schedules of one scenario before the next one has its turn, and turns.
AT_ONCE = 20
ROUNDS = 12
#: Of PCT: three changes of priority.
DEPTH = 4


class Scattered:
    """A policy whose events happen at steps chosen at random, instead of as the policy says.

    By priority an event happens at once or where its thread is made to wait, so two events
    of one thread would nearly always happen at the same step; by equal chances, early.
    """

    def begin(self):
        again = super().begin()
        self._places = {}
        self._made = 0
        return again

    def choose(self, enabled, last):
        self._made += 1
        for thread in enabled:
            if thread.event is not None and self._is_due(thread):
                return thread
        threads = [thread for thread in enabled if thread.event is None]
        return super().choose(threads, last) if threads else enabled[0]

    def _is_due(self, event):
        if event.index not in self._places:
            self._places[event.index] = self._random.randrange(1, max(self.length, 1) + 2)
        return self._made >= self._places[event.index]

    def end(self, steps):
        super().end(steps)
        self.length = max(self.length, steps)


class Priorities(Scattered, PCT):
    def __init__(self, depth, seed, length):
        super().__init__(depth, AT_ONCE, seed)
        self.length = self.steps = length


class Walk(Scattered, RandomWalk):
    def __init__(self, seed, length):
        super().__init__(AT_ONCE, seed)
        self.length = length


def run(seed):
    """What the schedules of one seed show: the kind of failure or None, and their number."""
    chance = random.Random(seed)
    scenarios = workload()
    chance.shuffle(scenarios)
    lengths = dict.fromkeys(scenarios, 0)
    done = 0
    for turn in range(ROUNDS):
        for scenario in scenarios:
            number = chance.randrange(2**32)
            length = lengths[scenario]
            policy = Priorities(DEPTH, number, length) if turn % 2 else Walk(number, length)
            report = explore(scenario, policy=policy, raises=False)
            lengths[scenario] = policy.length
            done += report.schedules
            if report.failure is not None:
                return report.failure.kind, done
    return None, done
