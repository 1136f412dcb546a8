"""PCT: random priorities with a stated chance of finding a fault of given depth.

Burckhardt, Kothari, Musuvathi and Nagarakatte, "A randomized scheduler with
probabilistic guarantees of finding bugs", ASPLOS 2010.  Each thread gets a random
priority and the highest one that can run does.  At d - 1 steps chosen at random
the running thread drops to a priority below all initial ones.  A fault of depth
d (d ordering constraints suffice to cause it) in a program of n threads and k
steps is met by one run with probability at least 1 / (n k^(d-1)).
"""

from __future__ import annotations

import random

from sweepgrad.explore.model_thread import ModelThread


class PCT:
    """Probabilistic concurrency testing.

    Args:
        depth: d, the number of ordering constraints of the faults looked for.
        schedules: how many runs.
        seed: same seed, same schedules.
        steps: k; by default the length of the longest run seen, beginning with a
            first run that changes no priority.
    """

    def __init__(
        self, depth: int = 3, schedules: int = 1000, seed: int = 0, steps: int | None = None
    ) -> None:
        self.preemptions: int | None = None
        self.depth = depth
        self.schedules = schedules
        self.seed = seed
        self.steps = steps if steps is not None else 0
        self._fixed = steps is not None
        self._runs = 0
        self._position = 0
        self._threads = 1
        self._random = random.Random(seed)
        self._priorities: dict[int, float] = {}
        self._changes: dict[int, int] = {}

    def begin(self) -> bool:
        if self._runs >= self.schedules:
            return False
        self._runs += 1
        self._position = 0
        self._priorities = {}
        self._changes = {}
        if self.steps:
            count = min(self.depth - 1, self.steps)
            places = self._random.sample(range(1, self.steps + 1), count)
            self._changes = {place: rank for rank, place in enumerate(places)}
        return True

    def choose(self, enabled: list[ModelThread], last: ModelThread | None) -> ModelThread | None:
        self._position += 1
        if len(enabled) == 1 and self._position not in self._changes:
            return enabled[0]
        chosen = max(enabled, key=self._priority)
        rank = self._changes.get(self._position)
        if rank is not None:
            # Below every initial priority, which is above zero.
            self._priorities[chosen.index] = -1.0 - rank
            chosen = max(enabled, key=self._priority)
        return chosen

    def _priority(self, thread: ModelThread) -> float:
        found = self._priorities.get(thread.index)
        if found is None:
            # Equal chances for every order of the threads, also of those started later.
            found = self._priorities[thread.index] = 1.0 + self._random.random()
        return found

    def stopped(self, live: list[ModelThread]) -> None:
        pass

    def end(self, steps: int) -> None:
        self._threads = max(self._threads, len(self._priorities))
        if not self._fixed:
            self.steps = max(self.steps, steps)

    def exhausted(self) -> bool:
        return False

    def chance(self) -> float:
        """The least chance that one run meets a fault of this depth."""
        return 1.0 / float(self._threads * max(self.steps, 1) ** (self.depth - 1))

    def describe(self) -> str:
        chance = self.chance()
        missed = (1.0 - chance) ** self._runs
        return (
            f"PCT, depth {self.depth}, seed {self.seed}: a run meets a fault of that depth with "
            f"probability at least 1/(n k^(d-1)) = 1/({self._threads} * {self.steps}"
            f"^{self.depth - 1}) = {chance:.2g}; {self._runs} runs miss it with probability "
            f"at most {missed:.3g}"
        )
