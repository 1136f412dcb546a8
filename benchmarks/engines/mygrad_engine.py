"""MyGrad, with its memory guard on, as users run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mygrad
import numpy as np
from mygrad.nnet.activations import relu
from mygrad.nnet.losses import softmax_crossentropy

from benchmarks.engines.base import (
    LEARNING_RATE,
    Chain,
    Engine,
    Mlp,
    factor,
    mlp_values,
    start_value,
)


class MygradEngine(Engine):
    name = "mygrad"

    def chain(self, operation: str, length: int) -> Chain:
        x = mygrad.tensor(start_value())
        constant, seed = factor(), np.ones((2, 2), np.float32)
        tanh_of = mygrad.tanh

        def multiply() -> Any:
            y = x
            for _ in range(length):
                y = y * constant
            return y

        def tanh() -> Any:
            y = x
            for _ in range(length):
                y = tanh_of(y)
            return y

        def backward(y: Any) -> Any:
            x.null_grad()
            y.backward(seed)
            return x.grad

        return Chain({"multiply": multiply, "tanh": tanh}[operation], backward, length)

    def leaves(self, count: int) -> Callable[[Any], object]:
        array = start_value()
        make = mygrad.tensor

        def run(_: Any) -> None:
            for _ in range(count):
                make(array)

        return run

    def leaf_operations(self, count: int) -> Callable[[Any], object]:
        array = start_value()
        make = mygrad.tensor

        def run(_: Any) -> None:
            for _ in range(count):
                t = make(array)
                t * t + t

        return run

    def mlp(self, seed: int) -> Mlp:
        x, labels, values = mlp_values(seed)
        parameters = [mygrad.tensor(value) for value in values]
        w1, b1, w2, b2 = parameters

        def step() -> object:
            loss = softmax_crossentropy(relu(x @ w1 + b1) @ w2 + b2, labels)
            loss.backward()
            for parameter in parameters:
                parameter.data -= LEARNING_RATE * parameter.grad
            return loss

        return Mlp(step, lambda: [parameter.data for parameter in parameters])


ENGINE = MygradEngine()
