"""The explorer finds each planted fault, says what kind it is, and finds nothing in its absence."""

import pytest

from planted.catalogue import FAULTS
from planted.scenarios import SHOWN_BY
from support.schedules import comparable
from sweepgrad.explore import explore, replay

#: Schedules of the shipped code, which other tests run to the end.  A fork costs as much as a
#: hundred of them.
AT_MOST = 300
FORKS = {"locks_kept_in_a_forked_child": 40, "fork_takes_the_locks_inside_out": 40}


def test_every_planted_fault_has_a_scenario():
    assert SHOWN_BY.keys() == FAULTS.keys()


def tried(report):
    """What was run, and what came of it."""
    found = report.failure
    seen = "nothing wrong" if found is None else f"{found.kind}, token {found.token}"
    return f"{report.scenario}, {report.schedules} schedules, {report.pruned} equal: {seen}"


@pytest.mark.parametrize("name", SHOWN_BY)
def test_the_fault_is_found_and_its_token_replays(name):
    make, kind, words = SHOWN_BY[name]
    scenario = make()

    with FAULTS[name]():
        report = explore(scenario, raises=False)

        print(f"\n{name} planted: {tried(report)}")
        assert report.failure is not None, f"missed:\n{report}"
        assert (report.failure.kind, words in report.failure.message) == (kind, True), report
        again = replay(scenario, report.failure.token, raises=False)
    assert comparable(again.steps) == comparable(report.failure.steps)


@pytest.mark.parametrize("name", SHOWN_BY)
def test_the_shipped_code_passes_where_the_fault_is_found(name):
    scenario = SHOWN_BY[name][0]()

    report = explore(scenario, schedules=FORKS.get(name, AT_MOST))

    print(f"\nnothing planted: {tried(report)}")
    assert report.schedules >= 2
