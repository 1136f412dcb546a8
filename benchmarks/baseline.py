"""Comparison of a run with a saved one."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.results import Report, Row

#: A change smaller than this is noise, whatever the spreads say.
NOISE = 0.05


@dataclass(frozen=True)
class Change:
    """A row beside the same row of the baseline.

    Attributes:
        before: the baseline's figure.
        factor: now over before.
        verdict: ``"better"``, ``"worse"`` or ``"same"``.
    """

    before: float
    factor: float
    verdict: str


def compare(now: Report, baseline: Report) -> dict[str, Change]:
    """For each row of ``now`` that the baseline has too, by its key, what changed.

    A row is better or worse when its figure moved by more than 5 % and left
    the baseline's spread; noise moves figures inside the spread all the time.
    """
    before = {row.key: row for row in baseline.rows}
    changes = {}
    for row in now.rows:
        old = before.get(row.key)
        if old is not None and old.value and row.value is not None:
            changes[row.key] = _change(row, old)
    return changes


def _change(row: Row, old: Row) -> Change:
    assert row.value is not None
    assert old.value is not None
    factor = row.value / old.value
    low = old.value if old.low is None else min(old.low, old.value)
    high = old.value if old.high is None else max(old.high, old.value)
    moved = abs(factor - 1) > NOISE and not low <= row.value <= high
    if not moved:
        return Change(old.value, factor, "same")
    smaller_is_better = row.target is None or row.target.at_most
    better = (factor < 1) == smaller_is_better
    return Change(old.value, factor, "better" if better else "worse")
