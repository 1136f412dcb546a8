"""``numpy.lib.scimath``: functions that turn to complex numbers outside their real domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sweepgrad.ops.arithmetic import divide, power
from sweepgrad.ops.declare import operand
from sweepgrad.ops.elementwise import astype
from sweepgrad.ops.exponents import log, log2, log10, sqrt
from sweepgrad.ops.rules import plain
from sweepgrad.ops.trigonometric import arccos, arcsin, arctanh
from sweepgrad.tensor import Tensor


def _widened(x: Any, outside: Callable[[Any], Any]) -> Any:
    """x as complex numbers if a real element is outside the real domain."""
    if type(x) is not Tensor:
        x = operand(x)
    values = plain(x)
    if values.dtype.kind == "c" or not outside(values).any():
        return x
    return astype(x, np.result_type(values.dtype, np.complex64))


def _negative(x: Any) -> Any:
    return x < 0


def _beyond_one(x: Any) -> Any:
    return np.abs(x) > 1


def _wide(operation: Callable[..., Any], outside: Callable[[Any], Any]) -> Callable[..., Any]:
    def apply(x: Any) -> Any:
        return operation(_widened(x, outside))

    return apply


def logn(n: Any, x: Any) -> Any:
    """``numpy.lib.scimath.logn``: log(x) / log(n)."""
    return divide(log(_widened(x, _negative)), log(_widened(n, _negative)))


def wide_power(x: Any, p: Any) -> Any:
    """``numpy.lib.scimath.power``: x to the p, complex where a negative x asks for it."""
    exponent: Any = p if type(p) in (Tensor, float) else operand(p)
    if type(exponent) is not float and exponent.dtype.kind in "iu" and (plain(exponent) < 0).any():
        exponent = exponent * 1.0
    return power(_widened(x, _negative), exponent)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.lib.scimath.sqrt: _wide(sqrt, _negative),
    np.lib.scimath.log: _wide(log, _negative),
    np.lib.scimath.log2: _wide(log2, _negative),
    np.lib.scimath.log10: _wide(log10, _negative),
    np.lib.scimath.arccos: _wide(arccos, _beyond_one),
    np.lib.scimath.arcsin: _wide(arcsin, _beyond_one),
    np.lib.scimath.arctanh: _wide(arctanh, _beyond_one),
    np.lib.scimath.logn: logn,
    np.lib.scimath.power: wide_power,
}

PUBLIC: dict[str, Any] = {}
