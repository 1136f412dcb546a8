"""HIPS/autograd, which traces functions instead of recording operations on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import grad, make_vjp

from benchmarks.engines.base import (
    BATCH,
    LEARNING_RATE,
    Chain,
    Engine,
    Mlp,
    factor,
    mlp_values,
    start_value,
)


class AutogradEngine(Engine):
    name = "autograd"

    def chain(self, operation: str, length: int) -> Chain:
        x, constant, seed = start_value(), factor(), np.ones((2, 2), np.float32)
        tanh_of = anp.tanh

        def multiply(y: Any) -> Any:
            for _ in range(length):
                y = y * constant
            return y

        def tanh(y: Any) -> Any:
            for _ in range(length):
                y = tanh_of(y)
            return y

        traced = make_vjp({"multiply": multiply, "tanh": tanh}[operation])

        def record() -> Any:
            return traced(x)[0]

        def backward(vjp: Any) -> Any:
            return vjp(seed)

        return Chain(record, backward, length)

    def leaf_operations(self, count: int) -> Callable[[Any], object]:
        array = start_value()
        traced = make_vjp(lambda t: t * t + t)

        def run(_: Any) -> None:
            for _ in range(count):
                traced(array.copy())

        return run

    def mlp(self, seed: int) -> Mlp:
        x, labels, parameters = mlp_values(seed)
        rows = np.arange(BATCH)

        def loss_of(values: Any) -> Any:
            w1, b1, w2, b2 = values
            hidden = anp.maximum(anp.dot(x, w1) + b1, 0)
            logits = anp.dot(hidden, w2) + b2
            shifted = logits - anp.max(logits, axis=1, keepdims=True)
            sums = anp.sum(anp.exp(shifted), axis=1)
            return anp.mean(anp.log(sums) - shifted[rows, labels])

        gradients_of = grad(loss_of)

        def step() -> object:
            gradients = gradients_of(parameters)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= LEARNING_RATE * gradient
            return None

        return Mlp(step, lambda: parameters)


ENGINE = AutogradEngine()
