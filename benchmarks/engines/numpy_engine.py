"""Bare NumPy with hand-written gradients: what the arithmetic alone costs."""

from __future__ import annotations

import numpy as np

from benchmarks.engines.base import BATCH, LEARNING_RATE, Engine, Mlp, mlp_values


class NumpyEngine(Engine):
    name = "numpy"

    def mlp(self, seed: int) -> Mlp:
        x, labels, parameters = mlp_values(seed)
        w1, b1, w2, b2 = parameters
        rows = np.arange(BATCH)

        def step() -> object:
            before = x @ w1 + b1
            hidden = np.maximum(before, 0)
            logits = hidden @ w2 + b2
            shifted = logits - logits.max(axis=1, keepdims=True)
            powers = np.exp(shifted)
            sums = powers.sum(axis=1, keepdims=True)
            loss = (np.log(sums[:, 0]) - shifted[rows, labels]).mean()
            # d loss / d logits = (softmax - one hot) / batch
            d_logits = powers / sums
            d_logits[rows, labels] -= 1
            d_logits *= np.float32(1 / BATCH)
            d_before = d_logits @ w2.T
            d_before *= before > 0
            gradients = (x.T @ d_before, d_before.sum(0), hidden.T @ d_logits, d_logits.sum(0))
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= LEARNING_RATE * gradient
            return loss

        return Mlp(step, lambda: parameters)


ENGINE = NumpyEngine()
