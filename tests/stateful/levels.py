"""The two machines as plain functions: is there a finding for this seed within this time?

Each runs in a child process, so that a hang is a finding and never the caller's, and so
that a planted fault is planted there alone::

    threads_machine(seed=1, budget=10)                       # None: nothing found
    threads_machine(seed=1, budget=10, fault="claim_in_two_steps")

What Hypothesis draws depends on the seed alone; how far it gets in the time, and what
real threads do with it, does not.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from stateful.findings import Enough, Finding, Tally, Watch
from support.child import run_child
from sweepgrad.graph import check_locks

#: Seconds that a child may take beyond its budget before it is ended from outside.
GRACE = 40.0

#: Examples from one seed of Hypothesis; then comes the next, derived from the given one.
EXAMPLES = 50


@dataclass(frozen=True)
class Run:
    """What a machine found, or None, and what it did."""

    finding: Finding | None
    tally: Tally


def threads_machine(seed: int, budget: float, fault: str | None = None) -> Finding | None:
    """What 2 to 8 real threads find within ``budget`` seconds, under a planted fault or none."""
    return run_machine("threads", seed, budget, fault).finding


def explorer_machine(seed: int, budget: float, fault: str | None = None) -> Finding | None:
    """What drawn programs under drawn schedules find within ``budget`` seconds."""
    return run_machine("explorer", seed, budget, fault).finding


_CHILD = "import sys; from stateful.levels import main; main(sys.argv[1])"


def run_machine(
    machine: str,
    seed: int,
    budget: float,
    fault: str | None = None,
    *,
    check_order: bool = False,
    shrink: bool = False,
) -> Run:
    """Run a machine in a child process.

    Args:
        machine: ``threads`` or ``explorer``.
        seed: of what Hypothesis draws.
        budget: seconds; the start of the child does not count.
        fault: a name in ``planted.catalogue.FAULTS``, or None for the shipped code.
        check_order: with the checked locks, so that a wrong order is a finding as such;
            without them it shows only where it hangs.
        shrink: make what was found small, which takes its own time.
    """
    asked = [machine, seed, budget, fault, check_order, shrink]
    limit = budget * (10 if shrink else 1) + GRACE
    try:
        output = run_child(_CHILD, json.dumps(asked), limit=limit, quiet=False)
    except AssertionError as error:
        return Run(
            Finding("hang", f"the process did not end by itself: {error}", 0, 0, limit), Tally()
        )
    finding, tally = json.loads(output.splitlines()[-1])
    return Run(finding and Finding(**finding), Tally(**tally))


def main(asked: str) -> None:
    """The child: run the machine, print what came of it, and leave hung threads behind."""
    name, number, budget, fault, check_order, shrink = json.loads(asked)
    watch = Watch(seconds=budget, hang=20.0 if fault is None else 5.0, shrink=shrink)
    sys.unraisablehook = lambda report: watch.complaints.append(
        f"{type(report.exc_value).__name__}: {report.exc_value} in {report.object!r}"
    )
    check_locks(check_order)
    machine = _machine(name)
    machine.watch = watch
    gc.collect()
    gc.freeze()  # collections of the rounds look at the rounds' own garbage
    with _planted(fault):
        _until_enough(machine, number, watch)
    if watch.first is None and name == "threads" and not watch.tally.overlaps:
        watch.note("no overlap", "no two operations of different threads overlapped")
    finding = watch.last and dataclasses.replace(
        watch.last, seconds=watch.first.seconds, schedules=watch.first.schedules
    )
    print(json.dumps([finding and dataclasses.asdict(finding), dataclasses.asdict(watch.tally)]))
    sys.stdout.flush()
    os._exit(0)  # without waiting for threads that hang


def _machine(name: str) -> Any:
    # The explorer needs greenlet, which free-threaded builds do without.
    if name == "threads":
        from stateful.real_threads import ThreadsMachine

        return ThreadsMachine
    from stateful.on_explorer import ExplorerMachine

    return ExplorerMachine


def _planted(fault: str | None) -> Any:
    if fault is None:
        return nullcontext()
    from planted.catalogue import planted

    return planted(fault)


def _until_enough(machine: Any, number: int, watch: Watch) -> None:
    """Example after example, until something is found or the time is up."""
    phases = [Phase.generate, Phase.shrink] if watch.shrink else [Phase.generate]
    options = settings(
        max_examples=EXAMPLES,
        stateful_step_count=machine.steps,
        phases=phases,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    for part in range(1_000_000):
        try:
            run_state_machine_as_test(seed(number * 1_000_003 + part)(machine), settings=options)
            watch.end_when_time_is_up()
        except Enough:
            return
        except Exception:
            if watch.first is None:
                raise
            return
