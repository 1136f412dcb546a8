"""The machine on the explorer: Hypothesis draws programs and schedules, and shrinks both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from stateful.drawing import BEGINNINGS, FEW_PROGRAMS, STEPS
from stateful.findings import Watch
from stateful.rounds import Round, Shared
from stateful.steps import Program, Step
from sweepgrad.explore import PCT, Exhaustive, Failure, Model, Policy, drawn_schedules, explore

#: Schedules of one exploration.
MANY = 60


def after(history: Program, runtime: Any, stamp: Callable[[], int]) -> Shared:
    """What the steps of a history, in one thread, leave behind."""
    world = Shared(runtime)
    before = Round(world, [history], stamp)
    before.jobs[0].run()
    before.settle()
    return world


def scenario_of(history: Program, programs: Sequence[Program]) -> Callable[[Model], None]:
    """The programs, each in a thread of its own, in what the history left behind."""
    collects = any(step.kind in ("cycle", "collect") for p in [history, *programs] for step in p)

    def scenario(m: Model) -> None:
        stamp = itertools.count(1).__next__
        world = after(history, m.runtime, stamp)
        round_ = Round(world, programs, stamp)
        m.collects = collects
        for index, job in enumerate(round_.jobs):
            m.spawn(job.run, name=f"thread {index}")

        @m.check
        def everything_agrees() -> None:
            round_.settle()
            world.check()
            world.check_empty()

    scenario.__qualname__ = f"scenario_of({list(history)}, {list(programs)})"
    return scenario


class Failed(Exception):  # noqa: N818  # reads as what happened
    """A schedule failed; the message has it as a table, and its token."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.kind = failure.kind


#: One drawn schedule shrinks; many from a drawn seed, or the first of all with two
#: preemptions, give each program more chances.
POLICIES = st.one_of(
    drawn_schedules(),
    st.builds(PCT, depth=st.just(3), schedules=st.just(MANY), seed=st.integers(0, 2**16)),
    st.builds(Exhaustive, preemptions=st.just(2)),
)


class ExplorerMachine(RuleBasedStateMachine):
    """Programs that were run one after the other, and then some at the same time.

    Every ``explore`` makes all anew: what the history left behind, then the programs in
    model threads under the drawn schedule.  Afterwards they count as history too.
    """

    watch: ClassVar[Watch] = Watch()
    #: Rules in one example.
    steps = 6

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Step] = []
        self.watch.tally.examples += 1

    @initialize(steps=BEGINNINGS)
    def start(self, steps: list[Step]) -> None:
        self.history += steps

    @rule(program=st.lists(STEPS, min_size=1, max_size=6))
    def alone(self, program: list[Step]) -> None:
        self.history += program  # run, and compared, in the explorations to come

    @rule(programs=FEW_PROGRAMS, policy=POLICIES)
    def explore(self, programs: list[list[Step]], policy: Policy) -> None:
        self.watch.end_when_time_is_up()
        scenario, tally = scenario_of(self.history, programs), self.watch.tally
        with self.watch.noting(scenario.__qualname__):
            report = explore(
                scenario, policy=policy, schedules=MANY, swap_threading=False, raises=False
            )
            tally.schedules += report.schedules
            tally.operations += sum(len(p) for p in programs) * report.schedules
            if report.failure is not None:
                raise Failed(report.failure)
        self.history += itertools.chain(*programs)
