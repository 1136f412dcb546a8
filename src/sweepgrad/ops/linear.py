"""linear: a product and a bias in one operation, as every layer has them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.graph import Rule, is_recording, register_many, register_two
from sweepgrad.ops.declare import fit
from sweepgrad.ops.primitive import primitive
from sweepgrad.tensor import Tensor, new_tensor


def _forward(x: NDArray[Any], weight: NDArray[Any], bias: NDArray[Any]) -> NDArray[Any]:
    if weight.ndim != 2 or bias.shape != weight.shape[1:] or x.shape[-1:] != weight.shape[:1]:
        raise ShapeError(
            f"linear got x of shape {x.shape}, weight {weight.shape} and bias {bias.shape}; "
            "expected (..., n), (n, m) and (m,): x @ weight + bias"
        )
    out = np.asarray(x.dot(weight))
    if out.dtype is not bias.dtype:
        return np.asarray(np.add(out, bias))
    np.add(out, bias, out=out)  # the product is nobody else's
    return out


def _of_x(g: Any, weight: Any, x_shape: tuple[int, ...], x_dtype: np.dtype[Any]) -> Any:
    return fit(g.dot(weight.T), x_shape, x_dtype)


def _of_weight(g: Any, x: Any, weight_shape: tuple[int, ...], weight_dtype: np.dtype[Any]) -> Any:
    if g.ndim == 1:
        return fit(x[:, None] * g, weight_shape, weight_dtype)
    if g.ndim != 2:
        rows = math.prod(g.shape[:-1])  # -1 has no meaning where the rows are empty
        x, g = x.reshape((rows, x.shape[-1])), g.reshape((rows, g.shape[-1]))
    return fit(x.T.dot(g), weight_shape, weight_dtype)


def _of_bias(g: Any, bias_shape: tuple[int, ...], bias_dtype: np.dtype[Any]) -> Any:
    return fit(g, bias_shape, bias_dtype)


#: Any shapes, dtypes and choice of tracked operands.
_general = primitive("linear", _forward, x=_of_x, weight=_of_weight, bias=_of_bias)


# A batch of rows, one dtype, weight and bias tracked: what a layer computes in training.


def _plane_x(g: Any, weight: Any) -> Any:
    return g.dot(weight.T)


def _plane_weight(g: Any, x: Any) -> Any:
    return x.T.dot(g)


def _plane_bias(g: Any) -> Any:
    return np.add.reduce(g, axis=0)


_OF_CONSTANT = Rule(
    "linear",
    lambda g, x: (x.T.dot(g), np.add.reduce(g, axis=0)),
    (None,),
    ((_plane_weight, (0,)), (_plane_bias, ())),
)
_OF_TRACKED = Rule(
    "linear",
    lambda g, x, weight: (g.dot(weight.T), x.T.dot(g), np.add.reduce(g, axis=0)),
    (0, 1),
    ((_plane_x, (1,)), (_plane_weight, (0,)), (_plane_bias, ())),
)


def linear(x: Any, weight: Any, bias: Any) -> Tensor:
    """``x @ weight + bias`` as one operation; dx = g weightᵀ, dweight = xᵀ g, dbias = Σ g.

    The sums run over the leading axes of x.  One node in the graph instead of two, and
    one array instead of two.

    Args:
        x: shape (..., n).
        weight: shape (n, m): one column for each output.  PyTorch's ``linear`` takes
            the transpose.
        bias: shape (m,).

    Dtypes: NumPy's promotion; each gradient has its operand's dtype.

    Thread safety: any thread.

    Raises:
        ShapeError: if the shapes do not match; names all three.
    """
    if type(weight) is not Tensor or type(bias) is not Tensor or type(x) is not Tensor:
        return _general(x, weight, bias)
    a, c = x._array, bias._array
    b = a if weight is x else weight._array  # one look: see declare.binary
    one, other, third = x._node, weight._node, bias._node
    if (
        other is None
        or third is None
        or a.ndim != 2
        or b.ndim != 2
        or a.dtype is not b.dtype
        or b.dtype is not c.dtype
        or b.shape[1:] != c.shape
        or not is_recording()
    ):
        return _general(x, weight, bias)
    try:
        out = a.dot(b)
    except ValueError:
        return _general(x, weight, bias)  # refuses with the words that name all three
    out += c  # the product is nobody else's
    result = new_tensor(Tensor)
    result._array = out
    if one is None:
        result._node = register_two(result, other, third, _OF_CONSTANT, a, a.nbytes)
    else:
        nbytes = a.nbytes + b.nbytes
        result._node = register_many(result, (one, other, third), _OF_TRACKED, (a, b), nbytes)
    return result


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {}

PUBLIC = {"linear": linear}
