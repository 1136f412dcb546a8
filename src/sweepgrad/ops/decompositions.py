"""Decompositions: qr, eigh, svd.

Each factor is an operation of its own, with the part of the rule that its
gradient enters; the rules are linear in the gradients, so the parts add up.  The
other factors are saved as constants.  When the rule is itself to be
differentiated it decomposes again, recording, so that they carry gradients too.

Factors are unique up to signs (phases) and, where values repeat, rotations.  A
function of the factors has a gradient only when it does not depend on that
choice.  Then the terms that would divide by a difference of equal values cancel,
so they are left out ("masked").

Rules: J. Townsend, "Differentiating the singular value decomposition" (2016);
M. Seeger et al., "Auto-differentiating linear algebra" (2017); Z.-Q. Wan and
S.-X. Zhang, "Automatic differentiation for complex valued SVD" (2019); for qr
also H.-J. Liao et al., "Differentiable programming tensor networks" (2019).
They are written for PyTorch's gradients of complex values; ours are the
conjugates, so g is conjugated on the way in and the result on the way out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import NoGradientRuleError, ShapeError
from sweepgrad.ops.conjugates import adjoint, conjugated, transposed
from sweepgrad.ops.declare import operand
from sweepgrad.ops.indexing import getitem
from sweepgrad.ops.joining import concatenate
from sweepgrad.ops.linalg import square
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rules import plain
from sweepgrad.tensor import Tensor


def _values(a: Any, name: str) -> NDArray[Any]:
    data: NDArray[Any] = a._array if type(a) is Tensor else operand(a)
    if data.ndim < 2:
        raise ShapeError(f"{name} of shape {data.shape}; it takes matrices, or stacks of them")
    return data


def _columns(m: Any, values: Any) -> Any:
    """m diag(values)."""
    return m * values[..., None, :]


def gaps(values: Any) -> Any:
    """1 / (valueⱼ - valueᵢ) at (i, j); 0 where they are equal to rounding, and for i = j."""
    size = np.abs(plain(values)).max(axis=-1, initial=0)[..., None, None]
    difference = values[..., None, :] - values[..., :, None]
    tiny = values.shape[-1] * np.finfo(values.dtype).eps * size
    equal = np.abs(plain(difference)) <= tiny
    return np.where(equal, 0, 1 / np.where(equal, 1, difference))


def _inverted(values: Any) -> Any:
    """1 / value; 0 where it is 0 to rounding."""
    known = plain(values)
    tiny = known.shape[-1] * np.finfo(known.dtype).eps * np.abs(known).max(-1, initial=0)[..., None]
    zero = np.abs(known) <= tiny
    return np.where(zero, 0, 1 / np.where(zero, 1, values))


# --- eigh ------------------------------------------------------------------------------


class EighResult(NamedTuple):
    """Eigenvalues, rising, and the eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _hermitian(m: Any) -> Any:
    return conjugated((m + adjoint(m)) / 2)


def _eigenvalues_rule(g: Any, x: Any, w: Any, v: Any, uplo: str) -> Any:
    """v diag(g) vᴴ."""
    if type(x) is Tensor:
        v = eigh(x, uplo)[1]
    return _hermitian(_columns(v, g) @ adjoint(v))


def _eigenvectors_rule(g: Any, x: Any, w: Any, v: Any, uplo: str) -> Any:
    """v ((vᴴ g) ∘ 1/(wⱼ - wᵢ)) vᴴ."""
    if type(x) is Tensor:
        w, v = eigh(x, uplo)
    inner = (adjoint(v) @ conjugated(g)) * gaps(w)
    return _hermitian(v @ inner @ adjoint(v))


_eigenvalues = primitive("eigh", lambda x, w, v, uplo: w, x=_eigenvalues_rule)
_eigenvectors = primitive("eigh", lambda x, w, v, uplo: v, x=_eigenvectors_rule)


def eigh(a: Any, UPLO: Any = "L") -> EighResult:  # noqa: N803  # NumPy's name
    """``numpy.linalg.eigh``; dx = v (diag gw + (vᴴ gv) ∘ 1/(wⱼ - wᵢ)) vᴴ, made Hermitian.

    Only one triangle is read, but the gradient is that of a symmetric matrix:
    symmetric, half of it in each triangle.  Equal eigenvalues: see this module.
    """
    square(a, "eigh")
    w, v = np.linalg.eigh(_values(a, "eigh"), UPLO)
    return EighResult(_eigenvalues(a, w, v, UPLO), _eigenvectors(a, w, v, UPLO))


def eigvalsh(a: Any, UPLO: Any = "L") -> Tensor:  # noqa: N803  # NumPy's name
    """``numpy.linalg.eigvalsh``; dx = v diag(g) vᴴ."""
    square(a, "eigvalsh")
    w, v = np.linalg.eigh(_values(a, "eigvalsh"), UPLO)
    return _eigenvalues(a, w, v, UPLO)


# --- svd -------------------------------------------------------------------------------


class SVDResult(NamedTuple):
    """``U``, ``S`` and ``Vh`` with a = U diag(S) Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _factors(x: Any, saved: tuple[Any, Any, Any]) -> Any:
    if type(x) is Tensor:
        return svd(x, full_matrices=False)
    return saved


def _thin(g: Any, count: int, name: str) -> Any:
    """The gradient of the first columns; the others are any basis of what is left.

    Raises:
        NoGradientRuleError: if the others got a gradient.
    """
    if g.shape[-1] == count:
        return g
    if np.any(plain(g)[..., count:]):
        raise NoGradientRuleError(
            f"svd(full_matrices=True): the columns of {name} beyond the first {count} are any "
            "basis of the rest and have no gradient; pass full_matrices=False"
        )
    return g[..., :count]


def _left_rule(g: Any, x: Any, saved: tuple[Any, Any, Any]) -> Any:
    """u [(skew(uᴴ g) ∘ F) s + i Im diag(uᴴ g) / 2s] vᴴ + (1 - u uᴴ) g s⁻¹ vᴴ, F = 1/(sⱼ² - sᵢ²)."""
    u, s, vh = _factors(x, saved)
    g = conjugated(_thin(g, s.shape[-1], "U"))
    projected = adjoint(u) @ g
    inner = _columns((projected - adjoint(projected)) * gaps(s * s), s)
    inverse = _inverted(s)
    if x.dtype.kind == "c":
        inner = inner + _phases(projected, inverse)
    outside = _columns(g - u @ projected, inverse)
    return conjugated((u @ inner + outside) @ vh)


def _right_rule(g: Any, x: Any, saved: tuple[Any, Any, Any]) -> Any:
    """u [s (skew(vᴴ g) ∘ F) - i Im diag(vᴴ g) / 2s] vᴴ + u s⁻¹ gᴴ (1 - v vᴴ), g that of v."""
    u, s, vh = _factors(x, saved)
    v = adjoint(vh)
    # That of v = (vᴴ)ᴴ: conjugated once for the convention and once for H.
    g = _thin(transposed(g), s.shape[-1], "V")
    projected = vh @ g
    inner = s[..., :, None] * ((projected - adjoint(projected)) * gaps(s * s))
    inverse = _inverted(s)
    if x.dtype.kind == "c":
        inner = inner - _phases(projected, inverse)
    outside = adjoint(_columns(g - v @ projected, inverse))
    return conjugated(u @ (inner @ vh + outside))


def _phases(projected: Any, inverse: Any) -> Any:
    """i Im diag(projected) / 2s: each pair of vectors shares its phase evenly."""
    n = projected.shape[-1]
    diagonal = np.diagonal(projected, axis1=-2, axis2=-1).imag * inverse / 2
    return 1j * diagonal[..., None, :] * np.eye(n)


def _singular_rule(g: Any, x: Any, saved: tuple[Any, Any, Any]) -> Any:
    """u diag(g) vᴴ."""
    u, _, vh = _factors(x, saved)
    return conjugated(_columns(u, g) @ vh)


_left = primitive("svd", lambda x, full, saved: full, x=_left_rule)
_singular = primitive("svd", lambda x, saved: saved[1], x=_singular_rule)
_right = primitive("svd", lambda x, full, saved: full, x=_right_rule)


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """``numpy.linalg.svd``; equations at the rules of the factors.

    Args:
        full_matrices: as in NumPy; the additional columns have no gradient, and a
            backward that brings one is refused.
        hermitian: accepted; the general way is taken.

    Equal singular values, and zeros where vectors are used: see this module.

    Raises:
        NoGradientRuleError: in backward, see ``full_matrices``.
    """
    del hermitian
    data = _values(a, "svd")
    u, s, vh = np.linalg.svd(data, full_matrices)
    count = s.shape[-1]
    saved = (u[..., :count], s, vh[..., :count, :])
    if not compute_uv:
        return _singular(a, saved)
    return SVDResult(_left(a, u, saved), _singular(a, saved), _right(a, vh, saved))


def svdvals(x: Any, /) -> Tensor:
    """``numpy.linalg.svdvals``; dx = u diag(g) vᴴ."""
    result: Tensor = svd(x, False, False)
    return result


# --- qr ---------------------------------------------------------------------------------


class QRResult(NamedTuple):
    """``Q`` with orthonormal columns and ``R``, upper triangular."""

    Q: Tensor
    R: Tensor


def _copied_upper(m: Any) -> Any:
    """The strict upper triangle, its adjoint below, and the real diagonal."""
    n = m.shape[-1]
    strict = np.triu(m, 1)
    diagonal = np.diagonal(m, axis1=-2, axis2=-1)
    if m.dtype.kind == "c":
        diagonal = diagonal.real
    return strict + adjoint(strict) + diagonal[..., None, :] * np.eye(n, dtype=diagonal.dtype)


def _over_r(m: Any, r: Any) -> Any:
    """m r⁻ᴴ."""
    return adjoint(np.linalg.solve(r, adjoint(m)))


def _q_rule(g: Any, x: Any, q: Any, r: Any) -> Any:
    """(g - q copyltu(qᴴ g)) r⁻ᴴ."""
    if type(x) is Tensor:
        q, r = qr(x)
    g = conjugated(g)
    return conjugated(_over_r(g - q @ _copied_upper(adjoint(q) @ g), r))


def _r_rule(g: Any, x: Any, q: Any, r: Any) -> Any:
    """q copyltu(g rᴴ) r⁻ᴴ."""
    if type(x) is Tensor:
        q, r = qr(x)
    g = conjugated(np.triu(g))
    return conjugated(_over_r(q @ _copied_upper(g @ adjoint(r)), r))


_q = primitive("qr", lambda x, q, r: q, x=_q_rule)
_r = primitive("qr", lambda x, q, r: r, x=_r_rule)


#: Columns that complete q to a basis; they turn with it, dq2 = -q dqᴴ q2.
_complement = primitive(
    "qr",
    lambda q, rest: rest,
    q=lambda g, ans, q: conjugated(-(ans @ (adjoint(conjugated(g)) @ q))),
)


def _complete(a: Any, data: NDArray[Any]) -> QRResult:
    q, r = np.linalg.qr(data, mode="complete")
    columns = data.shape[-1]
    first, upper = q[..., :columns].copy(), r[..., :columns, :].copy()
    base = _q(a, first, upper)
    rest = _complement(base, q[..., columns:].copy())
    bottom = np.zeros((*data.shape[:-2], data.shape[-2] - columns, columns), data.dtype)
    return QRResult(concatenate([base, rest], -1), concatenate([_r(a, first, upper), bottom], -2))


def qr(a: Any, mode: str = "reduced") -> Any:
    """``numpy.linalg.qr``; dx = (gq + q copyltu(gr rᴴ - qᴴ gq)) r⁻ᴴ for tall and square a.

    copyltu takes the upper triangle and mirrors it.  The first columns of ``a``,
    as many as it has rows, must be independent.

    Args:
        mode: "reduced", "r", or "complete".  The columns that "complete" adds are any
            basis of the rest: a function that does not depend on which has a gradient.

    Raises:
        NoGradientRuleError: for mode "raw".
        numpy.linalg.LinAlgError: in backward, if the columns depend on each other.
    """
    data = _values(a, "qr")
    rows, columns = data.shape[-2:]
    if mode not in ("reduced", "r", "complete"):
        raise NoGradientRuleError(
            f'qr(mode={mode!r}) is not offered on tensors; pass mode="reduced", "complete" or "r"'
        )
    if mode == "complete" and rows > columns:
        return _complete(a, data)
    if rows >= columns:
        q, r = np.linalg.qr(data)
        if mode == "r":
            return _r(a, q, r)
        return QRResult(_q(a, q, r), _r(a, q, r))
    # A wide matrix: its first columns give q, and the rest is expressed in them.
    first, rest = getitem(a, (..., slice(rows))), getitem(a, (..., slice(rows, None)))
    base = qr(first)
    right = concatenate([base.R, adjoint(base.Q) @ rest], -1)
    return right if mode == "r" else QRResult(base.Q, right)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.linalg.eigh: eigh,
    np.linalg.eigvalsh: eigvalsh,
    np.linalg.qr: qr,
    np.linalg.svd: svd,
    np.linalg.svdvals: svdvals,
}

PUBLIC: dict[str, Any] = {
    "eigh": eigh,
    "eigvalsh": eigvalsh,
    "qr": qr,
    "svd": svd,
    "svdvals": svdvals,
}
