"""Windows: what convolution and pooling see of a padded input, as a view.

``windows`` is linear; its transpose adds every window's values back to where
they came from (``fold``).  Each is the other's rule.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.primitive import rule_operation

Lengths = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


class Geometry(NamedTuple):
    """How a kernel moves over the spatial axes: one number, or pair for padding, for each."""

    kernel: Lengths
    stride: Lengths
    padding: Pairs
    dilation: Lengths

    def spans(self) -> Lengths:
        """How many padded elements one window reaches over."""
        return tuple(
            (k - 1) * d + 1 if k else 0 for k, d in zip(self.kernel, self.dilation, strict=True)
        )

    def counts(self, lengths: Lengths) -> Lengths:
        """How many windows there are; elements that no window covers are left out.

        Raises:
            ShapeError: if the padded input is smaller than a window.
        """
        found = []
        spans = self.spans()
        for axis, length in enumerate(lengths):
            padded = length + sum(self.padding[axis])
            if padded < spans[axis] or not spans[axis]:
                raise ShapeError(
                    f"spatial axis {axis} has length {length}, padded {padded}, but the window "
                    f"reaches over {spans[axis]}; pad more or take a smaller kernel or dilation"
                )
            found.append((padded - spans[axis]) // self.stride[axis] + 1)
        return tuple(found)


def numbers(value: Any, ndim: int, name: str, least: int = 1) -> Lengths:
    """A number, or one for each of ``ndim`` spatial axes.

    Raises:
        ShapeError: for another count of numbers, or one below ``least``.
    """
    try:
        found = (operator.index(value),) * ndim
    except TypeError:
        found = tuple(operator.index(one) for one in value)
    if len(found) != ndim or any(one < least for one in found):
        raise ShapeError(f"{name} is a number from {least} on, or {ndim} of them, got {value!r}")
    return found


def paddings(value: Any, geometry_of: tuple[Lengths, Lengths, Lengths], lengths: Lengths) -> Pairs:
    """Padding as pairs: a number, one for each axis, a pair for each axis, "valid" or "same".

    "same" pads so that there is one window for each ``stride`` elements, rounded
    up, with the odd element at the end.
    """
    kernel, stride, dilation = geometry_of
    ndim = len(kernel)
    if value == "valid":
        return ((0, 0),) * ndim
    if value == "same":
        pairs = []
        for length, k, s, d in zip(lengths, kernel, stride, dilation, strict=True):
            needed = max((-(-length // s) - 1) * s + (k - 1) * d + 1 - length, 0)
            pairs.append((needed // 2, needed - needed // 2))
        return tuple(pairs)
    if isinstance(value, str):
        raise ShapeError(f'padding is a number, pairs, "valid" or "same", got {value!r}')
    if isinstance(value, (tuple, list)) and any(isinstance(one, (tuple, list)) for one in value):
        if len(value) != ndim:
            raise ShapeError(f"padding gives {len(value)} pairs for {ndim} spatial axes")
        return tuple(_pair(one) for one in value)
    return tuple((one, one) for one in numbers(value, ndim, "padding", 0))


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, (tuple, list)):
        before, after = numbers(value, 2, "padding", 0)
        return before, after
    number = operator.index(value)
    return numbers((number, number), 2, "padding", 0)  # type: ignore[return-value]


def window_views(x: NDArray[Any], geometry: Geometry, fill: float) -> NDArray[Any]:
    """Views (batch…, windows…, kernel…) on the last axes of the padded input."""
    kernel, stride, padding, dilation = geometry
    ndim = len(kernel)
    batch = x.ndim - ndim
    counts = geometry.counts(x.shape[batch:])
    if any(pair != (0, 0) for pair in padding):
        x = np.pad(x, (*((0, 0),) * batch, *padding), constant_values=fill)
    steps = x.strides[batch:]
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:batch], *counts, *kernel),
        (
            *x.strides[:batch],
            *(step * s for step, s in zip(steps, stride, strict=True)),
            *(step * d for step, d in zip(steps, dilation, strict=True)),
        ),
        writeable=False,
    )


def last(parts: Any) -> Any:
    """An index for the last axes."""
    return (..., *parts)


def fold_array(g: NDArray[Any], geometry: Geometry, lengths: Lengths) -> NDArray[Any]:
    """Add each window's values to where they came from; the padding's share is dropped.

    One addition for each element of the kernel: the windows of one kernel element
    do not overlap.
    """
    kernel, stride, padding, dilation = geometry
    ndim = len(kernel)
    batch = g.ndim - 2 * ndim
    counts = g.shape[batch : batch + ndim]
    padded = tuple(n + before + after for n, (before, after) in zip(lengths, padding, strict=True))
    out = np.zeros(g.shape[:batch] + padded, g.dtype)
    for place in np.ndindex(*kernel):
        target: Any = tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, n, s in zip(place, dilation, counts, stride, strict=True)
        )
        out[last(target)] += g[last(place)]
    inner = tuple(slice(b, b + n) for (b, _), n in zip(padding, lengths, strict=True))
    result: NDArray[Any] = out[last(inner)]
    return result


#: ``windows(x, geometry, fill)``: on arrays and tensors alike.
windows: Callable[..., Any] = rule_operation(
    "windows",
    window_views,
    x=lambda g, geometry, x_shape: fold(g, geometry, x_shape[len(x_shape) - len(geometry[0]) :]),
)

#: ``fold(g, geometry, lengths)``: the transpose of ``windows``.
fold: Callable[..., Any] = rule_operation(
    "fold",
    fold_array,
    g=lambda u, geometry: windows(u, geometry, 0.0),
)
