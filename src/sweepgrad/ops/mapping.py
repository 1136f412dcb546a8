"""Functions of NumPy that apply a function of yours, count with weights, or leave parts out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from sweepgrad.errors import DtypeError, ShapeError
from sweepgrad.ops.arguments import shape_of
from sweepgrad.ops.complex_numbers import real
from sweepgrad.ops.declare import operand
from sweepgrad.ops.elementwise import astype
from sweepgrad.ops.indexing import getitem
from sweepgrad.ops.joining import concatenate, stack
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rules import axes_of, plain
from sweepgrad.ops.selection import sort
from sweepgrad.ops.shape import broadcast_to, expand_dims, moveaxis, ravel, reshape
from sweepgrad.tensor import Tensor


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """``numpy.apply_along_axis``: ``func1d`` of each vector along the axis, as tensors."""
    axis = normalize_axis_index(axis, len(shape_of(arr)))
    moved = moveaxis(arr, axis, -1)
    before = moved.shape[:-1]
    results = [func1d(getitem(moved, place), *args, **kwargs) for place in np.ndindex(before)]
    if not results:
        raise ShapeError(f"apply_along_axis along axis {axis} of shape {shape_of(arr)}: no vectors")
    whole = stack(results)
    shape = whole.shape[1:]
    whole = reshape(whole, before + shape)
    ends = range(len(before), len(before) + len(shape))
    return moveaxis(whole, tuple(ends), tuple(range(axis, axis + len(shape))))


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    """``numpy.apply_over_axes``: ``func(a, axis)`` for one axis after the other, kept as 1."""
    ndim = len(shape_of(a))
    for axis in axes_of(axes, ndim):
        result = func(a, axis)
        a = result if len(shape_of(result)) == ndim else expand_dims(result, axis)
    return a


_bincount = primitive(
    "bincount",
    # Where there are no places NumPy gives integers, which have no gradient.
    lambda weights, x, minlength: np.bincount(x, weights, minlength).astype(float, copy=False),
    weights=lambda g, x, weights_dtype: g[x].astype(weights_dtype),
)


def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """``numpy.bincount``: the weights added up at their places; dweights = g at the places.

    Without weights a plain array of counts.
    """
    places = np.array(plain(x))
    if weights is None:
        return np.bincount(places, minlength=minlength)
    return _bincount(weights, places, minlength)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    """``numpy.insert``: values put before the places ``obj``; each g goes back where it came from.

    Args:
        obj: an integer, a slice, or integers or booleans for several places.
        values: converted to arr's dtype and broadcast to the places.
        axis: None inserts into the flattened operand.
    """
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = normalize_axis_index(axis, len(shape_of(arr)))
    shape = list(shape_of(arr))
    length = shape[axis]
    places = _places(obj, length)
    given = astype(values if type(values) is Tensor else operand(values), _dtype(arr))
    if places.size == 1 and places.ndim < 2:
        given = reshape(given, (1,) * (len(shape) - given.ndim) + given.shape)
        if places.ndim == 0:
            given = moveaxis(given, 0, axis)
        starts = np.repeat(places, given.shape[axis])
    else:
        starts = places
    shape[axis] = starts.size
    order = np.argsort(starts, kind="stable")
    target = starts.copy()
    target[order] += np.arange(starts.size)
    sources = np.empty(length + starts.size, np.intp)
    old = np.ones(sources.size, bool)
    old[target] = False
    sources[old] = np.arange(length)
    sources[target] = length + np.arange(starts.size)
    both = concatenate([arr, broadcast_to(given, tuple(shape))], axis)
    return getitem(both, (*(slice(None),) * axis, sources))


def _places(obj: Any, length: int) -> Any:
    """Where to insert: integers from 0 to length, 0-d for a single one."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(length))
    places = np.array(plain(obj))
    if places.dtype.kind == "b":
        places = np.flatnonzero(places)
    elif not places.size:
        places = places.astype(np.intp)
    if places.dtype.kind not in "iu" or places.ndim > 1:
        raise DtypeError(
            f"insert takes places as an integer, a slice or a vector of integers, got {obj!r}"
        )
    wrong = (places < -length) | (places > length)
    if wrong.any():
        raise IndexError(f"insert at {obj!r} is out of bounds for an axis of length {length}")
    return np.where(places < 0, places + length, places)


def _dtype(x: Any) -> np.dtype[Any]:
    return x.dtype if type(x) is Tensor else np.asarray(x).dtype


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """``numpy.trim_zeros``: without the zeros at the ends, as a view; what is cut off gets 0.

    Args:
        trim: "f" cuts at the front, "b" at the back.
        axis: where to cut; all axes by default.
    """
    kept = np.argwhere(plain(filt))
    shape = shape_of(filt)
    index: list[Any] = [slice(None)] * len(shape)
    for place in axes_of(axis, len(shape)):
        low, high = (kept[:, place].min(), kept[:, place].max() + 1) if len(kept) else (0, 0)
        front = low if "f" in trim.lower() else 0
        back = high if "b" in trim.lower() else shape[place]
        index[place] = slice(int(front), int(back))
    return getitem(filt, tuple(index))


def real_if_close(a: Any, tol: float = 100) -> Any:
    """``numpy.real_if_close``: the real part where the imaginary one is rounding, else as it is."""
    if np.iscomplexobj(np.real_if_close(plain(a), tol)):
        return a
    return real(a)


def sort_complex(a: Any) -> Tensor:
    """``numpy.sort_complex``: sorted along the last axis, as complex numbers."""
    result = sort(a)
    if result.dtype.kind == "c":
        return result
    return astype(result, np.sort_complex(np.zeros(1, result.dtype)).dtype)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.apply_along_axis: apply_along_axis,
    np.apply_over_axes: apply_over_axes,
    np.bincount: bincount,
    np.insert: insert,
    np.real_if_close: real_if_close,
    np.sort_complex: sort_complex,
    np.trim_zeros: trim_zeros,
}

PUBLIC: dict[str, Any] = {function.__name__: operation for function, operation in NUMPY.items()}
