"""Indexing: elements, slices and gathered elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray

from sweepgrad.errors import DtypeError, ShapeError
from sweepgrad.ops.arguments import refuse_out, shape_of
from sweepgrad.ops.primitive import primitive, rule_operation
from sweepgrad.ops.shape import reshape as _flat
from sweepgrad.tensor import Tensor

ndarray = np.ndarray

_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})


def basic(index: Any) -> bool:
    """Whether a normalized index selects each element once at most, giving a view."""
    if type(index) is tuple:
        return all(type(part) in _BASIC for part in index)
    return type(index) in _BASIC


def normalized(index: Any) -> Any:
    """An index that nobody else can change: arrays copied, index tensors and lists made arrays.

    Raises:
        DtypeError: for arrays of numbers other than integers and booleans.
    """
    if type(index) in _BASIC:
        return index
    if type(index) is tuple:
        return tuple([part if type(part) in _BASIC else _own_part(part) for part in index])
    return _own_part(index)


def _own_part(part: Any) -> Any:
    if isinstance(part, np.integer):
        return int(part)
    if type(part) is slice or isinstance(part, (bool, np.bool_)):
        return part
    array = np.array(part._array if type(part) is Tensor else part)
    if array.dtype.kind == "f" and array.size == 0 and type(part) is list:
        return array.astype(np.intp)  # an empty list has no dtype of its own
    if array.dtype.kind not in "iub":
        raise DtypeError(
            f"an index is made of integers, booleans, slices, None and ..., got {part!r} of dtype "
            f"{array.dtype}; convert it with .astype(np.intp)"
        )
    return array


def _spread(
    g: NDArray[Any], index: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Zeros with ``g`` added at ``index``, once for each time an element is named."""
    out = np.zeros(shape, dtype)
    if basic(index) or names_once(index) or _distinct_rows(index, shape):
        out[index] = g
    else:
        add_at(out, index, g)
    return out


def names_once(index: Any) -> bool:
    """Whether an index cannot name an element twice: at most one integer in its arrays.

    Booleans name each element once; two or more integers may be equal.
    """
    parts = index if type(index) is tuple else (index,)
    return not any(
        type(part) is ndarray and part.dtype.kind != "b" and part.size > 1 for part in parts
    )


def _distinct_rows(index: Any, shape: tuple[int, ...]) -> bool:
    """Whether an array of whole rows names none twice; False also where asking does not pay."""
    rows = _rows(index)
    if rows is None or len(shape) < 2 or shape[0] > rows.size * math.prod(shape[1:]):
        return False
    turns = np.arange(rows.size).reshape(rows.shape)
    last = np.empty(shape[0], np.intp)
    last[rows] = turns
    return bool((last[rows] == turns).all())


def _rows(index: Any) -> NDArray[Any] | None:
    """The integers of an index that is one integer array for the first axis."""
    rows = index[0] if type(index) is tuple and len(index) == 1 else index
    return rows if type(rows) is ndarray and rows.dtype.kind != "b" else None


#: Most elements whose places are worked out at once: the places take 8 bytes each.
CHUNK = 1 << 17


def add_at(out: NDArray[Any], index: Any, values: Any) -> None:
    """``np.add.at`` on a contiguous array of the caller's own, to the last bit, but faster.

    NumPy has a short path for one flat index into one flat array, three to four
    times as fast as the general one; every index can be written as such.  The
    additions happen in the same order, so the sums are bitwise the same.
    """
    rows = _rows(index)
    if rows is not None and out.ndim > 1:
        _add_rows(out, rows.astype(np.intp).reshape(-1), rows.shape, values)
    elif out.size > 16 * max(np.size(values), 64):
        np.add.at(out, index, values)  # numbering all elements would cost more
    else:
        places = np.arange(out.size).reshape(out.shape)[index]
        values = np.broadcast_to(np.asarray(values, out.dtype), places.shape)
        np.add.at(out.reshape(-1), places.reshape(-1), values.reshape(-1))


def _add_rows(
    out: NDArray[Any], rows: NDArray[np.intp], shape: tuple[int, ...], values: Any
) -> None:
    """Add whole rows, some at a time."""
    if rows.size and (rows.min() < -len(out) or rows.max() >= len(out)):
        raise IndexError(
            f"an index from {rows.min()} to {rows.max()} for an axis of length {len(out)}"
        )
    rows = np.where(rows < 0, rows + len(out), rows)
    width = math.prod(out.shape[1:])
    spread = np.broadcast_to(np.asarray(values, out.dtype), shape + out.shape[1:])
    parts = spread.reshape((rows.size, width))
    flat, columns = out.reshape(-1), np.arange(width)
    step = max(1, CHUNK // max(1, width))
    for start in range(0, rows.size, step):
        places = rows[start : start + step, None] * width + columns
        np.add.at(flat, places.reshape(-1), parts[start : start + step].reshape(-1))


#: The linear map that indexing is the transpose of; its own rule is the indexing.
scatter = rule_operation("scatter", _spread, g=lambda g, index: g[index])

_gather = primitive(
    "getitem",
    lambda x, index: x[index],
    x=lambda g, index, x_shape, x_dtype: scatter(g, index, x_shape, x_dtype),
)


def getitem(x: Any, index: Any) -> Tensor:
    """``x[index]`` with NumPy's indices; dx = zeros with g added at the index.

    An element named several times gets the sum of its gradients.  Integers,
    slices, ``...`` and ``None`` give a view; index arrays are copied when the
    operation is recorded, and may be tensors.

    Raises:
        IndexError: as NumPy, for an index out of bounds or too many of them.
        DtypeError: for an index array that holds neither integers nor booleans.
    """
    return _gather(x, normalized(index))


def take(
    a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise"
) -> Tensor:
    """``numpy.take``: the elements at ``indices`` along an axis; dx = g added at the indices.

    Args:
        axis: None takes from the flattened operand.
        mode: "raise", "wrap" or "clip": what to do with indices out of bounds.
    """
    refuse_out("take", out)
    places = np.array(indices._array if type(indices) is Tensor else indices)
    if places.dtype.kind not in "iu" and places.size:
        raise DtypeError(f"take: indices are integers, got {places.dtype}; use .astype(np.intp)")
    places = places.astype(np.intp)
    if axis is None:
        a, axis = _flat(a, (-1,)), 0
    shape = shape_of(a)
    axis = normalize_axis_index(axis, len(shape))
    if mode == "wrap":
        places = places % shape[axis]
    elif mode == "clip":
        places = np.clip(places, 0, shape[axis] - 1)
    elif mode != "raise":
        raise ShapeError(f'take: mode is "raise", "wrap" or "clip", got {mode!r}')
    return _gather(a, (*(slice(None),) * axis, places))


def along_axis(indices: Any, shape: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    """The index for elements picked along one axis, with the other axes broadcast.

    Raises:
        DtypeError: if ``indices`` are not integers.
        ShapeError: if they have another number of axes than ``shape``.
    """
    places = np.array(indices._array if type(indices) is Tensor else indices)
    if places.dtype.kind not in "iu":
        raise DtypeError(
            f"indices along an axis are integers, got {places.dtype}; use .astype(np.intp)"
        )
    if places.ndim != len(shape):
        raise ShapeError(
            f"indices of shape {places.shape} along an axis of shape {shape}: both need the same "
            "number of axes; add axes of length 1"
        )
    ramps = [
        np.arange(length).reshape([-1 if other == position else 1 for other in range(len(shape))])
        for position, length in enumerate(shape)
    ]
    return tuple(places if position == axis else ramp for position, ramp in enumerate(ramps))


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tensor:
    """``numpy.take_along_axis``: dx = g added where each element came from.

    Args:
        indices: integers, as many axes as ``arr``; other axes than ``axis`` broadcast.
        axis: None takes from the flattened operand.
    """
    if axis is None:
        arr, axis = _flat(arr, (-1,)), 0
    shape = shape_of(arr)
    return _gather(arr, along_axis(indices, shape, normalize_axis_index(axis, len(shape))))


METHODS = {
    "__getitem__": getitem,
    "take": take,
}

NUMPY: dict[Any, Any] = {
    np.take: take,
    np.take_along_axis: take_along_axis,
}

PUBLIC: dict[str, Any] = {
    "take": take,
    "take_along_axis": take_along_axis,
}
