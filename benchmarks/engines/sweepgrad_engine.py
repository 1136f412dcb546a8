"""sweepgrad itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import sweepgrad as sg
from benchmarks.engines.base import (
    LEARNING_RATE,
    Chain,
    Engine,
    Mlp,
    factor,
    mlp_parameters,
    mlp_values,
    start_value,
)
from sweepgrad.optim import SGD


class SweepgradEngine(Engine):
    name = "sweepgrad"

    def chain(self, operation: str, length: int) -> Chain:
        x = sg.tensor(start_value(), requires_grad=True)
        constant = sg.tensor(factor())
        seed = np.ones((2, 2), np.float32)

        def multiply() -> Any:
            y = x
            for _ in range(length):
                y = y * constant
            return y

        def tanh() -> Any:
            y = x
            for _ in range(length):
                y = y.tanh()
            return y

        def backward(y: Any) -> Any:
            return y.backward(seed)[x]

        return Chain({"multiply": multiply, "tanh": tanh}[operation], backward, length)

    def leaves(self, count: int) -> Callable[[Any], object]:
        array = start_value()
        make = sg.tensor

        def run(_: Any) -> None:
            for _ in range(count):
                make(array, requires_grad=True)

        return run

    def sharing_leaves(self, count: int) -> Callable[[Any], object]:
        array = start_value()
        make = sg.from_numpy

        def run(_: Any) -> None:
            for _ in range(count):
                make(array, requires_grad=True)

        return run

    def leaf_operations(self, count: int) -> Callable[[Any], object]:
        array = start_value()
        make = sg.tensor

        def run(_: Any) -> None:
            for _ in range(count):
                t = make(array, requires_grad=True)
                t * t + t

        return run

    def mlp(self, seed: int) -> Mlp:
        # The optimizer is the fastest way here; PyTorch is fastest with an update by hand.
        return _mlp(seed, _tracked(seed))

    mlp_with_optimizer = mlp

    def shared_mlps(self, count: int, seed: int) -> list[Mlp]:
        parameters = _tracked(seed)
        return [_mlp(seed + index, parameters) for index in range(count)]


def _tracked(seed: int) -> list[Any]:
    return [sg.tensor(value, requires_grad=True) for value in mlp_parameters(seed)]


def _forward(seed: int, parameters: list[Any]) -> Callable[[], Any]:
    inputs, labels, _ = mlp_values(seed)
    x = sg.tensor(inputs)
    w1, b1, w2, b2 = parameters
    relu, linear, loss_of = sg.relu, sg.linear, sg.cross_entropy

    def forward() -> Any:
        return loss_of(linear(relu(linear(x, w1, b1)), w2, b2), labels)

    return forward


def _mlp(seed: int, parameters: list[Any]) -> Mlp:
    optimizer = SGD(parameters, LEARNING_RATE)
    forward = _forward(seed, parameters)

    def step() -> object:
        loss = forward()
        optimizer.step(loss.backward())
        return loss

    return Mlp(step, lambda: [parameter.numpy() for parameter in parameters])


ENGINE = SweepgradEngine()
