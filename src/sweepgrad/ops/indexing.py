"""Indexing: elements, slices and gathered elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import DtypeError
from sweepgrad.ops.primitive import primitive, rule_operation
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
    array = np.array(part._data if type(part) is Tensor else part)
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
    if basic(index):
        out[index] = g
    else:
        np.add.at(out, index, g)
    return out


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


METHODS = {
    "__getitem__": getitem,
}

NUMPY: dict[Any, Any] = {}

PUBLIC: dict[str, Any] = {}
