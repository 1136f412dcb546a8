"""Search: run after run until something fails, nothing is left, or the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any

from sweepgrad.errors import ExplorerError, NonDeterminismError, ScheduleFailure
from sweepgrad.explore import tokens, watching
from sweepgrad.explore.execution import Outcome, Scenario, Settings, run_once
from sweepgrad.explore.notes import Recorder, Waiting
from sweepgrad.explore.policies import Exhaustive, Policy, Replayed
from sweepgrad.explore.report import Failure, Report
from sweepgrad.explore.switching import BOARD
from sweepgrad.explore.threads import threading_on_model

#: Steps after which a run counts as a livelock, unless ``limit`` says otherwise.
LIMIT = 20_000

_busy = False


@contextmanager
def exploration(
    limit: int = LIMIT,
    deep: bool = False,
    check_order: bool = False,
    check_runtime: bool = True,
    swap_threading: bool = True,
    modules: Iterable[ModuleType] = (),
) -> Iterator[Settings]:
    """The process, ready for runs; see ``explore`` for the arguments."""
    global _busy
    if _busy or BOARD.current is not None:
        raise ExplorerError("an exploration is under way; one runs at a time in a process")
    _busy = True
    first_id = watching.next_free_id()
    swap = threading_on_model(modules) if swap_threading else nullcontext()
    try:
        with watching.watched(deep, check_order), swap:
            yield Settings(limit, first_id, check_runtime)
    finally:
        BOARD.close()
        _busy = False


def explore(
    scenario: Scenario,
    *,
    policy: Policy | None = None,
    preemptions: int | None = 2,
    reduce: bool = True,
    schedules: int | None = None,
    seconds: float | None = None,
    stop: bool = True,
    raises: bool = True,
    **settings: Any,
) -> Report:
    """Run a scenario under many schedules; report what was covered.

    Args:
        scenario: a function of a :class:`~sweepgrad.explore.Model`; see there.
        policy: who goes on at each step; by default :class:`Exhaustive`.
        preemptions: bound of the default policy; None for none.
        reduce: whether the default policy leaves out equal orders.
        schedules, seconds: stop after so many runs, or so long.
        stop: stop at the first failure; else count failures and go on.
        raises: raise the failure; else it is in the report.
        limit: steps after which a run counts as a livelock.
        deep: watch the fields that locks protect, too: slower, and sees a
            missing lock.
        check_order: use the checked locks, so that a wrong lock order fails as such.
        check_runtime: after each complete run, check that the runtime is valid
            and holds no pending drop and no dead node.
        swap_threading: put ``threading.Thread``, ``Lock``, ``Condition`` and the
            rest on the model.
        modules: modules whose imported names of ``threading`` are swapped, too.

    Thread safety: one exploration at a time in a process, in which no other
    thread uses sweepgrad meanwhile.

    Raises:
        ScheduleFailure: a schedule fails; the message has it as a table and a token.
        NonDeterminismError: the scenario does not repeat itself.
        ExplorerError: the tool or its use is at fault.
    """
    chosen: Policy = policy if policy is not None else Exhaustive(preemptions, reduce)
    with exploration(**settings) as ready:
        report = _search(scenario, chosen, ready, schedules, seconds, stop)
    if raises and report.failure is not None:
        raise ScheduleFailure(str(report), report)
    return report


class _Tally:
    """Counts over the runs of an exploration."""

    def __init__(self) -> None:
        self.schedules = self.pruned = self.steps = self.total = self.failures = 0
        self.threads: list[str] = []

    def add(self, outcome: Outcome) -> None:
        if outcome.reason == "pruned":
            self.pruned += 1
        else:
            self.schedules += 1
        length = len(outcome.trace)
        self.total += length
        self.steps = max(self.steps, length)
        if len(outcome.threads) > len(self.threads):
            self.threads = outcome.threads
        self.failures += outcome.failed


def _search(
    scenario: Scenario,
    policy: Policy,
    settings: Settings,
    schedules: int | None,
    seconds: float | None,
    stop: bool,
) -> Report:
    tally = _Tally()
    failure: Failure | None = None
    begun = time.perf_counter()
    while schedules is None or tally.schedules + tally.pruned < schedules:
        if seconds is not None and time.perf_counter() - begun >= seconds:
            break
        if not policy.begin():
            break
        outcome = run_once(scenario, policy, settings)
        if not tally.schedules + tally.pruned:
            _must_repeat(scenario, settings, outcome)
        tally.add(outcome)
        if outcome.failed and failure is None:
            failure = _described(scenario, settings, outcome)
        if outcome.failed and stop:
            break
    return Report(
        name_of(scenario),
        policy.describe(),
        tally.threads,
        tally.schedules,
        tally.pruned,
        tally.steps,
        tally.total,
        policy.preemptions,
        policy.exhausted(),
        time.perf_counter() - begun,
        tally.failures,
        failure,
    )


def _must_repeat(scenario: Scenario, settings: Settings, first: Outcome) -> None:
    """Make the first run twice: a program that reads what no policy controls is found early.

    Raises:
        NonDeterminismError: if the two differ.
    """
    policy = Replayed(first.deviations)
    policy.begin()
    # Without the checks, which may count outcomes and come after the last step.
    again = run_once(scenario, policy, settings, checks=False)
    if again.trace != first.trace:
        raise NonDeterminismError(
            f"the scenario does not repeat itself: made twice with the same choices, its first run "
            f"had {len(first.trace)} steps ({first.reason}) and then {len(again.trace)} "
            f"({again.reason}). Make everything it uses anew in its set-up, and take no decision "
            "from time, random numbers, addresses or the order of a set."
        )


def _described(scenario: Scenario, settings: Settings, found: Outcome) -> Failure:
    """Make the failing run again, with notes; it must fail in the same way.

    Raises:
        NonDeterminismError: if it does not.
    """
    again = _replayed(scenario, settings, found.deviations)
    if again.trace != found.trace or again.reason != found.reason:
        raise NonDeterminismError(
            f"a run failed ({found.reason}: {found.message or 'no thread could go on'}) but the "
            f"same choices gave another run ({again.reason}, {len(again.trace)} steps instead of "
            f"{len(found.trace)}): the scenario does not repeat itself"
        )
    return failure_of(scenario, again)


def _replayed(scenario: Scenario, settings: Settings, deviations: list[tuple[int, str]]) -> Outcome:
    policy = Replayed(deviations)
    policy.begin()
    return run_once(scenario, policy, settings, Recorder())


def failure_of(scenario: Scenario, outcome: Outcome) -> Failure:
    """The failure that a noted run ended in."""
    kind, message, cycle = _classify(outcome)
    recorder = outcome.recorder
    return Failure(
        kind,
        message,
        outcome.thread,
        tokens.encode(outcome.deviations, outcome.trace),
        outcome.threads,
        recorder.steps if recorder is not None else [],
        outcome.waiting,
        outcome.details,
        cycle,
        name_of(scenario),
    )


def _classify(outcome: Outcome) -> tuple[str, str, list[str]]:
    """Kind, message and, of a deadlock, the cycle."""
    if outcome.reason == "limit":
        return "livelock", f"the run was still going after {len(outcome.trace)} steps", []
    if outcome.reason != "stuck":
        place = f" in {outcome.thread}" if outcome.thread is not None else ""
        return outcome.reason, outcome.message + place, []
    cycle = _cycle(outcome.waiting)
    if cycle:
        return "deadlock", " -> ".join([*cycle, cycle[0]]), cycle
    for entry in outcome.waiting:
        if entry.is_lock:
            return (
                "abandoned lock",
                f"{entry.thread} waits for {entry.what}, which {entry.owner} took and kept",
                [],
            )
    names = ", ".join(f"{entry.thread} for {entry.what}" for entry in outcome.waiting)
    return "lost wake-up", f"nobody is left to end the waiting of {names}", []


def _cycle(waiting: list[Waiting]) -> list[str]:
    """A cycle of threads, each waiting for the next, or nothing."""
    waits_for = {entry.thread: entry.owner for entry in waiting}
    for start in waits_for:
        chain: list[str] = []
        name: str | None = start
        while name is not None and name in waits_for and name not in chain:
            chain.append(name)
            name = waits_for[name]
        if name is not None and name in chain:
            return chain[chain.index(name) :]
    return []


def replay(
    scenario: Scenario, token: str, *, raises: bool = True, **settings: Any
) -> Failure | None:
    """Make the run of a token again, step for step.

    Args:
        scenario, settings: as given to ``explore``.
        token: from a failure.
        raises: raise the failure; else return it.

    Returns:
        The failure, or None if the run ends well.

    Raises:
        ScheduleFailure: the run fails, as it did before.
        NonDeterminismError: the run is not the token's: the program has changed
            or does not repeat itself.
        ExplorerError: if it is no token.
    """
    deviations, check = tokens.decode(token)
    with exploration(**settings) as ready:
        outcome = _replayed(scenario, ready, deviations)
    if tokens.checksum(outcome.trace) != check:
        raise NonDeterminismError(
            f"the run made {len(outcome.trace)} steps that are not those of the token: the "
            "scenario has changed since, or does not repeat itself"
        )
    if not outcome.failed:
        return None
    failure = failure_of(scenario, outcome)
    if raises:
        raise ScheduleFailure(str(failure), failure)
    return failure


def name_of(scenario: Scenario) -> str:
    """``module:function``, as the command line takes it."""
    name = getattr(scenario, "__qualname__", type(scenario).__name__)
    return f"{getattr(scenario, '__module__', '?')}:{name}"
