"""Execution: one run of a scenario, from fresh state to a verdict.

A run is a pure function of the scenario and of the policy's choices.  Every run
begins with a runtime made anew and with the same ids, and ends with every model
thread unwound, so that runs cannot see each other.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from sweepgrad.errors import ExplorerError
from sweepgrad.explore import watching
from sweepgrad.explore.model import Model
from sweepgrad.explore.notes import Recorder, Waiting, waits_of
from sweepgrad.explore.policies.base import Policy
from sweepgrad.explore.switching import BOARD

#: What a scenario is.
Scenario = Callable[[Model], object]


@dataclass(frozen=True)
class Settings:
    """What is the same for all runs of an exploration.

    Attributes:
        limit: steps after which a run counts as a livelock.
        first_id: the first node id of each run.
        check_runtime: check the default runtime after each complete run.
    """

    limit: int
    first_id: int
    check_runtime: bool


@dataclass
class Outcome:
    """What one run did.

    Attributes:
        reason: ``done``, ``pruned``, or why it failed: ``exception``,
            ``invariant``, ``stuck`` or ``limit``.
        trace: (thread index, operation) of each step.
        deviations: see ``Switchboard``.
        threads: names of the threads, then of the events, by index.
        message: what went wrong, in one line.
        thread: name of the thread where it went wrong, or None.
        details: a traceback, or nothing.
        waiting: who waits for what at the end of a run that got stuck.
        recorder: the notes on each step, when they were asked for.
    """

    reason: str
    trace: list[tuple[int, str]]
    deviations: list[tuple[int, str]]
    threads: list[str]
    message: str = ""
    thread: str | None = None
    details: str = ""
    waiting: list[Waiting] = field(default_factory=list)
    recorder: Recorder | None = None

    @property
    def failed(self) -> bool:
        return self.reason not in ("done", "pruned")


def run_once(
    scenario: Scenario,
    policy: Policy,
    settings: Settings,
    recorder: Recorder | None = None,
    checks: bool = True,
) -> Outcome:
    """One run under the choices of ``policy``, whose ``begin`` has been called.

    Args:
        recorder: takes notes about each step.
        checks: whether a complete run is checked at its end.

    Raises:
        ExplorerError: if the tool or its use is at fault.
        Exception: whatever the scenario's set-up raises.
    """
    board = BOARD
    board.begin(policy, settings.limit, recorder)
    model = Model()
    try:
        watching.fresh_runtime(settings.first_id)
        scenario(model)
        board.run()
        if board.child is not None:
            board.child.finish()
        policy.stopped(board.live)
        if board.reason is None and checks:
            _check(model, settings)
        if board.reason == "fault":
            _raise_fault(board.error)
        outcome = _outcome(recorder)
    finally:
        board.unwind()
        board.forget()
        if model.collects:
            model.forget()
            with board.aside():
                gc.collect()  # what a collection in the next run finds is the next run's
    policy.end(len(outcome.trace))
    return outcome


def _check(model: Model, settings: Settings) -> None:
    """The checks after a complete run."""
    try:
        if settings.check_runtime:
            check_at_rest()  # first: a check that sweeps would repair what is wrong
        model.run_checks()
    except ExplorerError:
        raise
    except Exception as error:
        BOARD.reason, BOARD.error = "invariant", error


def check_at_rest() -> None:
    """No contradiction, no pending drop and no dead node in the runtime, now that nobody works."""
    runtime = watching.used_runtime()
    if runtime is None:
        return
    runtime.check_valid()
    for graph in runtime.locator.list_graphs():
        assert not graph.drops, f"{graph!r} has {len(graph.drops)} pending drops and nobody works"
        dead = graph.dead()
        assert not dead, f"{graph!r} keeps dead nodes: {dead}"


def _raise_fault(error: BaseException | None) -> None:
    assert error is not None
    if isinstance(error, ExplorerError) or not isinstance(error, Exception):
        raise error
    raise ExplorerError(
        f"the policy or the notes failed: {type(error).__name__}: {error}"
    ) from error


def _outcome(recorder: Recorder | None) -> Outcome:
    board = BOARD
    reason = board.reason or "done"
    outcome = Outcome(
        reason,
        board.trace,
        board.deviations,
        [thread.name for thread in board.everyone],
        recorder=recorder,
    )
    if not outcome.failed:
        return outcome
    outcome.thread = board.culprit.name if board.culprit is not None else None
    if board.error is not None:
        error = board.error
        if isinstance(error, ExplorerError):
            raise error
        outcome.message = f"{type(error).__name__}: {error}"
        outcome.details = "".join(
            traceback.format_exception(type(error), error, error.__traceback__)
        )
    if reason == "stuck":
        board.current = None
        outcome.waiting = waits_of(board.live, recorder)
    return outcome
