"""The machine of real threads: rounds that start together at a barrier, again and again."""

from __future__ import annotations

import itertools
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from stateful.drawing import BEGINNINGS, PROGRAMS, STEPS
from stateful.findings import Watch
from stateful.job import Job
from stateful.noise import NoisyPrimitives
from stateful.rounds import Round, Shared
from stateful.steps import Step
from support.threads import ThreadsFailed, join_all
from sweepgrad.graph import GraphRuntime
from sweepgrad.sync import NATIVE


class Hung(ThreadsFailed):
    """Threads that do not end; the message has every stack."""

    kind = "hang"


class Raised(ThreadsFailed):
    """A thread let an exception out; the message has its traceback."""

    kind = "exception"


def run_together(jobs: Sequence[Job], limit: float) -> None:
    """Each job in a thread of its own; they begin when the last thread is there.

    Raises:
        Hung: if one does not end.
        Raised: if one lets an exception out.
    """
    usual = sys.getswitchinterval()
    # Only once they are all there: threads start slowly while others switch that often.
    barrier = threading.Barrier(len(jobs), lambda: sys.setswitchinterval(1e-6))
    errors: list[str] = []

    def run(index: int, job: Callable[[], None]) -> None:
        try:
            barrier.wait(limit)
            job()
        except BaseException:
            errors.append(f"thread {index}:\n{traceback.format_exc()}")

    threads = [
        threading.Thread(target=run, args=(index, job.run), daemon=True, name=f"thread {index}")
        for index, job in enumerate(jobs)
    ]
    try:
        for thread in threads:
            thread.start()
        join_all(threads, limit)
    except ThreadsFailed as error:
        raise Hung(str(error)) from None
    finally:
        sys.setswitchinterval(usual)
    if errors:
        raise Raised("\n".join(errors))


def overlaps(jobs: Sequence[Job]) -> int:
    """Pairs of steps of different jobs that were under way at the same moment."""
    return sum(
        start < other_end and other_start < end
        for one, other in itertools.combinations(jobs, 2)
        for start, end in one.hands.spans
        for other_start, other_end in other.hands.spans
    )


class ThreadsMachine(RuleBasedStateMachine):
    """Rounds of 2 to 8 threads beside a naive graph; everything is compared after each."""

    watch: ClassVar[Watch] = Watch()
    #: Rules in one example.
    steps = 20

    def __init__(self) -> None:
        super().__init__()
        self.world: Any = None
        #: What a failure needs to be made again.
        self.history: list[list[list[Step]]] = []
        self.agreed = True
        self.watch.tally.examples += 1

    @initialize(steps=BEGINNINGS, noise=st.one_of(st.none(), st.integers(0, 2**16)))
    def start(self, steps: list[Step], noise: int | None) -> None:
        primitives = NATIVE if noise is None else NoisyPrimitives(noise)
        self.world = Shared(GraphRuntime(primitives))
        self._round([steps])

    @rule(program=st.lists(STEPS, min_size=1, max_size=6))
    def alone(self, program: list[Step]) -> None:
        """One thread: what the others will find."""
        self._round([program])

    @rule(programs=PROGRAMS, times=st.integers(1, 4))
    def together(self, programs: list[list[Step]], times: int) -> None:
        """The same again takes other handles, for new ones have been made, and other turns."""
        for _ in range(times):
            self._round(programs)

    def _round(self, programs: list[list[Step]]) -> None:
        self.watch.end_when_time_is_up()
        self.history.append(programs)
        self.agreed = False
        with self.watch.noting("\n".join(map(repr, self.history))):
            round_ = Round(self.world, programs)
            run_together(round_.jobs, self.watch.hang)
            tally = self.watch.tally
            tally.schedules += 1
            tally.operations += sum(len(job.hands.spans) for job in round_.jobs)
            tally.overlaps += overlaps(round_.jobs)
            round_.settle()
            self.world.check()
        self.agreed = True

    def teardown(self) -> None:
        if self.world is not None and self.agreed:
            with self.watch.noting("\n".join(map(repr, self.history))):
                self.world.check_empty()
