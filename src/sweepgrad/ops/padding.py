"""pad: elements put before and after, in every mode of NumPy that has a gradient.

All modes but those that look for a largest, smallest or middle element are
linear along each axis, and NumPy pads axis by axis.  So the gradient applies the
transposed map axis by axis.  For the modes that copy elements it adds g back to
where each came from; for the others the map is a small matrix, found by padding
the identity.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import NoGradientRuleError, ShapeError
from sweepgrad.ops.arguments import shape_of
from sweepgrad.ops.indexing import getitem, scatter
from sweepgrad.ops.joining import concatenate
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.shape import broadcast_to
from sweepgrad.tensor import Tensor

#: Pairs (before, after), one for each axis.
Pairs = tuple[tuple[int, int], ...]

#: NumPy's modes by how their gradient is found.
_COPYING = frozenset({"edge", "reflect", "symmetric", "wrap"})
_AFFINE = frozenset({"linear_ramp", "mean", "reflect", "symmetric"})
_CHOOSING = {"maximum": "max", "minimum": "min", "median": "median"}


def pairs_of(widths: Any, ndim: int) -> Pairs:
    """NumPy's forms of a width (number, pair, pair for each axis, mapping of axes) as pairs.

    Raises:
        ShapeError: for a negative width or a form that does not fit the axes.
    """
    if isinstance(widths, dict):
        listed = [(0, 0)] * ndim
        for axis, width in widths.items():
            listed[axis] = (width, width) if np.ndim(width) == 0 else tuple(width)
        widths = listed
    try:
        spread = np.broadcast_to(np.asarray(widths), (ndim, 2))
    except ValueError as error:
        raise ShapeError(
            f"pad widths {widths!r} do not fit {ndim} axes; give a number, (before, after), or "
            "one such pair for each axis"
        ) from error
    pairs = tuple((operator.index(before), operator.index(after)) for before, after in spread)
    if any(width < 0 for pair in pairs for width in pair):
        raise ShapeError(f"pad widths are 0 or more, got {widths!r}; cut with an index instead")
    return pairs


def _inner(pairs: Pairs, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The index of the original inside the padded array."""
    return tuple(
        slice(before, before + length) for (before, _), length in zip(pairs, shape, strict=True)
    )


_surround = primitive(
    "pad",
    lambda x, pairs, mode, options: np.pad(x, pairs, mode, **options),
    x=lambda g, pairs, x_shape: g[_inner(pairs, x_shape)],
)


def _copied_rule(
    g: Any, pairs: Pairs, mode: str, options: dict[str, Any], x_shape: tuple[int, ...]
) -> Any:
    sources = [
        np.pad(np.arange(length), pair, mode, **options)  # type: ignore[call-overload]
        for pair, length in zip(pairs, x_shape, strict=True)
    ]
    return scatter(g, np.ix_(*sources), x_shape, g.dtype)


_copying = primitive(
    "pad",
    lambda x, pairs, mode, options: np.pad(x, pairs, mode, **options),
    x=_copied_rule,
)


def _matrix(
    length: int, pair: tuple[int, int], mode: str, options: dict[str, Any], dtype: Any
) -> NDArray[Any]:
    """The map along one axis: padded elements in rows, original ones in columns."""
    own = {key: value for key, value in options.items() if key != "end_values"}
    return _pad_axis(np.eye(length, dtype=dtype), 0, pair, mode, own)


def _pad_axis(
    x: NDArray[Any], axis: int, pair: tuple[int, int], mode: Any, options: dict[str, Any]
) -> NDArray[Any]:
    """Pad one axis alone, with that axis' own options."""
    pairs = [(0, 0)] * x.ndim
    pairs[axis] = pair
    spread = {}
    for key, value in options.items():
        spread[key] = value
        if key in ("end_values", "stat_length"):
            spread[key] = [(1, 1)] * x.ndim
            spread[key][axis] = value
    return np.pad(x, pairs, mode, **spread)


def _affine_rule(
    g: Any,
    pairs: Pairs,
    mode: str,
    options: list[dict[str, Any]],
    x_shape: tuple[int, ...],
) -> Any:
    for axis in reversed(range(len(x_shape))):
        if pairs[axis] != (0, 0):
            matrix = _matrix(x_shape[axis], pairs[axis], mode, options[axis], g.dtype)
            g = np.moveaxis(np.moveaxis(g, axis, -1) @ matrix, -1, axis)
    return g


def _affine_forward(
    x: NDArray[Any], pairs: Pairs, mode: str, options: list[dict[str, Any]]
) -> NDArray[Any]:
    for axis, pair in enumerate(pairs):
        if pair != (0, 0):
            x = _pad_axis(x, axis, pair, mode, options[axis])
    return x


_affine = primitive("pad", _affine_forward, x=_affine_rule)


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    """``numpy.pad`` in all its named modes.

    dx adds each padded element's g back to the elements it was made from.

    Args:
        pad_width: number, (before, after), or one pair for each axis.
        mode: any of NumPy's names; their options as keywords (``constant_values``,
            ``end_values``, ``stat_length``, ``reflect_type``).

    Raises:
        NoGradientRuleError: for a mode that is a function.
        ShapeError: if the widths do not fit the axes.
    """
    shape = shape_of(array)
    pairs = pairs_of(pad_width, len(shape))
    if not isinstance(mode, str):
        raise NoGradientRuleError(
            "pad with a function writes into an array; pad with a named mode, or join the parts "
            "with sweepgrad.concatenate"
        )
    if mode in ("constant", "empty"):
        return _surround(array, pairs, mode, kwargs)
    if mode in _CHOOSING:
        return _chosen(array, pairs, _CHOOSING[mode], kwargs.pop("stat_length", None), kwargs)
    if mode in _COPYING and kwargs.get("reflect_type", "even") == "even":
        return _copying(array, pairs, mode, kwargs)
    if mode not in _AFFINE:
        known = sorted({"constant", "empty", *_CHOOSING, *_COPYING, *_AFFINE})
        raise ShapeError(f"pad has no mode {mode!r}; there are {', '.join(known)}")
    return _affine(array, pairs, mode, _by_axis(kwargs, len(shape)))


def _by_axis(options: dict[str, Any], ndim: int) -> list[dict[str, Any]]:
    """The options that NumPy spreads over the axes, one dictionary for each axis."""
    spread: list[dict[str, Any]] = [dict(options) for _ in range(ndim)]
    for key in ("end_values", "stat_length"):
        if options.get(key) is None:
            for own in spread:
                own.pop(key, None)
            continue
        for axis, pair in enumerate(np.broadcast_to(options[key], (ndim, 2))):
            spread[axis][key] = tuple(pair.tolist())
    return spread


def _chosen(
    array: Any, pairs: Pairs, method: str, stat_length: Any, unknown: dict[str, Any]
) -> Tensor:
    """Modes that pad with a statistic of each edge; the gradient is the statistic's own."""
    if unknown:
        raise TypeError(f"pad got unexpected options {sorted(unknown)} for its mode")
    ndim = len(pairs)
    lengths = None if stat_length is None else np.broadcast_to(stat_length, (ndim, 2))
    result = array
    for axis, (before, after) in enumerate(pairs):
        if (before, after) == (0, 0):
            continue
        shape = shape_of(result)
        parts = [result]
        for side, width in ((0, before), (1, after)):
            if not width:
                continue
            length = shape[axis]
            count = length if lengths is None else min(int(lengths[axis, side]), length)
            edge = slice(None, count) if side == 0 else slice(length - count, None)
            near = getitem(result, (*(slice(None),) * axis, edge))
            value = getattr(np, method)(near, axis=axis, keepdims=True)
            part = broadcast_to(value, (*shape[:axis], width, *shape[axis + 1 :]))
            parts.insert(0 if side == 0 else len(parts), part)
        result = concatenate(parts, axis)
    return result if type(result) is Tensor else getitem(result, ...)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {np.pad: pad}

PUBLIC: dict[str, Any] = {"pad": pad}
