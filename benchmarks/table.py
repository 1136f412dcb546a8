"""The table on the terminal: with rich where it is installed, plain text otherwise."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Any

from benchmarks.baseline import Change
from benchmarks.results import Report, Row

COLUMNS = ("figure", "target", "value", "medians", "spread", "verdict", "note")
STYLES = {"met": "green", "MISSED": "bold red", "not measured": "yellow"}


def cells(row: Row, changes: dict[str, Change]) -> list[str]:
    """The texts of one line."""
    texts = [
        row.label,
        "" if row.target is None else f"{row.target} {row.unit}",
        number(row.value, row.unit),
        number(row.median, ""),
        "" if row.low is None else f"{number(row.low, '')} to {number(row.high, '')}",
        row.verdict,
        row.note,
    ]
    if changes:
        change = changes.get(row.key)
        texts.insert(
            -1,
            ""
            if change is None
            else f"{number(change.before, '')} ({change.factor - 1:+.0%}, {change.verdict})",
        )
    return texts


def number(value: float | None, unit: str) -> str:
    """Three significant digits, with the unit."""
    if value is None:
        return ""
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def columns(changes: dict[str, Change]) -> list[str]:
    """The headings, with one for the baseline when there is one."""
    names = list(COLUMNS)
    if changes:
        names.insert(-1, "baseline")
    return names


def show(report: Report, changes: dict[str, Change]) -> None:
    """Print machine, table and summary."""
    for line in machine_lines(report.machine):
        print(line)
    # Rich folds columns to the terminal's width; into a file a line is left whole.
    if find_spec("rich") is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        _show_rich(report, changes)
    else:
        _show_plain(report, changes)
    print(summary(report))


def _show_rich(report: Report, changes: dict[str, Change]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="benchmarks", show_lines=False)
    for name in columns(changes):
        table.add_column(name, justify="right" if name in COLUMNS[1:5] else "left")
    for case in report.cases:
        for row in case.rows:
            table.add_row(*cells(row, changes), style=STYLES.get(row.verdict))
        table.add_section()
    Console().print(table)


def _show_plain(report: Report, changes: dict[str, Change]) -> None:
    lines = [columns(changes)] + [cells(row, changes) for row in report.rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]) - 1)]
    for line in lines:
        texts = [text.ljust(width) for text, width in zip(line, widths, strict=False)]
        print("  ".join([*texts, line[-1]]).rstrip())


def summary(report: Report) -> str:
    """One line: how many targets are met, missed and not measured."""
    judged = [row for row in report.rows if row.target is not None]
    met, missed = (sum(row.verdict == word for row in judged) for word in ("met", "MISSED"))
    return (
        f"{met} targets met, {missed} missed, {len(judged) - met - missed} not measured; "
        f"{sum(case.seconds for case in report.cases):.0f} s"
    )


def machine_lines(machine: dict[str, Any]) -> list[str]:
    """The state of the machine, one thing a line."""
    lines = []
    for name, value in machine.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {item}" for key, item in value.items())
        lines.append(f"{name}: {value}")
    return lines
