"""Every pair of operations, under every schedule: each outcome is a sequential one.

Checked in each run, too: gradients bitwise, nothing half-done in any structure,
no dead node and no pending drop once the threads have ended.
"""

import itertools
import pathlib

import pytest

from support import worlds
from sweepgrad.explore import PCT, explore

OPERATIONS = list(worlds.OPERATIONS.values())
PAIRS = list(itertools.combinations_with_replacement(OPERATIONS, 2))
#: One of each kind: enough to meet every section of the runtime with every other.
CORE = [
    worlds.create,
    worlds.operate,
    worlds.join,
    worlds.join_third_trunk,
    worlds.drop_tip,
    worlds.drop_side_loss,
    worlds.backward,
    worlds.backward_joined,
    worlds.cleanup_full,
    worlds.report,
    worlds.update,
]
CORE_PAIRS = list(itertools.combinations_with_replacement(CORE, 2))
#: Every three of these.  The last two work on a node that has arrived and is not counted yet:
#: a third thread may do so between two others' joins.
OF_TRIPLES = [*CORE, worlds.join_side_loss, worlds.operate_on_side_loss]
#: Three joins in a ring, and three that meet in the middle of each other's work.
TRIPLES = [
    (worlds.join, worlds.join_side_third, worlds.join_third_trunk),
    (worlds.join_back, worlds.join_third_trunk, worlds.cleanup_full),
    (worlds.backward_joined, worlds.drop_side_loss, worlds.cleanup),
    (worlds.operate_and_drop, worlds.backward, worlds.join),
    (worlds.backward_nested, worlds.backward_retained, worlds.drop_all_of_side),
    (worlds.join_and_keep, worlds.drop_tip, worlds.update),
]


def names(actions):
    return "-".join(action.__name__ for action in actions)


def scenario(actions):
    return worlds.scenario_of(actions, worlds.sequential(actions))


@pytest.mark.parametrize("pair", CORE_PAIRS, ids=names)
def test_a_core_pair_has_sequential_outcomes_only_at_two_preemptions(pair):
    report = explore(scenario(pair), preemptions=2)

    assert report.exhausted


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("pair", PAIRS, ids=names)
def test_every_pair_has_sequential_outcomes_only_at_two_preemptions(pair):
    report = explore(scenario(pair), preemptions=2)

    assert report.exhausted


@pytest.mark.parametrize("triple", TRIPLES, ids=names)
def test_a_triple_has_sequential_outcomes_only_in_two_hundred_pct_schedules(triple):
    report = explore(scenario(triple), policy=PCT(depth=3, schedules=200, seed=11))

    assert report.schedules == 200


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("place", range(len(OF_TRIPLES)), ids=lambda p: OF_TRIPLES[p].__name__)
def test_every_triple_of_the_core_has_sequential_outcomes_only_at_two_preemptions(place):
    """Those whose first operation this is; some minutes for each."""
    first, others = OF_TRIPLES[place], OF_TRIPLES[place:]
    for rest in itertools.combinations_with_replacement(others, 2):
        report = explore(scenario((first, *rest)), preemptions=2)

        assert report.exhausted


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("triple", TRIPLES, ids=names)
def test_a_triple_has_sequential_outcomes_only_in_a_hundred_thousand_pct_schedules(triple):
    report = explore(scenario(triple), policy=PCT(depth=3, schedules=100_000, seed=12))

    assert report.schedules == 100_000


@pytest.mark.parametrize("pair", CORE_PAIRS[::7], ids=names)
def test_a_pair_holds_when_the_fields_that_locks_protect_are_watched_too(pair):
    """A lock missing anywhere would show as an outcome that no sequential order has."""
    policy = PCT(depth=3, schedules=100, seed=13)

    assert explore(scenario(pair), policy=policy, deep=True).schedules == 100


@pytest.mark.parametrize("actions", [(worlds.backward, worlds.backward)], ids=names)
def test_both_outcomes_of_a_contended_backward_are_met(actions):
    """A check that compares with a set must be able to meet all of it: each thread wins."""
    met = set()
    allowed = worlds.sequential(actions)

    class Met:
        def __contains__(self, found):
            met.add(found)
            return found in allowed

    explore(worlds.scenario_of(actions, Met()))

    assert met == allowed
    assert len(allowed) == 2


def test_an_outcome_that_no_order_has_is_refused():
    """The comparison fails when it should: without the right answer among those allowed."""
    report = explore(worlds.scenario_of((worlds.create,), set()), raises=False)

    assert "none of the sequential outcomes" in report.failure.message


def test_the_table_in_the_documentation_has_every_pair():
    """And says of each that it was exhausted; it is written by pairs_table.py."""
    page = pathlib.Path(__file__).parents[2] / "docs" / "verification-pairs.md"

    rows = [line for line in page.read_text().splitlines() if "∥" in line]

    assert [row.split("|")[1].strip() for row in rows] == [
        " ∥ ".join(action.__name__ for action in pair) for pair in PAIRS
    ]
    assert all(row.endswith("| yes |") for row in rows)
