"""One-dimensional signals: convolution, correlation, interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import SettingError, ShapeError
from sweepgrad.ops.arguments import constant, shape_of
from sweepgrad.ops.conjugates import conjugated
from sweepgrad.ops.declare import operand
from sweepgrad.ops.elementwise import where
from sweepgrad.ops.indexing import getitem
from sweepgrad.ops.joining import concatenate
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rearrange import flip
from sweepgrad.ops.rules import plain
from sweepgrad.tensor import Tensor

# The gradient of either operand is the correlation of g with the other one, where they
# overlap fully.
_full = primitive(
    "convolve",
    lambda a, v: np.convolve(a, v, "full"),
    a=lambda g, v, a_dtype: _cast(np.convolve(g, v[::-1], "valid"), a_dtype),
    v=lambda g, a, v_dtype: _cast(np.convolve(g, a[::-1], "valid"), v_dtype),
)


def _cast(gradient: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind != "c" and gradient.dtype.kind == "c":
        gradient = gradient.real
    return gradient.astype(dtype) if gradient.dtype != dtype else gradient


def _lengths(a: Any, v: Any, name: str) -> tuple[int, int]:
    of_a, of_v = shape_of(a), shape_of(v)
    if len(of_a) != 1 or len(of_v) != 1 or not of_a[0] or not of_v[0]:
        raise ShapeError(
            f"{name} of shapes {of_a} and {of_v}; both operands have one axis and an element"
        )
    return of_a[0], of_v[0]


def _part(mode: Any, longer: int, shorter: int, name: str) -> tuple[int, int]:
    """Where the part of a full convolution that ``mode`` asks for starts, and its length."""
    if mode == "full":
        return 0, longer + shorter - 1
    if mode == "same":
        return (shorter - 1) // 2, longer
    if mode == "valid":
        return shorter - 1, longer - shorter + 1
    raise ShapeError(f'{name}: mode is "full", "same" or "valid", got {mode!r}')


def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """``numpy.convolve``: y_k = sum over i of a_i v_(k-i).

    da = g correlated with v, dv = g correlated with a.

    Raises:
        ShapeError: for operands without exactly one axis, or empty ones.
    """
    lengths = _lengths(a, v, "convolve")
    start, count = _part(mode, max(lengths), min(lengths), "convolve")
    full = _full(a, v)
    return full if mode == "full" else getitem(full, slice(start, start + count))


def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """``numpy.correlate``: y_k = sum over n of a_(n+k) conj(v_n); a convolution with v reversed."""
    of_a, of_v = _lengths(a, v, "correlate")
    start, count = _part(mode, max(of_a, of_v), min(of_a, of_v), "correlate")
    if of_v > of_a:  # NumPy exchanges the operands and reverses the result
        start = of_a + of_v - 1 - start - count
    full = _full(a, flip(conjugated(v)))
    return full if mode == "full" else getitem(full, slice(start, start + count))


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """``numpy.interp``: piecewise linear through the points (xp, fp).

    df = g weighted by nearness, dx = g times the slope, dxp = -dx weighted likewise.
    At a point of ``xp`` the slope is the one to its right; outside, ``left`` and
    ``right`` (by default the first and last value) have slope 0.

    Args:
        period: x and xp are taken modulo it, and ``left`` and ``right`` ignored; no
            gradient flows to the period itself.

    Dtypes: that of the operands; NumPy gives float64 for float32 as well.

    Raises:
        ShapeError: if xp and fp differ in length or are empty.
    """
    if period is not None:
        return _periodic(x, xp, fp, period)
    points, values = _values(xp), _values(fp)
    if points.ndim != 1 or points.shape != values.shape or not points.size:
        raise ShapeError(
            f"interp: xp has shape {points.shape} and fp {values.shape}; both are vectors of one "
            "length, at least 1"
        )
    where_x = _values(x)
    count = points.size
    first = getitem(fp, 0) if left is None else left
    last = getitem(fp, count - 1) if right is None else right
    if count == 1:
        inside: Any = getitem(fp, 0) + 0 * x
    else:
        low = np.clip(np.searchsorted(points, where_x, side="right") - 1, 0, count - 2)
        rise = getitem(fp, low + 1) - getitem(fp, low)
        slope = rise / (getitem(xp, low + 1) - getitem(xp, low))
        near = np.where(where_x == points[-1], low + 1, low)  # exact at the last point too
        inside = getitem(fp, near) + slope * (x - getitem(xp, near))
    result = where(where_x < points[0], first, inside)
    return where(where_x > points[-1], last, result)


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> Any:
    """:func:`interp` on a circle: the points wrapped, sorted, and one repeated at either end."""
    period = abs(constant("interp", "period", period))
    if period == 0:
        raise SettingError("interp got period=0; a period is a number other than 0")
    xp, fp = (t if type(t) is Tensor else operand(t) for t in (xp, fp))
    wrapped = np.remainder(xp, period)
    order = np.argsort(plain(wrapped))
    wrapped, fp = getitem(wrapped, order), getitem(fp, order)
    ends = concatenate([getitem(wrapped, slice(-1, None)) - period, wrapped])
    points = concatenate([ends, getitem(wrapped, slice(1)) + period])
    values = concatenate([getitem(fp, slice(-1, None)), fp, getitem(fp, slice(1))])
    return interp(np.remainder(x, period), points, values)


def _values(x: Any) -> NDArray[Any]:
    return x._array if type(x) is Tensor else operand(x)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.convolve: convolve,
    np.correlate: correlate,
    np.interp: interp,
}

PUBLIC: dict[str, Any] = {
    "convolve": convolve,
    "correlate": correlate,
    "interp": interp,
}
