"""What the search asks of a policy."""

from __future__ import annotations

from typing import Protocol

from sweepgrad.explore.model_thread import ModelThread


class Policy(Protocol):
    """Chooses the thread of each step, run after run."""

    #: The preemption bound, or None where the policy has none.
    preemptions: int | None

    def begin(self) -> bool:
        """Prepare the next run; False when there is none left."""

    def choose(self, enabled: list[ModelThread], last: ModelThread | None) -> ModelThread | None:
        """The thread that goes on; None gives the run up as equal to one already made.

        Args:
            enabled: the threads, then the events, whose pending operation can run.
            last: the thread of the step before, or None at the start.
        """

    def stopped(self, live: list[ModelThread]) -> None:
        """The run has stopped; these threads have not ended, each before its pending operation."""

    def end(self, steps: int) -> None:
        """A run of so many steps is over."""

    def exhausted(self) -> bool:
        """True when every schedule within the bounds has been run or was redundant."""

    def describe(self) -> str:
        """One line for the report: the policy, its parameters and what it guarantees."""


def default_choice(enabled: list[ModelThread], last: ModelThread | None) -> ModelThread:
    """Let the last thread go on; if it cannot, the first that can."""
    return last if last is not None and last in enabled else enabled[0]
