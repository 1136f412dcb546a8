"""Operations along an axis, on shapes that Hypothesis draws: none, one and empty axes, and views.

Elementwise operations, reductions, products, shapes and indices have such tests of
their own beside their tables.
"""

import math

import numpy as np
import pytest
from finite_differences import check_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

import sweepgrad as sg


def _parts(z):
    return z.real * 2 + z.imag * 3


#: Operations on operands of any shape with at least one axis.
ALONG = {
    "cumsum": lambda x: np.cumsum(x, -1),
    "cumprod": lambda x: np.cumprod(x, -1),
    "cummax": lambda x: sg.cummax(x, axis=-1),
    "logcumsumexp": lambda x: sg.logcumsumexp(x, axis=-1),
    "diff": lambda x: np.diff(x, axis=0),
    "sort": lambda x: np.sort(x, axis=-1),
    "flip": lambda x: np.flip(x, -1),
    "roll": lambda x: np.roll(x, 1, -1),
    "repeat": lambda x: np.repeat(x, 2, 0),
    "tile": lambda x: np.tile(x, 2),
    "pad": lambda x: np.pad(x, 1),
    "ravel": np.ravel,
    "transpose": np.transpose,
    "stack": lambda x: np.stack([x, 2.0 * x], -1),
    "concatenate": lambda x: np.concatenate([x, x * x], 0),
    "where": lambda x: np.where(x.numpy() > 0, x, x * x),
    "clip": lambda x: np.clip(x, -10, 0.0),
    "softmax": sg.softmax,
    "log_softmax": sg.log_softmax,
    "logsumexp": lambda x: sg.logsumexp(x, -1),
    "layer_norm": sg.layer_norm,
    "rms_norm": sg.rms_norm,
    "vector_norm": lambda x: np.linalg.vector_norm(x + 3.0, axis=-1),
    "vecdot": lambda x: np.vecdot(x, x),
    "einsum": lambda x: np.einsum("...i,...i->i...", x, x),
    "outer": lambda x: np.outer(x, x),
    "matmul": lambda x: x[..., None] @ x[..., None, :],
    "append": lambda x: np.append(x, [1.0]),
    "insert": lambda x: np.insert(x, 0, 2.0, axis=-1),
}


def values(shape):
    """Distinct numbers, at least 0.02 apart and away from 0."""
    count = math.prod(shape)
    rng = np.random.default_rng(count)
    return (rng.permutation(count) * 0.1 + rng.uniform(0.01, 0.05, count) - 0.53).reshape(shape)


@pytest.mark.parametrize("operation", ALONG.values(), ids=ALONG)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    shape=array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3),
    swapped=st.booleans(),
    backwards=st.booleans(),
)
def test_both_orders_agree_with_differences_on_any_shape_and_view(
    operation, shape, swapped, backwards
):
    def on_a_view(x):
        if swapped:
            x = np.swapaxes(x, 0, -1)
        if backwards:
            x = x[..., ::-1]
        return operation(x)

    second = math.prod(shape) <= 6
    check_gradients(on_a_view, values(shape), second=second, rtol=1e-6, atol=1e-7)


MATRICES = {
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": lambda m: np.linalg.slogdet(m)[1],
    "cholesky": np.linalg.cholesky,
    "solve": lambda m: np.linalg.solve(m, m[..., :1]),
    "eigvalsh": np.linalg.eigvalsh,
    "svdvals": np.linalg.svdvals,
    "pinv": np.linalg.pinv,
    "matrix_power": lambda m: np.linalg.matrix_power(m, 2),
    "trace": lambda m: np.trace(m, axis1=-2, axis2=-1),
    "tril": np.tril,
}


@pytest.mark.parametrize("operation", MATRICES.values(), ids=MATRICES)
@settings(max_examples=5, deadline=None, derandomize=True)
@given(
    before=array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=2),
    size=st.integers(1, 3),
)
def test_stacks_of_matrices_of_any_shape_agree_with_differences(operation, before, size):
    eye = np.eye(size) * np.arange(2.0, 2.0 + size)

    def on_positive(x):
        return operation(x @ np.swapaxes(x, -1, -2) + eye)

    second = math.prod(before) * size <= 3
    shape = (*before, size, size)
    check_gradients(on_positive, values(shape) * 0.3, second=second, rtol=1e-5, atol=1e-6)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(shape=array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
def test_transforms_of_any_shape_agree_with_differences(shape):
    for transform in (np.fft.rfft, np.fft.fft, np.fft.ihfft):
        check_gradients(lambda x, f=transform: _parts(f(x)), values(shape), second=False)
