"""Eigenvalues of general matrices, and solutions made of inverses: eig, lstsq, tensorsolve.

For the convention of complex gradients and for factors that are not unique see
:mod:`sweepgrad.ops.decompositions`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import ndim_of, shape_of
from sweepgrad.ops.conjugates import adjoint, conjugated, transposed
from sweepgrad.ops.declare import operand
from sweepgrad.ops.decompositions import gaps, svdvals
from sweepgrad.ops.linalg import inv, pinv, solve, square
from sweepgrad.ops.matmul import matmul
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rules import plain
from sweepgrad.ops.shape import reshape, transpose
from sweepgrad.tensor import Tensor


class EigResult(NamedTuple):
    """Eigenvalues in no particular order, and eigenvectors of length 1 as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _real_if(g: Any, dtype: np.dtype[Any]) -> Any:
    g = g.real if dtype.kind != "c" and g.dtype.kind == "c" else g
    return g if g.dtype == dtype else g.astype(dtype)


def _values_rule(g: Any, x: Any, w: Any, v: Any, x_dtype: np.dtype[Any]) -> Any:
    """v⁻ᵀ diag(g) vᵀ: the transpose of dw = diag(v⁻¹ dx v)."""
    if type(x) is Tensor:
        v = eig(x).eigenvectors
    part = np.linalg.solve(transposed(v), g[..., :, None] * transposed(v))
    return _real_if(part, x_dtype)


def _vectors_rule(g: Any, x: Any, w: Any, v: Any, x_dtype: np.dtype[Any]) -> Any:
    """v⁻ᴴ ((vᴴ g - vᴴ v diag Re(vᴴ g)) ∘ 1/conj(wⱼ - wᵢ)) vᴴ, for columns of length 1.

    C. Boeddeker et al., "On the computation of complex-valued gradients" (2017).
    """
    if type(x) is Tensor:
        w, v = eig(x)
    vh, g = adjoint(v), conjugated(g)
    projected = vh @ g
    lengths = np.diagonal(projected, axis1=-2, axis2=-1)
    if lengths.dtype.kind == "c":
        lengths = lengths.real
    inner = (projected - (vh @ v) * lengths[..., None, :]) * conjugated(gaps(w))
    return _real_if(conjugated(np.linalg.solve(vh, inner @ vh)), x_dtype)


_eigenvalues = primitive("eig", lambda x, w, v: w, x=_values_rule)
_eigenvectors = primitive("eig", lambda x, w, v: v, x=_vectors_rule)


def eig(a: Any) -> EigResult:
    """``numpy.linalg.eig``; dw = diag(v⁻¹ dx v), dv = v (v⁻¹ dx v ∘ 1/(wⱼ - wᵢ)), lengths kept.

    The result is complex.  Where NumPy is older than 2.5 it is real when all eigenvalues
    are; ``.real`` serves both.  A function of the vectors has a gradient only if it does
    not depend on their phases.
    """
    square(a, "eig")
    w, v = np.linalg.eig(a._array if type(a) is Tensor else operand(a))
    return EigResult(_eigenvalues(a, w, v), _eigenvectors(a, w, v))


def eigvals(a: Any) -> Tensor:
    """``numpy.linalg.eigvals``; see :func:`eig`."""
    return eig(a).eigenvalues


def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Tensor, Tensor, int, Tensor]:
    """``numpy.linalg.lstsq``: x = pinv(a) b, with gradients where the rank does not change.

    Returns:
        Solution, squared residuals (without elements unless a is tall and of
        full rank), rank and singular values.
    """
    if ndim_of(a) != 2 or ndim_of(b) not in (1, 2):
        raise ShapeError(
            f"lstsq of shapes {shape_of(a)} and {shape_of(b)}; it takes a matrix and a vector or "
            "matrix"
        )
    rows, columns = shape_of(a)
    if rcond is None:
        dtype = a.dtype if type(a) is Tensor else np.asarray(a).dtype
        rcond = np.finfo(dtype).eps * max(rows, columns)
    solution = matmul(pinv(a, rcond), b)
    values = svdvals(a)
    known = plain(values)
    rank = int((known > max(rcond, 0) * known.max(initial=0)).sum())
    if rank == columns < rows:
        rest: Any = b - matmul(a, solution)
        residuals = (np.abs(rest) ** 2).sum(axis=0)
        residuals = reshape(residuals, (-1,))
    else:
        residuals = reshape(np.zeros(0, known.dtype), (0,))
    return solution, residuals, rank, values


def tensorinv(a: Any, ind: int = 2) -> Tensor:
    """``numpy.linalg.tensorinv``: the inverse of a tensor as a map between groups of its axes."""
    shape = shape_of(a)
    if ind < 1:
        raise ShapeError(f"tensorinv: ind says how many axes are the first group, got {ind}")
    size = math.prod(shape[ind:])
    return reshape(inv(reshape(a, (size, -1))), shape[ind:] + shape[:ind])


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    """``numpy.linalg.tensorsolve``: x with ``tensordot(a, x, x.ndim) == b``."""
    ndim = ndim_of(a)
    if axes is not None:
        moved = [axis % ndim for axis in axes]
        a = transpose(a, [axis for axis in range(ndim) if axis not in moved] + moved)
    shape = shape_of(a)[ndim_of(b) :]
    size = math.prod(shape)
    if size * size != math.prod(shape_of(a)) or size != math.prod(shape_of(b)):
        raise ShapeError(
            f"tensorsolve: a of shape {shape_of(a)} does not map {size} numbers to b of shape "
            f"{shape_of(b)}; both groups of its axes, and b, must have equally many elements"
        )
    return reshape(solve(reshape(a, (size, size)), reshape(b, (size,))), shape)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.linalg.eig: eig,
    np.linalg.eigvals: eigvals,
    np.linalg.lstsq: lstsq,
    np.linalg.tensorinv: tensorinv,
    np.linalg.tensorsolve: tensorsolve,
}

PUBLIC: dict[str, Any] = {
    "eig": eig,
    "eigvals": eigvals,
    "lstsq": lstsq,
    "tensorinv": tensorinv,
    "tensorsolve": tensorsolve,
}
