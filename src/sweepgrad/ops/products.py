"""NumPy's other products, made of matmul, tensordot and multiplication."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import ndim_of, refuse_out, shape_of
from sweepgrad.ops.arithmetic import multiply
from sweepgrad.ops.conjugates import conjugated
from sweepgrad.ops.declare import fit
from sweepgrad.ops.indexing import getitem
from sweepgrad.ops.matmul import matmul
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.shape import moveaxis
from sweepgrad.ops.shape import reshape as _reshape
from sweepgrad.tensor import Tensor


def _contracted(x_ndim: int, y_ndim: int, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that tensordot sums over, as two tuples of equal length without negatives."""
    try:
        of_x, of_y = axes
    except TypeError:
        count = operator.index(axes)
        return tuple(range(x_ndim - count, x_ndim)), tuple(range(count))
    return normalize_axis_tuple(of_x, x_ndim), normalize_axis_tuple(of_y, y_ndim)


def _rest(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis in range(ndim) if axis not in axes)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    inverse = [0] * len(order)
    for position, axis in enumerate(order):
        inverse[axis] = position
    return tuple(inverse)


def _tensordot_x(g: Any, y: Any, axes: Any, x_shape: tuple[int, ...], x_dtype: Any) -> Any:
    of_x, of_y = axes
    free_x, free_y = _rest(len(x_shape), of_x), _rest(y.ndim, of_y)
    part = np.tensordot(g, y, (tuple(range(len(free_x), g.ndim)), free_y))
    # The summed axes of x come out in the order in which y has them.
    summed = tuple(axis for _, axis in sorted(zip(of_y, of_x, strict=True)))
    return fit(part.transpose(_inverse(free_x + summed)), x_shape, x_dtype)


def _tensordot_y(g: Any, x: Any, axes: Any, y_shape: tuple[int, ...], y_dtype: Any) -> Any:
    of_x, of_y = axes
    free_x, free_y = _rest(x.ndim, of_x), _rest(len(y_shape), of_y)
    part = np.tensordot(x, g, (free_x, tuple(range(len(free_x)))))
    summed = tuple(axis for _, axis in sorted(zip(of_x, of_y, strict=True)))
    return fit(part.transpose(_inverse(summed + free_y)), y_shape, y_dtype)


_tensordot = primitive(
    "tensordot",
    lambda x, y, axes: np.tensordot(x, y, axes),
    x=_tensordot_x,
    y=_tensordot_y,
)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """Sum of products over the given axes, as ``numpy.tensordot``.

    dx is the same product of g and y over y's other axes, in x's order of axes; dy likewise.

    Args:
        axes: how many of the last axes of ``a`` and the first of ``b`` to sum
            over, or a pair of the axes themselves.

    Raises:
        ShapeError: if the lengths of the axes differ.
    """
    pair = _contracted(ndim_of(a), ndim_of(b), axes)
    return _tensordot(a, b, pair)


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """``numpy.dot``: a product with a scalar, of vectors, of matrices, or over axes -1 and -2.

    Raises:
        ShapeError: if the shapes do not match; names both.
    """
    if out is not None:
        refuse_out("dot", out)
    ranks = ndim_of(a), ndim_of(b)
    if 0 in ranks:
        return multiply(a, b)
    if ranks[1] > 2 or (ranks[0] > 2 and ranks[1] == 2):
        return tensordot(a, b, (-1, -2))
    return matmul(a, b)


def vdot(a: Any, b: Any, /) -> Any:
    """``numpy.vdot``: the flattened operands' product, the first one conjugated."""
    return matmul(conjugated(_reshape(a, (-1,))), _reshape(b, (-1,)))


def inner(a: Any, b: Any, /) -> Any:
    """``numpy.inner``: the sum of products over both operands' last axes."""
    if not ndim_of(a) or not ndim_of(b):
        return multiply(a, b)
    return tensordot(a, b, (-1, -1))


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """``numpy.outer``: every product of an element of ``a`` with one of ``b``, a row for each."""
    refuse_out("outer", out)
    return multiply(_reshape(a, (-1, 1)), _reshape(b, (1, -1)))


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """``numpy.vecdot``: the product of vectors along an axis, the first operand conjugated."""
    for x in (x1, x2):
        if not ndim_of(x):
            raise ShapeError("vecdot needs an axis in both operands; use * for scalars")
    one, other = _at_the_end(x1, axis), _at_the_end(x2, axis)
    if shape_of(one)[-1] != shape_of(other)[-1]:
        raise ShapeError(
            f"vecdot of shapes {shape_of(x1)} and {shape_of(x2)}: the lengths along axis {axis} "
            "differ; they must be equal"
        )
    rows = _reshape(conjugated(one), (*shape_of(one)[:-1], 1, shape_of(one)[-1]))
    columns = _reshape(other, (*shape_of(other), 1))
    product = matmul(rows, columns)
    return _reshape(product, product.shape[:-2])


def _at_the_end(x: Any, axis: int) -> Any:
    return x if axis == -1 else moveaxis(x, axis, -1)


def matvec(x1: Any, x2: Any, /) -> Any:
    """``numpy.matvec``: stacks of matrices times stacks of vectors."""
    product = matmul(x1, _reshape(x2, (*shape_of(x2), 1)))
    return _reshape(product, product.shape[:-1])


def vecmat(x1: Any, x2: Any, /) -> Any:
    """``numpy.vecmat``: stacks of vectors, conjugated, times stacks of matrices."""
    shape = shape_of(x1)
    product = matmul(_reshape(conjugated(x1), (*shape[:-1], 1, shape[-1])), x2)
    return _reshape(product, (*product.shape[:-2], product.shape[-1]))


def kron(a: Any, b: Any) -> Any:
    """``numpy.kron``: a copy of ``b`` for each element of ``a``, times that element."""
    of_a, of_b = shape_of(a), shape_of(b)
    ndim = max(len(of_a), len(of_b))
    of_a = (1,) * (ndim - len(of_a)) + of_a
    of_b = (1,) * (ndim - len(of_b)) + of_b
    spread_a = tuple(length for pair in zip(of_a, (1,) * ndim, strict=True) for length in pair)
    spread_b = tuple(length for pair in zip((1,) * ndim, of_b, strict=True) for length in pair)
    product = multiply(_reshape(a, spread_a), _reshape(b, spread_b))
    return _reshape(product, tuple(m * n for m, n in zip(of_a, of_b, strict=True)))


def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """``numpy.linalg.multi_dot``: the product of several matrices, from left to right.

    NumPy looks for the cheapest order; here the order is the one written, so that
    the value and each gradient are the same for every shape.
    """
    refuse_out("multi_dot", out)
    factors = list(arrays)
    if len(factors) < 2:
        raise ShapeError(f"multi_dot of {len(factors)} arrays; give at least two")
    product = factors[0]
    for factor in factors[1:]:
        product = matmul(product, factor)
    return product


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """``numpy.cross`` of vectors with three components.

    Raises:
        ShapeError: for another number of components.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    one, other = _at_the_end(a, axisa), _at_the_end(b, axisb)
    for x in (one, other):
        if not ndim_of(x) or shape_of(x)[-1] != 3:
            raise ShapeError(
                f"cross of shapes {shape_of(a)} and {shape_of(b)}: both need 3 components along "
                "the axis; add a third component that is 0 to vectors in the plane"
            )
    # (a₁b₂ - a₂b₁, a₂b₀ - a₀b₂, a₀b₁ - a₁b₀)
    turned, twice = [1, 2, 0], [2, 0, 1]
    product = getitem(one, (..., turned)) * getitem(other, (..., twice)) - getitem(
        one, (..., twice)
    ) * getitem(other, (..., turned))
    return _at_the_end(product, -1) if axisc == -1 else moveaxis(product, -1, axisc)


def _linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return cross(x1, x2, axis=axis)


def _linalg_tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    return tensordot(x1, x2, axes)


def _linalg_outer(x1: Any, x2: Any, /) -> Any:
    for x in (x1, x2):
        if ndim_of(x) != 1:
            raise ShapeError(
                f"linalg.outer takes vectors, got shapes {shape_of(x1)} and {shape_of(x2)}; "
                "use np.outer, which flattens"
            )
    return outer(x1, x2)


METHODS = {"dot": dot}

NUMPY: dict[Any, Any] = {
    np.cross: cross,
    np.dot: dot,
    np.inner: inner,
    np.kron: kron,
    np.linalg.cross: _linalg_cross,
    np.linalg.multi_dot: multi_dot,
    np.linalg.outer: _linalg_outer,
    np.linalg.tensordot: _linalg_tensordot,
    np.linalg.vecdot: vecdot,
    np.outer: outer,
    np.tensordot: tensordot,
    np.vdot: vdot,
    np.vecdot: vecdot,
}
NUMPY |= {
    getattr(np, name): operation
    for name, operation in (("matvec", matvec), ("vecmat", vecmat))  # new in NumPy 2.2
    if hasattr(np, name)
}

PUBLIC = {
    "cross": cross,
    "dot": dot,
    "inner": inner,
    "kron": kron,
    "matvec": matvec,
    "multi_dot": multi_dot,
    "outer": outer,
    "tensordot": tensordot,
    "vdot": vdot,
    "vecdot": vecdot,
    "vecmat": vecmat,
}
