"""Arithmetic: NumPy's operators on tensors."""

from __future__ import annotations

import operator as python_operator
from typing import Any

import numpy as np

from sweepgrad.ops.declare import binary, reflected, unary
from sweepgrad.tensor import Tensor

add = binary("add", np.add, x=lambda g: g, y=lambda g: g, doc="``x + y``; dx = g, dy = g.")

subtract = binary(
    "subtract", np.subtract, x=lambda g: g, y=lambda g: -g, doc="``x - y``; dx = g, dy = -g."
)

multiply = binary(
    "multiply",
    np.multiply,
    x=lambda g, y: g * y,
    y=lambda g, x: g * x,
    doc="``x * y``; dx = g y, dy = g x.",
)

divide = binary(
    "divide",
    np.divide,
    x=lambda g, y: g / y,
    y=lambda g, ans, y: -g * ans / y,
    doc="``x / y``; dx = g / y, dy = -g (x / y) / y.",
)

negative = unary("negative", np.negative, lambda g: -g, doc="``-x``; dx = -g.")


def _power_base(g: Any, x: Any, y: Any) -> Any:
    """g y x^(y-1); where y = 0 the power is the constant 1, whose gradient is 0 also at x = 0."""
    if type(y) is float or type(y) is int:
        return g * (y * x ** (y - 1)) if y != 0 else g * np.zeros_like(x)
    return g * np.where(np.equal(y, 0), 0.0, y * x ** np.where(np.equal(y, 0), 1.0, y - 1))


def _power_exponent(g: Any, ans: Any, x: Any) -> Any:
    """g x^y log x; where x = 0 the limit from y > 0, which is 0."""
    if type(x) is float or type(x) is int:
        return g * ans * np.log(x) if x != 0 else g * (ans * 0.0)
    safe = np.where(np.equal(x, 0), 1.0, x)
    return g * ans * np.log(safe)


power = binary(
    "power",
    np.power,
    x=_power_base,
    y=_power_exponent,
    doc="``x ** y``; dx = g y x^(y-1), dy = g x^y log x; dx is 0 where y = 0.",
)


def _compared(name: str, compare: Any) -> Any:
    """A comparison operator: NumPy's on the values, giving a plain array of booleans."""

    def operator(self: Tensor, other: Any) -> Any:
        return compare(self._data, other._data if type(other) is Tensor else other)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = "Compare the values element by element; a plain array of booleans."
    return operator


METHODS = {
    "__lt__": _compared("__lt__", python_operator.lt),
    "__le__": _compared("__le__", python_operator.le),
    "__gt__": _compared("__gt__", python_operator.gt),
    "__ge__": _compared("__ge__", python_operator.ge),
    "__eq__": _compared("__eq__", python_operator.eq),
    "__ne__": _compared("__ne__", python_operator.ne),
    "__add__": add,
    "__radd__": add,
    "__sub__": subtract,
    "__rsub__": reflected(subtract),
    "__mul__": multiply,
    "__rmul__": multiply,
    "__truediv__": divide,
    "__rtruediv__": reflected(divide),
    "__pow__": power,
    "__rpow__": reflected(power),
    "__neg__": negative,
}

NUMPY = {
    np.add: add,
    np.subtract: subtract,
    np.multiply: multiply,
    np.divide: divide,
    np.power: power,
    np.negative: negative,
}

PUBLIC = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "power": power,
    "negative": negative,
}
