"""Sums of exponentials: logaddexp, logsumexp, softmax; free of overflow, and exact when large.

The rules never take exp(x - y) of a result y: y has lost the digits that count
where it is large (at 1000, float32 knows it to 3e-5).  They divide by the sum of
exponentials instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.ops.activations import sigmoid_of
from sweepgrad.ops.declare import binary
from sweepgrad.ops.primitive import primitive, rule_operation
from sweepgrad.ops.reductions import as_float
from sweepgrad.ops.rules import axes_of, kept, plain
from sweepgrad.tensor import Tensor

# --- two operands -------------------------------------------------------------------------


def _share(g: Any, one: Any, other: Any, scale: float) -> Any:
    """g sigmoid(scale (one - other)); 0 where ``one`` is -inf and so contributes nothing."""
    nothing = np.isneginf(plain(one))
    ahead = np.where(nothing, 0.0, one) - np.where(nothing, 0.0, other)
    return np.where(nothing, 0.0, g * sigmoid_of(scale * ahead))


logaddexp = binary(
    "logaddexp",
    np.logaddexp,
    x=lambda g, x, y: _share(g, x, y, 1.0),
    y=lambda g, x, y: _share(g, y, x, 1.0),
    doc="``log(exp x + exp y)``; dx = g sigmoid(x - y), 0 where x is -inf; dy likewise.",
)
logaddexp2 = binary(
    "logaddexp2",
    np.logaddexp2,
    x=lambda g, x, y: _share(g, x, y, math.log(2.0)),
    y=lambda g, x, y: _share(g, y, x, math.log(2.0)),
    doc="``log2(2^x + 2^y)``; dx = g 2^x / (2^x + 2^y), 0 where x is -inf; dy likewise.",
)

# --- along axes ---------------------------------------------------------------------------


def finite_peak(x: NDArray[Any], axis: Any) -> NDArray[Any]:
    """The largest value of each slice, kept as 1; 0 where that is not finite.

    Of complex numbers the largest real part: taking off a real number keeps the logarithm
    of the sum on its principal branch.
    """
    if x.dtype.kind == "c":
        x = x.real
    peak = x.max(axis=axis, keepdims=True, initial=-np.inf)
    result: NDArray[Any] = np.where(np.isfinite(peak), peak, x.dtype.type(0))
    return result


def _softmax_forward(x: NDArray[Any], axis: Any) -> NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(x - finite_peak(x, axis))
        result: NDArray[Any] = powers / np.sum(powers, axis=axis, keepdims=True)
    return result


def _softmax_rule(g: Any, ans: Any, axis: Any) -> Any:
    return ans * (g - (g * ans).sum(axis=axis, keepdims=True))


#: ``softmax`` for rules: an array of an array, a tensor of a tensor.
softmax_of: Callable[..., Any] = rule_operation("softmax", _softmax_forward, x=_softmax_rule)
_softmax = primitive("softmax", _softmax_forward, x=_softmax_rule)


def softmax(x: Any, axis: Any = -1) -> Tensor:
    """exp(x) / sum(exp(x)) over ``axis``, without overflow; dx = y (g - sum(g y)).

    Of nothing but -inf it is NaN, as 0 / 0.

    Args:
        axis: the axis, or tuple of axes, of the classes.
    """
    return _softmax(as_float(x), axis)


def _log_softmax_forward(x: NDArray[Any], axis: Any) -> NDArray[Any]:
    shifted: NDArray[Any] = x - finite_peak(x, axis)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        result: NDArray[Any] = shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    return result


_log_softmax = primitive(
    "log_softmax",
    _log_softmax_forward,
    x=lambda g, ans, axis: g - np.exp(ans) * g.sum(axis=axis, keepdims=True),
)


def log_softmax(x: Any, axis: Any = -1) -> Tensor:
    """log(softmax(x)), accurate where softmax is tiny; dx = g - softmax(x) sum(g).

    An entry of -inf gives -inf, and every gradient stays finite.

    Args:
        axis: the axis, or tuple of axes, of the classes.
    """
    return _log_softmax(as_float(x), axis)


def _logsumexp_forward(x: NDArray[Any], axis: Any, keepdims: bool) -> NDArray[Any]:
    peak = finite_peak(x, axis)
    with np.errstate(divide="ignore", over="ignore"):
        result: NDArray[Any] = np.log(np.sum(np.exp(x - peak), axis=axis, keepdims=True)) + peak
    return result if keepdims else np.squeeze(result, axes_of(axis, x.ndim))


def _logsumexp_rule(g: Any, ans: Any, x: Any, x_shape: Any, axis: Any) -> Any:
    nothing = np.isneginf(kept(plain(ans).real, x_shape, axis))
    if nothing.any():
        x = np.where(nothing, 0.0, x)
        g = kept(g, x_shape, axis)
        return np.where(nothing, 0.0, g * softmax_of(x, axis))
    return kept(g, x_shape, axis) * softmax_of(x, axis)


_logsumexp = primitive("logsumexp", _logsumexp_forward, x=_logsumexp_rule)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over ``axis``, without overflow; dx = g softmax(x), 0 where y is -inf.

    Args and Raises: ``axis`` and ``keepdims`` as for :func:`sweepgrad.sum`.
    """
    return _logsumexp(as_float(x), axis, keepdims)


METHODS = {"softmax": softmax, "log_softmax": log_softmax, "logsumexp": logsumexp}

NUMPY = {np.logaddexp: logaddexp, np.logaddexp2: logaddexp2}

PUBLIC = {
    "logaddexp": logaddexp,
    "logaddexp2": logaddexp2,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
}
