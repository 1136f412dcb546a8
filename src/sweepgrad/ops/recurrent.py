"""One step of a recurrent network: GRU and LSTM cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweepgrad.errors import ShapeError
from sweepgrad.ops.activations import sigmoid
from sweepgrad.ops.arguments import shape_of
from sweepgrad.ops.matmul import matmul
from sweepgrad.ops.trigonometric import tanh
from sweepgrad.tensor import Tensor


def _gates(
    name: str, count: int, x: Any, h: Any, weights: tuple[Any, Any], biases: tuple[Any, Any]
) -> tuple[Any, Any]:
    """What the input and the state contribute to the gates.

    Raises:
        ShapeError: if the weights do not fit.
    """
    for label, operand, weight in (("input", x, weights[0]), ("state", h, weights[1])):
        wanted = (shape_of(operand)[-1], count * shape_of(h)[-1])
        if shape_of(weight) != wanted:
            raise ShapeError(
                f"{name}: the weights of the {label} have shape {shape_of(weight)}; for a {label} "
                f"of shape {shape_of(operand)} and a state of shape {shape_of(h)} they have "
                f"{wanted}"
            )
    parts: list[Any] = [matmul(x, weights[0]), matmul(h, weights[1])]
    for place, bias in enumerate(biases):
        if bias is not None:
            parts[place] = parts[place] + bias
    return parts[0], parts[1]


def gru_cell(
    x: Any, h: Any, w_input: Any, w_state: Any, b_input: Any = None, b_state: Any = None
) -> Tensor:
    """The next state (1 - z) n + z h of a gated recurrent unit (Cho et al., 2014).

    r and z are sigmoids of ``x @ w_input + h @ w_state + biases`` in their columns, and
    n = tanh(x's columns + r times h's columns), as in PyTorch.

    Args:
        x: (…, inputs).
        h: the state, (…, hidden).
        w_input: (inputs, 3 hidden), columns for r, z and n in this order.
        w_state: (hidden, 3 hidden), likewise.
        b_input, b_state: (3 hidden,), or None for 0.
    """
    of_x, of_h = _gates("gru_cell", 3, x, h, (w_input, w_state), (b_input, b_state))
    xr, xz, xn = np.split(of_x, 3, -1)
    hr, hz, hn = np.split(of_h, 3, -1)
    z = sigmoid(xz + hz)
    n = tanh(xn + sigmoid(xr + hr) * hn)
    return n + z * (h - n)  # type: ignore[no-any-return]


def lstm_cell(
    x: Any, h: Any, c: Any, w_input: Any, w_state: Any, b_input: Any = None, b_state: Any = None
) -> tuple[Tensor, Tensor]:
    """The next state and memory of a long short-term memory (Hochreiter, Schmidhuber, 1997).

    c' = f c + i g and h' = o tanh(c'), with sigmoids i, f, o and a tanh g.

    Args:
        x: (…, inputs).
        h, c: state and memory, (…, hidden).
        w_input: (inputs, 4 hidden), columns for i, f, g and o in this order.
        w_state: (hidden, 4 hidden), likewise.
        b_input, b_state: (4 hidden,), or None for 0.
    """
    of_x, of_h = _gates("lstm_cell", 4, x, h, (w_input, w_state), (b_input, b_state))
    i, f, g, o = np.split(of_x + of_h, 4, -1)
    memory = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(memory), memory


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {}

PUBLIC: dict[str, Any] = {"gru_cell": gru_cell, "lstm_cell": lstm_cell}
