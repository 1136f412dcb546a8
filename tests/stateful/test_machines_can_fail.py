"""What the machines compare with says no when it should, and planted faults are found."""

import re
from types import SimpleNamespace

import pytest

from stateful.claims import Attempt, explain
from stateful.levels import explorer_machine, run_machine, threads_machine
from stateful.real_threads import overlaps
from support.build import FREE_THREADED
from support.reference import Ref

TRUNK, LEFT, RIGHT = (Ref(value, (Ref(0),), (1,)) for value in (1, 2, 3))


def attempt(needs, takes, succeeded, span=(0, 10)):
    found = Attempt(frozenset(needs), frozenset(takes), {})
    found.succeeded, (found.start, found.end) = succeeded, span
    return found


def both(one, other):
    """Of two backwards through the trunk, who succeeded."""
    left = attempt({TRUNK, LEFT}, {TRUNK, LEFT}, one)
    right = attempt({TRUNK, RIGHT}, {TRUNK, RIGHT}, other)
    return explain([[left], [right]], set())


def test_of_two_backwards_through_one_trunk_exactly_one_succeeds():
    assert both(True, False)
    assert both(False, True)
    assert both(True, True) is None
    assert both(False, False) is None


def test_retaining_backwards_succeed_before_the_one_that_takes():
    takes = attempt({TRUNK}, {TRUNK}, True)
    retains = attempt({TRUNK}, (), True)

    assert explain([[takes], [retains]], set()) == [retains, takes]
    assert explain([[takes, retains]], set()) is None, "one thread's calls keep their order"


def test_a_call_that_ended_before_another_began_comes_first():
    takes = attempt({TRUNK}, {TRUNK}, True, span=(0, 5))
    late = attempt({TRUNK}, (), True, span=(6, 9))

    assert explain([[takes], [late]], set()) is None
    assert explain([[takes], [attempt({TRUNK}, (), False, span=(6, 9))]], set())


def test_what_was_taken_before_the_round_is_refused_in_it():
    assert explain([[attempt({TRUNK}, {TRUNK}, True)]], {TRUNK}) is None
    assert explain([[attempt({TRUNK}, {TRUNK}, False)]], {TRUNK})


def test_two_partial_claims_that_take_what_the_other_needs_do_not_both_succeed():
    left = attempt({TRUNK, LEFT}, {LEFT}, True)
    right = attempt({TRUNK, LEFT}, {TRUNK}, True)

    assert explain([[left], [right]], set()) is None
    assert explain([[left], [attempt({TRUNK}, {TRUNK}, True)]], set())


def test_overlaps_are_pairs_of_steps_of_different_threads_at_one_moment():
    jobs = [
        SimpleNamespace(hands=SimpleNamespace(spans=spans))
        for spans in ([(0, 10), (10, 20)], [(5, 12)], [(20, 30)])
    ]

    assert overlaps(jobs) == 2


def test_a_run_in_which_nothing_overlapped_is_a_finding():
    assert threads_machine(seed=1, budget=0.0).kind == "no overlap"


@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        # Two threads that count at once: one finds the queue empty, or a count comes out wrong.
        ("count_outside_the_lock", "exception or invariant"),
        pytest.param("finalizer_waits_for_the_lock", "hang", marks=pytest.mark.slow),
        pytest.param("claim_in_two_steps", "exception", marks=pytest.mark.slow),
    ],
)
def test_real_threads_find_a_planted_fault(fault, kind):
    """A hang is a finding, with every stack, and does not hang the caller."""
    finding = threads_machine(seed=1, budget=60, fault=fault)

    assert finding is not None
    assert finding.kind in kind.split(" or ")
    assert "while running" in finding.message
    assert ("most recent call first" in finding.message) == (kind == "hang")


if not FREE_THREADED:  # no greenlet there

    @pytest.mark.timeout(150)
    def test_the_explorer_finds_a_planted_fault_and_the_finding_has_its_token():
        finding = explorer_machine(seed=1, budget=60, fault="count_outside_the_lock")

        assert finding is not None
        assert finding.kind == "exception"
        assert re.search(r"token: s1-\S+", finding.message)
        assert "scenario_of([Step(" in finding.message

    @pytest.mark.slow
    @pytest.mark.timeout(700)
    def test_program_and_schedule_are_shrunk_together():
        """Two threads with one operation each on one node are enough to lose a count."""
        run = run_machine("explorer", 1, 60, "count_outside_the_lock", shrink=True)

        program = run.finding.message.partition("while running")[2]
        steps = re.findall(r"Step\('([^']*)'", program)
        assert run.finding.kind == "exception"
        assert len(steps) <= 8, program
