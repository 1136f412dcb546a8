"""Diagonals: taken out of matrices, put into them, and summed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import ndim_of, refuse, refuse_out, shape_of
from sweepgrad.ops.primitive import primitive, rule_operation
from sweepgrad.ops.shape import reshape
from sweepgrad.tensor import Tensor


def _embedded(
    g: NDArray[Any], offset: int, axis1: int, axis2: int, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Zeros with g on a diagonal."""
    out = np.zeros(shape, g.dtype)
    places = np.arange(g.shape[-1])
    matrices = np.moveaxis(out, (axis1, axis2), (-2, -1))
    matrices[..., places + max(-offset, 0), places + max(offset, 0)] = g
    return out


#: The linear map that taking a diagonal is the transpose of.
embed = rule_operation(
    "embed_diagonal",
    _embedded,
    g=lambda g, offset, axis1, axis2: np.diagonal(g, offset, axis1, axis2),
)

_diagonal = primitive(
    "diagonal",
    lambda x, offset, axis1, axis2: x.diagonal(offset, axis1, axis2),
    x=lambda g, offset, axis1, axis2, x_shape: embed(g, offset, axis1, axis2, x_shape),
)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """``numpy.diagonal``, as a view; dx = zeros with g on that diagonal.

    Raises:
        ShapeError: if there are fewer than two axes.
    """
    ndim = ndim_of(a)
    if ndim < 2:
        raise ShapeError(
            f"diagonal of shape {shape_of(a)}; it needs two axes (diag makes a matrix of a vector)"
        )
    axis1, axis2 = normalize_axis_index(axis1, ndim), normalize_axis_index(axis2, ndim)
    return _diagonal(a, offset, axis1, axis2)


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """``numpy.trace``: the sum along a diagonal; dx = zeros with g on that diagonal."""
    refuse("trace", "dtype", dtype, "convert the tensor with .astype(dtype)")
    refuse_out("trace", out)
    return diagonal(a, offset, axis1, axis2).sum(axis=-1)


def diag(v: Any, k: int = 0) -> Tensor:
    """``numpy.diag``: the k-th diagonal of a matrix, or a matrix with a vector on it."""
    shape = shape_of(v)
    if len(shape) == 2:
        return diagonal(v, k)
    if len(shape) != 1:
        raise ShapeError(f"diag of shape {shape}; it takes a vector or a matrix")
    length = shape[0] + abs(k)
    return _embed(v, k, 0, 1, (length, length))


_embed = primitive(
    "diag",
    _embedded,
    g=lambda g, offset, axis1, axis2: np.diagonal(g, offset, axis1, axis2),
)


def diagflat(v: Any, k: int = 0) -> Tensor:
    """``numpy.diagflat``: a matrix with the flattened operand on its k-th diagonal."""
    return diag(reshape(v, (-1,)), k)


def _linalg_diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """``numpy.linalg.diagonal``: of each matrix of a stack."""
    return diagonal(x, offset, -2, -1)


def _linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """``numpy.linalg.trace``: of each matrix of a stack."""
    return trace(x, offset, -2, -1, dtype)


METHODS: dict[str, Any] = {
    "diagonal": diagonal,
    "trace": trace,
}

NUMPY: dict[Any, Any] = {
    np.diag: diag,
    np.diagflat: diagflat,
    np.diagonal: diagonal,
    np.linalg.diagonal: _linalg_diagonal,
    np.linalg.trace: _linalg_trace,
    np.trace: trace,
}

PUBLIC: dict[str, Any] = {
    "diag": diag,
    "diagflat": diagflat,
    "diagonal": diagonal,
    "trace": trace,
}
