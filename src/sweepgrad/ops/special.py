"""Special functions: SciPy's own when SciPy is installed, else the C library's or our series.

Without SciPy, ``erf``, ``erfc`` and ``gammaln`` call the functions of the C
library element by element, which is exact to the last bit or two and takes
about ten times as long; ``digamma`` and ``polygamma`` are summed here.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import SettingError
from sweepgrad.ops.declare import operand, unary
from sweepgrad.ops.primitive import rule_operation
from sweepgrad.tensor import Tensor, untracked

Function = Callable[[NDArray[Any]], NDArray[Any]]

#: Filled at first use, since importing SciPy takes longer than importing this library.  Two
#: threads may both look for it; they find the same.
_found: dict[str, Any] = {}


def _scipy(name: str) -> Any:
    """SciPy's function, or None."""
    if "special" not in _found:
        try:
            _found["special"] = importlib.import_module("scipy.special")
        except ImportError:
            _found["special"] = None
    return getattr(_found["special"], name, None)


def _lent(name: str, fallback: Function) -> Function:
    """SciPy's function of this name where there is one, else ``fallback``; keeps float dtypes."""

    def forward(x: NDArray[Any]) -> NDArray[Any]:
        function = _scipy(name) or fallback
        with np.errstate(all="ignore"):
            result = np.asarray(function(x))
        return result.astype(x.dtype, copy=False) if x.dtype.kind == "f" else result

    return forward


def _each(function: Callable[[float], float]) -> Function:
    """A function of the C library on every element."""

    def forward(x: NDArray[Any]) -> NDArray[Any]:
        values = np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size)
        return values.reshape(x.shape)

    return forward


# --- the error function -------------------------------------------------------------------

_erf_forward = _lent("erf", _each(math.erf))
_erfc_forward = _lent("erfc", _each(math.erfc))
_BELL = 2 / math.sqrt(math.pi)


def _bell(g: Any, x: Any) -> Any:
    """g 2 exp(-x²) / sqrt(pi)."""
    return g * (_BELL * np.exp(-x * x))


erf = unary(
    "erf", lambda x: _erf_forward(x), _bell, "Error function; dx = 2 g exp(-x²) / sqrt(pi)."
)
erfc = unary(
    "erfc",
    lambda x: _erfc_forward(x),
    lambda g, x: -_bell(g, x),
    "``1 - erf(x)``, accurate where that is tiny; dx = -2 g exp(-x²) / sqrt(pi).",
)

#: ``erfc`` for rules: an array of an array, a tensor of a tensor.
erfc_of: Callable[..., Any] = rule_operation(
    "erfc", lambda x: _erfc_forward(x), x=lambda g, x: -_bell(g, x)
)

# --- gamma functions ----------------------------------------------------------------------


def _log_gamma(x: float) -> float:
    if x <= 0 and x == math.floor(x):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


#: The Bernoulli numbers B_2k for k = 1 ... 8.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
#: From here on the asymptotic series with these terms is exact to double precision.
_FAR = 12.0
#: Polygamma without SciPy walks from x to ``_FAR`` in steps of 1; further down it gives up.
_LOWEST = -10_000.0


def _digamma_series(x: NDArray[Any]) -> NDArray[Any]:
    """log x - 1/(2x) - sum B_2k / (2k x^2k) (Abramowitz and Stegun 6.3.18), far enough out.

    Nearer, psi(x) = psi(x + 1) - 1/x; below 0, psi(x) = psi(1 - x) - pi / tan(pi x).
    """
    given = np.asarray(x, np.float64)
    x = np.where(given < 0, 1 - given, given)
    result = np.zeros_like(x)
    for _ in range(int(_FAR)):
        near = x < _FAR
        result = result - np.where(near, 1 / x, 0.0)
        x = np.where(near, x + 1, x)
    series = sum(b / (2 * k * x ** (2 * k)) for k, b in enumerate(_BERNOULLI, 1))
    result = result + np.log(x) - 1 / (2 * x) - series
    mirrored = result - math.pi / np.tan(math.pi * (given - np.floor(given)))
    poles = (given < 0) & (given == np.floor(given))
    return np.where(poles, np.nan, np.where(given < 0, mirrored, result))


def _zeta(s: int, x: NDArray[Any]) -> NDArray[Any]:
    """The Hurwitz zeta function, sum of (x + k)^-s over k >= 0, by Euler-Maclaurin."""
    x = np.where(x < _LOWEST, np.nan, x)
    result = np.zeros_like(x)
    while (x < _FAR).any():
        near = x < _FAR
        result = result + np.where(near, x ** -float(s), 0.0)
        x = np.where(near, x + 1, x)
    result = result + x ** (1.0 - s) / (s - 1) + x ** -float(s) / 2
    rising = float(s)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        result = result + bernoulli / math.factorial(2 * k) * rising * x ** (1.0 - s - 2 * k)
        rising *= (s + 2 * k - 1) * (s + 2 * k)
    return result


def _polygamma_forward(n: int, x: NDArray[Any]) -> NDArray[Any]:
    """(-1)^(n+1) n! zeta(n + 1, x)."""
    scipy = _scipy("polygamma")
    with np.errstate(all="ignore"):
        if scipy is not None:
            result = np.asarray(scipy(n, x))
        else:
            sign = -1.0 if n % 2 == 0 else 1.0
            result = sign * math.factorial(n) * _zeta(n + 1, np.asarray(x, np.float64))
    return result.astype(x.dtype, copy=False) if x.dtype.kind == "f" else result


_polygamma: Callable[..., Any] = rule_operation(
    "polygamma",
    lambda n, x: _polygamma_forward(n, x),
    x=lambda g, n, x: g * _polygamma(n + 1, x),
)
_digamma_forward = _lent("digamma", _digamma_series)
_digamma: Callable[..., Any] = rule_operation(
    "digamma", lambda x: _digamma_forward(x), x=lambda g, x: g * _polygamma(1, x)
)
_gammaln_forward = _lent("gammaln", _each(_log_gamma))

gammaln = unary(
    "gammaln",
    lambda x: _gammaln_forward(x),
    lambda g, x: g * _digamma(x),
    "``log |gamma(x)|``; dx = g digamma(x).",
)
digamma = unary(
    "digamma",
    lambda x: _digamma_forward(x),
    lambda g, x: g * _polygamma(1, x),
    "Derivative of ``gammaln``; dx = g polygamma(1, x).",
)


def polygamma(n: int, x: Any) -> Tensor:
    """The n-th derivative of ``digamma``; dx = g polygamma(n + 1, x).

    Args:
        n: an int, not negative.

    Raises:
        SettingError: if n is negative or not an int.
    """
    if not isinstance(n, int) or n < 0:
        raise SettingError(f"polygamma takes a non-negative int for n, got {n!r}")
    result: Tensor = (
        digamma(x) if n == 0 else _polygamma(n, x if type(x) is Tensor else untracked(operand(x)))
    )
    return result


METHODS: dict[str, Any] = {}
NUMPY: dict[Any, Any] = {}
PUBLIC = {
    "erf": erf,
    "erfc": erfc,
    "gammaln": gammaln,
    "digamma": digamma,
    "polygamma": polygamma,
}
