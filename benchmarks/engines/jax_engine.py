"""JAX: a step compiled once by ``jax.jit``; there is no recorded operation to time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.engines.base import BATCH, LEARNING_RATE, Engine, Mlp, mlp_values


def _loss(parameters: Any, x: Any, labels: Any) -> Any:
    w1, b1, w2, b2 = parameters
    logits = jnp.maximum(x @ w1 + b1, 0) @ w2 + b2
    chosen = jax.nn.log_softmax(logits)[jnp.arange(BATCH), labels]
    return -chosen.mean()


@jax.jit
def _step(parameters: Any, x: Any, labels: Any) -> Any:
    gradients = jax.grad(_loss)(parameters, x, labels)
    return [p - LEARNING_RATE * g for p, g in zip(parameters, gradients, strict=True)]


class JaxEngine(Engine):
    name = "jax"

    def mlp(self, seed: int) -> Mlp:
        inputs, targets, values = mlp_values(seed)
        x, labels = jnp.asarray(inputs), jnp.asarray(targets)
        parameters = [jnp.asarray(value) for value in values]

        def step() -> object:
            parameters[:] = _step(parameters, x, labels)
            return parameters[0].block_until_ready()

        jax.block_until_ready(_step(parameters, x, labels))  # no compile time is counted
        return Mlp(step, lambda: [np.asarray(value) for value in parameters])


ENGINE = JaxEngine()
