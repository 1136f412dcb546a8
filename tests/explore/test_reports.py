"""What a report counts while other threads work."""

import pytest

import sweepgrad as sg
from sweepgrad.explore import explore


def test_a_report_beside_a_join_counts_each_node_once():
    """Two graphs of one node each become one graph of three nodes: 2 or 3, and never 1 or 4."""
    counts = set()

    def scenario(m):
        w = sg.tensor([2.0], requires_grad=True)
        kept = [w * 2.0, w * 3.0]
        seen = []
        m.spawn(lambda: seen.append(sg.memory_report()), name="report")
        m.spawn(lambda: kept.append(kept[0] * kept[1]), name="join")

        @m.check
        def counted_once():
            counts.add((seen[0].nodes, len(kept)))
            assert 2 <= seen[0].nodes <= 3

    explore(scenario, deep=True, schedules=600)

    assert counts == {(2, 3), (3, 3)}


def test_a_report_beside_a_child_that_comes_too_late_has_no_tip_less_than_none():
    """The child of a consumed node is added up and forgotten in one section."""
    seen = set()

    def scenario(m):
        trunk = sg.tensor([2.0], requires_grad=True) * 3.0
        (trunk * 5.0).backward([1.0])
        reports = []
        m.spawn(lambda: trunk * 7.0, name="record")
        m.spawn(lambda: reports.append(sg.memory_report()), name="report")

        @m.check
        def none_below_zero():
            assert trunk.item() == 6.0  # held here: a graph that dies ends the search too early
            seen.add((reports[0].nodes, reports[0].tips))
            assert reports[0].tips >= 0

    assert explore(scenario, deep=True, preemptions=3).exhausted
    assert {(0, 0), (1, 1)} <= seen


@pytest.mark.parametrize("reduce", [True, False])
def test_a_report_beside_the_death_of_a_graph_meets_every_outcome_with_and_without_reduction(
    reduce,
):
    """The death of a graph and the look at its weak reference are steps."""
    seen = set()

    def scenario(m):
        trunks = [sg.tensor([2.0], requires_grad=True) * 3.0]
        (trunks[0] * 5.0).backward([1.0])
        reports = []

        def record_and_drop():
            trunks[0] * 7.0
            trunks.clear()

        m.spawn(record_and_drop)
        m.spawn(lambda: reports.append(sg.memory_report()), name="report")

        @m.check
        def note():
            seen.add((reports[0].graphs, reports[0].nodes, reports[0].tips))

    assert explore(scenario, deep=True, preemptions=2, reduce=reduce).exhausted
    assert seen == {(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)}
