"""The HTML report of a stress run: the summary and its figures over time, as inline SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, MARGIN = 640, 160, 40

FIGURES = (
    ("rss", 1e-6, "resident memory (MB)"),
    ("nodes", 1.0, "nodes"),
    ("graphs", 1.0, "graphs"),
    ("operations", 1.0, "operations so far"),
)


def write_html(path: Path, line: str, beats: Sequence[dict[str, Any]]) -> None:
    """Write the report; ``beats`` are the records the process under stress printed."""
    plots = "\n".join(
        f"<h2>{title}</h2>\n{plot([(b['beat'], b[key] * scale) for b in beats])}"
        for key, scale, title in FIGURES
    )
    path.write_text(
        "<!doctype html><meta charset='utf-8'><title>sweepgrad stress</title>"
        "<style>body{font:14px sans-serif;margin:2em}svg{background:#f6f6f6}</style>"
        f"<h1>sweepgrad stress</h1><p><code>{html.escape(line)}</code></p>\n{plots}\n"
    )


def plot(points: Sequence[tuple[float, float]]) -> str:
    """A line through the points, with the extremes written at the axes."""
    if len(points) < 2:
        return "<p>too few beats to plot</p>"
    start, end = points[0][0], points[-1][0]
    low = min(value for _, value in points)
    high = max(value for _, value in points)
    span, rise = (end - start) or 1.0, (high - low) or 1.0
    path = " ".join(
        f"{MARGIN + (x - start) / span * (WIDTH - 2 * MARGIN):.1f},"
        f"{HEIGHT - 20 - (y - low) / rise * (HEIGHT - 40):.1f}"
        for x, y in points
    )
    return (
        f"<svg width='{WIDTH}' height='{HEIGHT}'>"
        f"<polyline points='{path}' fill='none' stroke='#1f6feb' stroke-width='1.5'/>"
        f"<text x='2' y='20' font-size='11'>{high:,.1f}</text>"
        f"<text x='2' y='{HEIGHT - 18}' font-size='11'>{low:,.1f}</text>"
        f"<text x='{WIDTH - MARGIN}' y='{HEIGHT - 4}' font-size='11'>{end - start:.0f} s</text>"
        "</svg>"
    )
