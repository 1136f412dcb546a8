"""Activation functions of neural networks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.ops.declare import unary


def logistic(x: NDArray[Any]) -> NDArray[Any]:
    """1 / (1 + exp(-x)) without overflow: exp is only taken of what is not positive."""
    small = np.exp(-np.abs(x))
    result: NDArray[Any] = np.where(x < 0, small, 1.0) / (1 + small)
    return result


sigmoid = unary(
    "sigmoid",
    logistic,
    lambda g, ans: g * (ans * (1 - ans)),
    "``1 / (1 + exp(-x))``; dx = g y (1 - y).",
)

relu = unary(
    "relu",
    lambda x: np.maximum(x, 0),
    lambda g, ans: np.where(np.less_equal(ans, 0), 0.0, g),
    "``max(x, 0)``; dx = g where x > 0, 0 elsewhere and at 0.",
)

METHODS = {"sigmoid": sigmoid, "relu": relu}
NUMPY: dict[Any, Any] = {}
PUBLIC = {"sigmoid": sigmoid, "relu": relu}
