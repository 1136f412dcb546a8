"""What a run of the benchmarks gives: rows, timings and curves, and their JSON form."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.timing import Ratio, Series

FORMAT = 1


@dataclass(frozen=True)
class Target:
    """A limit for a figure, which stays at or below it, or at or above it."""

    limit: float
    at_most: bool = True

    def met(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.limit:g}"


@dataclass
class Row:
    """One line of the table.

    Attributes:
        case: the case that made it.
        label: what was measured, and against whom.
        value: the figure that the target is compared with; None when not measured.
        unit: ``"x"`` for a ratio, else a unit.
        target: the limit, or None for a line that only informs.
        median: the figure made of medians instead of minima, where there is one.
        low, high: the spread: 10th and 90th percentile over the rounds.
        note: why it was not measured, or what to know about it.
    """

    case: str
    label: str
    value: float | None
    unit: str = "x"
    target: Target | None = None
    median: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        if self.target is None:
            return ""
        return "met" if self.target.met(self.value) else "MISSED"

    @property
    def key(self) -> str:
        return f"{self.case}: {self.label}"


@dataclass
class Timing:
    """Seconds per unit of one engine in one measurement."""

    case: str
    engine: str
    minimum: float
    median: float
    low: float
    high: float
    rounds: int


@dataclass
class Curve:
    """One plot: named lines of points."""

    case: str
    title: str
    x_label: str
    y_label: str
    lines: dict[str, list[tuple[float, float]]]
    logarithmic: bool = True


@dataclass
class CaseResult:
    """Everything one case gave."""

    case: str
    rows: list[Row] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    seconds: float = 0.0

    def add_ratio(
        self, label: str, found: Ratio, limit: float | None = None, note: str = ""
    ) -> None:
        """A row for a ratio that is to be at most ``limit``."""
        target = None if limit is None else Target(limit)
        self.rows.append(
            Row(
                self.case,
                label,
                found.of_minima,
                "x",
                target,
                found.of_medians,
                found.low,
                found.high,
                note,
            )
        )

    def add_missing(self, label: str, why: str, target: Target | None = None) -> None:
        """A row for a figure that could not be measured here."""
        self.rows.append(Row(self.case, label, None, target=target, note=why))

    def add_series(self, what: str, series: dict[str, Series]) -> None:
        """Keep the timings of a measurement."""
        for engine, one in series.items():
            low, high = one.spread()
            self.timings.append(
                Timing(what, engine, one.minimum, one.median, low, high, len(one.samples))
            )


@dataclass
class Report:
    """A whole run."""

    machine: dict[str, Any]
    cases: list[CaseResult] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return [row for case in self.cases for row in case.rows]

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)


def load(path: Path) -> Report:
    """Read a report that ``to_json`` wrote.

    Raises:
        ValueError: if the file is of another format.
    """
    found = json.loads(path.read_text())
    if found.get("format") != FORMAT:
        raise ValueError(
            f"{path} has benchmark format {found.get('format')!r}, this program reads {FORMAT}; "
            "make the baseline again with --json"
        )
    cases = []
    for case in found["cases"]:
        rows = []
        for row in case["rows"]:
            target = row.pop("target")
            rows.append(Row(**row, target=None if target is None else Target(**target)))
        curves = []
        for curve in case["curves"]:
            lines = {
                name: [(x, y) for x, y in points] for name, points in curve.pop("lines").items()
            }
            curves.append(Curve(**curve, lines=lines))
        timings = [Timing(**timing) for timing in case["timings"]]
        cases.append(CaseResult(case["case"], rows, timings, curves, case["seconds"]))
    return Report(found["machine"], cases)
