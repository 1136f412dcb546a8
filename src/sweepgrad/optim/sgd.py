"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sweepgrad.optim.optimizer import (
    Array,
    Optimizer,
    State,
    StateCell,
    at_least_zero,
    below_one,
)
from sweepgrad.tensor import Tensor


class SGD(Optimizer):
    """Gradient descent with momentum and weight decay.

    With gradient g, parameter p, learning rate η, momentum μ and weight decay λ::

        v ← μ v + (g + λ p)
        p ← p - η v

    Sutskever, Martens, Dahl and Hinton, "On the importance of initialization and
    momentum in deep learning", 2013; the form is PyTorch's, in which η scales the
    velocity and not the gradient.

    p in the decay is the value the step finds, as for the gradient it is given.
    Thread safety and errors: as :class:`Optimizer`.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        learning_rate: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        self.momentum = below_one("momentum", momentum)
        self.weight_decay = at_least_zero("weight_decay", weight_decay)
        super().__init__(parameters, learning_rate)

    def _initial(self, parameter: Tensor) -> State:
        return (np.zeros(parameter.shape, parameter.dtype),) if self.momentum else ()

    def _step_one(self, parameter: Tensor, cell: StateCell, gradient: Array) -> None:
        rate, decay = self._rate_in(gradient.dtype), self.weight_decay
        if not cell.state:  # no momentum: the change is of the value alone, one swap does it
            if decay:
                cell.change(parameter, lambda a: a - rate * (gradient + decay * a))
            else:
                cell.subtract(parameter, rate * gradient)
            return
        momentum = self.momentum
        force = gradient + decay * parameter.numpy() if decay else gradient
        (velocity,) = cell.advance(lambda state: (momentum * state[0] + force,))
        cell.subtract(parameter, rate * velocity)
