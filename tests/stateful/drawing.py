"""What Hypothesis draws: steps, programs for several threads, and where they begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st

from stateful.steps import INNER, KINDS, WEIGHTS, Step
from support.beside import NUMBERS as VALUES

NUMBERS = st.sampled_from(VALUES)

#: Of the newest handles, so that threads often choose the same ones, or their parents.
_POSITIONS = st.integers(0, 7)

STEPS = st.builds(
    Step,
    kind=st.sampled_from([kind for kind in KINDS for _ in range(WEIGHTS.get(kind, 1))]),
    a=_POSITIONS,
    b=_POSITIONS,
    number=NUMBERS,
    inner=st.sampled_from(INNER),
)


def mirrored(program: list[Step]) -> list[Step]:
    """The operands the other way round: two joins that meet."""
    return [replace(step, a=step.b, b=step.a) for step in program]


def shifted(program: list[Step]) -> list[Step]:
    """The next older handles: often the parents of the first program's."""
    return [replace(step, a=step.a + 1, b=step.b + 1) for step in program]


#: How another thread's program may follow from the first one's: most races are between
#: operations on the same nodes or their neighbours, which free draws seldom give.
_RELATED = st.sampled_from([list, mirrored, shifted])


def _programs(others: int, steps: int) -> Any:
    def worked_out(drawn: Any) -> list[list[Step]]:
        first, rest = drawn
        return [first, *(other(first) if callable(other) else other for other in rest)]

    program = st.lists(STEPS, min_size=1, max_size=steps)
    rest = st.lists(st.one_of(program, _RELATED), min_size=1, max_size=others)
    return st.tuples(program, rest).map(worked_out)


#: For each of 2 to 8 threads what it does in one round.
PROGRAMS = _programs(7, 4)

#: The same for the explorer, where a step more is many schedules more.
FEW_PROGRAMS = _programs(2, 2)


def beginning(values: list[int], graphs: list[int]) -> list[Step]:
    """Leaves with these values, then graphs of two nodes each, as many as there are numbers."""
    steps = [Step("create", number=value) for value in values]
    for count, number in enumerate(graphs):
        # The oldest leaf: the newest handles are the graphs made so far.
        steps.append(Step("scale", len(values) - 1 + 2 * count, number=number))
        steps.append(Step("scale", 0, number=number))
    return steps


#: A few leaves, and graphs that nothing has joined yet.
BEGINNINGS = st.builds(
    beginning, st.lists(NUMBERS, min_size=1, max_size=2), st.lists(NUMBERS, max_size=3)
)
