"""Cumulative operations along an axis, and products.

Note [Products].  The gradient of a product is the product of the other factors.
Dividing the whole product by a factor gives that only where the factor is not 0
and nothing has over- or underflowed.  So the rules divide where that is safe, and
otherwise sum up products that leave the factor out, by a linear recurrence along
the axis, which is exact for any zeros and differentiable to every order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import refuse_out
from sweepgrad.ops.elementwise import astype
from sweepgrad.ops.elementwise import where as choose
from sweepgrad.ops.joining import concatenate
from sweepgrad.ops.primitive import primitive, rule_operation
from sweepgrad.ops.reductions import as_float, in_dtype
from sweepgrad.ops.rules import axes_of, kept, plain
from sweepgrad.ops.shape import ravel
from sweepgrad.tensor import Tensor

# --- what the rules are made of -----------------------------------------------------------


def part(ndim: int, axis: int, start: int | None, stop: int | None) -> tuple[slice, ...]:
    """The index of a part along one axis."""
    everything: tuple[slice, ...] = (slice(None),) * ndim
    return (*everything[:axis], slice(start, stop), *everything[axis + 1 :])


def _shift_forward(x: NDArray[Any], axis: int, by: int, fill: float) -> NDArray[Any]:
    result = np.full_like(x, fill)
    if by > 0:
        result[part(x.ndim, axis, by, None)] = x[part(x.ndim, axis, None, -by)]
    else:
        result[part(x.ndim, axis, None, by)] = x[part(x.ndim, axis, -by, None)]
    return result


#: x moved by one place along an axis (1 or -1); the place that becomes free is filled.
_shift: Callable[..., Any] = rule_operation(
    "shift", _shift_forward, x=lambda g, axis, by: _shift(g, axis, -by, 0.0)
)


def _recur_forward(b: NDArray[Any], a: NDArray[Any], axis: int, step: int) -> NDArray[Any]:
    """r with r_k = b_k + a_k r_(k - step): a linear recurrence, backwards if step is -1."""
    b, a = np.moveaxis(b, axis, 0), np.moveaxis(a, axis, 0)
    length = len(b)
    order = range(length) if step > 0 else range(length - 1, -1, -1)
    result = np.empty(b.shape, np.result_type(b, a))
    # The first place has nothing before it, so its coefficient does not count.
    previous: Any = None
    for place in order:
        previous = b[place] if previous is None else b[place] + a[place] * previous
        result[place] = previous
    return np.moveaxis(result, 0, axis)


def _recur_rule(g: Any, a: Any, axis: int, step: int) -> Any:
    """The adjoint of a linear recurrence is the same one the other way round."""
    return _recur(g, _shift(a, axis, -step, 0.0), axis, -step)


#: See note [Products]; takes (b, a, axis, step).
_recur: Callable[..., Any] = rule_operation(
    "linear_recurrence",
    _recur_forward,
    b=_recur_rule,
    a=lambda g, ans, a, axis, step: _recur_rule(g, a, axis, step) * _shift(ans, axis, step, 0.0),
)


def _total_from_end(g: NDArray[Any], axis: int) -> NDArray[Any]:
    return np.flip(np.cumsum(np.flip(g, axis), axis), axis)


_cumsum_from_end = rule_operation(
    "cumsum_from_end", _total_from_end, g=lambda g, axis: np.cumsum(g, axis)
)

# --- sums ---------------------------------------------------------------------------------

_cumsum = primitive(
    "cumsum", lambda x, axis: np.cumsum(x, axis), x=lambda g, axis: _cumsum_from_end(g, axis)
)


def _along(x: Any, axis: int | None, dtype: Any) -> tuple[Any, int]:
    """The operand, flattened for axis None, with its axis counted from the front."""
    if dtype is not None:
        x = astype(x, dtype)
    if type(x) is not Tensor:
        x = np.asarray(x)
    if axis is None or x.ndim == 0:
        return ravel(x), normalize_axis_index(0 if axis is None else axis, 1)
    return x, normalize_axis_index(axis, x.ndim)


def cumsum(x: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Sums of the elements so far; dx = g summed from the end.

    Args:
        axis: None runs over the flattened operand.
        dtype: convert to it first.

    Raises:
        AxisError: if the axis is out of range.
        NoGradientRuleError: for ``out=``.
    """
    refuse_out("cumsum", out)
    return in_dtype(_cumsum(*_along(x, axis, dtype)), dtype)


# --- products -----------------------------------------------------------------------------


def _cumprod_rule(g: Any, ans: Any, x: Any, axis: int) -> Any:
    """sum over k >= i of g_k y_k / x_i; by recurrence where x_i is 0 (note [Products])."""
    if type(g) is not Tensor and type(x) is not Tensor and _divides(x, ans):
        return _total_from_end(g * ans, axis) / x
    later = _recur(g, _shift(x, axis, -1, 0.0), axis, -1)
    return later * _shift(ans, axis, 1, 1.0)


def _divides(x: NDArray[Any], product: NDArray[Any]) -> bool:
    """Whether every partial product can be divided by a factor without loss."""
    return bool(x.all() and product.all() and np.isfinite(product).all())


_cumprod = primitive("cumprod", lambda x, axis: np.cumprod(x, axis), x=_cumprod_rule)


def cumprod(x: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Products of the elements so far; dx_i = sum of g_k y_k / x_i over k >= i, exact at zeros.

    Args and Raises: as :func:`cumsum`.
    """
    refuse_out("cumprod", out)
    return in_dtype(_cumprod(*_along(x, axis, dtype)), dtype)


def _others(x: Any, axes: tuple[int, ...]) -> Any:
    """For each element the product of the other ones of its slice (note [Products])."""
    rest = tuple(axis for axis in range(x.ndim) if axis not in axes)
    order = rest + axes
    moved = np.transpose(x, order)
    flat = moved.reshape((*moved.shape[: len(rest)], -1)) if x.size else moved
    last = flat.ndim - 1
    before = _shift(np.cumprod(flat, last), last, 1, 1.0)
    backwards = (..., slice(None, None, -1))
    after = _shift(np.cumprod(flat[backwards], last)[backwards], last, -1, 1.0)
    others = (before * after).reshape(moved.shape)
    return np.transpose(others, tuple(np.argsort(order).tolist()))


def _prod_rule(g: Any, ans: Any, x: Any, x_shape: Any, axis: Any) -> Any:
    g = kept(g, x_shape, axis)
    if type(g) is not Tensor and type(x) is not Tensor and _divides(x, ans):
        return g * kept(ans, x_shape, axis) / x
    return g * _others(x, axes_of(axis, len(x_shape)))


_prod = primitive(
    "prod",
    lambda x, axis, keepdims: np.multiply.reduce(x, axis=axis, keepdims=keepdims),
    x=_prod_rule,
)


def prod(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Product over ``axis``; dx = g times the product of the other elements, exact at zeros.

    Args:
        initial: a factor of the product.
        where: booleans; only these elements are multiplied, the others get gradient 0.
        The rest: as :func:`sweepgrad.sum`.
    """
    refuse_out("prod", out)
    if dtype is not None:
        x = astype(x, dtype)
    if where is not None:
        x = choose(where, x, 1)
    result = in_dtype(_prod(x, axis, keepdims), dtype)
    return result if initial is None else result * initial


# --- the Array API's names ----------------------------------------------------------------


def cumulative_sum(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> Tensor:
    """:func:`cumsum` under its Array API name.

    Args:
        axis: may be left out for an operand with one axis only.
        include_initial: start with 0, the sum of nothing.

    Raises:
        ShapeError: if the axis is left out and there are several.
    """
    axis = _only_axis("cumulative_sum", x, axis)
    result = cumsum(x, axis, dtype, out)
    return _started(result, axis, 0) if include_initial else result


def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> Tensor:
    """:func:`cumprod` under its Array API name; otherwise as :func:`cumulative_sum`."""
    axis = _only_axis("cumulative_prod", x, axis)
    result = cumprod(x, axis, dtype, out)
    return _started(result, axis, 1) if include_initial else result


def _only_axis(function: str, x: Any, axis: int | None) -> int:
    ndim = np.ndim(plain(x))
    if axis is None and ndim != 1:
        raise ShapeError(
            f"{function} of an operand with {ndim} axes needs to be told which: pass axis="
        )
    return normalize_axis_index(0 if axis is None else axis, ndim)


def _started(x: Tensor, axis: int, first: int) -> Tensor:
    shape = tuple(1 if place == axis else length for place, length in enumerate(x.shape))
    return concatenate([np.full(shape, first, x.dtype), x], axis)


# --- extremes and logarithms of sums ------------------------------------------------------


def _running_rule(g: Any, ans: Any, x: Any, axis: int) -> Any:
    """g_k, shared evenly by the elements so far that equal y_k, summed over k."""
    x, ans = plain(x), plain(ans)
    ties = np.equal(x, ans) | (np.isnan(x) & np.isnan(ans))
    previous = _shift_forward(ans, axis, 1, np.nan)
    same = np.equal(ans, previous) | (np.isnan(ans) & np.isnan(previous))
    same[part(x.ndim, axis, None, 1)] = False
    run = same.astype(ans.dtype)
    counts = _recur_forward(ties.astype(ans.dtype), run, axis, 1)
    shared = _recur(g / counts, _shift_forward(run, axis, -1, 0.0), axis, -1)
    return np.where(ties, shared, 0.0)


_cummax = primitive("cummax", lambda x, axis: np.maximum.accumulate(x, axis=axis), x=_running_rule)
_cummin = primitive("cummin", lambda x, axis: np.minimum.accumulate(x, axis=axis), x=_running_rule)


def cummax(x: Any, axis: int | None = None) -> Tensor:
    """Largest element so far; each g_k is shared evenly by the elements so far that have it.

    Args:
        axis: None runs over the flattened operand.
    """
    return _cummax(*_along(x, axis, None))


def cummin(x: Any, axis: int | None = None) -> Tensor:
    """Smallest element so far; otherwise as :func:`cummax`."""
    return _cummin(*_along(x, axis, None))


def _logcumsumexp_rule(g: Any, x: Any, axis: int) -> Any:
    """exp(x_i) sum over k >= i of g_k exp(-y_k), with every exponential taken beside its peak.

    With the largest value so far M, e = exp(x - M) and S_k = sum of exp(x - M_k) up
    to k, both are recurrences: S_k = e_k + d_k S_(k-1) and t_k = g_k / S_k +
    d_(k+1) t_(k+1), where d_k = exp(M_(k-1) - M_k) <= 1; and dx = e t.  The
    differences x - y would be as inexact as y is large.
    """
    values = plain(x)
    nothing = np.isneginf(values)
    peak = np.maximum.accumulate(values, axis=axis)
    before = _shift_forward(peak, axis, 1, -np.inf)
    empty = np.isneginf(before)
    decay = np.exp(np.where(empty, -np.inf, np.where(empty, 0.0, before) - peak))
    share = np.exp(np.where(nothing, -np.inf, x - np.where(np.isneginf(peak), 0.0, peak)))
    total = _recur(share, decay, axis, 1)
    total = np.where(np.equal(plain(total), 0), 1.0, total)
    return share * _recur(g / total, _shift_forward(decay, axis, -1, 0.0), axis, -1)


_logcumsumexp = primitive(
    "logcumsumexp",
    lambda x, axis: np.logaddexp.accumulate(x, axis=axis),
    x=_logcumsumexp_rule,
)


def logcumsumexp(x: Any, axis: int | None = None) -> Tensor:
    """log(cumsum(exp(x))) without overflow; dx_i = sum of g_k exp(x_i - y_k) over k >= i.

    Where y is -inf, so far nothing but -inf, the gradient is 0.

    Args:
        axis: None runs over the flattened operand.
    """
    return _logcumsumexp(*_along(as_float(x), axis, None))


METHODS = {"cumsum": cumsum, "cumprod": cumprod, "prod": prod}

NUMPY: dict[Any, Any] = {
    np.cumsum: cumsum,
    np.cumprod: cumprod,
    np.prod: prod,
}
for _function in (cumulative_sum, cumulative_prod):  # NumPy 2.1
    if hasattr(np, _function.__name__):
        NUMPY[getattr(np, _function.__name__)] = _function

PUBLIC = {
    "cumsum": cumsum,
    "cumprod": cumprod,
    "prod": prod,
    "cummax": cummax,
    "cummin": cummin,
    "logcumsumexp": logcumsumexp,
    "cumulative_sum": cumulative_sum,
    "cumulative_prod": cumulative_prod,
}
