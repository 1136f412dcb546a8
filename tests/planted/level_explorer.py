"""The levels *explorer, random* and *explorer, exhaustive*, on one set of scenarios.

By chance: every scenario in turn, in an order that the seed decides, a few schedules at a
time, by PCT with three and with five changes of priority in alternation and now and then by
random walk, until a schedule fails or the budget is spent.  Of the planted faults that are
hard to meet, PCT met all but one with a chance of 0.3 to 5 % a schedule; the walk met that
one (4 %) and hardly any other.
Exhaustively: one scenario after the other, in the order in which they are stated, depth first
with at most two preemptions.
"""

import random

from planted.scenarios import workload
from sweepgrad.explore import PCT, RandomWalk, explore

#: Schedules of one scenario before the next one has its turn, and turns.
AT_ONCE = 6
ROUNDS = 120
#: Of a scenario with forks, since a fork costs as much as some ten schedules.
FORKS_AT_ONCE = 1
#: Of PCT: three changes of priority, and five.
DEPTH = 4
DEEPER = 6
#: Every so many rounds are random walks.
WALKS = 6
#: Of the exhaustive search: schedules of one scenario at most.
AT_MOST = 1500


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
    def __init__(self, depth, runs, seed, length):
        super().__init__(depth, runs, seed)
        self.length = self.steps = length


class Walk(Scattered, RandomWalk):
    def __init__(self, runs, seed, length):
        super().__init__(runs, seed)
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
            forks = scenario.__name__.startswith("forked")
            runs = FORKS_AT_ONCE if forks else AT_ONCE
            if turn % WALKS == 0:
                policy = Walk(runs, number, length)
            else:
                policy = Priorities(DEPTH if turn % 2 else DEEPER, runs, number, length)
            report = explore(scenario, policy=policy, raises=False)
            lengths[scenario] = policy.length
            done += report.schedules
            if report.failure is not None:
                return report.failure.kind, done
    return None, done


def run_exhaustively(seed):
    """What the search shows, which is the same for every seed."""
    done = 0
    for scenario in workload():
        report = explore(scenario, schedules=AT_MOST, raises=False)
        done += report.schedules + report.pruned
        if report.failure is not None:
            return report.failure.kind, done
    return None, done
