"""Random programs of many threads beside a naive graph: nothing is found in the shipped code."""

import pytest

from stateful.levels import run_machine
from support.build import FREE_THREADED

#: Seconds for each machine in the default run.
SHORT = 8.0

#: The explorer needs greenlet, which would switch the GIL on in a free-threaded build.
MACHINES = ["threads"] if FREE_THREADED else ["threads", "explorer"]


def nothing_found(machine, seed, budget):
    run = run_machine(machine, seed, budget, check_order=machine == "threads")
    assert run.finding is None, f"{run.finding.kind}: {run.finding.message}"
    assert run.tally.operations > 100
    return run.tally


@pytest.mark.parametrize("machine", MACHINES)
def test_programs_of_many_threads_agree_with_the_naive_graph(machine):
    tally = nothing_found(machine, 1, SHORT)
    if machine == "threads":
        assert tally.overlaps > 0, "operations of different threads overlapped in time"


@pytest.mark.slow
@pytest.mark.timeout(700)
@pytest.mark.parametrize("machine", MACHINES)
def test_programs_of_many_threads_agree_for_ten_minutes(machine):
    nothing_found(machine, 2, 600.0)
