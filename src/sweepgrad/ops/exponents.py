"""Exponentials, logarithms and roots."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sweepgrad.ops.declare import unary

_LN2, _LN10 = math.log(2.0), math.log(10.0)

exp = unary("exp", np.exp, lambda g, ans: g * ans, "``exp(x)``; dx = g exp x.")
expm1 = unary("expm1", np.expm1, lambda g, ans: g * (ans + 1), "``exp(x) - 1``; dx = g exp x.")
exp2 = unary("exp2", np.exp2, lambda g, ans: g * (ans * _LN2), "``2^x``; dx = g 2^x log 2.")

log = unary("log", np.log, lambda g, x: g / x, "``log(x)``; dx = g / x, inf at 0.")
log1p = unary("log1p", np.log1p, lambda g, x: g / (1 + x), "``log(1 + x)``; dx = g / (1 + x).")
log2 = unary(
    "log2", np.log2, lambda g, x: g / (x * _LN2), "Logarithm to base 2; dx = g / (x log 2)."
)
log10 = unary(
    "log10", np.log10, lambda g, x: g / (x * _LN10), "Logarithm to base 10; dx = g / (x log 10)."
)

sqrt = unary(
    "sqrt", np.sqrt, lambda g, ans: g / (2 * ans), "``sqrt(x)``; dx = g / (2 sqrt x), inf at 0."
)
cbrt = unary(
    "cbrt", np.cbrt, lambda g, ans: g / (3 * ans * ans), "Cube root y; dx = g / (3 y²), inf at 0."
)
square = unary("square", np.square, lambda g, x: g * (2 * x), "``x * x``; dx = 2 g x.")
reciprocal = unary(
    "reciprocal", np.reciprocal, lambda g, ans: -g * ans * ans, "``1 / x``; dx = -g / x²."
)


METHODS = {
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "log2": log2,
    "log10": log10,
    "sqrt": sqrt,
    "square": square,
    "reciprocal": reciprocal,
}

NUMPY: dict[Any, Any] = {
    np.exp: exp,
    np.expm1: expm1,
    np.exp2: exp2,
    np.log: log,
    np.log1p: log1p,
    np.log2: log2,
    np.log10: log10,
    np.sqrt: sqrt,
    np.cbrt: cbrt,
    np.square: square,
    np.reciprocal: reciprocal,
}

PUBLIC = {function.__name__: operation for function, operation in NUMPY.items()}
