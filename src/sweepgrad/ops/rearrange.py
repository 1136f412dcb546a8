"""Rearranging: elements reversed, shifted, repeated, and spread over grids."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import ndim_of, shape_of
from sweepgrad.ops.indexing import getitem
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.shape import broadcast_to, reshape, transpose
from sweepgrad.tensor import Tensor


def flip(m: Any, axis: Any = None) -> Tensor:
    """``numpy.flip``: reversed along axes, by default all, as a view; dx = g reversed."""
    ndim = ndim_of(m)
    axes = range(ndim) if axis is None else normalize_axis_tuple(axis, ndim)
    backwards = slice(None, None, -1)
    return getitem(m, tuple(backwards if one in axes else slice(None) for one in range(ndim)))


def flipud(m: Any) -> Tensor:
    """``numpy.flipud``: reversed along the first axis."""
    return flip(m, 0)


def fliplr(m: Any) -> Tensor:
    """``numpy.fliplr``: reversed along the second axis."""
    return flip(m, 1)


def _negated(shift: Any) -> Any:
    if isinstance(shift, (tuple, list)):
        return tuple(-operator.index(one) for one in shift)
    return -shift


_roll = primitive(
    "roll",
    lambda x, shift, axis: np.roll(x, shift, axis),
    x=lambda g, shift, axis: np.roll(g, _negated(shift), axis),
)


def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """``numpy.roll``: shifted round along axes, or flattened; dx = g shifted back."""
    return _roll(a, shift, axis)


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    """``numpy.rot90``: turned by k quarters in a plane; dx = g turned back."""
    ndim = ndim_of(m)
    first, second = normalize_axis_tuple(axes, ndim)
    k = operator.index(k) % 4
    if k == 0:
        return getitem(m, ...)
    if k == 2:
        return flip(m, (first, second))
    order = list(range(ndim))
    order[first], order[second] = second, first
    if k == 1:
        return transpose(flip(m, second), order)
    return flip(transpose(m, order), second)


def _untile(g: Any, reps: tuple[int, ...], x_shape: tuple[int, ...]) -> Any:
    shape = (1,) * (len(reps) - len(x_shape)) + x_shape
    paired = tuple(length for pair in zip(reps, shape, strict=True) for length in pair)
    return g.reshape(paired).sum(axis=tuple(range(0, len(paired), 2))).reshape(x_shape)


_tile = primitive("tile", lambda x, reps: np.tile(x, reps), x=_untile)


def tile(A: Any, reps: Any) -> Tensor:  # noqa: N803  # NumPy's name
    """``numpy.tile``: the whole repeated along each axis; dx = g summed over the repetitions."""
    try:
        counts = tuple(operator.index(rep) for rep in reps)
    except TypeError:
        counts = (operator.index(reps),)
    return _tile(A, (1,) * (ndim_of(A) - len(counts)) + counts)


_repeat = primitive(
    "repeat",
    lambda x, count, axis: x.repeat(count, axis),
    x=lambda g, count, axis, x_shape: g.reshape(
        (*x_shape[: axis + 1], count, *x_shape[axis + 1 :])
    ).sum(axis=axis + 1),
)


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """``numpy.repeat``: each element several times; dx = g summed over an element's repetitions.

    Args:
        repeats: one count, or one for each element along the axis.
        axis: None repeats the elements of the flattened operand.
    """
    if axis is None:
        a, axis = reshape(a, (-1,)), 0
    shape = shape_of(a)
    axis = normalize_axis_index(axis, len(shape))
    counts = np.asarray(repeats._array if type(repeats) is Tensor else repeats)
    if counts.size == 1:
        return _repeat(a, operator.index(counts.reshape(()).item()), axis)
    try:
        places = np.repeat(np.arange(shape[axis]), counts)
    except ValueError as error:
        raise ShapeError(
            f"repeat got {counts.size} counts for an axis of length {shape[axis]}; "
            "give one count, or one for each element"
        ) from error
    return getitem(a, (*(slice(None),) * axis, places))


_tril = primitive("tril", lambda x, k: np.tril(x, k), x=lambda g, k: np.tril(g, k))
_triu = primitive("triu", lambda x, k: np.triu(x, k), x=lambda g, k: np.triu(g, k))


def _triangle(triangle: Any, m: Any, k: int, name: str) -> Tensor:
    shape = shape_of(m)
    if len(shape) == 1:  # as NumPy: rows that are all the same vector
        m = broadcast_to(m, (shape[0], shape[0]))
    elif not shape:
        raise ShapeError(f"{name} of a tensor without axes; it needs a matrix or a vector")
    result: Tensor = triangle(m, k)
    return result


def tril(m: Any, k: int = 0) -> Tensor:
    """``numpy.tril``: zeros above the k-th diagonal; dx = the same part of g."""
    return _triangle(_tril, m, k, "tril")


def triu(m: Any, k: int = 0) -> Tensor:
    """``numpy.triu``: zeros below the k-th diagonal; dx = the same part of g."""
    return _triangle(_triu, m, k, "triu")


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """``numpy.meshgrid``: each operand along an axis of its own; dx = g summed over the others.

    Args:
        copy: accepted; tensors are never written into, so copies cannot be told from views.
        sparse: leave the other axes at length 1.
        indexing: "xy" exchanges the first two axes, "ij" does not.
    """
    del copy
    if indexing not in ("xy", "ij"):
        raise ShapeError(f'meshgrid: indexing is "xy" or "ij", got {indexing!r}')
    ndim = len(xi)
    lengths = [math.prod(shape_of(x)) for x in xi]
    order = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        order[0], order[1] = 1, 0
    shape = [0] * ndim
    for position, length in zip(order, lengths, strict=True):
        shape[position] = length
    grids = []
    for position, x in zip(order, xi, strict=True):
        own = reshape(x, tuple(-1 if axis == position else 1 for axis in range(ndim)))
        grids.append(own if sparse else broadcast_to(own, tuple(shape)))
    return tuple(grids)


def atleast_1d(*arys: Any) -> Any:
    """``numpy.atleast_1d``: scalars get an axis; dx = g reshaped."""
    return _each(arys, lambda a: a if ndim_of(a) else reshape(a, (1,)))


def atleast_2d(*arys: Any) -> Any:
    """``numpy.atleast_2d``: vectors become a row; dx = g reshaped."""
    return _each(arys, lambda a: a if ndim_of(a) > 1 else reshape(a, (1, -1)))


def _three_axes(a: Any) -> Any:
    shape = shape_of(a)
    if len(shape) > 2:
        return a
    return reshape(a, (*shape, 1) if len(shape) == 2 else (1, -1, 1))


def atleast_3d(*arys: Any) -> Any:
    """``numpy.atleast_3d``: vectors and matrices get axes of length 1; dx = g reshaped."""
    return _each(arys, _three_axes)


def _each(arrays: tuple[Any, ...], function: Any) -> Any:
    results = tuple(function(_tensor(a)) for a in arrays)
    return results[0] if len(results) == 1 else results


def _tensor(a: Any) -> Tensor:
    return a if type(a) is Tensor else getitem(a, ...)


_copy = primitive("copy", lambda x: x.copy(), x=lambda g: g)


def copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    """``numpy.copy``: the same values in memory of their own; dx = g."""
    del order, subok  # tensors have neither a memory layout to ask for nor subclasses
    return _copy(a)


def resize(a: Any, new_shape: Any) -> Tensor:
    """``numpy.resize``: the elements over and over until the shape is full; dx = g summed back."""
    lengths = new_shape if isinstance(new_shape, (tuple, list)) else (new_shape,)
    size, goal = math.prod(shape_of(a)), math.prod(lengths)
    flat = reshape(a, (-1,))
    if not size:
        return reshape(np.zeros(goal), tuple(lengths))
    return reshape(getitem(flat, np.arange(goal) % size), tuple(lengths))


METHODS: dict[str, Any] = {
    "copy": copy,
    "repeat": repeat,
}

NUMPY: dict[Any, Any] = {
    np.atleast_1d: atleast_1d,
    np.atleast_2d: atleast_2d,
    np.atleast_3d: atleast_3d,
    np.copy: copy,
    np.flip: flip,
    np.fliplr: fliplr,
    np.flipud: flipud,
    np.meshgrid: meshgrid,
    np.repeat: repeat,
    np.resize: resize,
    np.roll: roll,
    np.rot90: rot90,
    np.tile: tile,
    np.tril: tril,
    np.triu: triu,
}

PUBLIC: dict[str, Any] = {
    "atleast_1d": atleast_1d,
    "atleast_2d": atleast_2d,
    "atleast_3d": atleast_3d,
    "copy": copy,
    "flip": flip,
    "fliplr": fliplr,
    "flipud": flipud,
    "meshgrid": meshgrid,
    "repeat": repeat,
    "resize": resize,
    "roll": roll,
    "rot90": rot90,
    "tile": tile,
    "tril": tril,
    "triu": triu,
}
