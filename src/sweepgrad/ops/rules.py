"""What several gradient rules share.  Each helper takes arrays and tensors alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.tensor import Tensor

ndarray = np.ndarray


def plain(value: Any) -> Any:
    """The array of a tensor; for what a rule only compares, never differentiates."""
    return value._array if type(value) is Tensor else value


def weak(value: Any, *partners: Any) -> Any:
    """A Python number as an array of the dtype it takes beside its partners (NumPy 2's rule).

    Anything but a Python number is given back as it is.
    """
    kind = type(value)
    if kind is not float and kind is not int and kind is not complex:
        return value
    if len(partners) == 1 and type(partners[0]) is Tensor and kind is not complex:
        dtype = partners[0]._array.dtype
        if dtype.kind in "fc":
            return np.asarray(value, dtype)
    dtypes = [partner.dtype for partner in partners if hasattr(partner, "dtype")]
    return np.asarray(value, np.result_type(*dtypes, value)) if dtypes else np.asarray(value)


def as_float64(x: Any) -> Any:
    """At least double precision; what has it already is given back as it is."""
    if type(x) in (float, int, complex):
        return x
    dtype = np.result_type(np.asarray(x).dtype if type(x) is not Tensor else x.dtype, np.float64)
    return x.astype(dtype) if type(x) is Tensor else np.asarray(x, dtype)


def zeros(g: Any) -> NDArray[Any]:
    """The gradient of what is piecewise constant: zero, however large g is."""
    return np.zeros_like(plain(g))


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that ``axis`` (None, an int or a tuple) names, counted from the front.

    Raises:
        numpy.exceptions.AxisError: if one is out of range; ValueError: if one comes twice.
    """
    if axis is None:
        return tuple(range(ndim))
    return np.lib.array_utils.normalize_axis_tuple(axis, ndim)


def kept_shape(shape: tuple[int, ...], axis: Any) -> tuple[int, ...]:
    """The shape of a reduction with ``keepdims=True``."""
    if axis is None:
        return (1,) * len(shape)
    axes = axes_of(axis, len(shape))
    return tuple(1 if position in axes else length for position, length in enumerate(shape))


def kept(value: Any, shape: tuple[int, ...], axis: Any) -> Any:
    """A reduced value (or its gradient) with the reduced axes put back as 1."""
    return value.reshape(kept_shape(shape, axis))


def stretch(value: Any, shape: tuple[int, ...]) -> Any:
    """``value`` broadcast to ``shape``, as a new array.

    A broadcast view would do for the next rule, but not for a leaf; and for the
    small arrays on which overhead matters a copy is several times faster.
    """
    if type(value) is Tensor:
        return np.broadcast_to(value, shape)
    result = np.empty(shape, value.dtype)
    result[...] = value
    return result


def spread(g: Any, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Any:
    """The gradient of a reduction, put back and stretched over what was reduced."""
    if axis is None:
        if type(g) is Tensor:
            g = g.reshape((1,) * len(shape))
        elif keepdims:
            g = g.reshape(())
    elif not keepdims:
        g = g.reshape(kept_shape(shape, axis))
    return stretch(g, shape)


def count_along(shape: tuple[int, ...], axis: Any) -> int:
    """How many elements one slice of a reduction has."""
    total = 1
    for position in axes_of(axis, len(shape)):
        total *= shape[position]
    return total


def shared(x: NDArray[Any], chosen: NDArray[Any], axis: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Weights that split 1 evenly over the elements of each slice that equal ``chosen``.

    Where the chosen value is NaN, the slice's NaNs are what it equals.

    Args:
        x: the reduced array.
        chosen: one value for each slice, with the reduced axes kept as 1.
        axis: a tuple of the reduced axes.
    """
    ties = np.equal(x, chosen)
    counts = np.add.reduce(ties, axis=axis, keepdims=True, dtype=np.intp)
    if not counts.all():
        ties = ties | (np.isnan(x) & np.isnan(chosen))
        counts = np.maximum(np.add.reduce(ties, axis=axis, keepdims=True, dtype=np.intp), 1)
    weights: NDArray[Any] = np.divide(ties, counts, dtype=dtype.newbyteorder("="))
    return weights
