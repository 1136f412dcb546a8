"""The HTML page: machine, table, timings, and plots drawn by matplotlib as inline SVG."""

from __future__ import annotations

import html
import io
from importlib.util import find_spec

from benchmarks.baseline import Change
from benchmarks.results import CaseResult, Curve, Report, Timing
from benchmarks.table import cells, columns, machine_lines, summary

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { padding: .15rem .7rem; text-align: left; border-bottom: 1px solid #ddd }
td { font-variant-numeric: tabular-nums }
.met { color: #176f2c } .MISSED { color: #b3261e; font-weight: 600 } .not { color: #8a6d00 }
svg { max-width: 100%; height: auto }
"""
NO_PLOTS = "No plots: matplotlib is not installed. Draw them from the JSON file with --load."


def render(report: Report, changes: dict[str, Change]) -> str:
    """The whole page; it refers to nothing outside itself."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>sweepgrad benchmarks</title><style>{STYLE}</style>",
        "<h1>sweepgrad benchmarks</h1>",
        f"<p>{html.escape(summary(report))}</p>",
        _table(report, changes),
    ]
    parts += [_plot_section(case) for case in report.cases]
    parts.append("<h2>Machine</h2><ul>")
    parts += [f"<li>{html.escape(line)}</li>" for line in machine_lines(report.machine)]
    parts.append("</ul>")
    return "\n".join(parts) + "\n"


def _table(report: Report, changes: dict[str, Change]) -> str:
    head = "".join(f"<th>{html.escape(name)}" for name in columns(changes))
    lines = []
    for row in report.rows:
        texts = "".join(f"<td>{html.escape(text)}" for text in cells(row, changes))
        lines.append(f'<tr class="{html.escape(row.verdict)}">{texts}')
    return f"<table><tr>{head}{''.join(lines)}</table>"


def _plot_section(case: CaseResult) -> str:
    if not case.curves and not case.timings:
        return ""
    if find_spec("matplotlib") is None:
        plots = f"<p>{NO_PLOTS}</p>"
    else:
        plots = "".join(draw_curve(curve) for curve in case.curves) + draw_bars(case.timings)
    return f"<h2>{html.escape(case.case)}</h2>{plots}"


def draw_curve(curve: Curve) -> str:
    """A plot of named lines, as SVG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.add_subplot()
    for name, points in curve.lines.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    if curve.logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.set(title=curve.title, xlabel=curve.x_label, ylabel=curve.y_label)
    axes.grid(visible=True, alpha=0.3)
    if curve.lines:
        axes.legend()
    return _svg(figure)


def draw_bars(timings: list[Timing]) -> str:
    """Minimum and spread of each engine, one group for each measurement, as SVG."""
    from matplotlib.figure import Figure

    if not timings:
        return ""
    groups: dict[str, list[Timing]] = {}
    for timing in timings:
        groups.setdefault(timing.case, []).append(timing)
    figure = Figure(figsize=(8, 0.5 + 0.34 * (len(timings) + len(groups))), layout="constrained")
    axes = figure.add_subplot()
    labels: list[tuple[float, str]] = []
    place = 0.0
    for name, members in groups.items():
        labels.append((place, name))
        for timing in members:
            place += 1
            axes.barh(place, timing.median * 1e9, color="#c9d6e8")
            axes.barh(place, timing.minimum * 1e9, color="#3b6ea8")
            axes.plot([timing.low * 1e9, timing.high * 1e9], [place, place], color="#444", lw=1)
            labels.append((place, timing.engine))
        place += 1.3
    axes.set_yticks([at for at, _ in labels], [label for _, label in labels])
    axes.set_xscale("log")
    axes.set_xlabel("ns: minimum (dark), median (light), 10th to 90th percentile (line)")
    axes.invert_yaxis()
    return _svg(figure)


def _svg(figure: object) -> str:
    target = io.StringIO()
    figure.savefig(target, format="svg")  # type: ignore[attr-defined]
    text = target.getvalue()
    return f"<p>{text[text.index('<svg') :]}</p>"
