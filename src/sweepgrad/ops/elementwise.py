"""Choosing between values element by element, limiting them, and converting their dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sweepgrad.errors import SettingError, TensorTypeError
from sweepgrad.ops.arguments import refuse, refuse_out
from sweepgrad.ops.declare import binary, fit
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rules import plain, weak
from sweepgrad.tensor import Tensor, untracked

_MISSING: Any = object()

# --- the larger, the smaller --------------------------------------------------------------


def _share(g: Any, wins: Any, ties: Any) -> Any:
    """g for the operand that was chosen, half of it where both were."""
    return np.where(ties, 0.5 * g, np.where(wins, g, 0.0))


def _picked(g: Any, one: Any, other: Any, better: np.ufunc, missing_wins: bool) -> Any:
    """The gradient of ``one`` where the better of the two was picked.

    Args:
        better: np.greater or np.less.
        missing_wins: whether a NaN beats a number, as in maximum, or loses, as in fmax.
    """
    one, other = plain(one), plain(other)
    missing, other_missing = np.not_equal(one, one), np.not_equal(other, other)
    wins = better(one, other) | (missing if missing_wins else other_missing)
    return _share(g, wins, np.equal(one, other) | (missing & other_missing))


def _extremum(name: str, forward: np.ufunc, better: np.ufunc, missing_wins: bool, doc: str) -> Any:
    return binary(
        name,
        forward,
        x=lambda g, x, y: _picked(g, x, y, better, missing_wins),
        y=lambda g, x, y: _picked(g, y, x, better, missing_wins),
        doc=f"{doc}; g goes to the one chosen, a half to each at a tie.",
    )


maximum = _extremum("maximum", np.maximum, np.greater, True, "The larger of x and y, or the NaN")
minimum = _extremum("minimum", np.minimum, np.less, True, "The smaller of x and y, or the NaN")
fmax = _extremum("fmax", np.fmax, np.greater, False, "The larger of x and y that is not NaN")
fmin = _extremum("fmin", np.fmin, np.less, False, "The smaller of x and y that is not NaN")

# --- choice and conversion ----------------------------------------------------------------

_where = primitive(
    "where",
    lambda condition, x, y: np.where(condition, x, y),
    x=lambda g, condition, x_shape, x_dtype: fit(np.where(condition, g, 0.0), x_shape, x_dtype),
    y=lambda g, condition, y_shape, y_dtype: fit(np.where(condition, 0.0, g), y_shape, y_dtype),
)


def where(condition: Any, x: Any = _MISSING, y: Any = _MISSING) -> Any:
    """x where ``condition`` holds, y elsewhere; dx = g where it holds, dy = g elsewhere.

    What is not chosen gets an exact 0, however large g is.  That does not help
    an operand that made a NaN on the way: in ``where(x > 0, log(x), 0)`` the
    gradient of ``log`` at 0 is inf, and 0 times inf is NaN.  Choose before as
    well: ``safe = where(x > 0, x, 1); where(x > 0, log(safe), 0)``.

    Args:
        condition: booleans or numbers; a tensor's value, never its gradient.
        x, y: broadcast with it; both left out gives the indices where
            ``condition`` is true, as plain arrays.

    Thread safety: as every operation, any thread.

    Raises:
        TypeError: if only one of x and y is given.
    """
    condition = plain(condition)
    if x is _MISSING and y is _MISSING:
        return np.where(condition)
    if x is _MISSING or y is _MISSING:
        raise TensorTypeError("where() takes both x and y or neither; for 'else 0' pass y=0.0")
    return _where(np.asarray(condition), weak(x, y), weak(y, x))


def _clip_forward(x: Any, low: Any, high: Any) -> Any:
    """As numpy.clip, which is these two ufuncs and several times their cost of its own."""
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _clip_rule(g: Any, x: Any, low: Any, high: Any, x_shape: Any, x_dtype: Any) -> Any:
    x, outside = plain(x), np.False_
    if low is not None:
        outside = outside | np.less(x, plain(low))
    if high is not None:
        outside = outside | np.greater(x, plain(high))
    return fit(np.where(outside, 0.0, g), x_shape, x_dtype)


def _clip_low_rule(g: Any, x: Any, low: Any, high: Any, low_shape: Any, low_dtype: Any) -> Any:
    low = plain(low)
    chosen = np.less(plain(x), low)
    if high is not None:
        chosen = chosen & np.less_equal(low, plain(high))
    return fit(np.where(chosen, g, 0.0), low_shape, low_dtype)


def _clip_high_rule(g: Any, x: Any, low: Any, high: Any, high_shape: Any, high_dtype: Any) -> Any:
    x, high = plain(x), plain(high)
    chosen = np.greater(x, high)
    if low is not None:
        chosen = chosen | np.greater(plain(low), high)
    return fit(np.where(chosen, g, 0.0), high_shape, high_dtype)


_NUMBERS = (float, int, type(None))

_clip = primitive("clip", _clip_forward, x=_clip_rule, low=_clip_low_rule, high=_clip_high_rule)


def clip(
    x: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
) -> Tensor:
    """x limited to [a_min, a_max]; dx = g inside and *on* the bounds, 0 outside.

    A bound that is a tensor gets g where it was taken.  Where a_min > a_max the
    result is a_max, as in NumPy.

    Args:
        a_min, a_max: numbers, arrays or tensors that broadcast with x, or None for no bound.
        min, max: the same under their Array API names.

    Raises:
        NoGradientRuleError: for ``out=``.
        SettingError: for bounds under both names.
    """
    refuse_out("clip", out)
    if min is not None or max is not None:
        if a_min is not None or a_max is not None:
            raise SettingError("clip takes a_min and a_max, or min and max; not some of each")
        a_min, a_max = min, max
    if type(a_min) in _NUMBERS and type(a_max) in _NUMBERS:
        return _clip(x, weak(a_min, x), weak(a_max, x))
    return _clip(x, weak(a_min, x, a_max), weak(a_max, x, a_min))


_nan_to_num = primitive(
    "nan_to_num",
    lambda x, nan, posinf, neginf: np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf),
    x=lambda g, x: np.where(np.isfinite(plain(x)), g, 0.0),
)


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Tensor:
    """x with numbers in place of NaN and the infinities; dx = g where x is finite, else 0.

    Args:
        copy: must be True: a tensor is not written into.
        nan, posinf, neginf: the numbers; by default 0 and the largest and smallest of the dtype.
    """
    refuse("nan_to_num", "copy", copy, "a tensor is not written into; leave copy out", True)
    return _nan_to_num(weak(x), nan, posinf, neginf)


def _convert(g: Any, dtype: np.dtype[Any]) -> Any:
    if g.dtype.kind == "c" and dtype.kind != "c":
        g = g.real
    return g.astype(dtype)


_astype = primitive(
    "astype",
    lambda x, dtype: x.astype(dtype, copy=False),
    x=lambda g, x_dtype: _convert(g, x_dtype),
)


def astype(x: Any, dtype: DTypeLike, copy: bool = True) -> Tensor:
    """x converted to ``dtype``; dx = g converted back.

    Integers and booleans have no gradient: converting to them cuts the graph
    and gives an untracked tensor.

    Args:
        copy: accepted for NumPy's sake; a tensor is never written into, so a
            conversion to its own dtype shares memory.
    """
    wanted = np.dtype(dtype)
    if wanted.kind in "fc":
        return _astype(x, wanted)
    return untracked(np.asarray(plain(x)).astype(wanted))


METHODS = {
    "maximum": maximum,
    "minimum": minimum,
    "clip": clip,
    "astype": astype,
}

NUMPY: dict[Any, Any] = {
    np.maximum: maximum,
    np.minimum: minimum,
    np.fmax: fmax,
    np.fmin: fmin,
    np.where: where,
    np.clip: clip,
    np._core.umath.clip: clip,  # type: ignore[attr-defined]  # the ufunc behind it
    np.nan_to_num: nan_to_num,
}
if hasattr(np, "astype"):  # NumPy 2.1
    NUMPY[np.astype] = astype

PUBLIC = {
    "maximum": maximum,
    "minimum": minimum,
    "fmax": fmax,
    "fmin": fmin,
    "where": where,
    "clip": clip,
    "nan_to_num": nan_to_num,
    "astype": astype,
}
