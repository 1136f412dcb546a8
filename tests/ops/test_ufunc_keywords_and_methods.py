"""Ufuncs with keywords, and their methods: offered with NumPy's meaning or refused by name."""

import numpy as np
import pytest
from finite_differences import check_gradients

import sweepgrad as sg

X = np.array([[0.5, 2.0, 1.5], [1.0, 3.0, 0.25]])


@pytest.mark.parametrize(
    "function",
    [np.add, np.multiply, np.maximum, np.minimum, np.logaddexp],
    ids=lambda f: f.__name__,
)
def test_reduce_and_accumulate_are_reductions_and_cumulative_operations(function):
    for axis in (0, 1, None, (0, 1)):
        for keepdims in (False, True):
            got = function.reduce(sg.tensor(X), axis=axis, keepdims=keepdims)
            expected = function.reduce(X, axis=axis, keepdims=keepdims)
            np.testing.assert_allclose(got.numpy(), expected, rtol=1e-14)
        check_gradients(lambda t, a=axis: function.reduce(t, axis=a), X)
    np.testing.assert_array_equal(function.reduce(sg.tensor(X)).numpy(), function.reduce(X))
    mask = X > 0.4
    got = function.reduce(sg.tensor(X), axis=0, where=mask, initial=0.3)
    expected = function.reduce(X, axis=0, where=mask, initial=0.3)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-14)
    for axis in (0, 1):
        got = function.accumulate(sg.tensor(X), axis)
        np.testing.assert_allclose(got.numpy(), function.accumulate(X, axis), rtol=1e-14)
        check_gradients(lambda t, a=axis: function.accumulate(t, axis=a), X)


def test_outer_is_the_operation_on_every_pair():
    got = np.subtract.outer(sg.tensor(X), [1.0, 2.0])
    np.testing.assert_array_equal(got.numpy(), np.subtract.outer(X, [1.0, 2.0]))
    check_gradients(np.multiply.outer, X, np.array([1.0, 2.0]))
    check_gradients(lambda t: np.power.outer([2.0, 3.0], t), X)


def test_dtype_converts_the_operands_first():
    x = sg.tensor(X, requires_grad=True)
    out = np.exp(x, dtype=np.float32)
    assert out.dtype == np.float32
    assert out.sum().backward()[x].dtype == np.float64
    assert np.add(x, 1.5, dtype=np.float32).dtype == np.float32
    assert np.add.reduce(x, dtype=np.float32).dtype == np.float32
    with pytest.raises(sg.DtypeError, match="losing its kind"):
        np.add(x, x, dtype=np.int64)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda x: np.exp(x, out=np.zeros((2, 3))), "exp.*out="),
        (lambda x: np.add(x, 1, out=np.zeros((2, 3))), "add.*out="),
        (lambda x: np.exp(x, where=X > 1), r"where.*np\.where"),
        (lambda x: np.add(x, x, casting="no"), "add.*casting"),
        (lambda x: np.add.reduce(x, out=np.zeros(3)), "add.*out="),
        (lambda x: np.add.at(x, 0, 1.0), r"add\.at.*at\[index\]"),
        (lambda x: np.add.at(np.zeros((2, 3)), 0, x), r"add\.at"),
        (lambda x: np.add.reduceat(x, [0]), r"add\.reduceat"),
        (lambda x: np.subtract.reduce(x), r"subtract\.reduce"),
        (lambda x: np.spacing(x), "spacing"),
        (lambda x: np.nextafter(x, 1.0), "nextafter"),
    ],
)
def test_what_has_no_meaning_for_a_tracked_tensor_is_refused_by_name(call, names):
    with pytest.raises(sg.NoGradientRuleError, match=names):
        call(sg.tensor(X, requires_grad=True))


def test_a_tensor_is_never_written_into_even_when_untracked():
    x = sg.tensor(X)
    with pytest.raises(sg.NoGradientRuleError, match="never written into"):
        np.add.at(x, 0, 1.0)
    np.testing.assert_array_equal(x.numpy(), X)


def test_untracked_tensors_and_no_grad_take_any_keyword_but_out():
    x = sg.tensor(X, requires_grad=True)
    with sg.no_grad():
        got = np.exp(x, casting="same_kind", order="F")
    np.testing.assert_array_equal(got.numpy(), np.exp(X))
