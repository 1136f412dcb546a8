"""Polynomials by their coefficients, from the highest power down, as in ``numpy.polyval``."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import refuse, shape_of
from sweepgrad.ops.declare import operand
from sweepgrad.ops.eigen import eigvals, lstsq
from sweepgrad.ops.indexing import getitem
from sweepgrad.ops.joining import concatenate
from sweepgrad.ops.reductions import as_float
from sweepgrad.ops.rules import plain
from sweepgrad.ops.shape import reshape
from sweepgrad.ops.signals import convolve
from sweepgrad.tensor import Tensor, untracked


def _tensor(x: Any) -> Tensor:
    return x if type(x) is Tensor else untracked(operand(x))


def _coefficients(p: Any, name: str) -> Tensor:
    p = _tensor(p)
    if p.ndim > 1:
        raise ShapeError(f"{name} of shape {p.shape}; coefficients are a vector")
    return reshape(p, (-1,))


def polyval(p: Any, x: Any) -> Any:
    """``numpy.polyval`` by Horner's scheme: coefficients from the highest power down."""
    coefficients = _tensor(p)
    dtype = np.result_type(coefficients.dtype, _tensor(x).dtype)
    result: Any = untracked(np.zeros(shape_of(x), dtype))
    for coefficient in coefficients:
        result = result * x + coefficient
    return result


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803
    """``numpy.vander``: the powers of a vector's elements as columns.

    Dtypes: the operand's; NumPy gives float64 for float32 as well.
    """
    shape = shape_of(x)
    if len(shape) != 1:
        raise ShapeError(f"vander of shape {shape}; it takes a vector")
    count = shape[0] if N is None else N
    columns: list[Any] = [_tensor(x) ** 0]  # ones, of the operand all the same
    while len(columns) < count:
        columns.append(columns[-1] * x)
    if not count:
        return reshape(x, (*shape, 1))[:, :0]  # no column at all, of the operand all the same
    columns = columns[:count]
    return np.stack(columns if increasing else columns[::-1], 1)  # type: ignore[return-value]


def _aligned(a1: Any, a2: Any, name: str) -> tuple[Any, Any]:
    """Both with as many coefficients as the longer."""
    one, other = _coefficients(a1, name), _coefficients(a2, name)
    length = max(one.size, other.size)
    return tuple(
        p if p.size == length else concatenate([np.zeros(length - p.size, p.dtype), p])
        for p in (one, other)
    )  # type: ignore[return-value]


def polyadd(a1: Any, a2: Any) -> Any:
    """``numpy.polyadd``: the sum of two polynomials; each coefficient's g is the result's."""
    one, other = _aligned(a1, a2, "polyadd")
    return one + other


def polysub(a1: Any, a2: Any) -> Any:
    """``numpy.polysub``: the difference of two polynomials."""
    one, other = _aligned(a1, a2, "polysub")
    return one - other


def polymul(a1: Any, a2: Any) -> Tensor:
    """``numpy.polymul``: the product, which is the convolution of the coefficients.

    As in NumPy leading coefficients that are 0 are left out first; they get gradient 0.
    """
    one, other = (_without_zeros(_coefficients(p, "polymul")) for p in (a1, a2))
    return convolve(one, other)


def _without_zeros(p: Tensor) -> Tensor:
    kept = np.flatnonzero(plain(p))
    return p[kept[0] :] if kept.size else p[-1:]


def polyder(p: Any, m: int = 1) -> Any:
    """``numpy.polyder``: the m-th derivative of the polynomial."""
    result = _coefficients(p, "polyder")
    for _ in range(_order(m, "polyder")):
        powers = np.arange(result.size - 1, 0, -1)
        result = result[:-1] * powers.astype(np.result_type(result.dtype, np.int8))
    return result


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """``numpy.polyint``: the m-th antiderivative.

    Args:
        k: a constant of integration for each order, or one for all; 0 by default.
    """
    m = _order(m, "polyint")
    constants = _coefficients(0.0 if k is None else k, "polyint")
    if constants.size not in (1, m):
        raise ShapeError(
            f"polyint of order {m} got {constants.size} constants; give one for each or one for all"
        )
    result = _coefficients(p, "polyint")
    for turn in range(m):
        place = 0 if constants.size == 1 else turn
        divisors = np.arange(result.size, 0, -1).astype(np.result_type(result.dtype, np.int8))
        constant = constants[place : place + 1].astype(np.result_type(result.dtype, np.float16))
        result = concatenate([result / divisors, constant])
    return result


def _order(m: int, name: str) -> int:
    m = operator.index(m)
    if m < 0:
        raise ShapeError(f"{name} of order {m}; the order is 0 or more")
    return m


def poly(seq_of_zeros: Any) -> Any:
    """``numpy.poly``: the monic polynomial with these roots, or a matrix's characteristic one."""
    roots_ = as_float(_tensor(seq_of_zeros))
    if roots_.ndim == 2 and roots_.shape[0] == roots_.shape[1] and roots_.size:
        roots_ = eigvals(roots_)
    elif roots_.ndim > 1:
        raise ShapeError(f"poly of shape {roots_.shape}; it takes a vector or a square matrix")
    result: Any = untracked(np.ones(1, roots_.dtype))
    none = np.zeros(1, roots_.dtype)
    for root in reshape(roots_, (-1,)):
        result = concatenate([result, none]) - concatenate([none, result]) * root
    return _real_if_paired(result, roots_)


def _real_if_paired(result: Any, roots_: Any) -> Any:
    """Real where the complex roots come as conjugate pairs, as NumPy has it."""
    values = plain(roots_)
    if values.dtype.kind != "c" or not np.array_equal(np.sort(values), np.sort(values.conj())):
        return result
    return result.real


def roots(p: Any) -> Tensor:
    """``numpy.roots``: the eigenvalues of the companion matrix; dp follows from theirs.

    A root that comes twice has no gradient.  The order of the roots is LAPACK's.

    Raises:
        ShapeError: if all coefficients are 0.
    """
    p = as_float(_coefficients(p, "roots"))
    if not plain(p).any():
        raise ShapeError("roots of coefficients that are all 0; every number is a root")
    p = _without_zeros(p)
    count = p.size - 1
    if count < 1:
        return getitem(p, slice(1, None))
    first = -(p[1:] / p[0])
    return eigvals(concatenate([reshape(first, (1, -1)), np.eye(count, dtype=p.dtype)[:-1]], 0))


def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: Any = None,
    full: bool = False,
    w: Any = None,
    cov: bool = False,
) -> Any:
    """``numpy.polyfit``: least squares; gradients with respect to points, values and weights.

    Raises:
        NoGradientRuleError: for ``full`` and ``cov``.
        ShapeError: if the points and values do not go together.
    """
    refuse("polyfit", "full", full, "call np.linalg.lstsq(np.vander(x, deg + 1), y)", False)
    refuse("polyfit", "cov", cov, "compute the covariance from np.vander(x, deg + 1)", False)
    x, y = as_float(_tensor(x)), as_float(_tensor(y))
    if x.ndim != 1 or y.ndim not in (1, 2) or not x.size or y.shape[0] != x.size:
        raise ShapeError(
            f"polyfit got points of shape {x.shape} and values of shape {y.shape}; points are a "
            "vector, and values have one row for each point"
        )
    columns: Any = vander(x, _order(deg, "polyfit") + 1)
    if w is not None:
        weights = as_float(_tensor(w))
        columns = columns * weights[:, None]
        y = y * (weights if y.ndim == 1 else weights[:, None])
    cut = x.size * np.finfo(x.dtype).eps if rcond is None else rcond
    size = np.sqrt((columns * columns).sum(axis=0))
    found = lstsq(columns / size, y, cut)[0]
    return found / (size if y.ndim == 1 else size[:, None])


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.poly: poly,
    np.polyadd: polyadd,
    np.polyder: polyder,
    np.polyfit: polyfit,
    np.polyint: polyint,
    np.polymul: polymul,
    np.polysub: polysub,
    np.polyval: polyval,
    np.roots: roots,
    np.vander: vander,
}

PUBLIC: dict[str, Any] = {function.__name__: operation for function, operation in NUMPY.items()}
