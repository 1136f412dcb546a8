"""Gradients by finite differences: the oracle that knows nothing about gradient rules.

``check_gradients(function, x, y)`` compares, in float64, what backward gives
with central differences of the function's values, and (``second=True``) what a
backward of the gradient gives with differences of the gradient, also with
respect to the incoming gradient.  Choose points at least ``3 * STEP`` away from
kinks and poles.
"""

from collections.abc import Callable, Sequence

import numpy as np

import sweepgrad as sg

#: The stencil of fourth order is exact up to STEP**4 (1e-12) times a fifth derivative.
STEP = 1e-3


def differences(value: Callable[[], float], array: np.ndarray) -> np.ndarray:
    """The gradient of ``value()`` with respect to ``array``, which it reads.

    Steps are written into ``array`` and taken back.
    """
    result = np.empty(array.shape)
    for index in np.ndindex(array.shape):
        kept = array[index]
        total = 0.0
        for steps, weight in ((2, -1.0), (1, 8.0), (-1, -8.0), (-2, 1.0)):
            array[index] = kept + steps * STEP
            total += weight * value()
        array[index] = kept
        result[index] = total / (12 * STEP)
    return result


def check_gradients(
    function: Callable[..., sg.Tensor],
    *arrays: np.ndarray,
    second: bool = True,
    rtol: float = 1e-7,
    atol: float = 1e-8,
) -> None:
    """Compare first (and second) order gradients of ``function(*tensors)`` with differences."""
    points = [np.array(array, dtype=np.float64) for array in arrays]
    seed = _weights(0, value_of(function, points).shape)

    def weighted() -> float:
        return float((value_of(function, points) * seed).sum())

    got = first_order(function, points, seed)
    for position, point in enumerate(points):
        np.testing.assert_allclose(
            got[position],
            differences(weighted, point),
            rtol=rtol,
            atol=atol,
            err_msg=f"gradient of operand {position}",
        )
    if second:
        _check_second(function, points, seed, rtol * 10, atol * 10)


def _check_second(
    function: Callable[..., sg.Tensor],
    points: Sequence[np.ndarray],
    seed: np.ndarray,
    rtol: float,
    atol: float,
) -> None:
    outer = [_weights(position + 1, point.shape) for position, point in enumerate(points)]

    def weighted() -> float:
        parts = zip(outer, first_order(function, points, seed), strict=True)
        return float(sum((weight * part).sum() for weight, part in parts))

    got = second_order(function, points, seed, outer)
    for position, point in enumerate([*points, seed]):
        name = f"of operand {position}" if position < len(points) else "of the incoming gradient"
        np.testing.assert_allclose(
            got[position],
            differences(weighted, point),
            rtol=rtol,
            atol=atol,
            err_msg=f"gradient of the gradient, {name}",
        )


def value_of(function: Callable[..., sg.Tensor], points: Sequence[np.ndarray]) -> np.ndarray:
    """The function's value at the points, untracked."""
    out = function(*[sg.from_numpy(point) for point in points])
    assert type(out) is sg.Tensor, f"expected a Tensor, got {type(out).__name__}"
    return out.numpy()


def first_order(
    function: Callable[..., sg.Tensor], points: Sequence[np.ndarray], seed: np.ndarray
) -> list[np.ndarray]:
    """The gradients a backward gives, zero for an operand it does not reach."""
    leaves = [sg.tensor(point, requires_grad=True) for point in points]
    out = function(*leaves)
    if not out.requires_grad:
        return [np.zeros(point.shape) for point in points]
    gradients = out.backward(seed)
    results = []
    for leaf, point in zip(leaves, points, strict=True):
        gradient = gradients.get(leaf)
        if gradient is None:
            gradient = np.zeros(point.shape)
        assert type(gradient) is np.ndarray
        assert gradient.shape == point.shape
        assert gradient.dtype == point.dtype
        results.append(gradient)
    return results


def second_order(
    function: Callable[..., sg.Tensor],
    points: Sequence[np.ndarray],
    seed: np.ndarray,
    outer: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """Gradients of ``sum(outer * gradient)`` with respect to the points and the seed."""
    leaves = [sg.tensor(point, requires_grad=True) for point in points]
    incoming = sg.tensor(seed, requires_grad=True)
    inner = sg.grad(
        function(*leaves), leaves, grad_outputs=incoming, create_graph=True, allow_unused=True
    )
    tracked = [
        (gradient, weight)
        for gradient, weight in zip(inner, outer, strict=True)
        if gradient is not None and gradient.requires_grad
    ]
    wanted = [*leaves, incoming]
    if not tracked:
        return [np.zeros(leaf.shape) for leaf in wanted]
    found = sg.grad(
        [gradient for gradient, _ in tracked],
        wanted,
        grad_outputs=[weight for _, weight in tracked],
        allow_unused=True,
    )
    return [
        np.zeros(leaf.shape) if gradient is None else gradient
        for leaf, gradient in zip(wanted, found, strict=True)
    ]


def _weights(position: int, shape: tuple[int, ...]) -> np.ndarray:
    """Fixed weights without a pattern that a wrong rule could share."""
    return np.random.default_rng([7, position]).uniform(0.5, 1.5, shape)
