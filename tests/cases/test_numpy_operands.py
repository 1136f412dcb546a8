"""NumPy arrays and scalars on either side of an operator, and their dtypes (C19)."""

import operator

import numpy as np
import pytest

import sweepgrad as sg

ARR = np.array([1.0, 2.0])


@pytest.fixture
def t():
    return sg.tensor([3.0, 4.0], requires_grad=True)


def gradient(result, t):
    assert type(result) is sg.Tensor
    assert result.requires_grad
    return result.backward(np.ones(result.shape))[t].tolist()


def test_an_array_on_the_left(t):
    assert (ARR * t).shape == (2,)
    assert gradient(ARR * t, t) == [1.0, 2.0]
    assert gradient(ARR + t, t) == [1.0, 1.0]
    assert gradient(ARR - t, t) == [-1.0, -1.0]
    assert np.allclose(gradient(ARR / t, t), [-1 / 9, -0.125], atol=1e-12)
    assert gradient(np.eye(2) @ t, t) == [1.0, 1.0]
    assert np.allclose(gradient(ARR**t, t), [0.0, 16 * np.log(2)], atol=1e-12)


def test_a_numpy_scalar_on_the_left(t):
    for scalar in (np.float64(2), np.float32(2), np.int64(2), np.array(2.0)):
        assert gradient(scalar * t, t) == [2.0, 2.0]
        assert gradient(t * scalar, t) == [2.0, 2.0]
        assert gradient(scalar - t, t) == [-1.0, -1.0]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow"])
def test_both_sides_give_what_numpy_gives(name, t):
    op = getattr(operator, name)
    for other in (2, 2.0, ARR, np.float64(2.0), [1.0, 2.0], sg.tensor(ARR)):
        plain = other.numpy() if type(other) is sg.Tensor else other
        for result, expected in [
            (op(t, other), op(t.numpy(), plain)),
            (op(other, t), op(plain, t.numpy())),
        ]:
            assert type(result) is sg.Tensor
            assert result.requires_grad
            assert np.array_equal(result.numpy(), expected)


def test_ufuncs_and_functions_of_numpy(t):
    assert gradient(np.multiply(ARR, t), t) == [1.0, 2.0]
    assert gradient(np.add(t, t), t) == [2.0, 2.0]
    assert gradient(np.negative(t), t) == [-1.0, -1.0]
    assert gradient(np.concatenate([ARR, t]), t) == [1.0, 1.0]
    assert np.allclose(gradient(np.tanh(t), t), 1 - np.tanh([3.0, 4.0]) ** 2, atol=1e-12)


def test_an_array_multiplied_in_place_is_refused_and_unchanged(t):
    arr = ARR.copy()
    with pytest.raises(sg.NoGradientRuleError, match="result = "):
        arr *= t
    assert arr.tolist() == [1.0, 2.0]
    arr *= t.numpy()
    assert arr.tolist() == [3.0, 8.0]


def test_a_tensor_multiplied_in_place_is_a_new_tensor(t):
    u = t
    u *= ARR
    assert u is not t
    assert t.tolist() == [3.0, 4.0]
    assert gradient(u, t) == [1.0, 2.0]


def test_asarray_of_a_tracked_tensor_is_refused(t):
    for convert in (
        np.asarray,
        np.array,
        lambda x: np.array([x, x]),
        lambda x: list(map(np.asarray, [x])),
    ):
        with pytest.raises(sg.TensorTypeError, match="numpy"):
            convert(t)


def test_asarray_of_a_constant_is_a_read_only_view():
    constant = sg.tensor([1.0, 2.0])
    view = np.asarray(constant)
    assert view.dtype == float
    assert np.shares_memory(view, constant.numpy())
    assert not view.flags.writeable
    assert np.array(constant).flags.writeable
    assert np.asarray(constant, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.array(constant, dtype=np.float32, copy=False)


def test_no_operation_makes_an_object_array(t):
    for result in (ARR * t, t * ARR, np.multiply(ARR, t), [1.0, 2.0] * t):
        assert type(result) is sg.Tensor
        assert result.dtype == np.float64
    with pytest.raises(sg.DtypeError, match="object"):
        t * np.array([None, 1.0], dtype=object)
    with pytest.raises(sg.DtypeError):
        np.array(["a", "b"]) * t


def test_subclasses_of_ndarray_are_refused(t):
    masked = np.ma.masked_array(ARR, [True, False])
    for call in (
        lambda: t * masked,
        lambda: np.multiply(masked, t),
        lambda: masked @ t,
    ):
        with pytest.raises(sg.TensorTypeError, match="plain ndarrays"):
            call()


@pytest.mark.parametrize("other", [np.float32, np.float64])
@pytest.mark.parametrize("own", [np.float32, np.float64])
def test_dtypes_promote_as_numpys_and_gradients_come_back_in_the_leafs_own(own, other):
    x = sg.tensor([1.0, 2.0], dtype=own, requires_grad=True)
    y = x * np.array([3.0, 4.0], dtype=other)
    assert y.dtype == np.result_type(own, other)
    gradient = y.backward(np.ones(2))[x]
    assert gradient.dtype == own
    assert gradient.tolist() == [3.0, 4.0]


def test_python_scalars_are_weak():
    x = sg.tensor([1.0], dtype=np.float32, requires_grad=True)
    for y in (x * 2, x * 2.0, 2.0 / x, x**2, x + 1, 1 - x):
        assert y.dtype == np.float32
        assert y.backward([1.0])[x].dtype == np.float32


def test_integers_and_booleans_join_as_constants(t):
    assert gradient(np.array([1, 2]) * t, t) == [1.0, 2.0]
    assert gradient(np.array([True, False]) * t, t) == [1.0, 0.0]
    assert gradient(t * sg.tensor([2, 3]), t) == [2.0, 3.0]


def test_the_gradient_of_broadcasting_is_the_sum():
    x = sg.tensor([[1.0], [2.0]], requires_grad=True)
    y = x * np.ones((3, 2, 4))
    assert y.backward(np.ones((3, 2, 4)))[x].tolist() == [[12.0], [12.0]]
    s = sg.tensor(2.0, requires_grad=True)
    assert (ARR * s).backward(np.ones(2))[s] == 3.0
    assert (ARR * s).backward(np.ones(2))[s].shape == ()


def test_nan_and_infinity_are_handled_as_numpy_does():
    x = sg.tensor([np.nan, np.inf, 1.0], requires_grad=True)
    gradient = (x * 2.0).backward([1.0, 1.0, np.nan])[x]
    assert gradient[:2].tolist() == [2.0, 2.0]
    assert np.isnan(gradient[2])
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        y = 1.0 / sg.tensor([0.0], requires_grad=True)
    assert np.isinf(y.item())
    with np.errstate(all="ignore"):
        assert np.isinf((1.0 / sg.tensor([0.0], requires_grad=True)).item())


def test_a_zero_factor_gives_no_nan():
    """C16, as far as products of tensors go: nothing is divided by an input."""
    for values, expected in [((0, 2, 3), (6, 0, 0)), ((0, 0, 3), (0, 0, 0)), ((0,), (1,))]:
        leaves = [sg.tensor([float(v)], requires_grad=True) for v in values]
        product = sg.tensor([1.0])
        for x in leaves:
            product = product * x
        grads = product.backward([1.0])
        assert [grads[x].item() for x in leaves] == list(expected)
