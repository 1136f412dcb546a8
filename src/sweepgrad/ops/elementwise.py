"""Elementwise functions: powers, exponentials, logarithms, choice between values, conversion."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweepgrad.errors import TensorTypeError
from sweepgrad.ops.arguments import refuse_out
from sweepgrad.ops.declare import binary, fit, unary
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rules import plain
from sweepgrad.tensor import Tensor, untracked

_MISSING: Any = object()

# --- powers, exponentials and logarithms ------------------------------------------------

exp = unary("exp", np.exp, lambda g, ans: g * ans, "``exp(x)``; dx = g exp x.")
expm1 = unary("expm1", np.expm1, lambda g, ans: g * (ans + 1), "``exp(x) - 1``; dx = g exp x.")
log = unary("log", np.log, lambda g, x: g / x, "``log(x)``; dx = g / x.")
log1p = unary("log1p", np.log1p, lambda g, x: g / (1 + x), "``log(1 + x)``; dx = g / (1 + x).")
sqrt = unary(
    "sqrt", np.sqrt, lambda g, ans: g / (2 * ans), "``sqrt(x)``; dx = g / (2 sqrt x), inf at 0."
)
square = unary("square", np.square, lambda g, x: g * (2 * x), "``x * x``; dx = 2 g x.")


def _absolute_rule(g: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        size = np.absolute(x)
        return g * np.conjugate(x) / np.where(plain(size) == 0, 1, size)
    return g * np.sign(plain(x))


absolute = unary(
    "absolute", np.absolute, _absolute_rule, "``|x|``; dx = g sign x, 0 at 0; complex: g x* / |x|."
)
tanh = unary("tanh", np.tanh, lambda g, ans: g * (1 - ans * ans), "``tanh(x)``; dx = g (1 - y²).")

# --- the larger, the smaller --------------------------------------------------------------


def _share(g: Any, wins: NDArray[Any], ties: NDArray[Any]) -> Any:
    """g for the operand that was chosen, half of it where both were."""
    return np.where(ties, 0.5 * g, np.where(wins, g, 0.0))


def _ties(x: Any, y: Any) -> Any:
    return np.equal(x, y) | (np.not_equal(x, x) & np.not_equal(y, y))


def _maximum_rule(g: Any, one: Any, other: Any) -> Any:
    one, other = plain(one), plain(other)
    return _share(g, np.greater(one, other) | np.not_equal(one, one), _ties(one, other))


def _minimum_rule(g: Any, one: Any, other: Any) -> Any:
    one, other = plain(one), plain(other)
    return _share(g, np.less(one, other) | np.not_equal(one, one), _ties(one, other))


maximum = binary(
    "maximum",
    np.maximum,
    x=lambda g, x, y: _maximum_rule(g, x, y),
    y=lambda g, y, x: _maximum_rule(g, y, x),
    doc="The larger of x and y, NaN if either is; g goes to the one chosen, halves at a tie.",
)
minimum = binary(
    "minimum",
    np.minimum,
    x=lambda g, x, y: _minimum_rule(g, x, y),
    y=lambda g, y, x: _minimum_rule(g, y, x),
    doc="The smaller of x and y, NaN if either is; g goes to the one chosen, halves at a tie.",
)

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


def weak(value: Any, *partners: Any) -> Any:
    """A Python scalar as an array of the dtype it takes beside its partners (NumPy 2's rule)."""
    if type(value) in (float, int, complex):
        dtypes = [partner.dtype for partner in partners if hasattr(partner, "dtype")]
        return np.asarray(value, np.result_type(*dtypes, value)) if dtypes else np.asarray(value)
    return value


def _clip_forward(x: Any, low: Any, high: Any) -> Any:
    return x.copy() if low is None and high is None else np.clip(x, low, high)


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
    """
    refuse_out("clip", out)
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    return _clip(x, weak(low, x, high), weak(high, x, low))


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
    "__abs__": absolute,
    "abs": absolute,
    "exp": exp,
    "log": log,
    "log1p": log1p,
    "expm1": expm1,
    "sqrt": sqrt,
    "square": square,
    "tanh": tanh,
    "maximum": maximum,
    "minimum": minimum,
    "clip": clip,
    "astype": astype,
}

NUMPY = {
    np.exp: exp,
    np.expm1: expm1,
    np.log: log,
    np.log1p: log1p,
    np.sqrt: sqrt,
    np.square: square,
    np.absolute: absolute,
    np.tanh: tanh,
    np.maximum: maximum,
    np.minimum: minimum,
    np.where: where,
    np.clip: clip,
}
if hasattr(np, "astype"):
    NUMPY[np.astype] = astype

PUBLIC = {
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "sqrt": sqrt,
    "square": square,
    "abs": absolute,
    "absolute": absolute,
    "tanh": tanh,
    "maximum": maximum,
    "minimum": minimum,
    "where": where,
    "clip": clip,
    "astype": astype,
}
