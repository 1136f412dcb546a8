"""Convolution in one, two and three dimensions, and its transpose.

The sum over windows ⟨g, conv(x, w)⟩ is linear in x, w and g.  Its derivatives are
three maps: the convolution itself, the one that gives x its gradient (which is
the transposed convolution) and the one that gives w its gradient.  Each one's
rule consists of the other two, so every order of gradient exists.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import shape_of
from sweepgrad.ops.declare import fit, operand
from sweepgrad.ops.padding import pad
from sweepgrad.ops.primitive import rule_operation
from sweepgrad.ops.windows import Geometry, Lengths, fold_array, numbers, paddings, window_views
from sweepgrad.tensor import Tensor, untracked


def _grouped(w: NDArray[Any], groups: int) -> NDArray[Any]:
    """Weights (out, in/groups, kernel…) as matrices (groups, out/groups, in/groups · kernel)."""
    return w.reshape((groups, w.shape[0] // groups, math.prod(w.shape[1:])))


def _columns(x: NDArray[Any], geometry: Geometry, groups: int) -> NDArray[Any]:
    """The windows as matrices (batch, groups, in/groups · kernel, windows)."""
    ndim = len(geometry.kernel)
    seen = window_views(x, geometry, 0.0)
    batch, channels = x.shape[:2]
    # (batch, in, windows…, kernel…) to (batch, in, kernel…, windows…)
    order = (0, 1, *range(2 + ndim, 2 + 2 * ndim), *range(2, 2 + ndim))
    counts = seen.shape[2 : 2 + ndim]
    rows = channels // groups * math.prod(geometry.kernel)
    return seen.transpose(order).reshape((batch, groups, rows, math.prod(counts)))


def _forward(x: NDArray[Any], w: NDArray[Any], geometry: Geometry, groups: int) -> NDArray[Any]:
    counts = geometry.counts(x.shape[2:])
    out: NDArray[Any] = _grouped(w, groups) @ _columns(x, geometry, groups)
    return out.reshape((x.shape[0], w.shape[0], *counts))


def _to_input(
    g: NDArray[Any], w: NDArray[Any], geometry: Geometry, groups: int, lengths: Lengths
) -> NDArray[Any]:
    """What ⟨g, conv(x, w)⟩ gives x: each output spread over its window."""
    batch, ndim = g.shape[0], len(lengths)
    per_group = g.reshape((batch, groups, w.shape[0] // groups, math.prod(g.shape[2:])))
    columns = _grouped(w, groups).swapaxes(-1, -2) @ per_group
    seen = columns.reshape((batch, groups * w.shape[1], *geometry.kernel, *g.shape[2:]))
    order = (0, 1, *range(2 + ndim, 2 + 2 * ndim), *range(2, 2 + ndim))
    return np.ascontiguousarray(fold_array(seen.transpose(order), geometry, lengths))


def _to_weight(x: NDArray[Any], g: NDArray[Any], geometry: Geometry, groups: int) -> NDArray[Any]:
    """What ⟨g, conv(x, w)⟩ gives w: the sum over batch and windows of output times window."""
    batch, out_channels = g.shape[:2]
    per_group = g.reshape((batch, groups, out_channels // groups, math.prod(g.shape[2:])))
    columns = _columns(x, geometry, groups)
    total: NDArray[Any] = (per_group @ columns.swapaxes(-1, -2)).sum(axis=0)
    return total.reshape((out_channels, x.shape[1] // groups, *geometry.kernel))


convolve_windows: Callable[..., Any] = rule_operation(
    "conv",
    _forward,
    x=lambda g, w, geometry, groups, x_shape, x_dtype: _as(
        to_input(g, w, geometry, groups, x_shape[2:]), x_dtype
    ),
    w=lambda g, x, geometry, groups, w_dtype: _as(to_weight(x, g, geometry, groups), w_dtype),
)

to_input: Callable[..., Any] = rule_operation(
    "conv_transpose",
    _to_input,
    g=lambda u, w, geometry, groups, g_dtype: _as(
        convolve_windows(u, w, geometry, groups), g_dtype
    ),
    w=lambda u, g, geometry, groups, w_dtype: _as(to_weight(u, g, geometry, groups), w_dtype),
)

to_weight: Callable[..., Any] = rule_operation(
    "conv_weight",
    _to_weight,
    x=lambda v, g, geometry, groups, x_shape, x_dtype: _as(
        to_input(g, v, geometry, groups, x_shape[2:]), x_dtype
    ),
    g=lambda v, x, geometry, groups, g_dtype: _as(
        convolve_windows(x, v, geometry, groups), g_dtype
    ),
)


def _as(gradient: Any, dtype: np.dtype[Any]) -> Any:
    return fit(gradient, gradient.shape, dtype)


def _with_batch(x: Any, ndim: int, name: str) -> tuple[Any, bool]:
    """The input with a batch axis, and whether it was added."""
    rank = len(shape_of(x))
    if rank == ndim + 1:
        return np.expand_dims(x, 0), True
    if rank != ndim + 2:
        raise ShapeError(
            f"{name} of shape {shape_of(x)}; the input has the axes (batch, channels, and "
            f"{ndim} spatial), or these without the batch"
        )
    return x, False


def _finished(out: Any, bias: Any, single: bool, ndim: int, name: str) -> Any:
    if bias is not None:
        if shape_of(bias) != (out.shape[1],):
            raise ShapeError(
                f"{name}: bias has shape {shape_of(bias)}, but there are {out.shape[1]} output "
                "channels; give one number for each"
            )
        out = out + np.reshape(bias, (-1, *(1,) * ndim))
    return out[0] if single else out


def _conv_geometry(
    of_x: Lengths, of_w: Lengths, settings: tuple[Any, Any, Any], groups: int, name: str
) -> Geometry:
    """How a kernel of this shape moves over this input.

    Args:
        settings: stride, padding and dilation as the user gave them.

    Raises:
        ShapeError: if shapes, settings and groups do not go together.
    """
    ndim = len(of_x) - 2
    if len(of_w) != ndim + 2:
        raise ShapeError(
            f"{name}: weight has shape {of_w}; its axes are (out channels, in channels / "
            f"groups, and {ndim} of the kernel)"
        )
    if groups < 1 or of_x[1] != of_w[1] * groups or of_w[0] % groups:
        raise ShapeError(
            f"{name}: {of_x[1]} input channels, weight of shape {of_w}, {groups} groups; "
            "weight.shape[1] * groups is the number of input channels, and groups divides "
            "weight.shape[0]"
        )
    stride, padding, dilation = settings
    strides = numbers(stride, ndim, "stride")
    dilations = numbers(dilation, ndim, "dilation")
    pairs = paddings(padding, (of_w[2:], strides, dilations), of_x[2:])
    geometry = Geometry(of_w[2:], strides, pairs, dilations)
    geometry.counts(of_x[2:])
    return geometry


def _convolution(ndim: int, name: str) -> Callable[..., Tensor]:
    def conv(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        x, single = _with_batch(x, ndim, name)
        settings = (stride, padding, dilation)
        geometry = _conv_geometry(shape_of(x), shape_of(weight), settings, groups, name)
        out = _tensor_of(convolve_windows, x, weight, geometry, groups)
        result: Tensor = _finished(out, bias, single, ndim, name)
        return result

    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = f"""Convolution (cross-correlation) over {ndim} spatial axes, as in PyTorch.

    dx = g spread over the windows, dw = the sum of g times each window.

    Args:
        x: (batch, channels, spatial…), or without the batch.
        weight: (out channels, channels / groups, kernel…).
        bias: one number for each output channel, or None.
        stride, dilation: a number, or one for each spatial axis.
        padding: a number, one or a (before, after) pair for each axis, "valid" or
            "same".  Elements that no window covers get gradient 0.
        groups: channels are cut into this many groups that do not mix.

    Raises:
        ShapeError: if shapes, groups or padding do not go together.
    """
    return conv


def _tensor_of(operation: Callable[..., Any], *arguments: Any) -> Any:
    """The result of an operation that gives an array when no operand is a tensor."""
    values = [a if type(a) is Tensor else operand(a) for a in arguments[:2]]
    out = operation(*values, *arguments[2:])
    return out if type(out) is Tensor else untracked(out)


def _transposed_geometry(
    of_x: Lengths, of_w: Lengths, settings: tuple[Any, Any, Any, Any], groups: int, name: str
) -> tuple[Geometry, Lengths, Lengths]:
    """The geometry of the convolution that is transposed, the lengths of its input, zeros to add.

    Args:
        settings: stride, padding, output_padding and dilation as the user gave them.

    Raises:
        ShapeError: if shapes, settings and groups do not go together.
    """
    ndim = len(of_x) - 2
    if len(of_w) != ndim + 2 or groups < 1 or of_x[1] != of_w[0] or of_w[0] % groups:
        raise ShapeError(
            f"{name}: {of_x[1]} input channels, weight of shape {of_w}, {groups} groups; the "
            f"weight's axes are (in channels, out channels / groups, and {ndim} of the kernel)"
        )
    stride, padding, output_padding, dilation = settings
    strides = numbers(stride, ndim, "stride")
    dilations = numbers(dilation, ndim, "dilation")
    extra = numbers(output_padding, ndim, "output_padding", 0)
    pairs = paddings(padding, (of_w[2:], strides, dilations), of_x[2:])
    # Elements added at the end are fewer cut off there; more of them are zeros, see the caller.
    spare = [min(pair[1], more) for pair, more in zip(pairs, extra, strict=True)]
    pairs = tuple((low, high - less) for (low, high), less in zip(pairs, spare, strict=True))
    geometry = Geometry(of_w[2:], strides, pairs, dilations)
    spans = geometry.spans()
    lengths = tuple(
        (of_x[2 + axis] - 1) * strides[axis] + spans[axis] - sum(pairs[axis])
        for axis in range(ndim)
    )
    added = tuple(more - less for more, less in zip(extra, spare, strict=True))
    steps = zip(extra, strides, dilations, strict=True)
    if any(length < 1 for length in lengths) or any(e >= max(s, d) for e, s, d in steps if e):
        raise ShapeError(
            f"{name}: no input of a convolution with this kernel, stride and padding has an "
            f"output of shape {of_x[2:]}; output_padding is smaller than stride or "
            "dilation, padding smaller than the kernel's reach"
        )
    return geometry, lengths, added


def _transposed(ndim: int, name: str) -> Callable[..., Tensor]:
    def conv_transpose(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        x, single = _with_batch(x, ndim, name)
        settings = (stride, padding, output_padding, dilation)
        of_x, of_w = shape_of(x), shape_of(weight)
        geometry, lengths, added = _transposed_geometry(of_x, of_w, settings, groups, name)
        out: Any = _tensor_of(to_input, x, weight, geometry, groups, lengths)
        if any(added):
            out = pad(out, [(0, 0), (0, 0), *[(0, more) for more in added]])
        result: Tensor = _finished(out, bias, single, ndim, name)
        return result

    conv_transpose.__name__ = conv_transpose.__qualname__ = name
    conv_transpose.__doc__ = f"""Transposed convolution over {ndim} spatial axes, as in PyTorch.

    What a convolution with these arguments gives its input as gradient; dx is that
    convolution of g, dw the sum of x times each window of g.

    Args:
        x: (batch, channels, spatial…), or without the batch.
        weight: (channels, out channels / groups, kernel…).
        bias: one number for each output channel, or None.
        output_padding: elements added at the end, where several lengths are possible.
        stride, padding, dilation, groups: those of the convolution.

    Raises:
        ShapeError: if shapes, groups or padding do not go together.
    """
    return conv_transpose


conv1d, conv2d, conv3d = (_convolution(n, f"conv{n}d") for n in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    _transposed(n, f"conv_transpose{n}d") for n in (1, 2, 3)
)

METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {}

PUBLIC: dict[str, Any] = {
    "conv1d": conv1d,
    "conv2d": conv2d,
    "conv3d": conv3d,
    "conv_transpose1d": conv_transpose1d,
    "conv_transpose2d": conv_transpose2d,
    "conv_transpose3d": conv_transpose3d,
}
