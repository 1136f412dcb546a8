"""Cutting a tensor into pieces that do not overlap, with one backward for all of them.

Were each piece an indexing of its own, each would bring an array of the whole
tensor's size to backward, mostly zeros: a thousand rows taken one by one would
cost a thousand times the whole.  Instead the pieces have one hidden node as
their parent.  Its gradient is a :class:`_Pieces`, which collects what the pieces
bring (the engine asks of gradients only that two can be added), and its rule
puts all of them into one array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.graph import Node, Rule, is_recording, register_one
from sweepgrad.ops.declare import operand
from sweepgrad.ops.primitive import variadic
from sweepgrad.tensor import Tensor, untracked


class _Pieces:
    """Gradients of pieces, each with the index of its piece.

    Made by a rule for one backward, which alone holds it: adding may extend it.
    """

    __slots__ = ("gradients", "indices")

    def __init__(self, index: Any, gradient: Any) -> None:
        self.indices = [index]
        self.gradients = [gradient]

    def __add__(self, other: _Pieces) -> _Pieces:
        self.indices += other.indices
        self.gradients += other.gradients
        return self


class _Hidden:
    """The handle of the hidden node while the pieces are being recorded."""

    __slots__ = ("__weakref__", "_node")

    _node: Node


def _fill(
    gradients: Sequence[NDArray[Any]],
    indices: Sequence[Any],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    out = np.zeros(shape, dtype)
    for index, gradient in zip(indices, gradients, strict=True):
        out[index] = gradient
    return out


_assembled = variadic(
    "assemble",
    _fill,
    lambda g, which, indices: [g[indices[position]] for position in which],
    lambda gradients, indices, shape, dtype: (indices,),
)


def _assemble(pieces: _Pieces, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    arguments = (pieces.gradients, pieces.indices, shape, dtype)
    if any(type(gradient) is Tensor for gradient in pieces.gradients):
        return _assembled(*arguments)
    return _fill(*arguments)


_WHOLE = Rule("pieces", _assemble, (None, None), ((_assemble, (0, 1)),))
_ONE = Rule("piece", lambda g, index: _Pieces(index, g), (None,))


def pieces(x: Any, indices: Iterable[Any]) -> Iterator[Tensor]:
    """``x[index]`` for each index; dx = each piece's g at its place.

    Args:
        indices: basic indices that have no element in common.
    """
    data: NDArray[Any] = x._array if type(x) is Tensor else operand(x)
    node = x._node if type(x) is Tensor else None
    if node is None or not is_recording():
        for index in indices:
            yield untracked(np.asarray(data[index]))
        return
    hidden = _Hidden()
    hidden._node = register_one(hidden, node, _WHOLE, (data.shape, data.dtype), 0)
    for index in indices:
        piece = untracked(np.asarray(data[index]))
        piece._node = register_one(piece, hidden._node, _ONE, (index,), 0)
        yield piece


def rows(x: Tensor) -> Iterator[Tensor]:
    """Iteration over the first axis."""
    return pieces(x, range(len(x)))


METHODS: dict[str, Any] = {"__iter__": rows}

NUMPY: dict[Any, Any] = {}

PUBLIC: dict[str, Any] = {}
