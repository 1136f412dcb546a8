"""Activation functions of neural networks, accurate and free of overflow for any input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.conversion import ONE, ZERO
from sweepgrad.errors import DtypeError, SettingError
from sweepgrad.ops.arguments import constant
from sweepgrad.ops.declare import unary
from sweepgrad.ops.primitive import primitive, rule_operation
from sweepgrad.ops.rules import plain, weak
from sweepgrad.ops.special import erfc_of
from sweepgrad.tensor import Tensor

# --- of the exponential -------------------------------------------------------------------


def real_only(name: str, x: NDArray[Any]) -> None:
    """Refuse complex numbers, for which the formula of a real function gives something else.

    Raises:
        DtypeError: naming the function.
    """
    if x.dtype.kind == "c":
        raise DtypeError(
            f"{name} is a function of real numbers, got {x.dtype}; apply it to t.real and t.imag, "
            "or write the complex function out"
        )


def logistic(x: NDArray[Any]) -> NDArray[Any]:
    """1 / (1 + exp(-x)) without overflow: exp is only taken of what is not positive."""
    if x.dtype.kind == "c":
        left = x.real < 0
        small = np.exp(np.where(left, x, -x))
        turned: NDArray[Any] = np.where(left, small, 1.0) / (1 + small)
        return turned
    small = np.exp(-np.abs(x))
    result: NDArray[Any] = np.where(x < 0, small, 1.0) / (1 + small)
    return result


def _logistic_rule(g: Any, ans: Any) -> Any:
    return g * (ans * (ONE[ans.dtype] - ans))


sigmoid = unary(
    "sigmoid", logistic, _logistic_rule, "``1 / (1 + exp(-x))``; dx = g y (1 - y).  SciPy's expit."
)

#: ``sigmoid`` for rules: an array of an array, a tensor of a tensor.
sigmoid_of: Callable[..., Any] = rule_operation("sigmoid", lambda x: logistic(x), x=_logistic_rule)


def softplus_array(x: NDArray[Any]) -> NDArray[Any]:
    """log(1 + exp x), as max(x, 0) + log1p(exp(-|x|)).

    Raises:
        DtypeError: for complex numbers, where this is another function.
    """
    real_only("softplus", x)
    result: NDArray[Any] = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return result


softplus = unary(
    "softplus",
    softplus_array,
    lambda g, x: g * sigmoid_of(x),
    "``log(1 + exp x)``; dx = g sigmoid x.",
)
log_sigmoid = unary(
    "log_sigmoid",
    lambda x: -softplus_array(-x),
    lambda g, x: g * sigmoid_of(-x),
    "``log(sigmoid x)``; dx = g sigmoid(-x).",
)


def _logit_forward(x: NDArray[Any]) -> NDArray[Any]:
    """2 artanh(2x - 1) in the middle, where log(x / (1 - x)) cancels."""
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.abs(x - 0.5) < 0.25
        centred: NDArray[Any] = 2 * np.arctanh(np.where(middle, 2 * x - 1, 0.0))
        return np.where(middle, centred, np.log(x / (1 - x)))


logit = unary(
    "logit",
    _logit_forward,
    lambda g, x: g / (x * (1 - x)),
    "``log(x / (1 - x))``, the inverse of sigmoid; dx = g / (x (1 - x)).",
)

silu = unary(
    "silu",
    lambda x: x * logistic(x),
    lambda g, x: g * _silu_slope(x),
    "``x sigmoid x``, also called swish; dx = g s (1 + x (1 - s)) with s = sigmoid x.",
)


def _silu_slope(x: Any) -> Any:
    s = sigmoid_of(x)
    return s * (1 + x * (1 - s))


# --- piecewise ----------------------------------------------------------------------------


def _relu_rule(g: Any, ans: Any) -> Any:
    """g where x > 0 or is NaN, 0 elsewhere.

    Of arrays as a product with the mask, in half the time of a choice; where the product
    has met 0 * inf, or its square overflows, the choice is made after all.
    """
    if type(g) is np.ndarray and type(ans) is np.ndarray:
        part = g * (ans != ZERO[ans.dtype])
        flat = part.ravel()
        square = flat.dot(flat)
        if square - square == 0:
            return part
    return np.where(np.less_equal(plain(ans), 0), 0.0, g)


relu = unary(
    "relu",
    lambda x: np.maximum(x, ZERO.get(x.dtype, 0)),
    _relu_rule,
    "``max(x, 0)``; dx = g where x > 0, 0 elsewhere and at 0.",
)


def _leaky_rule(g: Any, x: Any, negative_slope: float) -> Any:
    return np.where(np.greater(plain(x), 0), g, negative_slope * g)


_leaky_relu = primitive(
    "leaky_relu",
    lambda x, negative_slope: np.where(x > 0, x, negative_slope * x),
    x=_leaky_rule,
)


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """x where x > 0, else a small multiple of it; dx = g or negative_slope g, the latter at 0."""
    if type(negative_slope) is not float:
        negative_slope = float(constant("leaky_relu", "negative_slope", negative_slope))
    return _leaky_relu(weak(x), negative_slope)


def _elu_rule(g: Any, x: Any, alpha: float) -> Any:
    # exp only of what is not positive: its overflow elsewhere would make 0 * inf of a masked part.
    return g * np.where(np.greater(plain(x), 0), 1.0, alpha * np.exp(np.minimum(x, 0)))


_elu = primitive(
    "elu",
    lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    x=_elu_rule,
)


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha (exp x - 1); dx = g, or g alpha exp x where x <= 0."""
    if type(alpha) is not float:
        alpha = float(constant("elu", "alpha", alpha))
    return _elu(weak(x), alpha)


# --- gelu ---------------------------------------------------------------------------------

_ROOT_HALF = math.sqrt(0.5)
_BELL = 1 / math.sqrt(2 * math.pi)
_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715
#: Beyond this the tanh form is 0 or x to the last bit, and its cube must not overflow.
_TANH_END = 20.0


def _normal_share(x: Any) -> Any:
    """The share of a normal distribution below x, accurate where that is tiny."""
    return 0.5 * erfc_of(-_ROOT_HALF * x)


def _gelu_rule(g: Any, x: Any) -> Any:
    return g * (_normal_share(x) + x * (_BELL * np.exp(-0.5 * x * x)))


_gelu_exact = unary("gelu", lambda x: x * _normal_share(x), _gelu_rule)


def _tanh_part(x: Any) -> Any:
    return np.tanh(_TANH_SCALE * (x + _TANH_CUBE * x * x * x))


def _gelu_tanh_rule(g: Any, x: Any) -> Any:
    x = np.clip(x, -_TANH_END, _TANH_END)
    t = _tanh_part(x)
    inner = _TANH_SCALE * (1 + 3 * _TANH_CUBE * x * x)
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)


_gelu_tanh = unary(
    "gelu_tanh",
    lambda x: 0.5 * x * (1 + _tanh_part(np.clip(x, -_TANH_END, _TANH_END))),
    _gelu_tanh_rule,
)


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """x P(x), P being the share of a normal distribution below x; dx = g (P(x) + x p(x)).

    Args:
        approximate: "none", or "tanh" for 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³)))
            with its own exact gradient.

    Raises:
        SettingError: for any other ``approximate``.
    """
    if approximate == "none":
        result: Tensor = _gelu_exact(x)
    elif approximate == "tanh":
        result = _gelu_tanh(x)
    else:
        raise SettingError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
    return result


METHODS = {"sigmoid": sigmoid, "relu": relu}
NUMPY: dict[Any, Any] = {}
PUBLIC = {
    "sigmoid": sigmoid,
    "expit": sigmoid,
    "logit": logit,
    "softplus": softplus,
    "log_sigmoid": log_sigmoid,
    "relu": relu,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "silu": silu,
    "gelu": gelu,
}
