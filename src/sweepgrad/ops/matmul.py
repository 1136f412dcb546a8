"""matmul: the operation every layer is made of, with a short path for two matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.graph import Node, Rule, is_recording, register_one, register_two
from sweepgrad.ops.declare import fit, operand, reflected
from sweepgrad.tensor import Tensor, new_tensor

ndarray = np.ndarray


def _plane_x(g: Any, y: Any) -> Any:
    return g.dot(y.T)


def _plane_y(g: Any, x: Any) -> Any:
    return x.T.dot(g)


# The rules of two matrices of one dtype, which need no shape handling.
_PLANE_OF_X = Rule("matmul", _plane_x, (None,), ((_plane_x, (0,)),))
_PLANE_OF_Y = Rule("matmul", _plane_y, (None,), ((_plane_y, (0,)),))
_PLANE_OF_BOTH = Rule(
    "matmul",
    lambda g, x, y: (g.dot(y.T), x.T.dot(g)),
    (0, 1),
    ((_plane_x, (1,)), (_plane_y, (0,))),
)


def _general_x(g: Any, y: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """g yᵀ over the last two axes, summed over the axes that broadcasting added or stretched."""
    if len(shape) == 1:
        if y.ndim == 1:
            return fit(g * y, shape, dtype)
        return fit((y @ g[..., None])[..., 0], shape, dtype)
    if y.ndim == 1:
        return fit(g[..., None] * y, shape, dtype)
    if len(shape) == 2 and y.ndim > 2:
        axes = (*range(y.ndim - 2), y.ndim - 1)
        return fit(np.tensordot(g, y, (axes, axes)), shape, dtype)
    return fit(g @ y.swapaxes(-1, -2), shape, dtype)


def _general_y(g: Any, x: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """xᵀ g over the last two axes, summed over the axes that broadcasting added or stretched."""
    if len(shape) == 1:
        if x.ndim == 1:
            return fit(g * x, shape, dtype)
        return fit((x.swapaxes(-1, -2) @ g[..., None])[..., 0], shape, dtype)
    if x.ndim == 1:
        return fit(x[:, None] * g[..., None, :], shape, dtype)
    if len(shape) == 2 and x.ndim > 2:
        # One product of matrices instead of a stack of them that is then summed.
        rows = math.prod(x.shape[:-1])
        flat = x.reshape((rows, x.shape[-1])).T @ g.reshape((rows, g.shape[-1]))
        return fit(flat, shape, dtype)
    return fit(x.swapaxes(-1, -2) @ g, shape, dtype)


_GENERAL_OF_X = Rule("matmul", _general_x, (None, None, None), ((_general_x, (0, 1, 2)),))
_GENERAL_OF_Y = Rule("matmul", _general_y, (None, None, None), ((_general_y, (0, 1, 2)),))


def _general_both(g: Any, x: Any, y: Any, of_x: Any, kind_x: Any, of_y: Any, kind_y: Any) -> Any:
    return _general_x(g, y, of_x, kind_x), _general_y(g, x, of_y, kind_y)


_GENERAL_OF_BOTH = Rule(
    "matmul",
    _general_both,
    (0, 1, None, None, None, None),
    ((_general_x, (1, 2, 3)), (_general_y, (0, 4, 5))),
)


def matmul(x: Any, y: Any) -> Tensor:
    """``x @ y`` for any ranks NumPy allows; dx = g yᵀ, dy = xᵀ g over the last two axes.

    Args:
        x, y: at least one axis each.  One axis is a vector; more are stacks of
            matrices, whose leading axes broadcast.

    Dtypes: NumPy's promotion; each gradient has its operand's dtype.

    Thread safety: any thread.

    Raises:
        ShapeError: if the shapes do not match; names both.
    """
    if type(x) is Tensor:
        a, one = x._array, x._node
    else:
        a, one = operand(x), None
    if y is x:
        b, other = a, one  # one look: see declare.binary
    elif type(y) is Tensor:
        b, other = y._array, y._node
    else:
        b, other = operand(y), None
    plane = a.ndim == 2 and b.ndim == 2
    try:
        # dot is the same product of two matrices, at half the overhead of the ufunc.
        out = a.dot(b) if plane else np.matmul(a, b)
    except ValueError as error:
        raise _mismatch(a, b) from error
    if type(out) is not ndarray:
        out = np.asarray(out)
    result = new_tensor(Tensor)
    result._array = out
    if (one is None and other is None) or not is_recording():
        result._node = None
    elif not plane or a.dtype is not b.dtype:
        _register_general(result, a, b, one, other)
    elif other is None:
        assert one is not None
        result._node = register_one(result, one, _PLANE_OF_X, b, b.nbytes)
    elif one is None:
        result._node = register_one(result, other, _PLANE_OF_Y, a, a.nbytes)
    else:
        nbytes = a.nbytes + b.nbytes
        result._node = register_two(result, one, other, _PLANE_OF_BOTH, (a, b), nbytes)
    return result


def _register_general(
    result: Tensor, a: NDArray[Any], b: NDArray[Any], one: Node | None, other: Node | None
) -> None:
    if other is None:
        assert one is not None
        saved: tuple[Any, ...] = (b, a.shape, a.dtype)
        result._node = register_one(result, one, _GENERAL_OF_X, saved, b.nbytes)
    elif one is None:
        saved = (a, b.shape, b.dtype)
        result._node = register_one(result, other, _GENERAL_OF_Y, saved, a.nbytes)
    else:
        saved = (a, b, a.shape, a.dtype, b.shape, b.dtype)
        nbytes = a.nbytes + b.nbytes
        result._node = register_two(result, one, other, _GENERAL_OF_BOTH, saved, nbytes)


def _mismatch(a: NDArray[Any], b: NDArray[Any]) -> ShapeError:
    if not a.ndim or not b.ndim:
        return ShapeError(
            f"matmul of shapes {a.shape} and {b.shape}: both operands need an axis; "
            "use * to multiply by a scalar"
        )
    inner = a.shape[-1], b.shape[-2 if b.ndim > 1 else -1]
    if inner[0] != inner[1]:
        return ShapeError(
            f"matmul of shapes {a.shape} and {b.shape}: the last axis of the first has length "
            f"{inner[0]}, the axis of the second that it is summed with has length {inner[1]}; "
            "transpose one of them (.T or .mT)"
        )
    return ShapeError(
        f"matmul of shapes {a.shape} and {b.shape}: the leading axes {a.shape[:-2]} and "
        f"{b.shape[:-2]} do not broadcast; each pair of lengths must be equal or contain a 1"
    )


METHODS = {
    "__matmul__": matmul,
    "__rmatmul__": reflected(matmul),
}

NUMPY: dict[Any, Any] = {
    np.linalg.matmul: matmul,
    np.matmul: matmul,
}

PUBLIC = {"matmul": matmul}
