"""Nodes that have arrived and are not counted yet, beside merges: every schedule."""

from planted.scenarios import recorded_between_two_joins
from sweepgrad.explore import explore


def test_no_child_is_counted_before_a_parent_that_a_merge_is_still_moving():
    """Three threads: with the pairs alone, nobody shortens the way to the survivor in between."""
    report = explore(recorded_between_two_joins, preemptions=2)

    assert report.exhausted
    assert report.schedules > 1_000
