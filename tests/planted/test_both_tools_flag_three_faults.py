"""C25: the order checker and the explorer each flag the same three faults, and no shipped order."""

import pytest

from planted.catalogue import FAULTS
from planted.scenarios import SHOWN_BY, Calls, with_saved
from sweepgrad.explore import explore
from sweepgrad.graph import ORDER, GraphRuntime
from sweepgrad.graph.locator import find
from sweepgrad.graph.section import enter


def join(runtime):
    x = runtime.tensor([2.0], requires_grad=True)
    (x * 3.0) * (x * 5.0)


def sweep_with_a_destructor(runtime):
    """What is swept had saved a value whose destructor back-propagates in another graph."""
    x = runtime.tensor([2.0], requires_grad=True)
    trunk, other = x * 3.0, x * 5.0
    kept = with_saved(trunk, Calls(lambda: other.backward([1.0])))
    more = [trunk * 2.0 for _ in range(3)]  # so that the backward does not sweep by itself
    trunk.backward([1.0])
    runtime.graph_cleanup()
    assert [kept.item(), more[0].item()] == [6.0, 12.0]


def drop_inside_a_section(runtime):
    """As a collection does that starts there."""
    x = runtime.tensor([2.0], requires_grad=True)
    trunk = x * 3.0
    held = [trunk * 2.0]
    enter(find(trunk._node), "a section", lambda graph, garbage: held.clear())


#: Joining in the wrong order, a sweep that holds a lock over user code, a finalizer that
#: takes the lock of the registry: the fault, and a program of one thread that meets it.
PROGRAMS = {
    "locks_in_order_of_arrival": join,
    "sweep_destroys_under_the_lock": sweep_with_a_destructor,
    "finalizer_waits_for_the_lock": drop_inside_a_section,
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_checker_flags_the_fault_in_one_thread_where_nothing_hangs(name):
    with FAULTS[name]():
        try:
            PROGRAMS[name](GraphRuntime())
        except Exception as error:  # where the refusal arises in a call and in no finalizer
            assert "taken while" in str(error)  # noqa: PT017

    assert ORDER.violations
    assert "The held lock was taken here:" in ORDER.violations[0]
    ORDER.violations.clear()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_explorer_flags_the_fault_as_a_deadlock(name):
    scenario = SHOWN_BY[name][0]()  # compares with what the shipped code gives

    with FAULTS[name]():
        report = explore(scenario, schedules=1_000, raises=False)

    assert report.failure is not None
    assert report.failure.kind == "deadlock"


@pytest.mark.parametrize("name", PROGRAMS)
def test_neither_flags_the_shipped_order(name):
    PROGRAMS[name](GraphRuntime())

    report = explore(SHOWN_BY[name][0](), schedules=1_000)

    assert report.failures == 0
    assert ORDER.violations == []
