"""Joining and splitting: several tensors along one axis."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import ndim_of, refuse_out, shape_of
from sweepgrad.ops.indexing import getitem
from sweepgrad.ops.pieces import pieces
from sweepgrad.ops.primitive import variadic
from sweepgrad.ops.rearrange import atleast_1d, atleast_2d, atleast_3d
from sweepgrad.ops.shape import ravel, reshape
from sweepgrad.tensor import Tensor


def _joined(arrays: list[NDArray[Any]], axis: int, dtype: Any, casting: Any) -> NDArray[Any]:
    return np.concatenate(arrays, axis, dtype=dtype, casting=casting)


def _convert(part: Any, dtype: np.dtype[Any]) -> Any:
    if part.dtype == dtype:
        return part
    if dtype.kind != "c" and part.dtype.kind == "c":
        part = part.real
    return part.astype(dtype)


def _cut(
    g: Any, which: Sequence[int], axis: int, lengths: list[int], dtypes: list[Any]
) -> list[Any]:
    before = (slice(None),) * (axis % g.ndim)
    stops = list(itertools.accumulate(lengths))
    return [
        _convert(g[(*before, slice(stops[index] - lengths[index], stops[index]))], dtypes[index])
        for index in which
    ]


def _extents(arrays: list[NDArray[Any]], axis: int, dtype: Any, casting: Any) -> tuple[Any, ...]:
    return axis, [array.shape[axis] for array in arrays], [array.dtype for array in arrays]


_concatenate = variadic("concatenate", _joined, _cut, _extents)


def _items(arrays: Any, function: str) -> list[Any]:
    """The operands of a joining function, which may be one tensor that is iterated over."""
    items = list(arrays)
    if not items:
        raise ShapeError(f"{function} got no tensors; give it a sequence with at least one")
    return items


def concatenate(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: Any = None
) -> Tensor:
    """Joined along an existing axis, as ``numpy.concatenate``; each operand gets its part of g.

    Args:
        axis: the axis; None joins the flattened operands.

    Dtypes: NumPy's promotion; each gradient has its operand's dtype.

    Raises:
        ShapeError: if the operands differ in another axis, or there are none.
    """
    refuse_out("concatenate", out)
    items = _items(arrays, "concatenate")
    if axis is None:
        items, axis = [ravel(item) for item in items], 0
    return _concatenate(items, axis, dtype, "same_kind" if casting is None else casting)


def _layers(g: Any, which: Sequence[int], axis: int, dtypes: list[Any]) -> list[Any]:
    before = (slice(None),) * (axis % g.ndim)
    return [_convert(g[(*before, index)], dtypes[index]) for index in which]


_stack = variadic(
    "stack",
    lambda arrays, axis, dtype, casting: np.stack(arrays, axis, dtype=dtype, casting=casting),
    _layers,
    lambda arrays, axis, dtype, casting: (axis, [array.dtype for array in arrays]),
)


def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Tensor:
    """Joined along a new axis, as ``numpy.stack``; each operand gets its layer of g.

    Raises:
        ShapeError: if the shapes differ, or there are no operands.
    """
    refuse_out("stack", out)
    return _stack(_items(arrays, "stack"), axis, dtype, casting)


def _sections(length: int, sections: int) -> list[int]:
    """Where to cut into ``sections`` parts whose lengths differ by one at most, longer first."""
    each, longer = divmod(length, sections)
    lengths = [each + 1] * longer + [each] * (sections - longer)
    return list(itertools.accumulate(lengths))[:-1]


def _pieces(x: Any, cuts: Sequence[int], axis: int) -> list[Tensor]:
    before = (slice(None),) * axis
    starts, stops = [0, *cuts], [*cuts, shape_of(x)[axis]]
    spans = zip(starts, stops, strict=True)
    if any(start < 0 for start in cuts) or sorted(cuts) != list(cuts):
        # Cuts out of order give parts that overlap.
        return [getitem(x, (*before, slice(start, stop))) for start, stop in spans]
    return list(pieces(x, [(*before, slice(start, stop)) for start, stop in spans]))


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Cut along an axis, as ``numpy.array_split``; dx holds each part's g at its place.

    Args:
        indices_or_sections: how many parts, or the positions to cut at.
    """
    axis = normalize_axis_index(axis, ndim_of(ary))
    try:
        sections = operator.index(indices_or_sections)
    except TypeError:
        return _pieces(ary, [operator.index(cut) for cut in indices_or_sections], axis)
    if sections < 1:
        raise ShapeError(f"a split into {sections} parts; the number of parts is 1 or more")
    return _pieces(ary, _sections(shape_of(ary)[axis], sections), axis)


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Cut into equal parts or at positions, as ``numpy.split``; see :func:`array_split`.

    Raises:
        ShapeError: if a number of parts does not divide the length.
    """
    if isinstance(indices_or_sections, (int, np.integer)):
        length = shape_of(ary)[axis]
        if indices_or_sections > 0 and length % indices_or_sections:
            raise ShapeError(
                f"split of an axis of length {length} into {indices_or_sections} equal parts; "
                "use array_split for parts that differ by one"
            )
    return array_split(ary, indices_or_sections, axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The layers along an axis, without that axis, as ``numpy.unstack``."""
    shape = shape_of(x)
    if not shape:
        raise ShapeError("unstack of a tensor without axes; there is nothing to take apart")
    axis = normalize_axis_index(axis, len(shape))
    before = (slice(None),) * axis
    return tuple(pieces(x, [(*before, position) for position in range(shape[axis])]))


def _split_along(name: str, axis: int, x: Any, where: Any) -> list[Tensor]:
    if ndim_of(x) <= axis:
        raise ShapeError(f"{name} of shape {shape_of(x)}; it needs at least {axis + 1} axes")
    return split(x, where, axis)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """``numpy.hsplit``: cut along the second axis, or a vector along its only one."""
    axis = 1 if ndim_of(ary) > 1 else 0
    return _split_along("hsplit", axis, ary, indices_or_sections)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """``numpy.vsplit``: cut along the first of at least two axes."""
    if ndim_of(ary) < 2:
        raise ShapeError(f"vsplit of shape {shape_of(ary)}; it needs at least 2 axes")
    return _split_along("vsplit", 0, ary, indices_or_sections)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """``numpy.dsplit``: cut along the third axis."""
    return _split_along("dsplit", 2, ary, indices_or_sections)


def hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Tensor:
    """``numpy.hstack``: joined along the second axis, vectors along their only one."""
    items = [atleast_1d(item) for item in _items(tup, "hstack")]
    axis = 0 if ndim_of(items[0]) == 1 else 1
    return concatenate(items, axis, dtype=dtype, casting=casting)


def vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Tensor:
    """``numpy.vstack``: joined along the first axis, vectors as rows."""
    items = [atleast_2d(item) for item in _items(tup, "vstack")]
    return concatenate(items, 0, dtype=dtype, casting=casting)


def dstack(tup: Any) -> Tensor:
    """``numpy.dstack``: joined along the third axis."""
    return concatenate([atleast_3d(item) for item in _items(tup, "dstack")], 2)


def column_stack(tup: Any) -> Tensor:
    """``numpy.column_stack``: joined along the second axis, vectors as columns."""
    items = _items(tup, "column_stack")
    return concatenate([item if ndim_of(item) > 1 else reshape(item, (-1, 1)) for item in items], 1)


def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """``numpy.append``: two operands joined, flattened when no axis is given."""
    return concatenate([arr, values], axis)


def block(arrays: Any) -> Tensor:
    """``numpy.block``: nested lists joined, the innermost along the last axis."""
    depth = _depth(arrays)
    result: Tensor = _block(arrays, depth, max(depth, _most_axes(arrays)))
    return result


def _depth(arrays: Any) -> int:
    depth = 0
    while isinstance(arrays, list):
        if not arrays:
            raise ShapeError("block got an empty list; every list holds at least one block")
        arrays = arrays[0]
        depth += 1
    return depth


def _most_axes(arrays: Any) -> int:
    if isinstance(arrays, list):
        return max(_most_axes(item) for item in arrays)
    return ndim_of(arrays)


def _block(arrays: Any, depth: int, ndim: int) -> Any:
    if isinstance(arrays, list):
        if not depth:
            raise ShapeError("block got lists nested to different depths; nest all alike")
        return concatenate([_block(item, depth - 1, ndim) for item in arrays], -depth)
    if depth:
        raise ShapeError("block got lists nested to different depths; nest all alike")
    shape = shape_of(arrays)
    return reshape(arrays, (1,) * (ndim - len(shape)) + shape)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.append: append,
    np.array_split: array_split,
    np.block: block,
    np.column_stack: column_stack,
    np.concatenate: concatenate,
    np.dsplit: dsplit,
    np.dstack: dstack,
    np.hsplit: hsplit,
    np.hstack: hstack,
    np.split: split,
    np.stack: stack,
    np.vsplit: vsplit,
    np.vstack: vstack,
}
if hasattr(np, "unstack"):  # new in NumPy 2.1
    NUMPY[np.unstack] = unstack

PUBLIC: dict[str, Any] = {
    "append": append,
    "array_split": array_split,
    "block": block,
    "column_stack": column_stack,
    "concat": concatenate,
    "concatenate": concatenate,
    "dsplit": dsplit,
    "dstack": dstack,
    "hsplit": hsplit,
    "hstack": hstack,
    "split": split,
    "stack": stack,
    "unstack": unstack,
    "vsplit": vsplit,
    "vstack": vstack,
}
