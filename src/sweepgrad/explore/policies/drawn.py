"""Drawn: choices that Hypothesis draws, so that program and schedule shrink together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweepgrad.explore.model_thread import ModelThread
from sweepgrad.explore.policies.base import default_choice


class Drawn:
    """One run with the given switches; default choices otherwise.

    A list of switches shrinks towards few switches, and each towards the thread
    that is next in order: the shrunk schedule has no preemption that the failure
    does not need.

    Args:
        switches: for each, how many steps with a choice go by before it, and how
            many threads that could go on are passed over.
    """

    def __init__(self, switches: Sequence[tuple[int, int]]) -> None:
        self.preemptions: int | None = None
        self.switches = list(switches)
        self._next = 0
        self._wait = 0
        self._begun = False

    def __repr__(self) -> str:
        return f"Drawn({self.switches})"

    def begin(self) -> bool:
        if self._begun:
            return False
        self._begun = True
        self._next = 0
        self._wait = self.switches[0][0] if self.switches else -1
        return True

    def choose(self, enabled: list[ModelThread], last: ModelThread | None) -> ModelThread | None:
        if len(enabled) == 1:
            return enabled[0]
        default = default_choice(enabled, last)
        if self._next >= len(self.switches):
            return default
        if self._wait:
            self._wait -= 1
            return default
        skip = self.switches[self._next][1]
        self._next += 1
        if self._next < len(self.switches):
            self._wait = self.switches[self._next][0]
        others = [thread for thread in enabled if thread is not default]
        return others[skip % len(others)]

    def stopped(self, live: list[ModelThread]) -> None:
        pass

    def end(self, steps: int) -> None:
        pass

    def exhausted(self) -> bool:
        return False

    def describe(self) -> str:
        return f"drawn, {len(self.switches)} switches"


def drawn_schedules(switches: int = 6, gap: int = 40) -> Any:
    """A Hypothesis strategy for policies: at most so many switches, at most so far apart."""
    from hypothesis import strategies

    pair = strategies.tuples(strategies.integers(0, gap), strategies.integers(0, 3))
    return strategies.lists(pair, max_size=switches).map(Drawn)
