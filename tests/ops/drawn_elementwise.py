"""Drawn cases: elementwise operations, reductions, cumulative operations."""

from collections.abc import Callable
from typing import Any

import numpy as np
from drawing import Draw, DrawnCase, Operation, joined, parts
from elementwise_table import ALL, Elementwise
from test_reductions import REDUCTIONS

import sweepgrad as sg


def _elementwise(one: Elementwise) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        shapes = d.broadcast(len(one.domains))
        return one.call, [f(d.rng, shape) for f, shape in zip(one.domains, shapes, strict=True)]

    return drawn


def _unary(
    function: Callable[..., Any], low: float | None = None, high: float = 0.0, axes: int = 0
) -> DrawnCase:
    """One operand of any shape, in an interval if one is given."""

    def drawn(d: Draw) -> Operation:
        shape = d.shape(axes)
        return function, [d.values(shape) if low is None else d.between(low, high, shape)]

    return drawn


def _clipped(d: Draw) -> Operation:
    low, high = d.of(-0.1, None), d.of(0.1, None)
    return lambda x: np.clip(x, low, high if low is not None else 0.1), [d.values(d.shape())]


def _clipped_by_tensors(d: Draw) -> Operation:
    shapes = d.broadcast(3)
    lows, highs = d.between(-1, -0.9, shapes[1]), d.between(0.9, 1, shapes[2])
    # Between the bounds, below or above them, never near.
    x = d.between(-0.8, 0.8, shapes[0]) + d.rng.choice([-2.0, 0.0, 2.0], shapes[0])
    return np.clip, [x, lows, highs]


def _where(d: Draw) -> Operation:
    mask, x, y = d.broadcast(3)
    condition = d.mask(mask)
    return lambda x, y: np.where(condition, x, y), [d.values(x), d.values(y)]


def _ldexp(d: Draw) -> Operation:
    x, exponents = d.broadcast(2)
    powers = d.rng.integers(-3, 4, exponents)
    return lambda x: np.ldexp(x, powers), [d.values(x)]


def _divmod(d: Draw) -> Operation:
    x, y = d.broadcast(2)
    return lambda x, y: np.multiply(*np.divmod(x, y)), [
        d.rng.choice([-1, 1], x) * d.between(4.1, 4.4, x),
        d.between(1.2, 1.3, y),
    ]


def _polygamma(d: Draw) -> Operation:
    n = d.integer(0, 3)
    return lambda x: sg.polygamma(n, x), [d.between(0.6, 3.0, d.shape())]


def _full_like(d: Draw) -> Operation:
    to = d.shape()
    start = d.integer(0, len(to))
    shape = tuple(d.of(1, size) for size in to[start:])
    return lambda v: np.full_like(v, v, shape=to), [d.values(shape)]


def _log_n(d: Draw) -> Operation:
    n, x = d.broadcast(2)
    return lambda n, x: parts(np.lib.scimath.logn(n, x)), [d.between(2, 3, n), d.values(x)]


def _power(d: Draw) -> Operation:
    exponent = d.of(0.5, 1.5, -0.5)
    return lambda x: parts(np.lib.scimath.power(x, exponent)), [d.values(d.shape())]


def _in_plane(function: Callable[..., Any], low: float, high: float) -> DrawnCase:
    return _unary(lambda x: parts(function(x)), low, high)


math = np.lib.scimath

ELEMENTWISE: dict[str, DrawnCase] = {
    **{one.name: _elementwise(one) for one in ALL},
    "clip": _clipped,
    "clip by tensors": _clipped_by_tensors,
    "where": _where,
    "fix": _unary(np.fix),
    "round": _unary(lambda x: np.round(x, 1), -0.04, 0.04),
    "modf": _unary(lambda x: np.add(*np.modf(x))),
    "frexp": _unary(lambda x: np.frexp(x)[0], 1.1, 1.9),
    "ldexp": _ldexp,
    "divmod": _divmod,
    "astype": _unary(lambda x: np.astype(x, np.longdouble).astype(float) * x),
    "polygamma": _polygamma,
    "imag": _unary(lambda x: np.imag(x * 1j)),
    "full_like": _full_like,
    "copy": _unary(np.copy),
    "real_if_close": _unary(lambda x: np.real_if_close(x) * x),
    "scimath.sqrt": _in_plane(math.sqrt, -2.0, -1.0),
    "scimath.log": _in_plane(math.log, -2.0, -1.0),
    "scimath.log2": _in_plane(math.log2, -2.0, -1.0),
    "scimath.log10": _in_plane(math.log10, -2.0, -1.0),
    "scimath.arccos": _in_plane(math.arccos, 1.2, 2.0),
    "scimath.arcsin": _in_plane(math.arcsin, 1.2, 2.0),
    "scimath.arctanh": _in_plane(math.arctanh, 1.2, 2.0),
    "scimath.logn": _log_n,
    "scimath.power": _power,
}


def _reduced(name: str) -> DrawnCase:
    """Over any axes; empty ones where an empty reduction has a value."""
    call = REDUCTIONS[name]
    least = 0 if name in ("sum", "prod", "nansum", "nanprod") else 1
    # A variance of as few numbers as its degrees of freedom is NaN.
    if name.endswith("ddof"):
        least = 2

    def drawn(d: Draw) -> Operation:
        shape = d.shape(least=int(name.endswith("ddof")), side=(least, 3))
        axis, keepdims = d.axes(len(shape)), d.flag()
        return lambda x: call(x, axis=axis, keepdims=keepdims), [d.values(shape)]

    return drawn


def _along(function: Callable[..., Any], side: tuple[int, int] = (0, 3)) -> DrawnCase:
    """Along one axis of an operand with at least one."""

    def drawn(d: Draw) -> Operation:
        shape = d.shape(1, side=side)
        axis = d.axis(len(shape))
        return lambda x: function(x, axis=axis), [d.values(shape)]

    return drawn


def _average(d: Draw) -> Operation:
    shape = d.shape(1, side=(1, 3))
    axis = d.axis(len(shape))
    return lambda x, w: np.average(x, axis, w), [d.values(shape), d.between(0.5, 1.5, shape)]


def _logsumexp(d: Draw) -> Operation:
    shape = d.shape(side=(1, 3))
    axis, keepdims = d.axes(len(shape)), d.flag()
    return lambda x: sg.logsumexp(x, axis, keepdims), [d.values(shape)]


def _trapezoid(d: Draw) -> Operation:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    points = d.values((shape[axis],))
    return lambda y, x: np.trapezoid(y, x, axis=axis), [d.values(shape), points]


def _differences(d: Draw) -> Operation:
    shape = d.shape(1)
    axis, order = d.axis(len(shape)), d.integer(0, 3)
    ends = list(shape)
    ends[axis] = d.integer(0, 2)
    return lambda x, e: np.diff(x, order, axis, e), [d.values(shape), d.values(tuple(ends))]


def _gradient(d: Draw) -> Operation:
    shape = d.shape(1, side=(3, 4))
    axis, order = d.axis(len(shape)), d.of(1, 2)
    if d.flag():
        return lambda x, h: np.gradient(x, h, axis=axis, edge_order=order), [
            d.values(shape), d.between(0.5, 1.5, ())]  # fmt: skip
    places = np.cumsum(d.between(0.5, 1.5, (shape[axis],)))
    return lambda x, c: np.gradient(x, c, axis=axis, edge_order=order), [d.values(shape), places]


def _ediff1d(d: Draw) -> Operation:
    return np.ediff1d, [d.values(d.shape()), d.values(d.shape()), d.values(d.shape())]


REDUCED: dict[str, DrawnCase] = {
    **{name: _reduced(name) for name in REDUCTIONS},
    "average with weights": _average,
    "logsumexp": _logsumexp,
    "cumsum": _along(np.cumsum),
    "cumprod": _along(np.cumprod),
    "cummax": _along(sg.cummax),
    "cummin": _along(sg.cummin),
    "logcumsumexp": _along(sg.logcumsumexp),
    "cumulative_sum": _along(lambda x, axis: np.cumulative_sum(x, axis=axis)),
    "cumulative_prod": _along(lambda x, axis: np.cumulative_prod(
        x, axis=axis, include_initial=True)),
    "nancumsum": _along(np.nancumsum),
    "nancumprod": _along(np.nancumprod),
    "trapezoid": _trapezoid,
    "diff": _differences,
    "gradient": _gradient,
    "ediff1d": _ediff1d,
    "unwrap": _along(lambda x, axis: np.unwrap(x * 10.0, axis=axis)),
    "softmax": _along(sg.softmax),
    "log_softmax": _along(sg.log_softmax),
    "sort": _along(np.sort),
    "sort_complex": _unary(lambda x: parts(np.sort_complex(x)), axes=1),
    "partition": _along(lambda x, axis: np.sort(np.partition(x, 0, axis), axis), (1, 3)),
    "topk": _along(lambda x, axis: sg.topk(x, 1, axis).values, (1, 3)),
    "flip": _along(np.flip),
    "unstack": _along(lambda x, axis: joined(*sg.unstack(x, axis=axis)), (1, 3)),
    "apply_along_axis": _along(lambda x, axis: np.apply_along_axis(
        lambda v: v[:1, None] * v, axis, x), (1, 3)),
    "apply_over_axes": _along(lambda x, axis: np.apply_over_axes(np.mean, x, axis), (1, 3)),
}  # fmt: skip
