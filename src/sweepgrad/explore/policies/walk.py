"""RandomWalk: at each step, any thread that can go on, with equal chances."""

from __future__ import annotations

import random

from sweepgrad.explore.model_thread import ModelThread


class RandomWalk:
    """A seeded random walk over schedules.  No guarantee; useful beside PCT for long programs."""

    def __init__(self, schedules: int = 1000, seed: int = 0) -> None:
        self.preemptions: int | None = None
        self.schedules = schedules
        self.seed = seed
        self._runs = 0
        self._random = random.Random(seed)

    def begin(self) -> bool:
        if self._runs >= self.schedules:
            return False
        self._runs += 1
        return True

    def choose(self, enabled: list[ModelThread], last: ModelThread | None) -> ModelThread | None:
        if len(enabled) == 1:
            return enabled[0]
        return enabled[int(self._random.random() * len(enabled))]

    def stopped(self, live: list[ModelThread]) -> None:
        pass

    def end(self, steps: int) -> None:
        pass

    def exhausted(self) -> bool:
        return False

    def describe(self) -> str:
        return f"random walk, seed {self.seed}"
