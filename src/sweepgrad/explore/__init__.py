"""The schedule explorer: run a program under every schedule that matters; replay what fails.

A *scenario* is a function that states threads, events and checks on a model::

    import sweepgrad as sg
    from sweepgrad.explore import explore, replay

    def scenario(m):
        w = sg.tensor([1.0], requires_grad=True)
        m.spawn(lambda: w.update(lambda a: a + 1.0))
        m.spawn(lambda: w.update(lambda a: a + 1.0))
        m.check(lambda: check(w.numpy() == [3.0]))

    print(explore(scenario))

Its threads are greenlets of one thread, so a run is a pure function of the
program and a list of choices; a failure prints the schedule and a token with
which :func:`replay` makes the same run again.  ``docs/verification.md`` states
what is proven, under which assumptions, and what is not seen.

Needs the extra ``explore`` (greenlet).
"""

from __future__ import annotations

from sweepgrad.errors import ExplorerError, NonDeterminismError, ScheduleFailure
from sweepgrad.explore.model import Model
from sweepgrad.explore.policies import (
    PCT,
    Drawn,
    Exhaustive,
    Policy,
    RandomWalk,
    Replayed,
    drawn_schedules,
)
from sweepgrad.explore.primitives import MODEL, Cell, ModelPrimitives, yield_point
from sweepgrad.explore.report import Failure, Report
from sweepgrad.explore.search import exploration, explore, replay

__all__ = [
    "MODEL",
    "PCT",
    "Cell",
    "Drawn",
    "Exhaustive",
    "ExplorerError",
    "Failure",
    "Model",
    "ModelPrimitives",
    "NonDeterminismError",
    "Policy",
    "RandomWalk",
    "Replayed",
    "Report",
    "ScheduleFailure",
    "drawn_schedules",
    "exploration",
    "explore",
    "replay",
    "yield_point",
]
