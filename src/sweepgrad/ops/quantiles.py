"""Order statistics: median, quantiles and range; and weighted averages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import constant, refuse, refuse_out
from sweepgrad.ops.arithmetic import divide, multiply, subtract
from sweepgrad.ops.elementwise import astype
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.reductions import as_float, max, mean, min, sum
from sweepgrad.ops.rules import axes_of, count_along, kept, plain, shared, weak
from sweepgrad.tensor import Tensor, untracked

Axes = tuple[int, ...]


def _quantile_forward(
    x: NDArray[Any], q: NDArray[Any], axes: Axes, keepdims: bool, method: Any, skip: bool
) -> NDArray[Any]:
    quantile = np.nanquantile if skip else np.quantile
    return np.asarray(quantile(x, q, axis=axes, keepdims=keepdims, method=method))


def _ranks(q: Any, count: int, method: Any) -> tuple[int, int, float]:
    """The two ranks a quantile lies between and how far it is from the lower to the upper one.

    Every method of NumPy interpolates between two neighbours, so the quantile of
    the ranks themselves tells which and how.
    """
    if not count:
        return 0, 0, 0.0
    place = float(np.quantile(np.arange(float(count)), q, method=method))
    lower = int(place)
    return lower, lower + 1 if lower + 1 < count else lower, place - lower


def _quantile_rule(
    g: Any,
    ans: Any,
    x: Any,
    q: NDArray[Any],
    axes: Axes,
    method: Any,
    skip: bool,
    x_shape: tuple[int, ...],
) -> Any:
    """g to the two neighbours of the quantile, each shared evenly by the elements that equal it."""
    values, answers = plain(x), plain(ans)
    ordered = _ordered(values, axes)
    counts = np.count_nonzero(~np.isnan(ordered), axis=-1, keepdims=True)
    result: Any = np.zeros(x_shape, values.dtype)
    for position in np.ndindex(q.shape):
        low, high, way = _neighbours(ordered, q[position], counts, method)
        nothing = np.isnan(kept(answers[position], x_shape, axes))
        shape = nothing.shape
        # A NaN result leans on the NaNs, or where these are skipped on nothing at all.
        instead = np.inf if skip else np.nan
        ones = [np.where(nothing, instead, place.reshape(shape)) for place in (low, high)]
        below, above = (shared(values, one, axes, values.dtype) for one in ones)
        way = way.reshape(shape)
        weights = (below * (1 - way) + above * way).astype(values.dtype)
        result = result + kept(g[position], x_shape, axes) * weights
    return result.astype(values.dtype)


def _ordered(x: NDArray[Any], axes: Axes) -> NDArray[Any]:
    """Each slice along the last axis, sorted, NaN last."""
    rest = tuple(axis for axis in range(x.ndim) if axis not in axes)
    lengths = [x.shape[axis] for axis in rest]
    flat = x.transpose(rest + axes).reshape((*lengths, count_along(x.shape, axes)))
    return np.sort(flat, axis=-1)


def _neighbours(
    ordered: NDArray[Any], q: Any, counts: NDArray[Any], method: Any
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The two elements of each slice that its quantile lies between, and how far from the lower."""
    lower, upper = np.zeros_like(counts), np.zeros_like(counts)
    way = np.zeros(counts.shape)
    for count in np.unique(counts):
        here = counts == count
        lower[here], upper[here], way[here] = _ranks(q, int(count), method)
    pick = np.take_along_axis
    return pick(ordered, lower, -1), pick(ordered, upper, -1), way


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

    Elements that equal a neighbour share its part evenly.  There is no gradient of q.

    Args:
        q: numbers in [0, 1]; its shape comes first in the result's.
        axis: None for all axes, an int, or a tuple of ints.
        method: any of NumPy's.
        overwrite_input: accepted for NumPy's sake and without effect.

    Raises:
        NoGradientRuleError: for ``out=`` and ``weights=``.
        ValueError: for q outside [0, 1], as NumPy.
    """
    return _of("quantile", a, q, 1, (axis, keepdims, method), (out, weights))


def _of(
    name: str,
    a: Any,
    q: Any,
    whole: int,
    how: tuple[Any, bool, str],
    refused: tuple[Any, Any],
) -> Tensor:
    """All four functions of quantiles: q in parts of ``whole``, over NaN if the name says so.

    Args:
        how: axis, keepdims and method.
        refused: out and weights.
    """
    out, weights = refused
    refuse_out(name, out)
    refuse(name, "weights", weights, "sort, and interpolate in the cumulated weights")
    axis, keepdims, method = how
    x = as_float(a)
    q = constant(name, "q", q)
    if whole != 1:
        q = q / whole if type(q) in (int, float) else np.asarray(q) / whole
    q = weak(q, x)  # a Python number does not promote, an array does: NumPy's rule
    skip = name.startswith("nan")
    return _quantile(x, np.asarray(q), axes_of(axis, x.ndim), keepdims, method, skip)


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
    return _of("percentile", a, q, 100, (axis, keepdims, method), (out, weights))


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
    return _median(x, axes, keepdims, False)


def _median_forward(x: NDArray[Any], axes: Axes, keepdims: bool, skip: bool) -> NDArray[Any]:
    return np.asarray((np.nanmedian if skip else np.median)(x, axis=axes, keepdims=keepdims))


def _median_rule(g: Any, ans: Any, x: Any, axes: Axes, skip: bool, x_shape: Any) -> Any:
    if not count_along(x_shape, axes):
        return np.zeros(x_shape, plain(x).dtype)
    return _quantile_rule(g, ans, x, np.asarray(0.5), axes, "linear", skip, x_shape)


_median = primitive("median", _median_forward, x=_median_rule)


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


# --- passing over NaN -----------------------------------------------------------------------


def nanquantile(
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
    """Quantiles of what is not NaN; the gradient at a NaN is 0.  Otherwise as :func:`quantile`."""
    return _of("nanquantile", a, q, 1, (axis, keepdims, method), (out, weights))


def nanpercentile(
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
    """Quantiles of what is not NaN, with q in [0, 100]; otherwise as :func:`nanquantile`."""
    return _of("nanpercentile", a, q, 100, (axis, keepdims, method), (out, weights))


def nanmedian(
    a: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Tensor:
    """The median of what is not NaN; the gradient at a NaN is 0.  Otherwise as :func:`median`."""
    refuse_out("nanmedian", out)
    x = as_float(a)
    return _median(x, axes_of(axis, x.ndim), keepdims, True)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.quantile: quantile,
    np.percentile: percentile,
    np.median: median,
    np.ptp: ptp,
    np.average: average,
    np.nanquantile: nanquantile,
    np.nanpercentile: nanpercentile,
    np.nanmedian: nanmedian,
}

PUBLIC = {
    "quantile": quantile,
    "percentile": percentile,
    "median": median,
    "ptp": ptp,
    "average": average,
    "nanquantile": nanquantile,
    "nanpercentile": nanpercentile,
    "nanmedian": nanmedian,
}
