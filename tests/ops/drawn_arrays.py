"""Drawn cases: shapes, joining, rearranging, indexing, updates."""

from collections.abc import Callable
from typing import Any

import numpy as np
from drawing import Draw, DrawnCase, Operation, Shape, joined

import sweepgrad as sg


def _any(
    function: Callable[..., Any], least: int = 0, most: int = 3, side: tuple[int, int] = (0, 3)
) -> DrawnCase:
    return lambda d: (function, [d.values(d.shape(least, most, side))])


def _with_axis(function: Callable[..., Any], side: tuple[int, int] = (0, 3)) -> DrawnCase:
    """A function of the operand and one of its axes."""

    def drawn(d: Draw) -> Operation:
        shape = d.shape(1, side=side)
        axis = d.axis(len(shape))
        return lambda x: function(x, axis), [d.values(shape)]

    return drawn


def _with_two_axes(function: Callable[..., Any]) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        shape = d.shape(2)
        one = d.integer(0, len(shape) - 1)
        other = (one + d.integer(1, len(shape) - 1)) % len(shape)
        offset = d.integer(-2, 2)
        return lambda x: function(x, offset, one, other - len(shape)), [d.values(shape)]

    return drawn


def _with_offset(function: Callable[..., Any], least: int, most: int = 3) -> DrawnCase:
    """A function of the operand and of the place of a diagonal."""

    def drawn(d: Draw) -> Operation:
        k = d.integer(-2, 2)
        return lambda x: function(x, k), [d.values(d.shape(least, most))]

    return drawn


def _reshape(d: Draw) -> Operation:
    shape, order = d.shape(), d.of("C", "F")
    to: Shape = d.of((-1,), (*shape, 1), shape[::-1]) if 0 not in shape else shape[::-1]
    return lambda x: np.reshape(x, to, order=order), [d.values(shape)]


def _transpose(d: Draw) -> Operation:
    shape = d.shape()
    axes = d.of(None, tuple(int(a) for a in d.rng.permutation(len(shape))))
    return lambda x: np.transpose(x, axes), [d.values(shape)]


def _squeeze(d: Draw) -> Operation:
    shape = d.shape(side=(0, 1))
    return np.squeeze, [d.values(shape)]


def _expand_dims(d: Draw) -> Operation:
    shape = d.shape()
    axis = d.axis(len(shape) + 1)
    return lambda x: np.expand_dims(x, axis), [d.values(shape)]


def _broadcast_to(d: Draw) -> Operation:
    small, large = d.broadcast(2)
    to = np.broadcast_shapes(small, large)
    return lambda x: np.broadcast_to(x, to), [d.values(small)]


def _broadcast_arrays(d: Draw) -> Operation:
    return lambda *x: np.multiply(*np.broadcast_arrays(*x)), [d.values(s) for s in d.broadcast(2)]


def _meshgrid(d: Draw) -> Operation:
    indexing, sparse = d.of("xy", "ij"), d.flag()
    return lambda *x: joined(*np.meshgrid(*x, indexing=indexing, sparse=sparse)), [
        d.values(d.shape(0, 1)) for _ in range(d.integer(1, 3))
    ]


def _concatenate(d: Draw) -> Operation:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    other = list(shape)
    other[axis] = d.integer(0, 3)
    return lambda x, y: np.concatenate([x, y, x], axis), [d.values(shape), d.values(tuple(other))]


def _stack(d: Draw) -> Operation:
    shape = d.shape()
    axis = d.axis(len(shape) + 1)
    return lambda x, y: np.stack([x, y], axis), [d.values(shape), d.values(shape)]


def _stacked_alike(function: Callable[..., Any], least: int = 0) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        shape = d.shape(least)
        return lambda x, y: function([x, y]), [d.values(shape), d.values(shape)]

    return drawn


def _append(d: Draw) -> Operation:
    return np.append, [d.values(d.shape()), d.values(d.shape())]


def _split(function: Callable[..., Any], axis: int) -> DrawnCase:
    """Into pieces at drawn places of one axis."""

    def drawn(d: Draw) -> Operation:
        shape = d.shape(max(axis + 1, 1 if axis < 0 else 0))
        places = sorted(d.integer(0, 3) for _ in range(d.integer(0, 2)))
        return lambda x: joined(*function(x, places)), [d.values(shape)]

    return drawn


def _hsplit(d: Draw) -> Operation:
    return lambda x: joined(*np.hsplit(x, [1])), [d.values(d.shape(1))]


def _atleast(function: Callable[..., Any]) -> DrawnCase:
    return _any(lambda x: function(x) * x.reshape(function(x.numpy()).shape))


def _roll(d: Draw) -> Operation:
    shape, shift = d.shape(), d.integer(-4, 4)
    axis = d.axes(len(shape))
    return lambda x: np.roll(x, shift, axis), [d.values(shape)]


def _rot90(d: Draw) -> Operation:
    shape, k = d.shape(2), d.integer(-3, 4)
    return lambda x: np.rot90(x, k, (0, -1)), [d.values(shape)]


def _tile(d: Draw) -> Operation:
    repeats = d.shape(1)
    return lambda x: np.tile(x, repeats), [d.values(d.shape())]


def _repeat(d: Draw) -> Operation:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    counts = d.rng.integers(0, 3, shape[axis]) if d.flag() else d.integer(0, 3)
    return lambda x: np.repeat(x, counts, axis), [d.values(shape)]


def _resize(d: Draw) -> Operation:
    to = d.shape()
    return lambda x: np.resize(x, to), [d.values(d.shape(side=(1, 3)))]


def _pad(d: Draw) -> Operation:
    shape = d.shape(1, side=(2, 3))
    width = [(d.integer(0, 2), d.integer(0, 2)) for _ in shape]
    mode = d.of("constant", "edge", "reflect", "symmetric", "wrap", "mean", "maximum", "minimum",
                "linear_ramp", "empty")  # fmt: skip
    mode = "constant" if mode == "empty" else mode
    return lambda x: np.pad(x, width, mode), [d.values(shape)]


def _block(d: Draw) -> Operation:
    rows, columns, more = d.integer(0, 2), d.integer(0, 2), d.integer(0, 2)
    return lambda x, y: np.block([[x, y], [y, x]]), [
        d.values((rows, columns)), d.values((rows, more))]  # fmt: skip


def _windows(d: Draw) -> Operation:
    shape = d.shape(1, side=(1, 4))
    axis = d.axis(len(shape))
    window = d.integer(1, shape[axis])
    return lambda x: np.lib.stride_tricks.sliding_window_view(x, window, axis), [d.values(shape)]


SHAPES: dict[str, DrawnCase] = {
    "reshape": _reshape,
    "ravel": _any(np.ravel),
    "transpose": _transpose,
    "matrix_transpose": _any(np.matrix_transpose, 2),
    "swapaxes": _with_two_axes(lambda x, _, a, b: np.swapaxes(x, a, b)),
    "moveaxis": _with_two_axes(lambda x, _, a, b: np.moveaxis(x, a, b)),
    "rollaxis": _with_axis(np.rollaxis),
    "squeeze": _squeeze,
    "expand_dims": _expand_dims,
    "broadcast_to": _broadcast_to,
    "broadcast_arrays": _broadcast_arrays,
    "meshgrid": _meshgrid,
    "concatenate": _concatenate,
    "stack": _stack,
    "hstack": _stacked_alike(np.hstack),
    "vstack": _stacked_alike(np.vstack),
    "dstack": _stacked_alike(np.dstack),
    "column_stack": _stacked_alike(np.column_stack),
    "append": _append,
    "block": _block,
    "split": _split(np.split, 0),
    "array_split": _split(lambda x, _: np.array_split(x, 2), 0),
    "hsplit": _hsplit,
    "vsplit": _split(np.vsplit, 1),
    "dsplit": _split(np.dsplit, 2),
    "atleast_1d": _atleast(np.atleast_1d),
    "atleast_2d": _atleast(np.atleast_2d),
    "atleast_3d": _atleast(np.atleast_3d),
    "fliplr": _any(np.fliplr, 2),
    "flipud": _any(np.flipud, 1),
    "roll": _roll,
    "rot90": _rot90,
    "tile": _tile,
    "repeat": _repeat,
    "resize": _resize,
    "pad": _pad,
    "tril": _with_offset(np.tril, 2),
    "triu": _with_offset(np.triu, 2),
    "diag": _with_offset(np.diag, 1, 2),
    "diagflat": _with_offset(np.diagflat, 0),
    "diagonal": _with_two_axes(np.diagonal),
    "linalg.diagonal": _any(np.linalg.diagonal, 2),
    "trace": _with_two_axes(np.trace),
    "linalg.trace": _any(np.linalg.trace, 2),
    "sliding_window_view": _windows,
    "trim_zeros": _any(np.trim_zeros, 1, 1),
}


def _take(d: Draw) -> Operation:
    shape = d.shape(1, side=(1, 3))
    axis = d.axis(len(shape))
    places = d.indices(shape[axis], d.shape())
    return lambda x: np.take(x, places, axis), [d.values(shape)]


def _at_places(d: Draw) -> tuple[Shape, int, np.ndarray]:
    """A shape, one of its axes, and indices that take_along_axis accepts there."""
    shape = d.shape(1, side=(1, 3))
    axis = d.axis(len(shape))
    wanted = list(shape)
    wanted[axis] = d.integer(0, 3)
    return shape, axis, d.indices(shape[axis], tuple(wanted))


def _take_along_axis(d: Draw) -> Operation:
    shape, axis, places = _at_places(d)
    return lambda x: np.take_along_axis(x, places, axis), [d.values(shape)]


def _scatter_add(d: Draw) -> Operation:
    shape, axis, places = _at_places(d)
    return lambda x, v: sg.scatter_add(x, places, v, axis), [
        d.values(shape),
        d.values(places.shape),
    ]


def _put_along_axis(d: Draw) -> Operation:
    shape, axis, places = _at_places(d)
    return lambda x, v: sg.put_along_axis(x, places, v, axis), [
        d.values(shape), d.values(places.shape)]  # fmt: skip


def _put(d: Draw) -> Operation:
    shape = d.shape(side=(1, 3))
    places = d.indices(int(np.prod(shape)), d.shape(1, 2, (1, 3)))
    return lambda x, v: sg.put(x, places, v), [d.values(shape), d.values(places.shape)]


def _choose(d: Draw) -> Operation:
    which, x, y = d.broadcast(3)
    chosen = d.rng.integers(0, 2, which)
    return lambda x, y: np.choose(chosen, [x, y]), [d.values(x), d.values(y)]


def _select(d: Draw) -> Operation:
    one, other, x, y = d.broadcast(4)
    masks = [d.mask(one), d.mask(other)]
    return lambda x, y: np.select(masks, [x, y], 2.0), [d.values(x), d.values(y)]


def _compress(d: Draw) -> Operation:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    mask = d.mask((shape[axis],))
    return lambda x: np.compress(mask, x, axis), [d.values(shape)]


def _extract(d: Draw) -> Operation:
    shape = d.shape()
    mask = d.mask(shape)
    return lambda x: np.extract(mask, x), [d.values(shape)]


def _delete(d: Draw) -> Operation:
    shape = d.shape(1, side=(1, 3))
    axis = d.axis(len(shape))
    places = d.indices(shape[axis], d.shape(1, 1, (0, 2)))
    return lambda x: np.delete(x, places, axis), [d.values(shape)]


def _insert(d: Draw) -> Operation:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    places = d.rng.integers(0, shape[axis] + 1, d.integer(0, 3))
    values = list(shape)
    values[axis] = len(places)
    return lambda x, v: np.insert(x, places, v, axis), [d.values(shape), d.values(tuple(values))]


def _index(d: Draw) -> Operation:
    shape = d.shape(2, side=(1, 3))
    index = d.of(
        ..., (0, ...), (slice(None, None, -1), None), d.indices(shape[0], d.shape()),
        (..., d.indices(shape[-1], d.shape(1, 1))), d.mask(shape), d.mask(shape[:1]),
        (d.indices(shape[0], (2, 1)), d.indices(shape[1], (3,))),
    )  # fmt: skip
    return lambda x: x[index], [d.values(shape)]


def _update(name: str) -> DrawnCase:
    """``t.at[index].add(values)`` and the others, with repeated indices."""

    def drawn(d: Draw) -> Operation:
        shape = d.shape(1, side=(1, 3))
        index = d.of(d.indices(shape[0], d.shape(1, 2)), d.mask(shape), slice(None, None, -2))
        values = d.between(0.5, 1.5, d.of((), np.empty(shape)[index].shape))
        return lambda x, v: getattr(x.at[index], name)(v), [d.values(shape), values]

    return drawn


def _embedding(d: Draw) -> Operation:
    rows = d.integer(1, 4)
    places = d.rng.integers(0, rows, d.shape())
    return lambda w: sg.embedding(w, places), [d.values((rows, d.integer(0, 3)))]


def _bincount(d: Draw) -> Operation:
    places = d.rng.integers(0, 4, d.integer(0, 5))
    return lambda w: np.bincount(places, w, 5), [d.values(places.shape)]


PLACES: dict[str, DrawnCase] = {
    "index": _index,
    **{f"at.{name}": _update(name) for name in ("set", "add", "subtract", "multiply", "divide")},
    "take": _take,
    "take_along_axis": _take_along_axis,
    "scatter_add": _scatter_add,
    "put_along_axis": _put_along_axis,
    "put": _put,
    "choose": _choose,
    "select": _select,
    "compress": _compress,
    "extract": _extract,
    "delete": _delete,
    "insert": _insert,
    "embedding": _embedding,
    "bincount": _bincount,
}
