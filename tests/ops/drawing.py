"""What a drawn case is made of: shapes, axes, settings and operands, drawn by Hypothesis.

A drawn case is a function that takes a :class:`Draw` and gives an operation with its
operands; ``drawn_arrays``, ``drawn_linear`` and ``drawn_neural`` have tables of them.
Shapes have any number of axes from none, any length from 0, and operands lie in memory
in any of the ways of ``LAYOUTS``.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sweepgrad as sg

Shape = tuple[int, ...]
Operation = tuple[Callable[..., Any], list[np.ndarray]]
DrawnCase = Callable[["Draw"], Operation]


def _spread(array: np.ndarray) -> np.ndarray:
    """Every other element of a larger array, so no axis is contiguous."""
    larger = np.zeros([2 * size for size in array.shape])
    view = larger[(..., *(slice(None, None, 2),) * array.ndim)]
    view[...] = array
    return view


#: Ways to lay an operand's values out in memory.
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": np.array,
    "Fortran": lambda array: np.array(array, order="F"),
    "spread": _spread,
    "backwards": lambda array: np.asarray(np.flip(np.array(np.flip(array)))),
}


class Draw:
    """Hypothesis's ``draw``, with what the cases ask for."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        self.layout = draw(st.sampled_from(sorted(LAYOUTS)))

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def of(self, *options: Any) -> Any:
        return self._draw(st.sampled_from(options))

    def flag(self) -> bool:
        return bool(self._draw(st.booleans()))

    def shape(self, least: int = 0, most: int = 3, side: tuple[int, int] = (0, 3)) -> Shape:
        """Between ``least`` and ``most`` axes, each as long as ``side`` allows."""
        strategy = hnp.array_shapes(
            min_dims=least, max_dims=most, min_side=side[0], max_side=side[1]
        )
        return tuple(self._draw(strategy))

    def broadcast(self, count: int, side: tuple[int, int] = (0, 3)) -> tuple[Shape, ...]:
        """Shapes that broadcast with one another."""
        strategy = hnp.mutually_broadcastable_shapes(
            num_shapes=count, max_dims=3, min_side=side[0], max_side=side[1]
        )
        return tuple(self._draw(strategy).input_shapes)

    def matched(self, signature: str, least: int = 0, most: int = 3) -> tuple[Shape, ...]:
        """Shapes by a signature as of a generalised ufunc, with axes before that broadcast."""
        strategy = hnp.mutually_broadcastable_shapes(
            signature=signature, max_dims=2, min_side=least, max_side=most
        )
        return tuple(self._draw(strategy).input_shapes)

    def axis(self, ndim: int) -> int:
        return self.integer(-ndim, ndim - 1)

    def axes(self, ndim: int) -> Any:
        """None, one axis, or several."""
        if not ndim:
            return None
        some = st.sets(st.integers(0, ndim - 1), min_size=1).map(lambda found: tuple(sorted(found)))
        return self._draw(st.none() | st.integers(-ndim, ndim - 1) | some)

    def indices(self, size: int, shape: Shape) -> np.ndarray:
        """Places in an axis of ``size``, counted from either end, repeated or not."""
        return self.rng.integers(-size, size, shape) if size else np.zeros(shape, int)

    def mask(self, shape: Shape) -> np.ndarray:
        return np.asarray(self.rng.random(shape) < self.of(0.0, 0.5, 1.0))

    def values(self, shape: Shape) -> np.ndarray:
        """Numbers on both sides of 0, at least 0.02 apart and from 0."""
        count = math.prod(shape)
        steps = self.rng.permutation(count) - count // 2
        return ((steps + self.rng.uniform(0.3, 0.7, count)) * 0.1).reshape(shape)

    def between(self, low: float, high: float, shape: Shape) -> np.ndarray:
        return np.asarray(self.rng.uniform(low, high, shape))

    def matrix(self, before: Shape, rows: int, columns: int) -> np.ndarray:
        """Stacks of matrices with singular values near 1, 2, 3, ...: far from singular or equal."""
        least = min(rows, columns)
        left = np.linalg.qr(self.rng.normal(size=(*before, rows, least)))[0]
        right = np.linalg.qr(self.rng.normal(size=(*before, columns, least)))[0]
        values = np.arange(1.0, least + 1) + self.rng.uniform(0, 0.2, (*before, least))
        return np.asarray((left * values[..., None, :]) @ np.swapaxes(right, -1, -2))


def parts(value: Any) -> Any:
    """A real function of a complex result, different in its real and imaginary part."""
    return value.real * 2 + value.imag * 3 if value.dtype.kind == "c" else value


def joined(*results: Any) -> sg.Tensor:
    """Several results as one vector."""
    return sg.concatenate([sg.ravel(result) for result in results])
