"""Cumulative operations, products and differences: values, both orders, zeros and ties."""

import math

import numpy as np
import pytest
from finite_differences import check_gradients

import sweepgrad as sg

INF, NAN = math.inf, math.nan

CUMULATIVE = {
    "cumsum": (np.cumsum, np.cumsum),
    "cumprod": (np.cumprod, np.cumprod),
    "cummax": (
        sg.cummax,
        lambda x, axis: (
            np.maximum.accumulate(x.ravel(), axis=0)
            if axis is None
            else np.maximum.accumulate(x, axis=axis)
        ),
    ),
    "cummin": (
        sg.cummin,
        lambda x, axis: (
            np.minimum.accumulate(x.ravel(), axis=0)
            if axis is None
            else np.minimum.accumulate(x, axis=axis)
        ),
    ),
    "logcumsumexp": (sg.logcumsumexp, lambda x, axis: np.log(np.cumsum(np.exp(x), axis=axis))),
}

every_one = pytest.mark.parametrize(("call", "reference"), CUMULATIVE.values(), ids=CUMULATIVE)


def gradient(function, value):
    leaf = sg.tensor(value, dtype=np.float64, requires_grad=True)
    out = function(leaf)
    return out.backward(np.ones(out.shape))[leaf]


def distinct(shape, seed=0):
    rng = np.random.default_rng(seed)
    count = math.prod(shape)
    return (rng.permutation(count) * 0.2 + rng.uniform(0, 0.05, count) - 1.03).reshape(shape)


@every_one
def test_values_are_those_of_numpy(call, reference):
    x = distinct((2, 3))
    for axis in (None, 0, 1, -1):
        got = call(sg.tensor(x, requires_grad=True), axis=axis)
        np.testing.assert_allclose(got.numpy(), reference(x, axis), rtol=1e-14, atol=1e-15)
    assert call(sg.tensor(2.0)).shape == (1,)
    with pytest.raises(np.exceptions.AxisError):
        call(sg.tensor(x), axis=2)


@every_one
def test_gradients_match_differences_to_second_order(call, reference):
    for axis in (None, 0, -1):
        check_gradients(lambda t, a=axis: call(t, axis=a), distinct((2, 3)))
    check_gradients(lambda t: call(t, axis=1), distinct((2, 3, 2)))
    check_gradients(call, np.array(0.4))
    check_gradients(lambda t: call(t, axis=0), np.zeros((0, 2)))


@every_one
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_value_and_gradient_keep_the_dtype(call, reference, dtype):
    leaf = sg.tensor(distinct((2, 3)), dtype=dtype, requires_grad=True)
    out = call(leaf, axis=1)
    assert out.dtype == dtype
    (slope,) = sg.grad(out.sum(), leaf, create_graph=True)
    assert slope.dtype == dtype


@every_one
def test_memory_layout_changes_nothing(call, reference):
    x = distinct((2, 3))
    expected = gradient(lambda t: call(t, axis=1), x)
    for array in (np.asfortranarray(x), np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]):
        array.flags.writeable = False
        leaf = sg.from_numpy(array, requires_grad=True)
        np.testing.assert_allclose(call(leaf, axis=1).sum().backward()[leaf], expected, rtol=1e-14)


# --- products -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "slope"),
    [
        ([0.0, 2.0, 3.0], [6, 0, 0]),
        ([0.0, 0.0, 3.0], [0, 0, 0]),
        ([0.0], [1]),
        ([2.0, -0.0, 5.0], [0, 10, 0]),
        (3.0, 1),
        ([], []),
    ],
)
def test_the_gradient_of_a_product_is_exact_at_zeros(values, slope):
    """C16."""
    np.testing.assert_array_equal(gradient(np.prod, values), slope)


def test_the_gradient_of_a_cumulative_product_is_exact_at_zeros():
    """C16."""
    np.testing.assert_array_equal(gradient(np.cumprod, [2.0, 0.0, 3.0, 4.0]), [1, 32, 0, 0])
    np.testing.assert_array_equal(gradient(np.cumprod, [0.0, 0.0, 3.0]), [1, 0, 0])
    np.testing.assert_array_equal(
        gradient(lambda t: np.cumprod(t, axis=1), [[2.0, 0.0, 3.0], [1.0, 2.0, 3.0]]),
        [[1, 8, 0], [9, 4, 2]],
    )


def test_products_with_zeros_match_differences_to_second_order():
    """C16, and its kind: the second derivatives at zeros."""
    x = distinct((3, 3))
    x[0, 1] = x[1, 0] = x[1, 2] = 0.0
    for axis in (None, 0, 1):
        check_gradients(lambda t, a=axis: np.prod(t, axis=a), x)
        check_gradients(lambda t, a=axis: np.cumprod(t, axis=a), x)
    cube = distinct((2, 2, 2))
    cube[0, 1, 0] = 0.0
    check_gradients(lambda t: np.prod(t, axis=(0, 2), keepdims=True), cube)
    check_gradients(lambda t: np.prod(t, axis=()), cube)


def test_a_product_that_underflows_does_not_lose_its_gradient():
    np.testing.assert_allclose(
        gradient(np.prod, [1e-200, 1e-200, 1e100]), [1e-100, 1e-100, 0], rtol=1e-12
    )


# --- ties and infinities ------------------------------------------------------------------


def test_ties_of_a_running_extreme_share_evenly_what_comes_after_them():
    # y = 1, 1, 1: of g_0 all goes to x_0, of g_1 a half to each, of g_2 a third.
    np.testing.assert_allclose(
        gradient(sg.cummax, [1.0, 1.0, 1.0]), [1 + 1 / 2 + 1 / 3, 1 / 2 + 1 / 3, 1 / 3]
    )
    np.testing.assert_allclose(gradient(sg.cummax, [1.0, 3.0, 3.0, 2.0]), [1, 2, 1, 0])
    np.testing.assert_allclose(gradient(sg.cummin, [3.0, 1.0, 2.0, 0.5]), [1, 2, 0, 1])
    np.testing.assert_allclose(gradient(sg.cummax, [1.0, NAN, 3.0]), [1, 2, 0])


def test_logcumsumexp_with_infinities_and_large_values():
    np.testing.assert_array_equal(gradient(sg.logcumsumexp, [-INF, -INF]), [0, 0])
    np.testing.assert_allclose(gradient(sg.logcumsumexp, [-INF, -1e3, -1.0]), [0, 1, 1])
    x = np.full(4, 1e3, np.float32)
    leaf = sg.tensor(x, requires_grad=True)
    out = sg.logcumsumexp(leaf)
    np.testing.assert_allclose(out.numpy(), 1e3 + np.log([1, 2, 3, 4]), rtol=1e-6)
    # dx_i = sum over k >= i of 1 / (k + 1).
    np.testing.assert_allclose(
        out.sum().backward()[leaf], [25 / 12, 13 / 12, 7 / 12, 1 / 4], rtol=1e-6
    )


# --- differences and integrals ------------------------------------------------------------


def test_differences_of_any_order_and_axis():
    x = distinct((3, 4))
    for n in (0, 1, 2, 5):
        for axis in (0, -1):
            got = np.diff(sg.tensor(x), n, axis)
            np.testing.assert_allclose(got.numpy(), np.diff(x, n, axis), rtol=1e-14)
            check_gradients(lambda t, n=n, a=axis: np.diff(t, n, a), x)
    check_gradients(lambda t, u: np.diff(t, axis=0, prepend=0, append=u), x, x[:2])
    with pytest.raises(sg.ShapeError, match="diff"):
        np.diff(sg.tensor(1.0))
    with pytest.raises(sg.ShapeError, match="diff"):
        np.diff(sg.tensor([1.0]), -1)


def test_trapezoid_is_differentiable_in_values_and_points():
    y = distinct((3, 4))
    points = np.array([0.0, 0.3, 1.0])
    check_gradients(np.trapezoid, y)
    check_gradients(lambda t: np.trapezoid(t, dx=0.5, axis=0), y)
    check_gradients(lambda t, p: np.trapezoid(t, p, axis=0), y, points)
    check_gradients(lambda t, p: np.trapezoid(t, p), y, np.cumsum(y * y, axis=1))
    got = np.trapezoid(sg.tensor(y), points, axis=0)
    np.testing.assert_allclose(got.numpy(), np.trapezoid(y, points, axis=0))


def test_the_array_api_names_start_from_nothing_when_asked():
    x = sg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    np.testing.assert_array_equal(sg.cumulative_sum(x, include_initial=True).numpy(), [0, 1, 3, 6])
    out = sg.cumulative_prod(x, include_initial=True)
    np.testing.assert_array_equal(out.numpy(), [1, 1, 2, 6])
    np.testing.assert_array_equal(out.sum().backward()[x], [9, 4, 2])
    with pytest.raises(sg.ShapeError, match="axis"):
        sg.cumulative_sum(sg.tensor([[1.0]]))


def test_unwrap_adds_multiples_of_the_period():
    x = np.array([[0.0, 2.0, 5.0, 0.5], [6.0, 0.1, 3.0, 5.5]])
    np.testing.assert_array_equal(np.unwrap(sg.tensor(x), axis=0).numpy(), np.unwrap(x, axis=0))
    check_gradients(np.unwrap, x)
    check_gradients(lambda t: np.unwrap(t, period=4.5, axis=0), x)
