"""Shape: the same elements under other axes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import ndim_of, refuse, refuse_order, shape_of
from sweepgrad.ops.declare import fit
from sweepgrad.ops.primitive import primitive
from sweepgrad.tensor import Tensor

_reshape = primitive(
    "reshape",
    lambda x, shape: x.reshape(shape),
    x=lambda g, x_shape: g.reshape(x_shape),
)


def _inverse_permutation(g: Any, axes: tuple[int, ...] | None) -> Any:
    if axes is None:
        return g.transpose()
    ndim = len(axes)
    inverse = [0] * ndim
    for position, axis in enumerate(axes):
        inverse[axis % ndim] = position
    return g.transpose(tuple(inverse))


_transpose = primitive(
    "transpose",
    lambda x, axes: x.transpose(axes),
    x=_inverse_permutation,
)

_swapaxes = primitive(
    "swapaxes",
    lambda x, one, other: x.swapaxes(one, other),
    x=lambda g, one, other: g.swapaxes(one, other),
)

_broadcast_to = primitive(
    "broadcast_to",
    lambda x, shape: np.broadcast_to(x, shape),
    x=lambda g, x_shape, x_dtype: fit(g, x_shape, x_dtype),
)


def _lengths(shape: Any) -> tuple[int, ...]:
    """A shape argument, a number or a sequence of numbers, as a tuple."""
    if type(shape) is tuple:
        return shape
    try:
        return (operator.index(shape),)
    except TypeError:
        return tuple(operator.index(length) for length in shape)


def _ordered(function: str, x: Any, shape: tuple[int, ...], order: str) -> Tensor:
    """The elements read and put in C order, or both in Fortran order: the first axis first."""
    if order != "F":
        refuse_order(function, order)
        return _reshape(x, shape)
    return _transpose(_reshape(_transpose(x, None), shape[::-1]), None)


def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Tensor:
    """The same elements under another shape, as ``numpy.reshape``; dx = g reshaped.

    Args:
        shape: lengths, or one length; one of them may be -1.
        order: "C" or "F": which axis is run through first, the last or the first.

    Raises:
        ShapeError: if the number of elements differs.
    """
    if copy is not None:
        _refuse_copy("reshape", copy)
    if order != "C":
        return _ordered("reshape", a, _lengths(shape), order)
    return _reshape(a, _lengths(shape))


def _reshape_method(
    self: Tensor, *shape: Any, order: str = "C", copy: bool | None = None
) -> Tensor:
    """``t.reshape(2, 3)`` and ``t.reshape((2, 3))``; see :func:`sweepgrad.reshape`."""
    if copy is not None:
        _refuse_copy("reshape", copy)
    lengths = _lengths(shape[0]) if len(shape) == 1 else shape
    return _reshape(self, lengths) if order == "C" else _ordered("reshape", self, lengths, order)


def _refuse_copy(function: str, copy: Any) -> None:
    refuse(
        function,
        "copy",
        copy,
        "tensors are never written into, so whether memory is shared cannot be seen; "
        "leave the argument out",
    )


def ravel(a: Any, order: str = "C") -> Tensor:
    """All elements along one axis, as ``numpy.ravel``, in C or Fortran order; dx = g reshaped."""
    return _ordered("ravel", a, (-1,), order)


def flatten(self: Tensor, order: str = "C") -> Tensor:
    """All elements along one axis, as ``ndarray.flatten``; dx = g reshaped."""
    return _ordered("flatten", self, (-1,), order)


def transpose(a: Any, axes: Any = None) -> Tensor:
    """The axes in another order, by default reversed, as ``numpy.transpose``.

    dx = g with the order undone.
    """
    return _transpose(a, None if axes is None else tuple(axes))


def _transpose_method(self: Tensor, *axes: Any) -> Tensor:
    """``t.transpose()``, ``t.transpose(1, 0)`` and ``t.transpose((1, 0))``."""
    if not axes:
        return _transpose(self, None)
    if len(axes) == 1:
        only = axes[0]
        if only is None:
            return _transpose(self, None)
        axes = _lengths(only)
    return _transpose(self, axes)


def _reversed_axes(self: Tensor) -> Tensor:
    """The axes reversed."""
    return _transpose(self, None)


def matrix_transpose(x: Any, /) -> Tensor:
    """The last two axes exchanged, as ``numpy.matrix_transpose``; dx = g with them exchanged.

    Raises:
        ShapeError: if there are fewer than two axes.
    """
    if ndim_of(x) < 2:
        raise ShapeError(
            f"matrix_transpose (.mT) exchanges the last two axes, but the shape is {shape_of(x)}; "
            "add an axis first, for instance t[None] or t[:, None]"
        )
    return _swapaxes(x, -1, -2)


def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged, as ``numpy.swapaxes``; dx = g with the same two exchanged."""
    return _swapaxes(a, axis1, axis2)


def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    """Axes moved to other positions, as ``numpy.moveaxis``; dx = g moved back."""
    ndim = ndim_of(a)
    moved = normalize_axis_tuple(source, ndim, "source")
    goals = normalize_axis_tuple(destination, ndim, "destination")
    if len(moved) != len(goals):
        raise ShapeError(
            f"moveaxis got {len(moved)} axes to move and {len(goals)} destinations; give one each"
        )
    order = [axis for axis in range(ndim) if axis not in moved]
    for goal, axis in sorted(zip(goals, moved, strict=True)):
        order.insert(goal, axis)
    return _transpose(a, tuple(order))


def rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    """One axis moved before another, as ``numpy.rollaxis``; dx = g with it moved back."""
    ndim = ndim_of(a)
    axis = normalize_axis_index(axis, ndim)
    if start < 0:
        start += ndim
    if not 0 <= start <= ndim:
        raise np.exceptions.AxisError(start, ndim + 1)
    order = list(range(ndim))
    order.remove(axis)
    order.insert(start - 1 if axis < start else start, axis)
    return _transpose(a, tuple(order))


def squeeze(a: Any, axis: Any = None) -> Tensor:
    """Axes of length 1 taken away, as ``numpy.squeeze``; dx = g reshaped.

    Raises:
        ShapeError: if an axis that was named has another length than 1.
    """
    shape = shape_of(a)
    if axis is None:
        return _reshape(a, tuple(length for length in shape if length != 1))
    axes = normalize_axis_tuple(axis, len(shape))
    for one in axes:
        if shape[one] != 1:
            raise ShapeError(
                f"squeeze of axis {one} of shape {shape}: its length is {shape[one]}, and only "
                "axes of length 1 can go; leave axis out to take away just those"
            )
    return _reshape(a, tuple(length for one, length in enumerate(shape) if one not in axes))


def expand_dims(a: Any, axis: Any) -> Tensor:
    """New axes of length 1, as ``numpy.expand_dims``; dx = g reshaped."""
    shape = shape_of(a)
    places = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = len(shape) + len(places)
    axes = normalize_axis_tuple(places, ndim)
    lengths = iter(shape)
    return _reshape(a, tuple(1 if one in axes else next(lengths) for one in range(ndim)))


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tensor:
    """A view stretched to a shape, as ``numpy.broadcast_to``; dx = g summed over what was added.

    Raises:
        ShapeError: if the shape cannot be reached by broadcasting.
    """
    refuse("broadcast_to", "subok", subok, "tensors have no subclasses; leave it out", False)
    return _broadcast_to(array, _lengths(shape))


def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    """All arguments stretched to their common shape, as ``numpy.broadcast_arrays``."""
    refuse("broadcast_arrays", "subok", subok, "tensors have no subclasses; leave it out", False)
    shape = np.broadcast_shapes(*[shape_of(arg) for arg in args])
    return tuple(_broadcast_to(arg, shape) for arg in args)


METHODS = {
    "T": property(_reversed_axes, doc="The axes reversed; dx = g with them reversed."),
    "flatten": flatten,
    "mT": property(matrix_transpose, doc=matrix_transpose.__doc__),
    "ravel": ravel,
    "reshape": _reshape_method,
    "squeeze": squeeze,
    "swapaxes": _swapaxes,
    "transpose": _transpose_method,
}

NUMPY: dict[Any, Any] = {
    np.broadcast_arrays: broadcast_arrays,
    np.broadcast_to: broadcast_to,
    np.expand_dims: expand_dims,
    np.linalg.matrix_transpose: matrix_transpose,
    np.matrix_transpose: matrix_transpose,
    np.moveaxis: moveaxis,
    np.ravel: ravel,
    np.reshape: reshape,
    np.rollaxis: rollaxis,
    np.squeeze: squeeze,
    np.swapaxes: swapaxes,
    np.transpose: transpose,
}

PUBLIC = {
    "broadcast_arrays": broadcast_arrays,
    "broadcast_to": broadcast_to,
    "expand_dims": expand_dims,
    "matrix_transpose": matrix_transpose,
    "moveaxis": moveaxis,
    "permute_dims": transpose,
    "ravel": ravel,
    "reshape": reshape,
    "rollaxis": rollaxis,
    "squeeze": squeeze,
    "swapaxes": swapaxes,
    "transpose": transpose,
}
