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
from sweepgrad.ops.arguments import refuse_out
from sweepgrad.ops.indexing import getitem
from sweepgrad.ops.primitive import variadic
from sweepgrad.ops.shape import ravel
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
    g: Any, which: tuple[int, ...], axis: int, bounds: list[int], dtypes: list[Any]
) -> list[Any]:
    before = (slice(None),) * (axis % g.ndim)
    return [
        _convert(g[(*before, slice(bounds[index], bounds[index + 1]))], dtypes[index])
        for index in which
    ]


def _bounds(arrays: list[NDArray[Any]], axis: int, dtype: Any, casting: Any) -> tuple[Any, ...]:
    lengths = [array.shape[axis] for array in arrays]
    return axis, list(itertools.accumulate(lengths, initial=0)), [a.dtype for a in arrays]


_concatenate = variadic("concatenate", _joined, _cut, _bounds)


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


def _layers(g: Any, which: tuple[int, ...], axis: int, dtypes: list[Any]) -> list[Any]:
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
    starts, stops = [0, *cuts], [*cuts, x.shape[axis]]
    return [
        getitem(x, (*before, slice(start, stop))) for start, stop in zip(starts, stops, strict=True)
    ]


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Cut along an axis, as ``numpy.array_split``; dx holds each part's g at its place.

    Args:
        indices_or_sections: how many parts, or the positions to cut at.
    """
    axis = normalize_axis_index(axis, ary.ndim)
    try:
        sections = operator.index(indices_or_sections)
    except TypeError:
        return _pieces(ary, [operator.index(cut) for cut in indices_or_sections], axis)
    if sections < 1:
        raise ShapeError(f"a split into {sections} parts; the number of parts is 1 or more")
    return _pieces(ary, _sections(ary.shape[axis], sections), axis)


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Cut into equal parts or at positions, as ``numpy.split``; see :func:`array_split`.

    Raises:
        ShapeError: if a number of parts does not divide the length.
    """
    if isinstance(indices_or_sections, (int, np.integer)):
        length = ary.shape[axis]
        if indices_or_sections > 0 and length % indices_or_sections:
            raise ShapeError(
                f"split of an axis of length {length} into {indices_or_sections} equal parts; "
                "use array_split for parts that differ by one"
            )
    return array_split(ary, indices_or_sections, axis)


METHODS: dict[str, Any] = {}

NUMPY = {
    np.array_split: array_split,
    np.concatenate: concatenate,
    np.split: split,
    np.stack: stack,
}

PUBLIC = {
    "array_split": array_split,
    "concat": concatenate,
    "concatenate": concatenate,
    "split": split,
    "stack": stack,
}
