"""Norms of vectors and matrices, safe at zero, and the condition number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import constant, shape_of
from sweepgrad.ops.conjugates import conjugated
from sweepgrad.ops.decompositions import svdvals
from sweepgrad.ops.linalg import inv
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.reductions import as_float
from sweepgrad.ops.rules import kept, plain
from sweepgrad.ops.shape import moveaxis, reshape
from sweepgrad.tensor import Tensor

#: The axes of a norm, counted from the front.
Axes = tuple[int, ...]


def _two(x: NDArray[Any], axes: Axes, keepdims: bool) -> NDArray[Any]:
    if len(axes) == x.ndim and not keepdims:
        return np.asarray(np.linalg.norm(x.reshape(-1)))
    squares = (x.conj() * x).real if x.dtype.kind == "c" else x * x
    return np.asarray(np.sqrt(squares.sum(axis=axes, keepdims=keepdims)))


def _two_rule(g: Any, ans: Any, x: Any, axes: Axes, x_shape: tuple[int, ...]) -> Any:
    """g x / |x|, 0 where the norm is 0."""
    zero = plain(ans) == 0
    scale = np.where(zero, 0, g / np.where(zero, 1, ans))
    return kept(scale, x_shape, axes) * conjugated(x)


_two_norm = primitive("norm", _two, x=_two_rule)


def _power(x: NDArray[Any], axes: Axes, keepdims: bool, p: float) -> NDArray[Any]:
    total = (x**p).sum(axis=axes, keepdims=keepdims)
    return np.asarray(total ** np.reciprocal(p, dtype=total.dtype))


def _power_rule(g: Any, ans: Any, x: Any, axes: Axes, p: float, x_shape: tuple[int, ...]) -> Any:
    """g (x / y)^(p - 1) for x ≥ 0; 0 where x or y is 0."""
    y = kept(ans, x_shape, axes)
    zero = (plain(x) == 0) | (plain(y) == 0)
    ratio = np.where(zero, 1, x) / np.where(plain(y) == 0, 1, y)
    return np.where(zero, 0, kept(g, x_shape, axes) * ratio ** (p - 1))


_power_norm = primitive("norm", _power, x=_power_rule)


def _vector(x: Any, order: Any, axes: Axes, keepdims: bool) -> Any:
    """A vector norm over any number of axes at once."""
    if type(order) is Tensor:
        order = constant("norm", "ord", order)
    if order is None or order == 2:
        return _two_norm(x, axes, keepdims)
    size = np.abs(x)
    if order == np.inf:
        return np.max(size, axis=axes, keepdims=keepdims)
    if order == -np.inf:
        return np.min(size, axis=axes, keepdims=keepdims)
    if order == 0:
        return np.sum(np.sign(size), axis=axes, keepdims=keepdims)
    if order == 1:
        return np.sum(size, axis=axes, keepdims=keepdims)
    if isinstance(order, str):
        raise ShapeError(f"norm of order {order!r} is one of matrices; give two axes, or a number")
    return _power_norm(size, axes, keepdims, float(order))


def _matrix(x: Any, order: Any, axes: Axes, keepdims: bool) -> Any:
    """A matrix norm over two axes."""
    row, column = axes
    if type(order) is Tensor:
        order = constant("norm", "ord", order)
    if row == column:
        raise ShapeError(f"norm over the axes {axes}: a matrix has two different ones")
    if order is None or order in ("fro", "f"):
        return _two_norm(x, axes, keepdims)
    if order in (1, -1, np.inf, -np.inf):
        summed, compared = (row, column) if order in (1, -1) else (column, row)
        largest = np.max if order > 0 else np.min
        sums = np.sum(np.abs(x), axis=summed, keepdims=True)
        result = largest(sums, axis=compared, keepdims=True)
    elif order in (2, -2, "nuc"):
        values = svdvals(moveaxis(x, axes, (-2, -1)))
        reduce: Any = {2: np.max, -2: np.min, "nuc": np.sum}[order]
        result = reduce(values, axis=-1)
    else:
        raise ShapeError(
            f"a matrix norm has order None, 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2, got {order!r}"
        )
    shape = shape_of(x)
    lengths = [1 if axis in axes else length for axis, length in enumerate(shape)]
    if not keepdims:
        lengths = [length for axis, length in enumerate(shape) if axis not in axes]
    return reshape(result, tuple(lengths))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """``numpy.linalg.norm``: vector and matrix norms of every order; dx = g x / |x| for the 2-norm.

    Where a norm is 0 its gradient is 0.  Ties of the orders inf and 1 of a matrix
    share g evenly.

    Args:
        ord: as NumPy's.
        axis: one axis for vectors, two for matrices; None takes one or two axes
            as they are, and all elements as a vector when ``ord`` is None too.

    Raises:
        ShapeError: for an order or number of axes that do not go together.
    """
    x = as_float(x)
    if type(ord) is Tensor:
        ord = constant("norm", "ord", ord)
    ndim = len(x.shape)
    if axis is None:
        axes = tuple(range(ndim))
        flat = ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1)
        if flat:
            return _two_norm(x, axes, keepdims)
    else:
        axes = normalize_axis_tuple(axis, ndim, allow_duplicate=True)
    if len(axes) == 1:
        return _vector(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix(x, ord, axes, keepdims)
    raise ShapeError(
        f"norm of order {ord!r} over {len(axes)} axes of shape {x.shape}; a vector norm takes one, "
        "a matrix norm two"
    )


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """``numpy.linalg.vector_norm``: over any number of axes as one vector."""
    x = as_float(x)
    ndim = len(x.shape)
    axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)
    return _vector(x, ord, axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """``numpy.linalg.matrix_norm``: of each matrix of a stack."""
    x = as_float(x)
    if len(x.shape) < 2:
        raise ShapeError(f"matrix_norm of shape {x.shape}; it takes matrices, or stacks of them")
    ndim = len(x.shape)
    return _matrix(x, ord, (ndim - 2, ndim - 1), keepdims)


def cond(x: Any, p: Any = None) -> Any:
    """``numpy.linalg.cond``: norm of x times norm of its inverse, by singular values for p = 2."""
    x = as_float(x)
    if p is None or p in (2, -2):
        values = svdvals(x)
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    return norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.linalg.cond: cond,
    np.linalg.matrix_norm: matrix_norm,
    np.linalg.norm: norm,
    np.linalg.vector_norm: vector_norm,
}

PUBLIC: dict[str, Any] = {
    "cond": cond,
    "matrix_norm": matrix_norm,
    "norm": norm,
    "vector_norm": vector_norm,
}
