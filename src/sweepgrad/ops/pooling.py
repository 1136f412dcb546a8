"""Pooling over the last axes of (batch, channels, spatial…): the largest, or the mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import DtypeError, ShapeError
from sweepgrad.ops.arguments import shape_of
from sweepgrad.ops.declare import operand
from sweepgrad.ops.indexing import getitem
from sweepgrad.ops.shape import reshape
from sweepgrad.ops.windows import Geometry, last, numbers, paddings, window_views, windows
from sweepgrad.tensor import Tensor, untracked


def _geometry(
    x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ndim: int, name: str
) -> Geometry:
    shape = shape_of(x)
    if len(shape) not in (ndim + 1, ndim + 2):
        raise ShapeError(
            f"{name} of shape {shape}; the input has the axes (batch, channels, and {ndim} "
            "spatial), or these without the batch"
        )
    kernel = numbers(kernel_size, ndim, "kernel_size")
    strides = kernel if stride is None else numbers(stride, ndim, "stride")
    dilations = numbers(dilation, ndim, "dilation")
    pairs = paddings(padding, (kernel, strides, dilations), shape[-ndim:])
    geometry = Geometry(kernel, strides, pairs, dilations)
    for reach, pair in zip(geometry.spans(), pairs, strict=True):
        if max(pair) >= reach:
            raise ShapeError(
                f"{name}: padding {pair} is not smaller than the window's reach of {reach}, so a "
                "window would see padding alone"
            )
    return geometry


def _values(x: Any) -> NDArray[Any]:
    return x._array if type(x) is Tensor else operand(x)


def _flat_windows(x: NDArray[Any], geometry: Geometry, fill: Any) -> NDArray[Any]:
    seen = window_views(x, geometry, fill)
    return seen.reshape((*seen.shape[: x.ndim], math.prod(geometry.kernel)))


def _places(x: NDArray[Any], geometry: Geometry, name: str) -> tuple[NDArray[Any], ...]:
    """For each window, where along each spatial axis its first largest element is."""
    ndim = len(geometry.kernel)
    lengths = x.shape[x.ndim - ndim :]
    if x.dtype.kind == "c":
        raise DtypeError(f"{name} of dtype {x.dtype}: complex numbers have no largest; pool np.abs")
    lowest = -np.inf if x.dtype.kind == "f" else False if x.dtype == bool else np.iinfo(x.dtype).min
    chosen = _flat_windows(x, geometry, lowest).argmax(axis=-1)
    if any(pair != (0, 0) for pair in geometry.padding):
        inside = _flat_windows(np.ones(lengths, bool), geometry, False)
        if not inside.any(axis=-1).all():
            raise ShapeError(f"{name}: a window sees padding alone; pad less or dilate less")
        # Padding is chosen only where all is -inf: take the first element that is none.
        first = np.broadcast_to(inside.argmax(axis=-1), chosen.shape)
        known = np.broadcast_to(inside, (*chosen.shape, inside.shape[-1]))
        good = np.take_along_axis(known, chosen[..., None], -1)[..., 0]
        chosen = np.where(good, chosen, first)
    within = np.unravel_index(chosen, geometry.kernel)
    found = []
    for axis, place in enumerate(within):
        starts = np.arange(chosen.shape[axis - ndim]) * geometry.stride[axis]
        starts = (starts - geometry.padding[axis][0]).reshape((-1, *(1,) * (ndim - 1 - axis)))
        found.append(starts + place * geometry.dilation[axis])
    return tuple(found)


def gathered(x: Any, places: tuple[NDArray[Any], ...]) -> Tensor:
    """The elements at ``places`` on the spatial axes, for each batch and channel alike."""
    shape = shape_of(x)
    ndim = len(places)
    rows = math.prod(shape[: len(shape) - ndim])
    lengths = shape[len(shape) - ndim :]
    within = np.ravel_multi_index(places, lengths)
    starts = np.arange(rows).reshape((*shape[: len(shape) - ndim], *(1,) * ndim))
    return getitem(reshape(x, (-1,)), starts * math.prod(lengths) + within)


def _max_pool(ndim: int, name: str) -> Callable[..., Tensor]:
    def max_pool(
        x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1
    ) -> Tensor:
        geometry = _geometry(x, kernel_size, stride, padding, dilation, ndim, name)
        return gathered(x, _places(_values(x), geometry, name))

    max_pool.__name__ = max_pool.__qualname__ = name
    max_pool.__doc__ = f"""The largest element of each window over {ndim} spatial axes.

    dx = g at the first largest element of each window, added where windows overlap.

    Args:
        x: (batch, channels, spatial…), or without the batch.
        kernel_size, stride, dilation: a number, or one for each spatial axis;
            ``stride`` is the kernel's size by default.  Elements that no window
            covers get gradient 0.
        padding: as for convolution; padding is smaller than any number.

    Raises:
        ShapeError: if a window would see padding alone, or nothing fits.
    """
    return max_pool


def _avg_pool(ndim: int, name: str) -> Callable[..., Any]:
    def avg_pool(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        count_include_pad: bool = True,
    ) -> Any:
        geometry = _geometry(x, kernel_size, stride, padding, 1, ndim, name)
        source = x if type(x) is Tensor else untracked(operand(x))
        axes = tuple(range(-ndim, 0))
        total: Any = windows(source, geometry, 0.0).sum(axis=axes)
        if count_include_pad:
            return total / math.prod(geometry.kernel)
        ones = np.ones(source.shape[-ndim:], source.dtype)
        return total / window_views(ones, geometry, 0.0).sum(axis=axes)

    avg_pool.__name__ = avg_pool.__qualname__ = name
    avg_pool.__doc__ = f"""The mean of each window over {ndim} spatial axes.

    dx = g over the number of elements, spread over the window.

    Args:
        x: (batch, channels, spatial…), or without the batch.
        kernel_size, stride, padding: as for ``max_pool{ndim}d``.
        count_include_pad: count the padding's zeros among the elements.

    Raises:
        ShapeError: if a window would see padding alone, or nothing fits.
    """
    return avg_pool


def _parts(length: int, count: int) -> list[tuple[int, int]]:
    """Where the parts of an adaptive pooling start and stop; they may overlap by one element."""
    return [
        (number * length // count, -(-(number + 1) * length // count)) for number in range(count)
    ]


def adaptive_avg_pool(x: Any, output_size: Any) -> Tensor:
    """The mean over parts of the last axes, so many that the result has the lengths asked for.

    dx = g over the number of elements, spread over each part.

    Args:
        output_size: length for each of the last axes; their number says how many are pooled.
    """
    sizes = numbers(output_size, len(output_size), "output_size")
    result = x if type(x) is Tensor else untracked(operand(x))
    for axis, count in zip(range(-len(sizes), 0), sizes, strict=True):
        length = result.shape[axis]
        weights = np.zeros((length, count), result.dtype)
        for number, (start, stop) in enumerate(_parts(length, count)):
            weights[start:stop, number] = 1 / (stop - start)
        result = (result.swapaxes(axis, -1) @ weights).swapaxes(axis, -1)
    return result


def adaptive_max_pool(x: Any, output_size: Any) -> Tensor:
    """The largest element of each part of the last axes; parts as for ``adaptive_avg_pool``.

    dx = g at the first largest element of each part.
    """
    values = _values(x)
    sizes = numbers(output_size, len(output_size), "output_size")
    ndim = len(sizes)
    before = values.shape[: values.ndim - ndim]
    cuts = [_parts(n, c) for n, c in zip(values.shape[values.ndim - ndim :], sizes, strict=True)]
    places = [np.empty((*before, *sizes), np.intp) for _ in range(ndim)]
    for cell in np.ndindex(*sizes):
        bounds = [cuts[axis][number] for axis, number in enumerate(cell)]
        part = values[last(slice(*bound) for bound in bounds)]
        count = math.prod(part.shape[len(before) :])
        chosen = part.reshape((*before, count)).argmax(axis=-1)
        within = np.unravel_index(chosen, part.shape[len(before) :])
        for axis, place in enumerate(within):
            places[axis][last(cell)] = place + bounds[axis][0]
    return gathered(x, tuple(places))


max_pool1d, max_pool2d, max_pool3d = (_max_pool(n, f"max_pool{n}d") for n in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (_avg_pool(n, f"avg_pool{n}d") for n in (1, 2, 3))

METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {}

PUBLIC: dict[str, Any] = {
    "adaptive_avg_pool": adaptive_avg_pool,
    "adaptive_max_pool": adaptive_max_pool,
    "avg_pool1d": avg_pool1d,
    "avg_pool2d": avg_pool2d,
    "avg_pool3d": avg_pool3d,
    "max_pool1d": max_pool1d,
    "max_pool2d": max_pool2d,
    "max_pool3d": max_pool3d,
}
