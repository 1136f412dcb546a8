"""Gradients of any size beside differences along one direction, in a few calls of the function.

Where ``finite_differences.check_gradients`` moves one element after the other, these move
all operands at once, along a direction without a pattern: a gradient wrong in one element
changes the slope.  So shapes may be of any size, and the second order costs little more.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from finite_differences import STEP, _weights, second_order

import sweepgrad as sg

#: Steps of the stencil of fourth order and their weights.
STENCIL = ((2, -1.0), (1, 8.0), (-1, -8.0), (-2, 1.0))


def slope(value: Callable[[float], float]) -> float:
    """The derivative of ``value`` at 0."""
    return sum(weight * value(step * STEP) for step, weight in STENCIL) / (12 * STEP)


def check_along(
    function: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    layout: Callable[[np.ndarray], np.ndarray] = np.array,
    rtol: float = 1e-6,
    atol: float = 1e-8,
) -> None:
    """Compare first and second order with differences, operands laid out in memory as given."""
    points = [np.asarray(array, np.float64) for array in arrays]
    shape = _called(function, points, layout, tracked=False)[1].shape
    seed = _weights(0, shape)
    moves = _directions([*points, seed])

    def at(step: float) -> list[np.ndarray]:
        return [p + step * m for p, m in zip([*points, seed], moves, strict=True)]

    def value(step: float) -> float:
        out = _called(function, at(step)[:-1], layout, tracked=False)[1]
        return float((out.numpy() * seed).sum())

    first = gradients(function, points, layout, seed)
    _compare("gradient", first, moves[:-1], slope(value), rtol, atol)
    outer = [_weights(position + 1, point.shape) for position, point in enumerate(points)]

    def weighted(step: float) -> float:
        *where, incoming = at(step)
        found = gradients(function, where, layout, incoming)
        return float(sum((w * g).sum() for w, g in zip(outer, found, strict=True)))

    second = second_order(function, points, seed, outer)
    _compare("gradient of the gradient", second, moves, slope(weighted), rtol * 10, atol * 10)


def gradients(
    function: Callable[..., Any],
    points: Sequence[np.ndarray],
    layout: Callable[[np.ndarray], np.ndarray],
    seed: np.ndarray,
) -> list[np.ndarray]:
    """The gradients that a backward gives, zero where it gives none."""
    leaves, out = _called(function, points, layout, tracked=True)
    found = out.backward(seed) if out.requires_grad else {}
    results = []
    for leaf, point in zip(leaves, points, strict=True):
        gradient = found.get(leaf, np.zeros(point.shape))
        assert gradient.shape == point.shape
        assert gradient.dtype == np.float64
        assert gradient.flags.c_contiguous
        results.append(gradient)
    return results


def _called(
    function: Callable[..., Any],
    points: Sequence[np.ndarray],
    layout: Callable[[np.ndarray], np.ndarray],
    tracked: bool,
) -> tuple[list[sg.Tensor], sg.Tensor]:
    leaves = [sg.from_numpy(layout(point), tracked) for point in points]
    out = function(*leaves)
    assert type(out) is sg.Tensor, f"expected a Tensor, got {type(out).__name__}"
    assert out.dtype == np.float64
    return leaves, out


def _directions(points: Sequence[np.ndarray]) -> list[np.ndarray]:
    """One direction of length 1 through the space of all operands."""
    rng = np.random.default_rng([11, len(points)])
    moves = [rng.uniform(0.5, 1.0, p.shape) * rng.choice([-1.0, 1.0], p.shape) for p in points]
    length = np.sqrt(sum((move * move).sum() for move in moves))
    return [np.asarray(move / max(length, 1.0)) for move in moves]


def _compare(
    what: str,
    got: Sequence[np.ndarray],
    moves: Sequence[np.ndarray],
    expected: float,
    rtol: float,
    atol: float,
) -> None:
    terms = [gradient * move for gradient, move in zip(got, moves, strict=True)]
    scale = float(sum(np.abs(term).sum() for term in terms))
    total = float(sum(term.sum() for term in terms))
    assert abs(total - expected) <= rtol * scale + atol, (
        f"{what} {[g.tolist() for g in got]}: slope {total} along {[m.tolist() for m in moves]}, "
        f"differences give {expected}"
    )
