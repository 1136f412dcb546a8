"""What Hypothesis draws: steps, and programs for several threads."""

from __future__ import annotations

import hypothesis.strategies as st

from stateful.steps import INNER, KINDS, Step
from support.beside import NUMBERS as VALUES

NUMBERS = st.sampled_from(VALUES)

_POSITIONS = st.integers(0, 11)

STEPS = st.builds(
    Step,
    kind=st.sampled_from(KINDS),
    a=_POSITIONS,
    b=_POSITIONS,
    number=NUMBERS,
    inner=st.sampled_from(INNER),
)

#: For each of 2 to 8 threads what it does in one round.
PROGRAMS = st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=2, max_size=8)

#: The same for the explorer, where a step more is many schedules more.
FEW_PROGRAMS = st.lists(st.lists(STEPS, min_size=1, max_size=3), min_size=2, max_size=3)
