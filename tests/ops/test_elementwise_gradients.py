"""Elementwise operations: gradients of both orders, any layout, NumPy's broadcasting and dtypes."""

import numpy as np
import pytest
from elementwise_table import ALL, BINARY, UNARY, Elementwise
from finite_differences import check_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import sweepgrad as sg

SHAPES = [(), (3,), (0, 2), (2, 1, 2)]
PAIRS = [((2, 3), (3,)), ((2, 1), (1, 2)), ((), (2,)), ((2, 2), ()), ((0, 3), (1, 3)), ((1,), (3,))]


def operands(operation: Elementwise, shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [domain(rng, shape) for domain, shape in zip(operation.domains, shapes, strict=True)]


@pytest.mark.parametrize("operation", UNARY, ids=str)
def test_gradients_of_one_operand_match_differences_to_second_order(operation):
    for shape in SHAPES:
        check_gradients(operation.call, *operands(operation, [shape]))


@pytest.mark.parametrize("operation", BINARY, ids=str)
def test_gradients_of_two_operands_match_differences_to_second_order(operation):
    for shapes in PAIRS:
        check_gradients(operation.call, *operands(operation, shapes))


@pytest.mark.parametrize("operation", BINARY, ids=str)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3, min_side=0),
    seed=st.integers(0, 99),
)
def test_gradients_of_any_broadcast_match_differences(operation, shapes, seed):
    check_gradients(operation.call, *operands(operation, shapes.input_shapes, seed), second=False)


@pytest.mark.parametrize("operation", BINARY, ids=str)
def test_an_operand_used_twice_gets_both_gradients(operation):
    point = operands(operation, [(3,), (3,)])
    one, other = (sg.tensor(array, requires_grad=True) for array in point)
    apart = operation.call(one, other).sum().backward()
    shift = sg.tensor(point[1] - point[0])
    shared = sg.tensor(point[0], requires_grad=True)
    together = operation.call(shared, shared + shift).sum().backward()
    np.testing.assert_allclose(together[shared], apart[one] + apart[other], rtol=1e-9, atol=1e-12)


# --- layouts ------------------------------------------------------------------------------


def transposed(array):
    return np.ascontiguousarray(array.T).T


def strided(array):
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]))
    wide[..., ::2] = array
    return wide[..., ::2]


def backwards(array):
    return np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def byte_swapped(array):
    return array.astype(array.dtype.newbyteorder())


@pytest.mark.parametrize("layout", [transposed, strided, backwards, read_only, byte_swapped])
@pytest.mark.parametrize("operation", ALL, ids=str)
def test_memory_layout_changes_nothing(operation, layout):
    plain = operands(operation, [(2, 3)] * len(operation.domains))
    results = []
    for arrays in (plain, [layout(array) for array in plain]):
        leaves = [sg.from_numpy(array, requires_grad=True) for array in arrays]
        out = operation.call(*leaves)
        gradients = out.backward(np.arange(1.0, 7.0).reshape(2, 3))
        results.append([out.numpy(), *[gradients[leaf] for leaf in leaves]])
    for expected, got in zip(*results, strict=True):
        # NumPy's vector loops round differently from its strided ones in the last bit.
        np.testing.assert_allclose(got, expected, rtol=4e-15)
    for gradient in results[1][1:]:
        assert gradient.flags.c_contiguous
        assert gradient.flags.writeable


# --- dtypes -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("operation", ALL, ids=str)
def test_value_and_gradient_keep_the_dtype(operation, dtype):
    """C19: NumPy's dtype for the value, the operand's own for its gradient."""
    if dtype is np.longdouble and operation.name in ("gammaln", "digamma"):
        dtype = np.float64  # SciPy and the C library know no more than doubles
    arrays = [a.astype(dtype) for a in operands(operation, [(2, 3)] * len(operation.domains))]
    leaves = [sg.tensor(array, requires_grad=True) for array in arrays]
    out = operation.call(*leaves)
    expected = np.dtype(dtype)
    if operation.name == "float_power":
        expected = np.result_type(dtype, np.float64)
    assert out.dtype == expected
    gradients = sg.grad(out.sum(), leaves, create_graph=True)
    for leaf, gradient in zip(leaves, gradients, strict=True):
        assert gradient.dtype == leaf.dtype
        assert gradient.shape == leaf.shape


@pytest.mark.parametrize("operation", BINARY, ids=str)
def test_mixed_dtypes_promote_as_in_numpy_and_gradients_are_cast_back(operation):
    one, other = operands(operation, [(2, 3), (3,)])
    small = sg.tensor(one, dtype=np.float32, requires_grad=True)
    large = sg.tensor(other, requires_grad=True)
    out = operation.call(small, large)
    assert out.dtype == np.float64
    gradients = out.sum().backward()
    assert gradients[small].dtype == np.float32
    assert gradients[large].dtype == np.float64


@pytest.mark.parametrize("operation", BINARY, ids=str)
def test_python_numbers_do_not_promote(operation):
    for place in (0, 1):
        arrays = operands(operation, [(3,), (3,)])
        leaf = sg.tensor(arrays[place], dtype=np.float32, requires_grad=True)
        arguments = [float(array[0]) for array in arrays]
        arguments[place] = leaf
        out = operation.call(*arguments)
        expected = np.float64 if operation.name == "float_power" else np.float32
        assert out.dtype == expected
        assert out.sum().backward()[leaf].dtype == np.float32


def test_a_complex_python_number_is_weak_too():
    leaf = sg.tensor([1.0, 2.0], dtype=np.float32, requires_grad=True)
    out = leaf * 2j
    assert out.dtype == np.complex64
    gradient = np.abs(out).sum().backward()[leaf]
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, [2.0, 2.0], rtol=1e-6)
    for out in (2j - leaf, 2j / leaf, leaf**2j, np.multiply(2j, leaf)):
        assert out.dtype == np.complex64


# --- NumPy on either side -----------------------------------------------------------------


def test_arrays_and_scalars_on_the_left_give_one_tracked_tensor():
    """C19: the array does not take the operator over."""
    arr = np.array([1.0, 2.0])

    def gradient(function):
        t = sg.tensor([3.0, 4.0], requires_grad=True)
        out = function(t)
        assert type(out) is sg.Tensor
        assert out.shape == (2,)
        assert out.requires_grad
        return out.sum().backward()[t]

    np.testing.assert_array_equal(gradient(lambda t: arr * t), [1, 2])
    np.testing.assert_array_equal(gradient(lambda t: arr + t), [1, 1])
    np.testing.assert_array_equal(gradient(lambda t: arr - t), [-1, -1])
    np.testing.assert_allclose(gradient(lambda t: arr / t), [-1 / 9, -2 / 16], atol=1e-15)
    np.testing.assert_array_equal(gradient(lambda t: np.float64(2) * t), [2, 2])
    np.testing.assert_allclose(
        gradient(lambda t: np.float64(2) ** t), [8 * np.log(2), 16 * np.log(2)]
    )
    np.testing.assert_array_equal(gradient(lambda t: np.int64(9) % t), [-3, -2])
    np.testing.assert_array_equal(gradient(lambda t: [1.0, 2.0] * t), [1, 2])


def test_an_array_is_not_multiplied_in_place_by_a_tensor():
    """C19: ``arr *= t`` would lose the gradient or make an object array."""
    arr = np.array([1.0, 2.0])
    t = sg.tensor([3.0, 4.0], requires_grad=True)
    with pytest.raises(sg.NoGradientRuleError, match="out="):
        arr *= t
    np.testing.assert_array_equal(arr, [1.0, 2.0])


def test_a_value_used_on_several_paths_gets_its_whole_gradient_once():
    """C15."""
    a, b = (sg.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    c, d = a + b, a * b
    y = (c + d) + c * d
    assert y.item() == 41
    gradients = y.backward()
    assert (gradients[a], gradients[b]) == (25, 19)

    x = sg.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(60):
        y = y + y
    assert y.backward()[x] == 2.0**60


# --- comparisons --------------------------------------------------------------------------


def test_comparisons_give_plain_arrays_of_booleans():
    t = sg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    u = sg.tensor([3.0, 2.0, 1.0], requires_grad=True)
    cases = [
        (t < u, [True, False, False]),
        (t <= 2, [True, True, False]),
        (t > np.array([0.0, 2.0, 2.0]), [True, False, True]),
        (2 >= t, [True, True, False]),  # noqa: SIM300 (the reflected operator)
        (t == u, [False, True, False]),
        (t != u, [True, False, True]),
        (np.greater(t, u), [False, False, True]),
        (np.isnan(t), [False, False, False]),
    ]
    for got, expected in cases:
        assert type(got) is np.ndarray
        assert got.dtype == np.bool_
        np.testing.assert_array_equal(got, expected)


def test_tensors_hash_by_identity():
    t, u = sg.tensor([1.0]), sg.tensor([1.0])
    assert {t: "t", u: "u"}[t] == "t"
    assert len({t, u, t}) == 2
