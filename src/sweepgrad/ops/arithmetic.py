"""Arithmetic: NumPy's operators on tensors, remainders, and comparisons.

Complex gradients follow JAX (and HIPS/autograd): the gradient of a real f at
z = x + iy is df/dx - i df/dy.  In this convention the rule of a holomorphic
function is the one for real numbers, unchanged.
"""

from __future__ import annotations

import operator as python_operator
from typing import Any

import numpy as np

from sweepgrad.ops.declare import binary, reflected, unary
from sweepgrad.ops.rules import as_float64, plain, zeros
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

negative = unary("negative", np.negative, lambda g: -g, "``-x``; dx = -g.")
positive = unary("positive", np.positive, lambda g: g, "``+x``; dx = g.")


# --- powers -------------------------------------------------------------------------------


def _power_base(g: Any, x: Any, y: Any) -> Any:
    """g y x^(y-1); where y = 0 the power is the constant 1, whose gradient is 0 also at x = 0."""
    if type(y) is float or type(y) is int:
        return g * (y * x ** (y - 1)) if y != 0 else np.zeros_like(plain(x))
    constant = np.equal(plain(y), 0)
    return g * np.where(constant, 0.0, y * x ** np.where(constant, 1.0, y - 1))


def _power_exponent(g: Any, ans: Any, x: Any) -> Any:
    """g x^y log x; where x = 0 the limit from y > 0, which is 0."""
    if type(x) is float or type(x) is int:
        return g * ans * np.log(x) if x != 0 else g * (ans * 0.0)
    return g * ans * np.log(np.where(np.equal(plain(x), 0), 1.0, x))


power = binary(
    "power",
    np.power,
    x=_power_base,
    y=_power_exponent,
    doc="``x ** y``; dx = g y x^(y-1), dy = g x^y log x; dx is 0 where y = 0.",
)


def float_power(x: Any, y: Any) -> Tensor:
    """``x ** y`` in double precision at least; dx and dy as :func:`power`."""
    result: Tensor = power(as_float64(x), as_float64(y))
    return result


# --- quotients rounded to integers --------------------------------------------------------

floor_divide = binary(
    "floor_divide",
    np.floor_divide,
    x=zeros,
    y=zeros,
    doc="``x // y``; piecewise constant: dx = 0, dy = 0, also at the steps.",
)

remainder = binary(
    "remainder",
    np.remainder,
    x=lambda g: g,
    y=lambda g, x, y: -g * np.floor_divide(plain(x), plain(y)),
    doc="``x % y``, with the sign of y; dx = g, dy = -g (x // y).",
)

fmod = binary(
    "fmod",
    np.fmod,
    x=lambda g: g,
    y=lambda g, x, y: -g * np.trunc(np.divide(plain(x), plain(y))),
    doc="Remainder with the sign of x; dx = g, dy = -g trunc(x / y).",
)


def divmod(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """``(x // y, x % y)``; gradients as :func:`floor_divide` and :func:`remainder`."""
    return floor_divide(x, y), remainder(x, y)


# --- comparisons --------------------------------------------------------------------------


def _compared(name: str, compare: Any) -> Any:
    """A comparison operator: NumPy's on the values, giving a plain array of booleans."""

    def operator(self: Tensor, other: Any) -> Any:
        return compare(self._array, other._array if type(other) is Tensor else other)

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
    "__floordiv__": floor_divide,
    "__rfloordiv__": reflected(floor_divide),
    "__mod__": remainder,
    "__rmod__": reflected(remainder),
    "__divmod__": divmod,
    "__rdivmod__": reflected(divmod),
    "__pow__": power,
    "__rpow__": reflected(power),
    "__neg__": negative,
    "__pos__": positive,
}

NUMPY = {
    np.add: add,
    np.subtract: subtract,
    np.multiply: multiply,
    np.divide: divide,
    np.power: power,
    np.float_power: float_power,
    np.negative: negative,
    np.positive: positive,
    np.floor_divide: floor_divide,
    np.remainder: remainder,
    np.fmod: fmod,
    np.divmod: divmod,
}

PUBLIC = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "power": power,
    "pow": power,
    "float_power": float_power,
    "negative": negative,
    "positive": positive,
    "floor_divide": floor_divide,
    "remainder": remainder,
    "fmod": fmod,
    "divmod": divmod,
}
