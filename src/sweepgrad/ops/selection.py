"""Selection: sorted, chosen, and conditionally taken elements.

Order and choice have no gradient; the selected elements are gathered, and their
gradients go back to where they came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray

from sweepgrad.errors import NoGradientRuleError, ShapeError
from sweepgrad.ops.arguments import refuse, refuse_out, shape_of
from sweepgrad.ops.declare import operand
from sweepgrad.ops.elementwise import where
from sweepgrad.ops.indexing import getitem, take_along_axis
from sweepgrad.ops.joining import stack
from sweepgrad.ops.shape import reshape
from sweepgrad.tensor import Tensor


def _values(x: Any) -> NDArray[Any]:
    return x._array if type(x) is Tensor else operand(x)


def sort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Tensor:
    """``numpy.sort``, always stable: equal elements keep their order, and so do their gradients.

    dx = g with the order undone.  NaN comes last.

    Args:
        axis: None sorts the flattened operand.
        kind, stable: accepted; every sort here is a stable one.
    """
    refuse("sort", "order", order, "tensors have no fields")
    del kind, stable
    if axis is None:
        a, axis = reshape(a, (-1,)), -1
    return take_along_axis(a, np.argsort(_values(a), axis=axis, kind="stable"), axis)


def argsort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> NDArray[np.intp]:
    """``numpy.argsort``, always stable, as a plain array: places have no gradient.

    Gather with it, ``np.take_along_axis(t, places, axis)``, for one.
    """
    refuse("argsort", "order", order, "tensors have no fields")
    del kind, stable
    return np.argsort(_values(a), axis=axis, kind="stable")


def nonzero(a: Any) -> tuple[NDArray[np.intp], ...]:
    """``numpy.nonzero`` as plain arrays: places have no gradient."""
    return np.nonzero(_values(a))


def searchsorted(
    a: Any, v: Any, side: Any = "left", sorter: Any = None
) -> NDArray[np.intp] | np.intp:
    """``numpy.searchsorted`` as plain integers: places have no gradient."""
    return np.searchsorted(_values(a), _values(v), side, sorter)


def partition(
    a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: Any = None
) -> Tensor:
    """``numpy.partition``: the k-th element at its place, smaller ones before; dx undoes it."""
    refuse("partition", "order", order, "tensors have no fields")
    if axis is None:
        a, axis = reshape(a, (-1,)), -1
    places = np.argpartition(_values(a), kth, axis=axis, kind=kind)
    return take_along_axis(a, places, axis)


class TopK(NamedTuple):
    """Values and their places along the axis, the places as a plain array."""

    values: Tensor
    indices: NDArray[np.intp]


def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> TopK:
    """The ``k`` largest (or smallest) elements along an axis, the first of them first.

    Equal elements come in their order.  NaN counts as larger than any number.
    dx = g at the elements taken, 0 elsewhere.

    Raises:
        ShapeError: if the axis has fewer than ``k`` elements, or ``k`` is negative.
    """
    values = _values(x)
    axis = normalize_axis_index(axis, values.ndim)
    length = values.shape[axis]
    if not 0 <= k <= length:
        raise ShapeError(f"topk of {k} along an axis of length {length}; k is from 0 to the length")
    if largest:
        # Stable and descending: the reversed order of a stable sort of the reversed elements.
        order = length - 1 - np.flip(np.argsort(np.flip(values, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(values, axis, kind="stable")
    places = order[(*(slice(None),) * axis, slice(k))]
    return TopK(take_along_axis(x, places, axis), places)


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
    """``numpy.choose``: for each integer of ``a`` the element of that choice; dx = g where chosen.

    Args:
        mode: "raise", "wrap" or "clip": what to do with integers out of bounds.
    """
    refuse_out("choose", out)
    picks = np.asarray(_values(a))
    layers = list(choices)
    if mode == "wrap":
        picks = picks % len(layers)
    elif mode == "clip":
        picks = np.clip(picks, 0, len(layers) - 1)
    if picks.size and (picks.min() < 0 or picks.max() >= len(layers)):
        raise ShapeError(
            f"choose: integers from {picks.min()} to {picks.max()} with {len(layers)} choices; "
            'pass mode="wrap" or mode="clip", or give more choices'
        )
    spread = np.broadcast_shapes(picks.shape, *[shape_of(layer) for layer in layers])
    picks = np.broadcast_to(picks, spread)[None]
    layers = [np.broadcast_to(layer, spread) for layer in layers]
    chosen = take_along_axis(stack(layers), picks, 0)
    return reshape(chosen, spread)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """``numpy.select``: the first choice whose condition holds; dx = g where chosen."""
    conditions, choices = list(condlist), list(choicelist)
    if len(conditions) != len(choices) or not conditions:
        raise ShapeError(
            f"select got {len(conditions)} conditions and {len(choices)} choices; "
            "give one choice for each condition, and at least one"
        )
    result = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = where(_values(condition), choice, result)
    return result


def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Tensor:
    """``numpy.compress``: the slices where the condition holds; dx = g there, 0 elsewhere."""
    refuse_out("compress", out)
    if axis is None:
        a, axis = reshape(a, (-1,)), 0
    axis = normalize_axis_index(axis, len(shape_of(a)))
    places = np.flatnonzero(_values(condition))
    return getitem(a, (*(slice(None),) * axis, places))


def _compress_method(self: Tensor, condition: Any, axis: Any = None, out: Any = None) -> Tensor:
    return compress(condition, self, axis, out)


def extract(condition: Any, arr: Any) -> Tensor:
    """``numpy.extract``: the elements where the condition holds, in a row."""
    return getitem(reshape(arr, (-1,)), np.flatnonzero(_values(condition)))


def delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    """``numpy.delete``: without the slices at ``obj``; dx = g at what is left, 0 elsewhere."""
    if axis is None:
        arr, axis = reshape(arr, (-1,)), 0
    shape = shape_of(arr)
    axis = normalize_axis_index(axis, len(shape))
    left = np.delete(np.arange(shape[axis]), _values(obj) if type(obj) is Tensor else obj)
    return getitem(arr, (*(slice(None),) * axis, left))


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """Refused: NumPy calls each function on a part of ``x`` and writes the parts together."""
    raise NoGradientRuleError(
        "np.piecewise writes parts into an array; write sweepgrad.select([condition, ...], "
        "[f(x), ...], default) instead"
    )


METHODS: dict[str, Any] = {
    "argsort": argsort,
    "compress": _compress_method,
    "nonzero": nonzero,
    "searchsorted": searchsorted,
}

NUMPY: dict[Any, Any] = {
    np.argsort: argsort,
    np.choose: choose,
    np.compress: compress,
    np.delete: delete,
    np.extract: extract,
    np.partition: partition,
    np.piecewise: piecewise,
    np.select: select,
    np.sort: sort,
}

PUBLIC: dict[str, Any] = {
    "argsort": argsort,
    "choose": choose,
    "compress": compress,
    "delete": delete,
    "extract": extract,
    "nonzero": nonzero,
    "partition": partition,
    "searchsorted": searchsorted,
    "select": select,
    "sort": sort,
    "topk": topk,
}
