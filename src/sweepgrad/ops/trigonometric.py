"""Trigonometric and hyperbolic functions, their inverses, and angles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sweepgrad.conversion import ONE
from sweepgrad.ops.declare import binary, unary
from sweepgrad.ops.rules import plain

sin = unary("sin", np.sin, lambda g, x: g * np.cos(x), "``sin(x)``; dx = g cos x.")
cos = unary("cos", np.cos, lambda g, x: -g * np.sin(x), "``cos(x)``; dx = -g sin x.")
tan = unary("tan", np.tan, lambda g, ans: g * (1 + ans * ans), "``tan(x)``; dx = g (1 + tan² x).")


def _root(x: Any) -> Any:
    """sqrt(1 - x²); 1 - x² would cancel near ±1, the product of the factors does not.

    For complex x the roots are taken apart, and so that a zero imaginary part keeps its
    sign, which tells the side of the branch cut that x is on.
    """
    if x.dtype.kind == "c":
        return np.sqrt(-(x - 1)) * np.sqrt(x - (-1))
    return np.sqrt((1 - x) * (1 + x))


arcsin = unary(
    "arcsin",
    np.arcsin,
    lambda g, x: g / _root(x),
    "``arcsin(x)``; dx = g / sqrt(1 - x²), inf at ±1.",
)
arccos = unary(
    "arccos",
    np.arccos,
    lambda g, x: -g / _root(x),
    "``arccos(x)``; dx = -g / sqrt(1 - x²), -inf at ±1.",
)
arctan = unary(
    "arctan", np.arctan, lambda g, x: g / (1 + x * x), "``arctan(x)``; dx = g / (1 + x²)."
)

sinh = unary("sinh", np.sinh, lambda g, x: g * np.cosh(x), "``sinh(x)``; dx = g cosh x.")
cosh = unary("cosh", np.cosh, lambda g, x: g * np.sinh(x), "``cosh(x)``; dx = g sinh x.")
tanh = unary(
    "tanh",
    np.tanh,
    lambda g, ans: g * (ONE[ans.dtype] - ans * ans),
    "``tanh(x)``; dx = g (1 - y²).",
)


def _arcsinh_rule(g: Any, x: Any) -> Any:
    """g / sqrt(1 + x²), by hypot, which does not overflow where x² would."""
    return g / (np.sqrt(x * x - (-1)) if x.dtype.kind == "c" else np.hypot(x, 1.0))


arcsinh = unary("arcsinh", np.arcsinh, _arcsinh_rule, "``arcsinh(x)``; dx = g / sqrt(1 + x²).")
arccosh = unary(
    "arccosh",
    np.arccosh,
    lambda g, x: g / (np.sqrt(x - 1) * np.sqrt(x - (-1))),
    "``arccosh(x)``; dx = g / sqrt(x² - 1), inf at 1.",
)
arctanh = unary(
    "arctanh",
    np.arctanh,
    lambda g, x: g / ((1 - x) * (1 + x)),
    "``arctanh(x)``; dx = g / (1 - x²), inf at ±1.",
)

# --- sinc ---------------------------------------------------------------------------------

#: Below this |pi x| the slope is summed as a series: (cos t - sin t / t) / t cancels there.
_SERIES_BELOW = 0.35
#: (-1)^k 2k / (2k + 1)! for k = 1 ... 6, the coefficients of t^(2k - 1) in d/dt (sin t / t).
_SERIES = tuple((-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 7))


def _sinc_rule(g: Any, ans: Any, x: Any) -> Any:
    """g (cos t - sinc x) / x with t = pi x; 0 at 0."""
    t = math.pi * x
    small = np.less(np.abs(plain(t)), _SERIES_BELOW)
    near = np.where(small, t, 0.0)
    squared = near * near
    series = _SERIES[-1] * squared + _SERIES[-2]
    for coefficient in reversed(_SERIES[:-2]):
        series = series * squared + coefficient
    far = (np.cos(t) - ans) / np.where(small, 1.0, x)
    return g * np.where(small, math.pi * near * series, far)


sinc = unary(
    "sinc", np.sinc, _sinc_rule, "``sin(pi x) / (pi x)``; dx = g (cos(pi x) - sinc x) / x, 0 at 0."
)

# --- two operands -------------------------------------------------------------------------


def _per_length(value: Any, length: Any) -> Any:
    """value / length, 0 where the length is 0."""
    nothing = np.equal(plain(length), 0)
    return np.where(nothing, 0.0, value) / np.where(nothing, 1.0, length)


hypot = binary(
    "hypot",
    np.hypot,
    x=lambda g, ans, x: g * _per_length(x, ans),
    y=lambda g, ans, y: g * _per_length(y, ans),
    doc="``sqrt(x² + y²)``; dx = g x / hypot, dy = g y / hypot, both 0 at (0, 0).",
)


def _arctan2_slope(g: Any, value: Any, x: Any, y: Any) -> Any:
    """g value / (x² + y²), by two divisions by the length, whose square might overflow."""
    length = np.hypot(x, y)
    return g * _per_length(_per_length(value, length), length)


arctan2 = binary(
    "arctan2",
    np.arctan2,
    x=lambda g, x, y: _arctan2_slope(g, y, x, y),
    y=lambda g, x, y: -_arctan2_slope(g, x, x, y),
    doc="Angle of the point (y, x), the first operand being the height as in NumPy: "
    "dx = g y / (x² + y²), dy = -g x / (x² + y²), both 0 at (0, 0).",
)

# --- degrees ------------------------------------------------------------------------------

_PER_RADIAN = 180.0 / math.pi

degrees = unary(
    "degrees", np.degrees, lambda g: g * _PER_RADIAN, "Radians to degrees; dx = 180 g / pi."
)
radians = unary(
    "radians", np.radians, lambda g: g / _PER_RADIAN, "Degrees to radians; dx = pi g / 180."
)

METHODS = {
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "arcsin": arcsin,
    "arccos": arccos,
    "arctan": arctan,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
}

NUMPY: dict[Any, Any] = {
    np.sin: sin,
    np.cos: cos,
    np.tan: tan,
    np.arcsin: arcsin,
    np.arccos: arccos,
    np.arctan: arctan,
    np.sinh: sinh,
    np.cosh: cosh,
    np.tanh: tanh,
    np.arcsinh: arcsinh,
    np.arccosh: arccosh,
    np.arctanh: arctanh,
    np.sinc: sinc,
    np.hypot: hypot,
    np.arctan2: arctan2,
    np.degrees: degrees,
    np.rad2deg: degrees,
    np.radians: radians,
    np.deg2rad: radians,
}

PUBLIC = {
    **{function.__name__: operation for function, operation in NUMPY.items()},
    "asin": arcsin,
    "acos": arccos,
    "atan": arctan,
    "atan2": arctan2,
    "asinh": arcsinh,
    "acosh": arccosh,
    "atanh": arctanh,
}
