"""The elementwise operations: how to call each, where it is smooth, and PyTorch's name for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import sweepgrad as sg

Shape = tuple[int, ...]
Domain = Callable[[np.random.Generator, Shape], np.ndarray]


def between(low: float, high: float) -> Domain:
    return lambda rng, shape: np.asarray(rng.uniform(low, high, shape))


def both_signs(low: float, high: float) -> Domain:
    """Away from 0, on both sides of it."""
    return lambda rng, shape: np.asarray(
        rng.uniform(low, high, shape) * rng.choice([-1.0, 1.0], shape)
    )


def between_integers(low: int, high: int) -> Domain:
    """Away from the integers, where rounding jumps."""
    return lambda rng, shape: np.asarray(
        rng.integers(low, high, shape) + rng.uniform(0.1, 0.9, shape)
    )


@dataclass(frozen=True)
class Elementwise:
    """An operation.

    Attributes:
        name: its name in the ``sweepgrad`` namespace.
        call: the operation, through NumPy's dispatch where NumPy has it.
        domains: for each operand where to draw values, away from kinks and poles.
        torch: the name of PyTorch's function, or None.
    """

    name: str
    call: Callable[..., Any]
    domains: tuple[Domain, ...]
    torch: str | None

    def __str__(self) -> str:
        return self.name


def unary(name: str, domain: Domain, torch: str | None = "", call: Any = None) -> Elementwise:
    call = call or getattr(np, name, None) or getattr(sg, name)
    return Elementwise(name, call, (domain,), name if torch == "" else torch)


def binary(
    name: str, one: Domain, other: Domain, torch: str | None = "", call: Any = None
) -> Elementwise:
    call = call or getattr(np, name, None) or getattr(sg, name)
    return Elementwise(name, call, (one, other), name if torch == "" else torch)


_any = between(-2.0, 2.0)
_apart = both_signs(0.2, 2.0)

UNARY = [
    unary("absolute", _apart),
    unary("angle", _apart),
    unary("arccos", between(-0.9, 0.9)),
    unary("arccosh", between(1.2, 4.0)),
    unary("arcsin", between(-0.9, 0.9)),
    unary("arcsinh", _any),
    unary("arctan", _any),
    unary("arctanh", between(-0.9, 0.9)),
    unary("cbrt", _apart, None),
    unary("ceil", between_integers(-3, 3)),
    unary("conjugate", _any, "conj"),
    unary("cos", _any),
    unary("cosh", _any),
    unary("degrees", _any, "rad2deg"),
    unary("digamma", between(0.6, 4.0)),
    unary("elu", _apart, "nn.functional.elu"),
    unary("erf", _any),
    unary("erfc", _any),
    unary("exp", _any),
    unary("exp2", _any),
    unary("expm1", _any),
    unary("fabs", _apart, "abs"),
    unary("floor", between_integers(-3, 3)),
    unary("gammaln", between(0.3, 5.0), "special.gammaln"),
    unary("gelu", _any, "nn.functional.gelu"),
    unary("leaky_relu", _apart, "nn.functional.leaky_relu"),
    unary("log", between(0.3, 3.0)),
    unary("log10", between(0.3, 3.0)),
    unary("log1p", between(-0.7, 3.0)),
    unary("log2", between(0.3, 3.0)),
    unary("log_sigmoid", _any, "nn.functional.logsigmoid"),
    unary("logit", between(0.05, 0.95)),
    unary("nan_to_num", _any),
    unary("negative", _any),
    unary("positive", _any),
    unary("radians", _any, "deg2rad"),
    unary("real", _any, None),
    unary("reciprocal", _apart),
    unary("relu", _apart),
    unary("rint", between(-0.4, 0.4), "round"),
    unary("sigmoid", _any),
    unary("sign", _apart),
    unary("silu", _any, "nn.functional.silu"),
    unary("sin", _any),
    unary("sinc", _any),
    unary("sinh", _any),
    unary("softplus", _any, "nn.functional.softplus"),
    unary("sqrt", between(0.3, 3.0)),
    unary("square", _any),
    unary("tan", between(-1.2, 1.2)),
    unary("tanh", _any),
    unary("trunc", between_integers(-3, 3)),
]

BINARY = [
    binary("add", _any, _any),
    binary("arctan2", _apart, _apart),
    binary("copysign", _apart, _apart),
    binary("divide", _any, _apart),
    binary("float_power", between(0.3, 2.0), _any),
    # PyTorch gives floor_divide no gradient at all; ours is an exact 0.
    binary("floor_divide", between(4.1, 4.4), between(1.1, 1.3), None),
    binary("fmax", between(0.0, 1.0), between(-1.0, -0.2)),
    binary("fmin", between(0.0, 1.0), between(-1.0, -0.2)),
    binary("fmod", between(4.1, 4.4), between(1.1, 1.3)),
    binary("heaviside", _apart, _any, None),
    binary("hypot", _apart, _apart),
    binary("logaddexp", _any, _any),
    binary("logaddexp2", _any, _any),
    binary("maximum", between(0.0, 1.0), between(1.2, 2.0)),
    binary("minimum", between(0.0, 1.0), between(1.2, 2.0)),
    binary("multiply", _any, _any),
    binary("power", between(0.3, 2.0), _any, "pow"),
    binary("remainder", between(-4.4, -4.1), between(1.1, 1.3)),
    binary("subtract", _any, _any),
]

ALL = [*UNARY, *BINARY]
