"""Small charts for a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

_BARS = " ▁▂▃▄▅▆▇█"
_PLAIN = "        #"


def text_chart(
    values: Sequence[float],
    low: float,
    high: float,
    *,
    width: int = 60,
    height: int = 6,
    unicode: bool = True,
    label: str = "{:.1f}",
) -> list[str]:
    """Lines of a bar chart of ``values`` over time, between ``low`` and ``high``.

    With more values than columns a column shows the largest of its values, so
    that a short peak is seen.

    Args:
        values: at least one.
        low, high: values at the bottom and the top; ``high`` is above ``low``.
        unicode: draw eighths of a row; otherwise whole rows of ``#``.
        label: format of the numbers at the axis.
    """
    columns = _columns(values, min(width, len(values)))
    steps = 8 * height
    tall = [round((value - low) / (high - low) * steps) for value in columns]
    # A value at the bottom still shows, as one eighth: nothing would look like no data.
    tall = [min(max(level, 1), steps) for level in tall]
    bars = _BARS if unicode else _PLAIN
    labels = [label.format(high), label.format(low)]
    margin = max(map(len, labels))
    lines = []
    for row in range(height - 1, -1, -1):
        text = "".join(bars[min(max(level - 8 * row, 0), 8)] for level in tall)
        mark = labels[0] if row == height - 1 else labels[1] if row == 0 else ""
        lines.append(f"{mark:>{margin}} |{text}")
    lines.append(f"{'':>{margin}} +{'-' * len(columns)}")
    return lines


def _columns(values: Sequence[float], width: int) -> list[float]:
    edges = [position * len(values) // width for position in range(width + 1)]
    return [max(values[start:end]) for start, end in itertools.pairwise(edges)]
