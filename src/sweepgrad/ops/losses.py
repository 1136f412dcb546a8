"""Losses other than cross-entropy: squares, Huber, likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import SettingError, ShapeError
from sweepgrad.ops.activations import real_only, sigmoid_of, softplus_array
from sweepgrad.ops.arguments import constant
from sweepgrad.ops.declare import binary
from sweepgrad.ops.neural import Labels, check_reduction, class_weights
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.reductions import as_float, mean, sum
from sweepgrad.ops.rules import plain
from sweepgrad.tensor import Tensor


def _reduced(loss: Any, reduction: str) -> Tensor:
    """The loss as asked for; the mean of no losses is 0."""
    if reduction == "sum" or (reduction == "mean" and not loss.size):
        return sum(loss)
    return mean(loss) if reduction == "mean" else loss


def _pair(name: str, x: Any, target: Any, reduction: str) -> tuple[Any, Any]:
    """Two operands of one shape: broadcasting (n, 1) with (n,) is a classic silent fault here."""
    check_reduction(name, reduction)
    x, target = as_float(x), as_float(target)
    if x.shape != target.shape:
        raise ShapeError(
            f"{name} got shape {x.shape} and a target of shape {target.shape}; they must be the "
            "same: reshape or broadcast one of them on purpose"
        )
    return x, target


# --- distances ----------------------------------------------------------------------------


def _squared(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    difference: NDArray[Any] = x - y
    squared: NDArray[Any] = difference * difference
    return squared


_squared_error = binary(
    "squared_error",
    _squared,
    x=lambda g, x, y: g * (2 * (x - y)),
    y=lambda g, x, y: g * (2 * (y - x)),
    doc="``(x - y)²``; dx = 2 g (x - y), dy = -dx.",
)


def mse_loss(x: Any, target: Any, reduction: str = "mean") -> Tensor:
    """(x - target)²; dx = 2 g (x - target), dtarget = -dx.

    Args:
        target: of x's shape; may be tracked.
        reduction: "mean", "sum" or "none".

    Raises:
        ShapeError: if the shapes differ.
        SettingError: for an unknown reduction.
    """
    return _reduced(_squared_error(*_pair("mse_loss", x, target, reduction)), reduction)


def _huber_forward(x: NDArray[Any], y: NDArray[Any], delta: float) -> NDArray[Any]:
    distance = np.abs(x - y)
    real_only("huber_loss", x)
    result: NDArray[Any] = np.where(
        distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta)
    )
    return result


def _huber_rule(g: Any, x: Any, y: Any, delta: float, x_dtype: np.dtype[Any]) -> Any:
    return (g * np.clip(x - y, -delta, delta)).astype(x_dtype)


_huber = primitive(
    "huber_loss",
    _huber_forward,
    x=_huber_rule,
    y=lambda g, x, y, delta, y_dtype: _huber_rule(g, y, x, delta, y_dtype),
)


def huber_loss(x: Any, target: Any, delta: float = 1.0, reduction: str = "mean") -> Tensor:
    """d²/2 for |d| <= delta, else delta (|d| - delta/2), with d = x - target; dx = g clip(d).

    Args and Raises: as :func:`mse_loss`; ``delta`` is positive.
    """
    delta = float(constant("huber_loss", "delta", delta))
    if delta <= 0:
        raise SettingError(f"huber_loss needs a positive delta, got {delta!r}")
    x, target = _pair("huber_loss", x, target, reduction)
    return _reduced(_huber(x, target, delta), reduction)


# --- likelihoods --------------------------------------------------------------------------


def _picked_forward(
    x: NDArray[Any], places: NDArray[Any], hard: NDArray[Any], reduced: bool
) -> NDArray[Any]:
    losses: NDArray[Any] = -hard * np.where(hard == 0, 0.0, x.take(places))
    return np.add.reduce(losses) if reduced else losses


def _picked_rule(
    g: Any, places: NDArray[Any], hard: NDArray[Any], reduced: bool, x_shape: Any, x_dtype: Any
) -> Any:
    chosen = np.zeros(x_shape, x_dtype)
    chosen.reshape(-1)[places] = -hard
    return chosen * (g if reduced else g.reshape((-1, 1)))


_picked = primitive("nll_loss", _picked_forward, x=_picked_rule)


def nll_loss(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-x at the label, for log-probabilities x with the classes last; dx = -g there, else 0.

    Args and Raises: as :func:`sweepgrad.cross_entropy`, for integer labels.
    """
    check_reduction("nll_loss", reduction)
    x = as_float(x)
    if x.ndim == 0:
        raise ShapeError("nll_loss needs log-probabilities with an axis of classes")
    weights = None if weight is None else class_weights(weight, x.shape[-1], x.dtype)
    labels = Labels(np.asarray(plain(target)), x.shape, x.dtype, weights, ignore_index, reduction)
    loss = _picked(labels.rows_of(x), labels.places, labels.hard, reduction != "none")
    return labels.shaped(loss, reduction)


def _bce_forward(x: NDArray[Any], t: NDArray[Any], positive: NDArray[Any]) -> NDArray[Any]:
    """positive t softplus(-x) + (1 - t) softplus(x)."""
    result: NDArray[Any] = (1 - t) * softplus_array(x) + positive * t * softplus_array(-x)
    return result


def _bce_rule(g: Any, x: Any, t: Any, positive: NDArray[Any], x_dtype: np.dtype[Any]) -> Any:
    slope = (1 - t) * sigmoid_of(x) - positive * t * sigmoid_of(-x)
    return (g * slope).astype(x_dtype)


def _bce_target_rule(g: Any, x: Any, positive: NDArray[Any], t_dtype: np.dtype[Any]) -> Any:
    return (g * (positive * np.logaddexp(0.0, -x) - np.logaddexp(0.0, x))).astype(t_dtype)


_bce = primitive("bce_with_logits", _bce_forward, x=_bce_rule, t=_bce_target_rule)


def bce_with_logits(
    x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """-t log s - (1 - t) log(1 - s) with s = sigmoid(x), accurate for any x; dx = g (s - t).

    Args:
        target: probabilities of x's shape; dtarget = -g x.
        weight: multiplies each loss; broadcasts with it and takes its dtype.
        pos_weight: multiplies the first term; broadcasts with x and takes its dtype.
        reduction: "mean", "sum" or "none".

    Raises:
        ShapeError: if the shapes differ.
        SettingError: for an unknown reduction.
    """
    x, target = _pair("bce_with_logits", x, target, reduction)
    positive = constant("bce_with_logits", "pos_weight", pos_weight)
    positive = np.asarray(1.0 if positive is None else positive, x.dtype)
    loss: Any = _bce(x, target, positive)
    if weight is not None:
        loss = loss * (weight if type(weight) is Tensor else np.asarray(weight, x.dtype))
    return _reduced(loss, reduction)


METHODS: dict[str, Any] = {}
NUMPY: dict[Any, Any] = {}
PUBLIC = {
    "mse_loss": mse_loss,
    "huber_loss": huber_loss,
    "nll_loss": nll_loss,
    "bce_with_logits": bce_with_logits,
}
