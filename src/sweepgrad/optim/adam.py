"""Adam."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from sweepgrad.errors import SettingError
from sweepgrad.optim.optimizer import (
    Array,
    Optimizer,
    State,
    StateCell,
    at_least_zero,
    below_one,
)
from sweepgrad.tensor import Tensor


class Adam(Optimizer):
    """Adaptive moment estimation.

    Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1;
    with gradient g, parameter p and learning rate η::

        t ← t + 1
        m ← β₁ m + (1 - β₁) g
        v ← β₂ v + (1 - β₂) |g|²
        p ← p - η (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + ε)

    Weight decay λ adds λ p to g first, as in :class:`SGD`.  For complex
    parameters |g|² is the squared modulus.  t counts the steps of each parameter.
    Thread safety and errors: as :class:`Optimizer`.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self.betas = (below_one("betas[0]", betas[0]), below_one("betas[1]", betas[1]))
        if not 0.0 < epsilon < math.inf:
            raise SettingError(
                f"epsilon is {epsilon}; it must be finite and above 0, because it keeps the "
                "division finite where a gradient was always 0"
            )
        self.epsilon = epsilon
        self.weight_decay = at_least_zero("weight_decay", weight_decay)
        super().__init__(parameters, learning_rate)

    def _initial(self, parameter: Tensor) -> State:
        zeros = np.zeros(parameter.shape, parameter.dtype)
        return 0, zeros, zeros.real.copy()

    def _step_one(self, parameter: Tensor, cell: StateCell, gradient: Array) -> None:
        beta1, beta2 = self.betas
        decay = self.weight_decay
        force = gradient + decay * parameter.numpy() if decay else gradient
        square = (force * force.conj()).real

        def advance(state: State) -> State:
            steps, first, second = state
            first = beta1 * first + (1.0 - beta1) * force
            second = beta2 * second + (1.0 - beta2) * square
            return steps + 1, first, second

        steps, first, second = cell.advance(advance)
        scale = self.learning_rate / (1.0 - beta1**steps)
        spread = np.sqrt(second / (1.0 - beta2**steps)) + self.epsilon
        cell.subtract(parameter, scale * first / spread)
