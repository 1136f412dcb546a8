"""PyTorch on the CPU, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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

torch.set_num_threads(1)


class TorchEngine(Engine):
    name = "torch"

    def chain(self, operation: str, length: int) -> Chain:
        x = torch.tensor(start_value(), requires_grad=True)
        constant = torch.tensor(factor())
        seed = torch.ones(2, 2)

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
            x.grad = None
            y.backward(seed)
            return x.grad

        return Chain({"multiply": multiply, "tanh": tanh}[operation], backward, length)

    def leaves(self, count: int) -> Callable[[Any], object]:
        array = start_value()
        make = torch.tensor

        def run(_: Any) -> None:
            for _ in range(count):
                make(array, requires_grad=True)

        return run

    def sharing_leaves(self, count: int) -> Callable[[Any], object]:
        shared = torch.tensor(start_value())

        def run(_: Any) -> None:
            for _ in range(count):
                shared.detach().requires_grad_()

        return run

    def leaf_operations(self, count: int) -> Callable[[Any], object]:
        array = start_value()
        make = torch.tensor

        def run(_: Any) -> None:
            for _ in range(count):
                t = make(array, requires_grad=True)
                t * t + t

        return run

    def mlp(self, seed: int) -> Mlp:
        return _mlp(seed, _tracked(seed))

    def shared_mlps(self, count: int, seed: int) -> list[Mlp]:
        parameters = _tracked(seed)
        return [_shared_mlp(seed + index, parameters) for index in range(count)]

    def mlp_with_optimizer(self, seed: int) -> Mlp:
        parameters = _tracked(seed)
        optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE)
        forward = _forward(seed, parameters)

        def step() -> object:
            optimizer.zero_grad()
            loss = forward()
            loss.backward()
            optimizer.step()
            return loss

        return Mlp(step, lambda: [p.detach().numpy() for p in parameters])


def _tracked(seed: int) -> list[Any]:
    return [torch.tensor(value, requires_grad=True) for value in mlp_parameters(seed)]


def _forward(seed: int, parameters: list[Any]) -> Callable[[], Any]:
    inputs, labels, _ = mlp_values(seed)
    x, y = torch.tensor(inputs), torch.tensor(labels)
    w1, b1, w2, b2 = parameters
    loss_of = torch.nn.functional.cross_entropy
    affine = torch.addmm  # x @ w + b in one recorded operation, its fastest spelling

    def forward() -> Any:
        return loss_of(affine(b2, affine(b1, x, w1).relu(), w2), y)

    return forward


def _mlp(seed: int, parameters: list[Any]) -> Mlp:
    forward = _forward(seed, parameters)

    def step() -> object:
        loss = forward()
        loss.backward()
        with torch.no_grad():
            for parameter in parameters:
                parameter.sub_(parameter.grad, alpha=LEARNING_RATE)
                parameter.grad = None
        return loss

    return Mlp(step, lambda: [p.detach().numpy() for p in parameters])


def _shared_mlp(seed: int, parameters: list[Any]) -> Mlp:
    """Two threads on one ``.grad`` crash the process, so this one asks for the gradients."""
    forward = _forward(seed, parameters)
    gradients_of = torch.autograd.grad

    def step() -> object:
        loss = forward()
        gradients = gradients_of(loss, parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.data.sub_(gradient, alpha=LEARNING_RATE)
        return loss

    return Mlp(step, lambda: [p.detach().numpy() for p in parameters])


ENGINE = TorchEngine()
