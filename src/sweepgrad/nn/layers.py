"""Linear layers and their composition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike

from sweepgrad.errors import SettingError, ShapeError
from sweepgrad.graph import DEFAULT, GraphRuntime
from sweepgrad.ops.activations import relu
from sweepgrad.ops.linear import linear
from sweepgrad.tensor import Tensor, tensor

#: The gain that keeps the variance of a signal through a ReLU: He, Zhang, Ren and Sun,
#: "Delving Deep into Rectifiers", 2015, equation 10.
RELU_GAIN = math.sqrt(2.0)


@runtime_checkable
class Layer(Protocol):
    """What a layer offers; :class:`Sequential` takes anything that does."""

    def __call__(self, x: Tensor) -> Tensor: ...
    def parameters(self) -> list[Tensor]: ...


class Linear:
    """``x @ weight + bias``.

    Args:
        inputs, outputs: lengths of the last axis before and after.
        rng: where the weights come from; equal generators give equal layers.
        bias: whether to add a bias, zero at first.
        gain: the weights are uniform with variance ``gain² / inputs`` (the
            reference is at :data:`RELU_GAIN`); 1 keeps the variance of a signal
            that no activation follows.
        dtype: floating or complex dtype of the parameters.
        runtime: the graph runtime they belong to.

    Attributes:
        weight: leaf of shape ``(inputs, outputs)``.
        bias: leaf of shape ``(outputs,)``, or None.

    Thread safety: calls and updates from any thread.  A call reads the weight
    and the bias one after the other; when another thread trains the layer
    meanwhile, each is whole but they may be of two different steps.

    Raises:
        SettingError: if ``inputs`` or ``outputs`` is not at least 1.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        rng: np.random.Generator,
        *,
        bias: bool = True,
        gain: float = RELU_GAIN,
        dtype: DTypeLike = np.float32,
        runtime: GraphRuntime = DEFAULT,
    ) -> None:
        if inputs < 1 or outputs < 1:
            raise SettingError(
                f"a linear layer from {inputs} to {outputs} values has no weights; "
                "both must be at least 1"
            )
        bound = gain * math.sqrt(3.0 / inputs)  # a uniform value in ±b has variance b² / 3
        weight = rng.uniform(-bound, bound, (inputs, outputs))
        self.weight = tensor(weight, dtype, True, runtime)
        self.bias = tensor(np.zeros(outputs), dtype, True, runtime) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """The layer's value for ``x`` of shape ``(..., inputs)``.

        Raises:
            ShapeError: if the last axis of ``x`` has another length.
        """
        if not x.ndim or x.shape[-1] != self.weight.shape[0]:
            raise ShapeError(
                f"{self!r} takes arrays with a last axis of length {self.weight.shape[0]}, "
                f"got shape {x.shape}"
            )
        return x @ self.weight if self.bias is None else linear(x, self.weight, self.bias)

    def parameters(self) -> list[Tensor]:
        """The weight, then the bias if there is one."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    def __repr__(self) -> str:
        inputs, outputs = self.weight.shape
        return f"Linear({inputs}, {outputs}{'' if self.bias is not None else ', bias=False'})"


class Sequential:
    """Layers and functions of one tensor, applied in order.

    Thread safety: as its layers; the sequence itself does not change.
    """

    def __init__(self, *layers: Layer | Callable[[Tensor], Tensor]) -> None:
        self.layers = layers

    def __call__(self, x: Tensor) -> Tensor:
        """The value of the last layer."""
        for layer in self.layers:
            x = layer(x)
        return x

    def parameters(self) -> list[Tensor]:
        """The parameters of every layer, in order; a layer that is used twice counts once."""
        found: dict[int, Tensor] = {}
        for layer in self.layers:
            if isinstance(layer, Layer):
                for parameter in layer.parameters():
                    found.setdefault(id(parameter), parameter)
        return list(found.values())

    def __repr__(self) -> str:
        names = [getattr(layer, "__name__", None) or repr(layer) for layer in self.layers]
        return f"Sequential({', '.join(names)})"


def mlp(
    sizes: Sequence[int],
    rng: np.random.Generator,
    *,
    activation: Callable[[Tensor], Tensor] = relu,
    dtype: DTypeLike = np.float32,
    runtime: GraphRuntime = DEFAULT,
) -> Sequential:
    """A multi-layer perceptron: linear layers with an activation between them.

    Args:
        sizes: lengths of the layers, from the input to the output; at least two.
        rng: where the weights come from.
        activation: a function of one tensor; none follows the last layer.

    Raises:
        SettingError: if there are fewer than two sizes, or one is below 1.
    """
    if len(sizes) < 2:
        raise SettingError(f"mlp() needs the sizes of input and output at least, got {sizes!r}")
    layers: list[Layer | Callable[[Tensor], Tensor]] = []
    last = len(sizes) - 2
    for position, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        gain = 1.0 if position == last else RELU_GAIN
        layers.append(Linear(inputs, outputs, rng, gain=gain, dtype=dtype, runtime=runtime))
        if position != last:
            layers.append(activation)
    return Sequential(*layers)
