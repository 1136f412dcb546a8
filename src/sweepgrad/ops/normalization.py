"""Normalisations: to mean 0 and variance 1, over layers, batches or groups, or to length 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arithmetic import multiply
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.reductions import as_float
from sweepgrad.ops.rules import axes_of, plain
from sweepgrad.tensor import Tensor

Axes = tuple[int, ...]


def _normalize_forward(
    x: NDArray[Any], axes: Axes, eps: float, kept: list[NDArray[Any]]
) -> NDArray[Any]:
    """(x - mean) / sqrt(var + eps); ``kept`` receives mean, variance and 1 / sqrt(var + eps)."""
    mean = x.mean(axis=axes, keepdims=True)
    centred = x - mean
    variance = np.mean(centred * centred, axis=axes, keepdims=True)
    scale = 1 / np.sqrt(variance + eps)
    kept += (mean, variance, scale)
    return centred * scale  # type: ignore[no-any-return]


def _normalize_rule(
    g: Any, ans: Any, x: Any, axes: Axes, eps: float, kept: list[NDArray[Any]]
) -> Any:
    """(g - mean g - y mean(g y)) / sqrt(var + eps)."""
    if type(g) is Tensor or type(x) is Tensor:
        scale: Any = 1 / np.sqrt(np.var(x, axis=axes, keepdims=True) + eps)
    else:
        scale = kept[2]
    along_y = (g * ans).mean(axis=axes, keepdims=True)
    return (g - g.mean(axis=axes, keepdims=True) - ans * along_y) * scale


_normalize = primitive("normalize", _normalize_forward, x=_normalize_rule)


def _normalized(x: Any, axes: Axes, eps: float) -> Any:
    """Normalised over the axes; nothing stays nothing, without a warning of an empty mean."""
    return _normalize(x, axes, eps, []) if x.size else multiply(x, 1.0)


def _rms_forward(x: NDArray[Any], axes: Axes, eps: float) -> NDArray[Any]:
    return x / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + eps)  # type: ignore[no-any-return]


def _rms_rule(g: Any, ans: Any, x: Any, axes: Axes, eps: float) -> Any:
    """(g - y mean(g y)) / sqrt(mean(x²) + eps)."""
    scale = np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + eps)
    return (g - ans * (g * ans).mean(axis=axes, keepdims=True)) / scale


_rms = primitive("rms_norm", _rms_forward, x=_rms_rule)


def _affine(y: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias


def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, axis: Any = -1, eps: float = 1e-5
) -> Tensor:
    """y = (x - mean) / sqrt(var + eps) over ``axis``, then ``y * weight + bias``.

    dx = (g - mean g - y mean(g y)) / sqrt(var + eps), with g already times ``weight``.

    Args:
        weight, bias: broadcast with x; None for 1 and 0.
        axis: an int or a tuple: the features of one example.
        eps: keeps a constant example finite: its y and dx are 0 to rounding.
    """
    x = as_float(x)
    result: Tensor = _affine(_normalized(x, axes_of(axis, x.ndim), eps), weight, bias)
    return result


def rms_norm(x: Any, weight: Any = None, axis: Any = -1, eps: float = 1e-6) -> Tensor:
    """y = x / sqrt(mean(x²) + eps) over ``axis``, then ``y * weight``.

    dx = (g - y mean(g y)) / sqrt(mean(x²) + eps), with g already times ``weight``.

    Args: as :func:`layer_norm`.
    """
    x = as_float(x)
    y: Any = _rms(x, axes_of(axis, x.ndim), eps) if x.size else multiply(x, 1.0)
    result: Tensor = _affine(y, weight, None)
    return result


def batch_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    mean: Any = None,
    var: Any = None,
    axis: int = 1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel normalised over the batch and all other axes, then ``y * weight + bias``.

    A pure function: it keeps no running statistics, so threads have nothing to
    share.  :func:`batch_statistics` gives what a training loop averages.

    Args:
        weight, bias: one number for each channel; None for 1 and 0.
        mean, var: statistics to use instead of the batch's own, for inference;
            one number for each channel, both or neither.
        axis: the axis of the channels.
        eps: keeps a batch of one finite: y is ``bias``, dx is 0.

    Raises:
        ShapeError: if a per-channel argument has another length than ``axis``.
    """
    x = as_float(x)
    channel = axes_of(axis, x.ndim)[0]
    if (mean is None) != (var is None):
        raise ShapeError("batch_norm takes both mean and var or neither")
    if mean is None:
        others = tuple(place for place in range(x.ndim) if place != channel)
        y: Any = _normalized(x, others, eps)
    else:
        centre, spread = _per_channel(mean, x, channel), _per_channel(var, x, channel)
        y = (x - centre) / np.sqrt(spread + eps)
    result: Tensor = _affine(y, _per_channel(weight, x, channel), _per_channel(bias, x, channel))
    return result


def batch_statistics(x: Any, axis: int = 1) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and variance (divisor n) of each channel, as plain arrays without gradient."""
    values = plain(as_float(x))
    channel = axes_of(axis, values.ndim)[0]
    others = tuple(place for place in range(values.ndim) if place != channel)
    return values.mean(axis=others), values.var(axis=others)


def _per_channel(value: Any, x: Any, channel: int) -> Any:
    """A number for each channel, with axes of 1 for the others."""
    if value is None:
        return None
    value = value if type(value) is Tensor else np.asarray(value, x.dtype)
    if value.shape != (x.shape[channel],):
        raise ShapeError(
            f"a value for each of {x.shape[channel]} channels (axis {channel} of shape {x.shape}) "
            f"has shape ({x.shape[channel]},), got {value.shape}"
        )
    return value.reshape([-1 if place == channel else 1 for place in range(x.ndim)])


def group_norm(
    x: Any,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    axis: int = 1,
    eps: float = 1e-5,
) -> Tensor:
    """The channels of each example normalised in groups, then ``y * weight + bias`` by channel.

    Args:
        x: with the examples along axis 0.
        groups: divides the number of channels.
        weight, bias: one number for each channel; None for 1 and 0.
        axis: the axis of the channels.
        eps: keeps a constant group finite.

    Raises:
        ShapeError: if the groups do not divide the channels.
    """
    x = as_float(x)
    channel = axes_of(axis, x.ndim)[0]
    channels = x.shape[channel]
    if channel == 0 or groups < 1 or channels % groups:
        raise ShapeError(
            f"group_norm got {groups} groups for {channels} channels on axis {channel} of shape "
            f"{x.shape}; groups divide the channels, and axis 0 holds the examples"
        )
    shape = (*x.shape[:channel], groups, channels // groups, *x.shape[channel + 1 :])
    axes = tuple(place for place in range(1, len(shape)) if place != channel)
    y = _normalized(x.reshape(shape), axes, eps).reshape(x.shape)
    result: Tensor = _affine(y, _per_channel(weight, x, channel), _per_channel(bias, x, channel))
    return result


METHODS: dict[str, Any] = {}
NUMPY: dict[Any, Any] = {}
PUBLIC = {
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "batch_norm": batch_norm,
    "batch_statistics": batch_statistics,
    "group_norm": group_norm,
}
