"""Signs, magnitudes, rounding, and the parts of a floating-point number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.ops.arguments import refuse_out
from sweepgrad.ops.arithmetic import divide
from sweepgrad.ops.declare import binary, fit, unary
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rules import plain, weak, zeros
from sweepgrad.tensor import Tensor

# --- magnitude and sign -------------------------------------------------------------------


def _absolute_rule(g: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        size = np.absolute(x)
        return g * np.conjugate(x) / np.where(np.equal(plain(size), 0), 1.0, size)
    return g * np.sign(plain(x))


absolute = unary(
    "absolute", np.absolute, _absolute_rule, "``|x|``; dx = g sign x, 0 at 0; complex: g x* / |x|."
)
fabs = unary("fabs", np.fabs, lambda g, x: g * np.sign(plain(x)), "``|x|``; dx = g sign x, 0 at 0.")

_sign = unary("sign", np.sign, zeros)


def sign(x: Any) -> Tensor:
    """-1, 0 or 1; piecewise constant: dx = 0, also at 0.  Complex: x / |x|, 0 at 0."""
    if np.iscomplexobj(plain(x)):
        size = absolute(x)
        nothing = np.equal(plain(size), 0)
        result: Tensor = divide(x, np.where(nothing, 1.0, size))
    else:
        result = _sign(x)
    return result


def _copysign_rule(g: Any, ans: Any, x: Any) -> Any:
    return g * (np.sign(plain(x)) * np.sign(plain(ans)))


copysign = binary(
    "copysign",
    np.copysign,
    x=_copysign_rule,
    y=zeros,
    doc="|x| with the sign of y; dx = g sign x sign y, 0 at x = 0; dy = 0.",
)
heaviside = binary(
    "heaviside",
    np.heaviside,
    x=zeros,
    y=lambda g, x: np.where(np.equal(plain(x), 0), g, 0.0),
    doc="0, y or 1 for negative, zero or positive x; dx = 0, dy = g where x = 0.",
)

# --- rounding: piecewise constant, so the gradient is an exact zero -----------------------

floor = unary("floor", np.floor, zeros, "Largest integer not above x; dx = 0.")
ceil = unary("ceil", np.ceil, zeros, "Smallest integer not below x; dx = 0.")
trunc = unary("trunc", np.trunc, zeros, "x rounded towards 0; dx = 0.")
rint = unary("rint", np.rint, zeros, "The nearest integer, halves to even; dx = 0.")

_round = primitive("round", lambda x, decimals: np.round(x, decimals), x=zeros)


def round(x: Any, decimals: int = 0, out: Any = None) -> Tensor:
    """x rounded to ``decimals`` places, halves to even; dx = 0.

    Raises:
        NoGradientRuleError: for ``out=``.
    """
    refuse_out("round", out)
    return _round(x, decimals)


def fix(x: Any, out: Any = None) -> Tensor:
    """x rounded towards 0; dx = 0."""
    refuse_out("fix", out)
    result: Tensor = trunc(x)
    return result


# --- parts of a floating-point number -----------------------------------------------------

_ldexp = primitive(
    "ldexp",
    lambda x, exponents: np.ldexp(x, exponents),
    x=lambda g, exponents, x_shape, x_dtype: fit(np.ldexp(g, exponents), x_shape, x_dtype),
)


def ldexp(x: Any, exponents: Any) -> Tensor:
    """``x * 2**exponents``; dx = g 2**exponents.

    Args:
        exponents: integers; they have no gradient.
    """
    return _ldexp(weak(x), np.asarray(plain(exponents)))


def frexp(x: Any) -> tuple[Tensor, NDArray[Any]]:
    """Mantissa m in ±[0.5, 1) and integer e with x = m 2**e; dx = g 2**-e.

    The exponents are a plain array.
    """
    exponents = np.frexp(plain(x))[1]
    return ldexp(x, -exponents), exponents


_fraction = unary("modf", lambda x: np.modf(x)[0], lambda g: g)


def modf(x: Any) -> tuple[Tensor, Tensor]:
    """Fractional and integral part, both with the sign of x; dx = g and dx = 0."""
    return _fraction(x), trunc(x)


METHODS = {
    "__abs__": absolute,
    "abs": absolute,
    "__round__": round,
    "round": round,
    "sign": sign,
    "floor": floor,
    "ceil": ceil,
    "trunc": trunc,
}

NUMPY: dict[Any, Any] = {
    np.absolute: absolute,
    np.fabs: fabs,
    np.sign: sign,
    np.copysign: copysign,
    np.heaviside: heaviside,
    np.floor: floor,
    np.ceil: ceil,
    np.trunc: trunc,
    np.rint: rint,
    np.round: round,
    np.around: round,
    np.fix: fix,
    np.ldexp: ldexp,
    np.frexp: frexp,
    np.modf: modf,
}

PUBLIC = {
    "abs": absolute,
    "absolute": absolute,
    "fabs": fabs,
    "sign": sign,
    "copysign": copysign,
    "heaviside": heaviside,
    "floor": floor,
    "ceil": ceil,
    "trunc": trunc,
    "rint": rint,
    "round": round,
    "fix": fix,
    "ldexp": ldexp,
    "frexp": frexp,
    "modf": modf,
}
