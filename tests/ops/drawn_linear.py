"""Drawn cases: products, linear algebra, polynomials, spaces."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from drawing import Draw, DrawnCase, Operation, Shape, joined, parts

import sweepgrad as sg


def _product(function: Callable[..., Any], signature: str, least: int = 0) -> DrawnCase:
    """A product of operands whose shapes fit and broadcast."""

    def drawn(d: Draw) -> Operation:
        return function, [d.values(shape) for shape in d.matched(signature, least)]

    return drawn


def _flat(function: Callable[..., Any]) -> DrawnCase:
    """A product of two operands of any shapes."""
    return lambda d: (function, [d.values(d.shape()), d.values(d.shape())])


def _dot(d: Draw) -> Operation:
    inner = d.integer(0, 3)
    shapes = [
        (*d.shape(0, 2), inner),
        d.of((inner,), (d.integer(0, 2), inner, d.integer(0, 3)), (inner, d.integer(0, 3))),
    ]
    return np.dot, [d.values(shape) for shape in shapes]


def _inner(d: Draw) -> Operation:
    last = d.integer(0, 3)
    return np.inner, [d.values((*d.shape(0, 2), last)) for _ in range(2)]


def _vdot(d: Draw) -> Operation:
    shape = d.shape()
    return np.vdot, [d.values(shape), d.values(shape[::-1])]


def _tensordot(function: Callable[..., Any]) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        shared = d.shape(0, 2)
        shapes = [(*d.shape(0, 2), *shared), (*shared, *d.shape(0, 2))]
        return lambda x, y: function(x, y, axes=len(shared)), [d.values(s) for s in shapes]

    return drawn


def _einsum(d: Draw) -> Operation:
    sizes = {letter: d.integer(0, 3) for letter in "ijk"}
    text = d.of("...ij,...jk->...ik", "ij...,j->i...", "...ii->...i", "i...i,i->...", "ij,jk->",
                "...i,...i,...i->...", "...ij->...ji")  # fmt: skip
    before = d.broadcast(text.count("..."), (0, 2)) if "..." in text else ()
    rest = iter(before)
    shapes = []
    for operand in text.split("->")[0].split(","):
        head, dots, tail = operand.partition("...")
        middle = next(rest) if dots and operand else ()
        shapes.append((*[sizes[x] for x in head], *middle, *[sizes[x] for x in tail]))
    return lambda *x: np.einsum(text, *x), [d.values(shape) for shape in shapes]


def _multi_dot(d: Draw) -> Operation:
    sizes = [d.integer(1, 3) for _ in range(d.integer(3, 5))]
    return lambda *x: np.linalg.multi_dot(x), [d.values(pair) for pair in itertools.pairwise(sizes)]


def _kron(d: Draw) -> Operation:
    return np.kron, [d.values(d.shape(0, 2)), d.values(d.shape(0, 2))]


PRODUCTS: dict[str, DrawnCase] = {
    "matmul": _product(np.matmul, "(n?,k),(k,m?)->(n?,m?)"),
    "matvec": _product(np.matvec, "(n,k),(k)->(n)"),
    "vecmat": _product(np.vecmat, "(k),(k,n)->(n)"),
    "vecdot": _product(np.vecdot, "(k),(k)->()"),
    "linear": lambda d: (
        sg.linear,
        [d.values((*d.shape(), n := d.integer(0, 3))), d.values((n, m := d.integer(0, 3))),
         d.values((m,))],
    ),
    "cross": lambda d: (np.cross, [d.values((*shape, 3)) for shape in d.broadcast(2)]),
    "linalg.cross": lambda d: (
        np.linalg.cross, [d.values((*shape, 3)) for shape in d.broadcast(2)]),
    "dot": _dot,
    "inner": _inner,
    "outer": _flat(np.outer),
    "linalg.outer": lambda d: (np.linalg.outer, [d.values(d.shape(1, 1)) for _ in range(2)]),
    "vdot": _vdot,
    "kron": _kron,
    "tensordot": _tensordot(np.tensordot),
    "linalg.tensordot": _tensordot(np.linalg.tensordot),
    "einsum": _einsum,
    "multi_dot": _multi_dot,
}  # fmt: skip


def _square(function: Callable[..., Any], least: int = 0) -> DrawnCase:
    """A function of a stack of square matrices."""

    def drawn(d: Draw) -> Operation:
        size = d.integer(least, 3)
        return function, [d.matrix(d.shape(0, 2, (0, 2)), size, size)]

    return drawn


def _symmetric(x: Any) -> Any:
    return (x + np.swapaxes(x, -1, -2)) / 2


def _positive(x: Any) -> Any:
    """With the squares of the singular values as eigenvalues."""
    return x @ np.swapaxes(x, -1, -2)


def _oblong(function: Callable[..., Any]) -> DrawnCase:
    """A function of a stack of matrices, tall or wide."""

    def drawn(d: Draw) -> Operation:
        rows, columns = d.integer(1, 4), d.integer(1, 4)
        return function, [d.matrix(d.shape(0, 2, (0, 2)), rows, columns)]

    return drawn


def _tall(function: Callable[..., Any]) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        columns = d.integer(1, 3)
        return function, [d.matrix(d.shape(0, 2, (0, 2)), d.integer(columns, 4), columns)]

    return drawn


def _solve(d: Draw) -> Operation:
    size = d.integer(0, 3)
    stacks = d.broadcast(2, (0, 2))
    right = d.of((*stacks[1], size, d.integer(0, 2)), (size,))
    return np.linalg.solve, [d.matrix(stacks[0], size, size), d.values(right)]


def _solve_triangular(d: Draw) -> Operation:
    lower, unit, size = d.flag(), d.flag(), d.integer(1, 3)
    stacks = d.broadcast(2, (0, 2))
    a = d.between(-0.5, 0.5, (*stacks[0], size, size)) + 2 * np.eye(size)
    return lambda a, b: sg.solve_triangular(a, b, lower, unit), [
        a, d.values((*stacks[1], size, d.integer(0, 2)))]  # fmt: skip


def _lstsq(d: Draw) -> Operation:
    rows, columns = d.integer(1, 4), d.integer(1, 3)
    return lambda a, b: np.linalg.lstsq(a, b)[0], [
        d.matrix((), rows, columns), d.values(d.of((rows,), (rows, d.integer(1, 2))))]  # fmt: skip


def _norm(d: Draw) -> Operation:
    shape = d.shape(1, side=(1, 3))
    axis, order = d.axis(len(shape)), d.of(None, 1, 2, 3, -1, np.inf, -np.inf)
    keepdims = d.flag()
    # Where all are positive no two are equally large.
    return lambda x: np.linalg.norm(x + 4.0, order, axis, keepdims), [d.values(shape)]


def _vector_norm(d: Draw) -> Operation:
    shape = d.shape(side=(1, 3))
    axis, order = d.axes(len(shape)), d.of(1, 2, 3, np.inf)
    return lambda x: np.linalg.vector_norm(x + 4.0, axis=axis, ord=order), [d.values(shape)]


def _matrix_norm(d: Draw) -> Operation:
    order = d.of("fro", "nuc", 1, -1, 2, -2, np.inf)
    rows, columns = d.integer(1, 3), d.integer(1, 3)
    return lambda x: np.linalg.matrix_norm(x, ord=order), [
        d.matrix(d.shape(0, 2, (0, 2)), rows, columns)]  # fmt: skip


def _tensorinv(d: Draw) -> Operation:
    one, other = d.integer(1, 2), d.integer(1, 2)
    return lambda x: np.linalg.tensorinv(x.reshape(one, other, one * other), 2), [
        d.matrix((), one * other, one * other)]  # fmt: skip


def _tensorsolve(d: Draw) -> Operation:
    one, other = d.integer(1, 2), d.integer(1, 2)
    return lambda a, b: np.linalg.tensorsolve(a.reshape(one, other, one * other), b), [
        d.matrix((), one * other, one * other), d.values((one, other))]  # fmt: skip


def _power(d: Draw) -> Operation:
    size, n = d.integer(1, 3), d.integer(-3, 3)
    return lambda x: np.linalg.matrix_power(x, n) * x, [d.matrix(d.shape(0, 2, (0, 2)), size, size)]


LINEAR: dict[str, DrawnCase] = {
    "inv": _square(np.linalg.inv),
    "det": _square(np.linalg.det),
    "slogdet": _square(lambda x: np.linalg.slogdet(x)[1]),
    "cholesky": _square(lambda x: np.linalg.cholesky(_positive(x))),
    "eigh": _square(lambda x: joined(*np.linalg.eigh(_positive(x))), 1),
    "eigvalsh": _square(lambda x: np.linalg.eigvalsh(_positive(x)), 1),
    "eig": _square(lambda x: np.abs(np.linalg.eig(_positive(x))[1]), 1),
    "eigvals": _square(lambda x: np.linalg.eigvals(_positive(x)).real, 1),
    "cond": _square(np.linalg.cond, 1),
    "matrix_power": _power,
    "solve": _solve,
    "solve_triangular": _solve_triangular,
    "svd": _oblong(lambda x: joined(*np.linalg.svd(x, full_matrices=False))),
    "svdvals": _oblong(np.linalg.svdvals),
    "pinv": _oblong(np.linalg.pinv),
    "matrix_norm": _matrix_norm,
    "qr": _tall(lambda x: joined(*np.linalg.qr(x))),
    "lstsq": _lstsq,
    "norm": _norm,
    "vector_norm": _vector_norm,
    "tensorinv": _tensorinv,
    "tensorsolve": _tensorsolve,
}


def _vector(d: Draw, low: int = 1, high: int = 4) -> np.ndarray:
    return d.values((d.integer(low, high),))


def _polynomials(function: Callable[..., Any]) -> DrawnCase:
    return lambda d: (function, [_vector(d), _vector(d)])


def _polyint(d: Draw) -> Operation:
    order = d.integer(1, 3)
    return lambda p, k: np.polyint(p, order, k), [_vector(d), d.values((order,))]


def _polyder(d: Draw) -> Operation:
    order = d.integer(0, 2)
    return lambda p: np.polyder(p, order), [_vector(d)]


def _polyfit(d: Draw) -> Operation:
    degree = d.integer(0, 2)
    count = degree + d.integer(1, 3)
    right = d.of((count,), (count, d.integer(1, 2)))
    x = np.arange(count) * 0.7 - 1 + d.between(0, 0.2, (count,))
    return lambda x, y, w: np.polyfit(x, y, degree, w=w), [
        x, d.values(right), d.between(0.5, 1.5, (count,))]  # fmt: skip


def _roots(d: Draw) -> Operation:
    places = np.arange(d.integer(1, 3)) + d.between(0.5, 0.8, ())
    return lambda p: np.roots(p).real, [np.poly(places)]


def _vander(d: Draw) -> Operation:
    columns, increasing = d.of(None, 0, 1, 2, 4), d.flag()
    return lambda x: np.vander(x, columns, increasing), [_vector(d, 0)]


def _space(function: Callable[..., Any]) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        one, other = d.broadcast(2)
        count, ends = d.integer(0, 4), d.flag()
        axis = d.axis(len(np.broadcast_shapes(one, other)) + 1)
        # Both ends positive and apart, as a geometric space wants them.
        starts, stops = d.between(0.3, 0.9, one), d.between(1.2, 2.0, other)
        return lambda a, b: function(a, b, count, ends, axis), [starts, stops]

    return drawn


def _cov(function: Callable[..., Any]) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        rows, columns, by_row = d.integer(1, 3), d.integer(2, 4), d.flag()
        shape: Shape = (rows, columns) if by_row else (columns, rows)
        return lambda x: function(x, rowvar=by_row), [d.values(shape)]

    return drawn


def _interp(d: Draw) -> Operation:
    count = d.integer(1, 4)
    xp = np.arange(float(count)) + d.between(0, 0.3, (count,))
    x = d.rng.integers(-1, count + 1, d.shape()) + d.between(0.4, 0.9, ())
    return np.interp, [np.asarray(x), xp, d.values((count,))]


POLYNOMIALS: dict[str, DrawnCase] = {
    "polyadd": _polynomials(np.polyadd),
    "polysub": _polynomials(np.polysub),
    "polymul": _polynomials(np.polymul),
    "polyder": _polyder,
    "polyint": _polyint,
    "polyfit": _polyfit,
    "poly": lambda d: (lambda x: parts(np.poly(x)), [_vector(d)]),
    "polyval": lambda d: (np.polyval, [_vector(d), d.values(d.shape())]),
    "roots": _roots,
    "vander": _vander,
    "linspace": _space(lambda a, b, n, end, axis: np.linspace(a, b, n, end, axis=axis)),
    "logspace": _space(lambda a, b, n, end, axis: np.logspace(a, b, n, end, axis=axis)),
    "geomspace": _space(lambda a, b, n, end, axis: np.geomspace(a, b, n, end, axis=axis)),
    "cov": _cov(np.cov),
    "corrcoef": _cov(np.corrcoef),
    "interp": _interp,
}
