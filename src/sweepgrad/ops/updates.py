"""Functional updates: ``t.at[index].set(v)`` gives a new tensor; nothing is written into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray

from sweepgrad.errors import DtypeError, NoGradientRuleError
from sweepgrad.ops.arguments import shape_of
from sweepgrad.ops.arithmetic import divide, negative
from sweepgrad.ops.declare import fit
from sweepgrad.ops.indexing import add_at, along_axis, basic, names_once, normalized
from sweepgrad.ops.numpy_protocol import INSTEAD, on_arrays
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rules import plain
from sweepgrad.tensor import Tensor

ndarray = np.ndarray


def _promoted(x: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
    """A copy of x for the update to write into, before anybody else sees it.

    As in NumPy's ``x[index] = v``, the result has x's dtype.
    """
    if not np.can_cast(v.dtype, x.dtype, "same_kind"):
        raise DtypeError(
            f"an update of a tensor of dtype {x.dtype} with values of dtype {v.dtype} would cut "
            "them off; convert the tensor first with .astype(...)"
        )
    return x.copy(order="C")


def _set(x: NDArray[Any], v: NDArray[Any], index: Any) -> NDArray[Any]:
    out = _promoted(x, v)
    out[index] = v
    return out


def _without(g: Any, index: Any) -> Any:
    """g with zeros at the index: what a set overwrote has no influence."""
    if type(g) is Tensor:
        return _at_set(g, np.zeros((), g.dtype), index)
    out = g.copy()
    out[index] = 0
    return out


def _last_writes(index: Any, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """Which of the written values remain, where an index names an element twice; None if all do."""
    if basic(index) or names_once(index):
        return None
    written = np.zeros(shape, np.intp)
    named = written[index]
    turns = np.arange(1, named.size + 1).reshape(named.shape)
    written[index] = turns
    remains: NDArray[np.bool_] = written[index] == turns
    return None if remains.all() else remains


def _set_value(
    g: Any, index: Any, x_shape: tuple[int, ...], v_shape: tuple[int, ...], v_dtype: np.dtype[Any]
) -> Any:
    part = g[index]
    remains = _last_writes(index, x_shape)
    if remains is not None:
        part = part * remains
    return fit(part, _stripped(v_shape, part.ndim), v_dtype).reshape(v_shape)


def _stripped(shape: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """Assignment lets values have leading axes of length 1 that the target has not."""
    return shape[len(shape) - ndim :] if len(shape) > ndim else shape


_at_set = primitive("at.set", _set, x=_without, v=_set_value)


def _add(x: NDArray[Any], v: NDArray[Any], index: Any) -> NDArray[Any]:
    out = _promoted(x, v)
    if basic(index) or names_once(index):
        out[index] += v
    else:
        add_at(out, index, v)
    return out


_at_add = primitive(
    "at.add",
    _add,
    x=lambda g: g,
    v=lambda g, index, v_shape, v_dtype: fit(g[index], v_shape, v_dtype),
)


def _multiply(x: NDArray[Any], v: NDArray[Any], index: Any) -> NDArray[Any]:
    out = _promoted(x, v)
    out[index] *= v
    return out


_at_multiply = primitive(
    "at.multiply",
    _multiply,
    x=lambda g, v, index: _multiplied(g, v, index),
    v=lambda g, x, index, v_shape, v_dtype: fit(g[index] * x[index], v_shape, v_dtype),
)


def _multiplied(g: Any, v: Any, index: Any) -> Any:
    if type(g) is Tensor or type(v) is Tensor:
        return _at_multiply(g, v, index)
    return _multiply(g, v, index)


def _turns(index: Any, shape: tuple[int, ...]) -> list[Any]:
    """An index that may name elements twice as a sequence of flat indices that do not.

    Each item is a pair: positions in the flattened tensor, and which of the
    flattened values go there.
    """
    numbered = np.arange(np.prod(shape, dtype=np.intp)).reshape(shape)[index].ravel()
    order = np.argsort(numbered, kind="stable")
    ranked = numbered[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    lengths = np.diff(np.append(starts, ranked.size))
    turn = np.empty(ranked.size, np.intp)
    turn[order] = np.arange(ranked.size) - np.repeat(starts, lengths)
    picks = [np.flatnonzero(turn == number) for number in range(int(turn.max(initial=-1)) + 1)]
    return [(numbered[pick], pick) for pick in picks]


class At:
    """``t.at``; index it to say where to update."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __getitem__(self, index: Any) -> Update:
        return Update(self._tensor, normalized(index))


class Update:
    """``t.at[index]``: each method gives a new tensor that differs from ``t`` at the index.

    Values broadcast to the indexed elements and are converted to the tensor's
    dtype.  Index arrays are copied, so nobody can change them meanwhile.
    """

    __slots__ = ("_index", "_tensor")

    def __init__(self, tensor: Tensor, index: Any) -> None:
        self._tensor = tensor
        self._index = index

    def get(self) -> Tensor:
        """``t[index]``."""
        return self._tensor[self._index]

    def set(self, values: Any) -> Tensor:
        """``t[index] = values``; dt = g with zeros there, dv = g there.

        Where an element is named twice the last value stays, and the others get no gradient.
        """
        return _at_set(self._tensor, values, self._index)

    def add(self, values: Any) -> Tensor:
        """``np.add.at(t, index, values)``; dt = g, dv = g at the index."""
        return _at_add(self._tensor, values, self._index)

    def subtract(self, values: Any) -> Tensor:
        """``np.subtract.at(t, index, values)``; dt = g, dv = -g at the index."""
        return _at_add(self._tensor, negative(values), self._index)

    def multiply(self, values: Any) -> Tensor:
        """``np.multiply.at(t, index, values)``; dt = g times v there, dv = g t at the index.

        An element named several times is multiplied by each value in turn.
        """
        if basic(self._index) or names_once(self._index):
            return _at_multiply(self._tensor, values, self._index)
        shape = self._tensor.shape
        spread = np.broadcast_to(values, np.empty(shape, np.bool_)[self._index].shape)
        flat_values = spread.reshape(-1)
        flat = self._tensor.reshape(-1)
        for places, pick in _turns(self._index, shape):
            flat = _at_multiply(flat, flat_values[pick], places)
        return flat.reshape(shape)

    def divide(self, values: Any) -> Tensor:
        """``np.divide.at(t, index, values)``; as multiplying by ``1 / values``."""
        return self.multiply(divide(1.0, values))


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None = -1) -> Tensor:
    """A new tensor with ``values`` put where ``numpy.put_along_axis`` would write them.

    Gradients as for ``t.at[...].set(values)``.
    """
    return _along(arr, indices, values, axis, _at_set)


def scatter_add(arr: Any, indices: Any, values: Any, axis: int | None = -1) -> Tensor:
    """A new tensor with ``values`` added along an axis, once for each time an index is named.

    Gradients as for ``t.at[...].add(values)``.
    """
    return _along(arr, indices, values, axis, _at_add)


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> Tensor:
    """A new tensor with ``v`` put where ``numpy.put`` would write it, into the flattened ``a``.

    Args:
        ind: integers; ``v`` is repeated until there is a value for each.
        mode: "raise", "wrap" or "clip": what to do with indices out of bounds.

    Gradients as for ``t.at[...].set(values)``.
    """
    shape = shape_of(a)
    size = int(np.prod(shape, dtype=np.intp))
    places = np.array(plain(ind)).reshape(-1)
    places = np.take(np.arange(size), places.astype(np.intp), mode=mode)  # type: ignore[call-overload]
    values = np.resize(v, places.shape)
    return _at_set(np.reshape(a, (-1,)), values, places).reshape(shape)


def _along(
    arr: Any, indices: Any, values: Any, axis: int | None, update: Callable[..., Tensor]
) -> Tensor:
    shape = shape_of(arr)
    if axis is None:
        flat = np.reshape(arr, (-1,))
        index = along_axis(indices, shape_of(flat), 0)
        return update(flat, values, index).reshape(shape)
    index = along_axis(indices, shape, normalize_axis_index(axis, len(shape)))
    return update(arr, values, index)


def _writing(function: Callable[..., Any], instead: str) -> Callable[..., Any]:
    """A NumPy function that writes into its first argument: refused when that is a tensor."""

    INSTEAD[function.__name__] = instead

    def write(target: Any, *args: Any, **kwargs: Any) -> Any:
        if type(target) is Tensor:
            raise NoGradientRuleError(
                f"np.{function.__name__} writes into its first argument, and a tensor is never "
                f"written into; use {instead}, which gives a new one"
            )
        return on_arrays(function.__name__, function, (target, *args), kwargs)

    return write


METHODS: dict[str, Any] = {"at": property(At, doc=At.__doc__)}

NUMPY: dict[Any, Any] = {
    function: _writing(function, instead)
    for function, instead in (
        (np.copyto, "sweepgrad.where(mask, new, t)"),
        (np.fill_diagonal, "t.at[i, i].set(values) with i = np.arange(n)"),
        (np.place, "t.at[mask].set(values)"),
        (np.put, "sweepgrad.put(t, indices, values)"),
        (np.put_along_axis, "sweepgrad.put_along_axis(t, indices, values, axis)"),
        (np.putmask, "sweepgrad.where(mask, values, t)"),
    )
}

PUBLIC: dict[str, Any] = {
    "put": put,
    "put_along_axis": put_along_axis,
    "scatter_add": scatter_add,
}
