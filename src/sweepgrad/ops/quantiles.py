"""Order statistics: median, quantiles and range; and weighted averages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import refuse, refuse_out
from sweepgrad.ops.arithmetic import divide, multiply, subtract
from sweepgrad.ops.elementwise import astype
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.reductions import as_float, max, mean, min, sum
from sweepgrad.ops.rules import axes_of, count_along, kept, kept_shape, plain, shared, weak
from sweepgrad.tensor import Tensor, untracked

ndarray = np.ndarray


def _quantile_forward(
    x: NDArray[Any], q: NDArray[Any], axes: tuple[int, ...], keepdims: bool, method: str
) -> NDArray[Any]:
    return np.asarray(np.quantile(x, q, axis=axes, keepdims=keepdims, method=method))  # type: ignore[call-overload]


def _ranks(q: Any, count: int, method: str) -> tuple[int, int, float]:
    """The two ranks a quantile lies between and how far it is from the lower to the upper one.

    Every method of NumPy interpolates between two neighbours, so the quantile of
    the ranks themselves tells which and how.
    """
    place = float(np.quantile(np.arange(float(count)), q, method=method))  # type: ignore[call-overload]
    lower = int(place)
    return lower, lower + 1 if lower + 1 < count else lower, place - lower


def _quantile_rule(
    g: Any,
    ans: Any,
    x: Any,
    q: NDArray[Any],
    axes: tuple[int, ...],
    method: str,
    x_shape: tuple[int, ...],
) -> Any:
    """g to the two neighbours of the quantile, each shared evenly by the elements that equal it."""
    values, result = plain(x), None
    count = count_along(x_shape, axes)
    for position in np.ndindex(q.shape):
        lower, upper, way = _ranks(q[position], count, method)
        low, high = _at_ranks(values, axes, lower, upper)
        missing = kept(np.isnan(plain(ans)[position]), x_shape, axes)
        weights = shared(values, np.where(missing, np.nan, low), axes, values.dtype)
        if way:
            above = shared(values, np.where(missing, np.nan, high), axes, values.dtype)
            weights = weights * (1 - way) + above * way
        part = kept(g[position], x_shape, axes) * weights
        result = part if result is None else result + part
    return np.zeros(x_shape, values.dtype) if result is None else result.astype(values.dtype)


def _at_ranks(
    x: NDArray[Any], axes: tuple[int, ...], lower: int, upper: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The elements of two ranks in each slice, with the reduced axes kept as 1."""
    rest = tuple(axis for axis in range(x.ndim) if axis not in axes)
    count = count_along(x.shape, axes)
    flat = x.transpose(rest + axes).reshape((*[x.shape[axis] for axis in rest], count))
    ordered = np.partition(flat, (lower, upper), axis=-1)
    shape = kept_shape(x.shape, axes)
    return ordered[..., lower].reshape(shape), ordered[..., upper].reshape(shape)


_quantile = primitive("quantile", _quantile_forward, x=_quantile_rule)


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Tensor:
    """Quantiles over ``axis``; g goes to the two neighbours as far as the result leans on each.

    Elements that equal a neighbour share its part evenly.  The gradient of q is
    not offered: the result is a step function of the rank.

    Args:
        q: numbers in [0, 1]; its shape comes first in the result's.
        axis: None for all axes, an int, or a tuple of ints.
        method: any of NumPy's.
        overwrite_input: accepted for NumPy's sake and without effect.

    Raises:
        NoGradientRuleError: for ``out=`` and ``weights=``.
        ValueError: for q outside [0, 1], as NumPy.
    """
    refuse_out("quantile", out)
    refuse("quantile", "weights", weights, "sort, and interpolate in the cumulated weights")
    x = as_float(a)
    axes = axes_of(axis, x.ndim)
    q = weak(plain(q), x)  # a Python number does not promote, an array does: NumPy's rule
    return _quantile(x, np.asarray(q), axes, keepdims, method)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Tensor:
    """Quantiles with q in [0, 100]; otherwise as :func:`quantile`."""
    refuse("percentile", "weights", weights, "sort, and interpolate in the cumulated weights")
    share = q / 100 if type(q) in (int, float) else np.asarray(plain(q)) / 100
    return quantile(a, share, axis, out, overwrite_input, method, keepdims)


def median(
    a: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Tensor:
    """The middle value, or the mean of the two in the middle, which then get g / 2 each.

    Elements that equal a middle value share its part evenly.

    Args and Raises: as :func:`quantile`; the median of nothing is NaN, as in NumPy.
    """
    refuse_out("median", out)
    x = as_float(a)
    axes = axes_of(axis, x.ndim)
    return _median(x, axes, keepdims)


def _median_rule(g: Any, ans: Any, x: Any, axes: tuple[int, ...], x_shape: Any) -> Any:
    if not count_along(x_shape, axes):
        return np.zeros(x_shape, plain(g).dtype)
    return _quantile_rule(g, ans, x, np.asarray(0.5), axes, "linear", x_shape)


_median = primitive(
    "median",
    lambda x, axes, keepdims: np.median(x, axis=axes, keepdims=keepdims),
    x=_median_rule,
)


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """Largest less smallest value over ``axis``; gradients as ``max`` and ``min``."""
    refuse_out("ptp", out)
    result: Tensor = subtract(max(a, axis, None, keepdims), min(a, axis, None, keepdims))
    return result


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """Weighted mean sum(w a) / sum(w) over ``axis``; differentiable in a and in the weights.

    Args:
        weights: of a's shape, or of the lengths of the reduced axes; by default equal.
        returned: give ``(average, sum of weights)``.

    Raises:
        ShapeError: if the weights fit neither.
    """
    x = as_float(a)
    if weights is None:
        result: Any = mean(x, axis, None, None, keepdims)
        total: Any = untracked(np.full(result.shape, count_along(x.shape, axis), result.dtype))
    else:
        w = _aligned(weights if type(weights) is Tensor else np.asarray(weights), x.shape, axis)
        w = astype(w, np.result_type(x.dtype, w.dtype))
        total = sum(w, axis, None, None, keepdims)
        result = divide(sum(multiply(x, w), axis, None, None, keepdims), total)
    if not returned:
        return result
    return result, total


def _aligned(weights: Any, shape: tuple[int, ...], axis: Any) -> Any:
    """The weights stretched to the operand's shape, so that both sums run over the same slices."""
    if weights.shape == shape:
        return weights
    axes = axes_of(axis, len(shape))
    if axis is None or weights.shape != tuple(shape[place] for place in axes):
        raise ShapeError(
            f"average: weights have shape {weights.shape}; they need the operand's {shape}, or "
            "the lengths of the axes named by axis="
        )
    order = np.argsort(axes).tolist()
    lengths = tuple(length if place in axes else 1 for place, length in enumerate(shape))
    return np.broadcast_to(weights.transpose(order).reshape(lengths), shape)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.quantile: quantile,
    np.percentile: percentile,
    np.median: median,
    np.ptp: ptp,
    np.average: average,
}

PUBLIC = {
    "quantile": quantile,
    "percentile": percentile,
    "median": median,
    "ptp": ptp,
    "average": average,
}
