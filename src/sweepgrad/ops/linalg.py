"""Linear algebra on stacks of matrices: inverses, systems, determinants, Cholesky, powers.

Rules from M. Giles, "Collected matrix derivative results for forward and reverse
mode algorithmic differentiation" (2008), and I. Murray, "Differentiation of the
Cholesky decomposition" (2016).  Below, T exchanges the last two axes and H also
conjugates.  Gradients of complex values are as in JAX, ∂L/∂Re - i ∂L/∂Im, so a
holomorphic rule has T where PyTorch's has H.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import constant, shape_of
from sweepgrad.ops.conjugates import adjoint, conjugated, transposed
from sweepgrad.ops.declare import fit, operand
from sweepgrad.ops.matmul import matmul
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rearrange import tril, triu
from sweepgrad.ops.rules import plain
from sweepgrad.ops.shape import reshape
from sweepgrad.tensor import Tensor, untracked


def square(x: Any, name: str) -> None:
    """Refuse what is not a stack of square matrices.

    Raises:
        ShapeError: naming the shape.
    """
    shape = shape_of(x)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"{name} of shape {shape}; it takes square matrices, or stacks of them")


# --- inverses and systems -----------------------------------------------------------

_inv = primitive(
    "inv",
    lambda x: np.linalg.inv(x),
    x=lambda g, ans: -(transposed(ans) @ g @ transposed(ans)),
)


def inv(a: Any) -> Tensor:
    """``numpy.linalg.inv``; dx = -yᵀ g yᵀ.

    Raises:
        numpy.linalg.LinAlgError: if a matrix is singular.
    """
    square(a, "inv")
    return _inv(a)


def _solve_right(g: Any, a: Any, x_shape: tuple[int, ...], x_dtype: Any) -> Any:
    return fit(np.linalg.solve(transposed(a), g), x_shape, x_dtype)


def _solve_left(g: Any, ans: Any, a: Any, a_shape: tuple[int, ...], a_dtype: Any) -> Any:
    return fit(-(np.linalg.solve(transposed(a), g) @ transposed(ans)), a_shape, a_dtype)


def _solve_both(
    g: Any,
    ans: Any,
    a: Any,
    a_shape: tuple[int, ...],
    a_dtype: Any,
    x_shape: tuple[int, ...],
    x_dtype: Any,
) -> Any:
    right = np.linalg.solve(transposed(a), g)
    left = -(right @ transposed(ans))
    return fit(left, a_shape, a_dtype), fit(right, x_shape, x_dtype)


_solve = primitive(
    "solve",
    lambda a, x: np.linalg.solve(a, x),
    together=_solve_both,
    a=_solve_left,
    x=_solve_right,
)


def solve(a: Any, b: Any) -> Tensor:
    """``numpy.linalg.solve``; db = a⁻ᵀ g, da = -db yᵀ.

    As in NumPy 2, ``b`` is a vector when it has one axis, else a stack of matrices.

    Raises:
        numpy.linalg.LinAlgError: if a matrix is singular.
    """
    square(a, "solve")
    if len(shape_of(b)) == 1:
        result = _solve(a, reshape(b, (-1, 1)))
        return reshape(result, result.shape[:-1])
    return _solve(a, b)


def solve_triangular(a: Any, b: Any, lower: bool = False, unit_diagonal: bool = False) -> Tensor:
    """The solution of a triangular system; one triangle of ``a`` is read and gets a gradient.

    Args:
        lower: read the lower triangle instead of the upper one.
        unit_diagonal: take the diagonal as ones and do not read it.
    """
    square(a, "solve_triangular")
    offset = int(unit_diagonal)
    triangle: Any = tril(a, -offset) if lower else triu(a, offset)
    if unit_diagonal:
        triangle = triangle + np.eye(shape_of(a)[-1], dtype=triangle.dtype)
    return solve(triangle, b)


# --- determinants -------------------------------------------------------------------


def _well_conditioned(x: NDArray[Any]) -> bool:
    """Whether determinant times inverse gives the cofactors to half the digits at least."""
    try:
        inverse = np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return False
    size = np.abs(x).max(axis=(-2, -1)) * np.abs(inverse).max(axis=(-2, -1))
    return bool(np.all(size < 1 / np.sqrt(np.finfo(x.dtype).eps)))


def _cofactors(x: Any) -> Any:
    """det(x) x⁻ᵀ, also where x is singular.

    There the singular values give it: x = u s vᴴ has the cofactors
    det(u) det(vᴴ) conj(u) diag(product of the other s) vᵀ.  When the rule is
    itself to be differentiated, the determinants of the minors give it.
    """
    values = plain(x)
    if not values.size:
        return x * 0
    if _well_conditioned(values):
        return np.linalg.det(x)[..., None, None] * transposed(np.linalg.inv(x))
    if type(x) is Tensor:
        return _minors(x)
    u, s, vh = np.linalg.svd(x)
    others = np.where(np.eye(x.shape[-1], dtype=bool), 1, s[..., None, :]).prod(axis=-1)
    phase = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
    return phase * ((np.conjugate(u) * others[..., None, :]) @ np.conjugate(vh))


def _minors(x: Any) -> Any:
    """Each element's signed determinant of the matrix without its row and column."""
    n = x.shape[-1]
    if n == 1:
        return x * 0 + 1
    rest = np.array([[j for j in range(n) if j != i] for i in range(n)])
    minors = x[..., rest[:, None, :, None], rest[None, :, None, :]]
    signs = (-1.0) ** np.add.outer(np.arange(n), np.arange(n))
    return np.linalg.det(minors) * signs.astype(x.dtype)


_det = primitive(
    "det",
    lambda x: np.linalg.det(x),
    x=lambda g, x: g[..., None, None] * _cofactors(x),
)


def det(a: Any) -> Tensor:
    """``numpy.linalg.det``; dx = g times the cofactors of x, right for singular matrices too."""
    square(a, "det")
    return _det(a)


class SlogdetResult(NamedTuple):
    """Sign (or phase) and logarithm of the absolute value of a determinant."""

    sign: Tensor
    logabsdet: Tensor


_logabsdet = primitive(
    "slogdet",
    lambda x: np.linalg.slogdet(x)[1],
    x=lambda g, x: g[..., None, None] * transposed(np.linalg.inv(x)),
)


def _phase_rule(g: Any, ans: Any, x: Any) -> Any:
    """d phase = i phase Im tr(x⁻¹ dx), so dx = -i Re(i g phase) x⁻ᵀ."""
    # Numbers of Python stand on the right, for NumPy's scalars to stay NumPy's.
    turned = (g * ans * 1j).real
    return (turned * -1j)[..., None, None] * transposed(np.linalg.inv(x))


_phase = primitive("slogdet", lambda x: np.linalg.slogdet(x)[0], x=_phase_rule)


def slogdet(a: Any) -> SlogdetResult:
    """``numpy.linalg.slogdet``; d logabsdet = g x⁻ᵀ.

    The sign of a real determinant has no gradient; the phase of a complex one has.

    Raises:
        numpy.linalg.LinAlgError: in backward, if a matrix is singular.
    """
    square(a, "slogdet")
    if type(a) is Tensor and a.dtype.kind != "c":
        return SlogdetResult(_phase(a.detach()), _logabsdet(a))
    return SlogdetResult(_phase(a), _logabsdet(a))


# --- Cholesky ------------------------------------------------------------------------


def _halved(m: Any) -> Any:
    """The lower triangle with half the diagonal (Murray's Φ)."""
    n = m.shape[-1]
    weights = np.tril(np.ones((n, n))) - 0.5 * np.eye(n)
    return m * weights.astype(m.dtype)


def _cholesky_rule(g: Any, ans: Any) -> Any:
    """y⁻ᴴ Φ(yᴴ g) y⁻¹, made Hermitian; g in PyTorch's convention meanwhile."""
    g = conjugated(g)
    inverse = np.linalg.inv(ans)
    part = adjoint(inverse) @ _halved(adjoint(ans) @ g) @ inverse
    return conjugated((part + adjoint(part)) / 2)


_cholesky = primitive("cholesky", lambda x: np.linalg.cholesky(x), x=_cholesky_rule)


def cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    """``numpy.linalg.cholesky``: the lower factor y with y yᴴ = a.

    Only one triangle is read, but the gradient is that of a symmetric matrix:
    symmetric, half of it in each triangle.

    Raises:
        numpy.linalg.LinAlgError: if a matrix is not positive definite.
    """
    square(a, "cholesky")
    if not upper:
        return _cholesky(a)
    lower = _cholesky(_adjoint_of(a))
    result: Tensor = adjoint(lower)
    return result


def _adjoint_of(a: Any) -> Any:
    return adjoint(a if type(a) is Tensor else np.asarray(a))


# --- powers and pseudo-inverse --------------------------------------------------------


_zeroth_power = primitive(
    "matrix_power",
    lambda x: np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape),
    x=lambda g: np.zeros_like(plain(g)),
)


def matrix_power(a: Any, n: int) -> Any:
    """``numpy.linalg.matrix_power`` by repeated squaring; negative powers through the inverse."""
    square(a, "matrix_power")
    n = operator.index(n)
    if n == 0:
        return _zeroth_power(a)
    base: Any = inv(a) if n < 0 else a
    n = abs(n)
    result: Any = None
    while n:
        if n & 1:
            result = base if result is None else matmul(result, base)
        n >>= 1
        if n:
            base = matmul(base, base)
    return result if type(result) is Tensor else untracked(operand(result))


def _dtype(a: Any) -> np.dtype[Any]:
    return a.dtype if type(a) is Tensor else np.asarray(a).dtype


def _pinv_rule(g: Any, ans: Any, x: Any) -> Any:
    """-yᴴ g yᴴ + (1 - x y) gᴴ y yᴴ + yᴴ y gᴴ (1 - y x), g in PyTorch's convention meanwhile.

    G. Golub and V. Pereyra, "The differentiation of pseudo-inverses" (1973).
    """
    g = conjugated(g)
    y, yh, gh = ans, adjoint(ans), adjoint(g)
    left = gh @ y @ yh
    right = yh @ y @ gh
    result = -(yh @ g @ yh) + (left - x @ (y @ left)) + (right - (right @ y) @ x)
    return conjugated(result)


_pinv = primitive(
    "pinv",
    lambda x, rcond, hermitian: np.linalg.pinv(x, rcond, hermitian),
    x=_pinv_rule,
)


_NOT_GIVEN: Any = object()


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = _NOT_GIVEN) -> Tensor:
    """``numpy.linalg.pinv``; the gradient holds where the rank does not change (Golub, Pereyra).

    Args:
        rcond, rtol: smaller singular values than this times the largest count as
            zero; 1e-15, and for ``rtol=None`` the dtype's precision times the larger side.
    """
    shape = shape_of(a)
    if len(shape) < 2:
        raise ShapeError(f"pinv of shape {shape}; it takes matrices, or stacks of them")
    if rtol is _NOT_GIVEN:
        rcond = 1e-15 if rcond is None else rcond
    elif rcond is not None:
        raise ShapeError("pinv got both rcond and rtol; give one of them")
    else:
        rcond = max(shape[-2:]) * np.finfo(_dtype(a)).eps if rtol is None else rtol
    return _pinv(a, constant("pinv", "rcond", rcond), hermitian)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.linalg.cholesky: cholesky,
    np.linalg.det: det,
    np.linalg.inv: inv,
    np.linalg.matrix_power: matrix_power,
    np.linalg.pinv: pinv,
    np.linalg.slogdet: slogdet,
    np.linalg.solve: solve,
}

PUBLIC: dict[str, Any] = {
    "cholesky": cholesky,
    "det": det,
    "inv": inv,
    "matrix_power": matrix_power,
    "pinv": pinv,
    "slogdet": slogdet,
    "solve": solve,
    "solve_triangular": solve_triangular,
}
