"""Replayed: the choices that a token holds."""

from __future__ import annotations

from collections.abc import Iterable

from sweepgrad.errors import NonDeterminismError
from sweepgrad.explore.model_thread import ModelThread
from sweepgrad.explore.policies.base import default_choice


class Replayed:
    """One run: default choices, except at the given steps.

    Args:
        deviations: (step number, letter of the thread that goes on).
    """

    def __init__(self, deviations: Iterable[tuple[int, str]]) -> None:
        self.preemptions: int | None = None
        self._deviations = dict(deviations)
        self._step = 0
        self._begun = False

    def begin(self) -> bool:
        if self._begun:
            return False
        self._begun = True
        self._step = 0
        return True

    def choose(self, enabled: list[ModelThread], last: ModelThread | None) -> ModelThread | None:
        letter = self._deviations.get(self._step)
        self._step += 1
        if letter is None:
            return default_choice(enabled, last)
        for thread in enabled:
            if thread.letter == letter:
                return thread
        could = ", ".join(f"{thread.letter} ({thread.name})" for thread in enabled)
        raise NonDeterminismError(
            f"the token lets thread {letter} go on at step {self._step - 1}, where only {could} "
            "could: the scenario is not the one the token was made for, or does not repeat itself"
        )

    def stopped(self, live: list[ModelThread]) -> None:
        pass

    def end(self, steps: int) -> None:
        if any(step >= steps for step in self._deviations):
            raise NonDeterminismError(
                f"the token has choices beyond the end of the run, which made {steps} steps: the "
                "scenario is not the one the token was made for, or does not repeat itself"
            )

    def exhausted(self) -> bool:
        return False

    def describe(self) -> str:
        return "replay of a token"
