"""Differences of neighbours, and integrals and angles made of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.cumulative import part
from sweepgrad.ops.joining import concatenate
from sweepgrad.ops.primitive import primitive, rule_operation
from sweepgrad.ops.reductions import as_float
from sweepgrad.ops.rules import plain, weak
from sweepgrad.tensor import Tensor, untracked


def _spread_differences(g: NDArray[Any], axis: int, shape: tuple[int, ...]) -> NDArray[Any]:
    """Each difference's gradient added to its later element, taken from its earlier one."""
    result = np.zeros(shape, g.dtype)
    if g.size:
        result[part(g.ndim, axis, None, -1)] -= g
        result[part(g.ndim, axis, 1, None)] += g
    return result


_undo_diff = rule_operation(
    "diff_adjoint", _spread_differences, g=lambda g, axis: np.diff(g, axis=axis)
)
_diff = primitive(
    "diff",
    lambda x, axis: np.diff(x, axis=axis),
    x=lambda g, axis, x_shape: _undo_diff(g, axis, x_shape),
)


def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Differences of neighbours, n times; dx is g at the later less g at the earlier one.

    Args:
        prepend, append: values or arrays to join to x along the axis first.

    Raises:
        ShapeError: if x has no axes or n is negative.
    """
    if type(x) is not Tensor:
        x = np.asarray(x)
    if x.ndim == 0 or n < 0:
        raise ShapeError(
            f"diff needs an operand with an axis and n >= 0, got shape {x.shape} and n={n}"
        )
    axis = normalize_axis_index(axis, x.ndim)
    if not n:  # as in NumPy nothing is joined then
        return x if type(x) is Tensor else untracked(x)
    pieces = [_as_piece(prepend, x, axis), x, _as_piece(append, x, axis)]
    if prepend is not None or append is not None:
        x = concatenate([piece for piece in pieces if piece is not None], axis)
    for _ in range(n):
        x = _diff(x, axis)
    return x if type(x) is Tensor else untracked(x)


def _as_piece(value: Any, x: Any, axis: int) -> Any:
    """What is joined to x: itself, or a number stretched to one place along the axis."""
    if value is None or (hasattr(value, "ndim") and value.ndim):
        return value
    if np.ndim(plain(value)):
        return np.asarray(value)
    shape = list(x.shape)
    shape[axis] = 1
    return np.broadcast_to(weak(value, x), tuple(shape))


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Integral of y by the trapezoidal rule: sum of d (y_k + y_(k+1)) / 2; dy and dx follow.

    Args:
        x: the points, of one axis or of y's shape; by default ``dx`` apart.
    """
    if type(y) is not Tensor:
        y = untracked(np.asarray(y))
    axis = normalize_axis_index(axis, y.ndim)
    steps = dx if x is None else diff(x, axis=-1 if np.ndim(plain(x)) == 1 else axis)
    if x is not None and np.ndim(plain(x)) == 1:
        steps = steps.reshape([-1 if place == axis else 1 for place in range(y.ndim)])
    sums = y[part(y.ndim, axis, 1, None)] + y[part(y.ndim, axis, None, -1)]
    result: Tensor = (steps * sums / 2.0).sum(axis)
    return result


_unwrap = primitive(
    "unwrap",
    lambda x, discont, axis, period: np.unwrap(x, discont, axis, period=period),
    x=lambda g: g,
)


def unwrap(
    x: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi
) -> Tensor:
    """x with multiples of ``period`` added until no step exceeds half of it; dx = g.

    Args:
        discont: the largest step that is left alone, at least half the period.
    """
    return _unwrap(as_float(x), discont, axis, period)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {np.diff: diff, np.trapezoid: trapezoid, np.unwrap: unwrap}

PUBLIC = {"diff": diff, "trapezoid": trapezoid, "unwrap": unwrap}
