"""Reductions, with NumPy's signatures and dtype rules."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.ops.arguments import constant, refuse_out
from sweepgrad.ops.arithmetic import add, divide
from sweepgrad.ops.elementwise import astype, maximum, minimum
from sweepgrad.ops.elementwise import where as choose
from sweepgrad.ops.exponents import sqrt
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rules import axes_of, count_along, kept, kept_shape, plain, shared, spread
from sweepgrad.tensor import Tensor

# --- sums and means -----------------------------------------------------------------------

_sum = primitive(
    "sum",
    lambda x, axis, keepdims: np.add.reduce(x, axis=axis, keepdims=keepdims),
    x=lambda g, x_shape, axis, keepdims: spread(g, x_shape, axis, keepdims),
)


def sum(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Sum over ``axis``; dx = g, stretched over the summed axes.

    Args:
        axis: None for all axes, an int, or a tuple of ints; negative ones count from the end.
        dtype: convert to it first.
        keepdims: keep the summed axes, with length 1.
        initial: added to the sum.
        where: booleans; only these elements are summed, the others get gradient 0.

    Raises:
        AxisError: if an axis is out of range; ValueError: if one is named twice.
        NoGradientRuleError: for ``out=``.
    """
    if out is not None:
        refuse_out("sum", out)
    if dtype is not None:
        x = astype(x, dtype)
    if where is not None:
        x = choose(where, x, 0)
    result = _sum(x, axis, keepdims)
    if dtype is not None:
        result = in_dtype(result, dtype)
    return result if initial is None else result + initial


def in_dtype(result: Tensor, dtype: Any) -> Tensor:
    """The result in the dtype asked for: NumPy adds small integers up in large ones."""
    return result if dtype is None or result.dtype == dtype else astype(result, dtype)


def _mean_rule(g: Any, x_shape: Any, axis: Any, keepdims: bool) -> Any:
    count = math.prod(x_shape) if axis is None else count_along(x_shape, axis)
    return spread(g / builtins.max(count, 1), x_shape, axis, keepdims)


def _mean_forward(x: NDArray[Any], axis: Any, keepdims: Any) -> Any:
    """As ndarray.mean, which takes four times as long, for the dtypes that need no care in it."""
    if x.dtype.char in "fdFD" and x.size:
        total = np.add.reduce(x, axis=axis, keepdims=keepdims)
        return total / (x.size if axis is None else count_along(x.shape, axis))
    return x.mean(axis=axis, keepdims=keepdims)


_mean = primitive("mean", _mean_forward, x=_mean_rule)


def mean(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Tensor:
    """Mean over ``axis``; dx = g / n, stretched over the n elements of each slice.

    Args and Raises: as :func:`sum`; the mean of nothing is NaN, as in NumPy.
    """
    if out is not None:
        refuse_out("mean", out)
    if dtype is not None:
        x = astype(x, dtype)
    if where is None:
        return _mean(x, axis, keepdims)
    counts = _counts(x, axis, keepdims, where)
    total = _sum(choose(where, x, 0), axis, keepdims)
    dtype = total.dtype if total.dtype.kind in "fc" else np.dtype(np.float64)
    result: Tensor = divide(total, counts.astype(dtype))
    return result


def _counts(x: Any, axis: Any, keepdims: bool, where: Any) -> NDArray[Any]:
    """How many elements of each slice ``where`` selects."""
    selected = np.broadcast_to(np.asarray(plain(where), dtype=bool), np.shape(plain(x)))
    return np.asarray(np.sum(selected, axis=axis, keepdims=keepdims, dtype=np.intp))


# --- spread -----------------------------------------------------------------------------


def _centred(x: Any, axis: Any) -> Any:
    """x minus its mean; conjugated if complex, because var is of |x - mean|²."""
    centred = x - np.mean(x, axis=axis, keepdims=True)
    return np.conjugate(centred) if centred.dtype.kind == "c" else centred


def _over_freedom(g: Any, x_shape: Any, axis: Any, ddof: float) -> Any:
    """g / (n - ddof); as in NumPy a divisor below 0 counts as 0."""
    freedom = builtins.max(count_along(x_shape, axis) - ddof, 0)
    return g / freedom if freedom else g * math.inf


def _var_rule(g: Any, x: Any, axis: Any, ddof: float, x_shape: Any) -> Any:
    g = _over_freedom(kept(2 * g, x_shape, axis), x_shape, axis, ddof)
    return g * _centred(x, axis)


_var = primitive(
    "var",
    lambda x, axis, ddof, keepdims: x.var(axis=axis, ddof=ddof, keepdims=keepdims),
    x=_var_rule,
)


def _is_constant(x: Any, axis: Any, keepdims: bool, where: Any = True) -> NDArray[np.bool_]:
    """Whether all elements of a slice are equal.

    That its std is 0 would not do: the mean of three times 0.1 is not 0.1, and the
    gradient of the std of that rounding error is as large as any.
    """
    x = plain(x)
    high = np.max(x, axis=axis, keepdims=keepdims, initial=-np.inf, where=where)
    low = np.min(x, axis=axis, keepdims=keepdims, initial=np.inf, where=where)
    return np.asarray(high == low)


def _std_rule(g: Any, ans: Any, x: Any, axis: Any, ddof: float, x_shape: Any) -> Any:
    ans = kept(ans, x_shape, axis)
    constant = _is_constant(x, axis, True) & ~np.isnan(plain(ans))
    slope = kept(g, x_shape, axis) / np.where(constant, 1, ans)
    slope = np.where(constant, 0.0, _over_freedom(slope, x_shape, axis, ddof))
    return slope * _centred(x, axis)


_std = primitive(
    "std",
    lambda x, axis, ddof, keepdims: x.std(axis=axis, ddof=ddof, keepdims=keepdims),
    x=_std_rule,
)


def _prepared(name: str, x: Any, dtype: Any, out: Any, ddof: Any) -> tuple[Any, float]:
    """Operand and divisor of a variance, with what is not offered refused."""
    refuse_out(name, out)
    return x if dtype is None else astype(x, dtype), constant(name, "ddof", ddof)


def var(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> Tensor:
    """Mean of (x - mean x)² with divisor n - ddof; dx = 2 g (x - mean x) / (n - ddof).

    Args:
        ddof: what is taken off the divisor; ``correction`` is its Array API name.
        where: booleans; only these elements count.
        mean: accepted for NumPy's sake and computed anew, so that gradients flow through it.

    The rest: as :func:`sum`.
    """
    if dtype is not None or out is not None or correction is not None or type(ddof) is not int:
        x, ddof = _prepared("var", x, dtype, out, ddof if correction is None else correction)
    if where is None:
        return _var(x, axis, ddof, keepdims)
    return _var_where(x, axis, ddof, keepdims, where)


def std(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> Tensor:
    """Square root of the variance; dx = g (x - mean x) / ((n - ddof) std), 0 where std is 0.

    Args: as :func:`var`.
    """
    if dtype is not None or out is not None or correction is not None or type(ddof) is not int:
        x, ddof = _prepared("std", x, dtype, out, ddof if correction is None else correction)
    if where is None:
        return _std(x, axis, ddof, keepdims)
    squared = _var_where(x, axis, ddof, keepdims, where)
    same = _is_constant(x, axis, keepdims, plain(where)) & ~np.isnan(plain(squared))
    result: Tensor = choose(same, 0.0, sqrt(choose(same, 1.0, squared)))
    return result


def _var_where(x: Any, axis: Any, ddof: float, keepdims: bool, where: Any) -> Tensor:
    centred = choose(where, x - np.mean(x, axis=axis, keepdims=True, where=plain(where)), 0)
    squares = centred * np.conjugate(centred) if centred.dtype.kind == "c" else centred * centred
    total = _sum(squares.real if squares.dtype.kind == "c" else squares, axis, keepdims)
    freedom = np.maximum(_counts(x, axis, keepdims, where) - ddof, 0)
    result: Tensor = divide(total, freedom.astype(total.dtype))
    return result


# --- extremes -------------------------------------------------------------------------------


def _extreme_rule(g: Any, ans: Any, x: Any, axis: Any, x_shape: Any) -> Any:
    axes = axes_of(axis, len(x_shape))
    weights = shared(plain(x), kept(plain(ans), x_shape, axis), axes, g.dtype)
    return kept(g, x_shape, axis) * weights


_max = primitive(
    "max", lambda x, axis, keepdims: x.max(axis=axis, keepdims=keepdims), x=_extreme_rule
)
_min = primitive(
    "min", lambda x, axis, keepdims: x.min(axis=axis, keepdims=keepdims), x=_extreme_rule
)


def max(
    x: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Largest value over ``axis``; g is shared evenly by all elements that have it.

    Where the largest is NaN, the NaNs share g.

    Args:
        initial: a smallest value of the result; needed for empty slices and with ``where``.
        where: booleans; only these elements count.

    Raises:
        ValueError: for an empty slice without ``initial``.
        The rest: as :func:`sum`.
    """
    refuse_out("max", out)
    return _extreme(_max, maximum, x, axis, keepdims, initial, where)


def min(
    x: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Smallest value over ``axis``; otherwise as :func:`max`."""
    refuse_out("min", out)
    return _extreme(_min, minimum, x, axis, keepdims, initial, where)


def _extreme(
    reduce: Any, pick: Any, x: Any, axis: Any, keepdims: bool, initial: Any, where: Any
) -> Tensor:
    if initial is None:
        if where is not None:
            raise ValueError(
                "a maximum or minimum with where= needs initial=, the result where nothing is "
                "selected; pass for instance initial=-np.inf"
            )
        return reduce(x, axis, keepdims)  # type: ignore[no-any-return]
    if where is not None:
        x = choose(where, x, initial)
    shape = np.shape(plain(x))
    if count_along(shape, axis):
        return pick(reduce(x, axis, keepdims), initial)  # type: ignore[no-any-return]
    empty = np.full(kept_shape(shape, axis), initial, plain(x).dtype)
    if not keepdims:
        empty = np.squeeze(empty, axes_of(axis, len(shape)))
    return add(_sum(x, axis, keepdims), empty)  # type: ignore[no-any-return]


def argmax(x: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """Index of the first largest value, as a plain integer array; it has no gradient."""
    refuse_out("argmax", out)
    return np.argmax(plain(x), axis=axis, keepdims=keepdims)


def argmin(x: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """Index of the first smallest value, as a plain integer array; it has no gradient."""
    refuse_out("argmin", out)
    return np.argmin(plain(x), axis=axis, keepdims=keepdims)


def any(x: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Whether any element is not 0, as a plain array of booleans or a NumPy boolean."""
    refuse_out("any", out)
    return np.any(plain(x), axis=axis, keepdims=keepdims)


def all(x: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Whether no element is 0, as a plain array of booleans or a NumPy boolean."""
    refuse_out("all", out)
    return np.all(plain(x), axis=axis, keepdims=keepdims)


def as_float(x: Any) -> Any:
    """Integers and booleans as float64, as NumPy's functions of real numbers take them."""
    if type(x) is not Tensor:
        x = np.asarray(x)
    return x if x.dtype.kind in "fc" else astype(x, np.float64)


METHODS = {
    "any": any,
    "all": all,
    "sum": sum,
    "mean": mean,
    "var": var,
    "std": std,
    "max": max,
    "min": min,
    "argmax": argmax,
    "argmin": argmin,
}

NUMPY: dict[Any, Any] = {
    np.sum: sum,
    np.mean: mean,
    np.var: var,
    np.std: std,
    np.max: max,
    np.amax: max,
    np.min: min,
    np.amin: min,
    np.argmax: argmax,
    np.argmin: argmin,
}

PUBLIC = {
    "sum": sum,
    "mean": mean,
    "var": var,
    "std": std,
    "max": max,
    "min": min,
    "argmax": argmax,
    "argmin": argmin,
}
