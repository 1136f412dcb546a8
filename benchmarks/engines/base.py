"""What the adapters share: the interface and the values that every engine gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LEARNING_RATE = 0.05
BATCH, INPUTS, HIDDEN, CLASSES = 32, 64, 128, 10


class UnsupportedError(Exception):
    """The engine has no counterpart of what was asked for."""


@dataclass
class Chain:
    """A chain of one operation, recorded and then back-propagated.

    Attributes:
        record: builds the chain and returns what ``backward`` needs.
        backward: back-propagates; returns the gradient of the first value, as the engine gives it.
        length: how many operations the chain has.
    """

    record: Callable[[], Any]
    backward: Callable[[Any], Any]
    length: int


@dataclass
class Mlp:
    """Training of the 64-128-10 network, one step at a time.

    Attributes:
        step: one step of SGD on the batch: forward, backward, update.
        parameters: the four parameters as arrays, for comparing engines.
    """

    step: Callable[[], object]
    parameters: Callable[[], Sequence[Array]]


class Engine:
    """The adapter of one engine; every method may raise :class:`UnsupportedError`."""

    name: str

    def chain(self, operation: str, length: int) -> Chain:
        """A chain of ``multiply`` (by a constant) or ``tanh`` on a 2×2 float32 value."""
        raise UnsupportedError

    def leaves(self, count: int) -> Callable[[Any], object]:
        """A function that creates and drops ``count`` tracked copies of a 2×2 array."""
        raise UnsupportedError

    def sharing_leaves(self, count: int) -> Callable[[Any], object]:
        """As ``leaves``, without the copy: each leaf shares one array's memory."""
        raise UnsupportedError

    def leaf_operations(self, count: int) -> Callable[[Any], object]:
        """A function that ``count`` times makes a leaf t, computes t*t + t, and drops both."""
        raise UnsupportedError

    def mlp(self, seed: int) -> Mlp:
        """The network with the engine's plainest fast update of the parameters."""
        raise UnsupportedError

    def mlp_with_optimizer(self, seed: int) -> Mlp:
        """The network trained by the engine's own SGD class."""
        raise UnsupportedError

    def shared_mlps(self, count: int, seed: int) -> list[Mlp]:
        """As many networks that share all parameters (hogwild), each with a batch of its own."""
        raise UnsupportedError


def start_value() -> Array:
    return np.array([[0.5, -0.25], [0.75, 1.0]], np.float32)


def factor() -> Array:
    """Near one, so that a long chain neither overflows nor becomes denormal."""
    return np.full((2, 2), 0.9999, np.float32)


def mlp_values(seed: int) -> tuple[Array, Array, list[Array]]:
    """A batch of inputs, its labels, and the first parameters w1, b1, w2, b2."""
    random = np.random.default_rng(seed)
    inputs = random.standard_normal((BATCH, INPUTS)).astype(np.float32)
    labels = random.integers(0, CLASSES, BATCH)
    return inputs, labels, mlp_parameters(seed)


def mlp_parameters(seed: int) -> list[Array]:
    random = np.random.default_rng(seed + 1000)
    first = random.standard_normal((INPUTS, HIDDEN)) * np.sqrt(2 / INPUTS)
    second = random.standard_normal((HIDDEN, CLASSES)) * np.sqrt(2 / HIDDEN)
    return [
        first.astype(np.float32),
        np.zeros(HIDDEN, np.float32),
        second.astype(np.float32),
        np.zeros(CLASSES, np.float32),
    ]
