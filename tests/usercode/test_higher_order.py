"""Jacobians, Hessians, products with them, gradients of gradients."""

import numpy as np
import pytest
from custom_operations import Cube, leaf

import sweepgrad as sg
from support.threads import repeat

GENERATOR = np.random.default_rng(0)
A = GENERATOR.normal(size=(4, 3))
X = GENERATOR.normal(size=3)
V = GENERATOR.normal(size=3)


def affine_tanh(x):
    """tanh(A x): the Jacobian is diag(1 - tanh²) A."""
    return np.tanh(sg.matmul(A, x))


AFFINE_TANH_JACOBIAN = (1 - np.tanh(A @ X) ** 2)[:, None] * A


def quartic(x):
    """(x·x)²: gradient 4 (x·x) x, Hessian 8 x xᵀ + 4 (x·x) I."""
    square = (x * x).sum()
    return square * square


QUARTIC_HESSIAN = 8 * np.outer(X, X) + 4 * (X @ X) * np.eye(3)


def test_jacobian_by_hand():
    np.testing.assert_allclose(sg.jacobian(affine_tanh)(X), AFFINE_TANH_JACOBIAN, rtol=1e-12)


def test_jacobian_of_several_arguments_and_axes():
    """xᵢ yⱼ by x: δᵢₖ yⱼ; by y: xᵢ δⱼₖ."""
    x, y = X, V[:2]
    by_x, by_y = sg.jacobian(lambda x, y: x.reshape(3, 1) * y, (0, 1))(x, y)
    np.testing.assert_array_equal(by_x, np.einsum("ik,j->ijk", np.eye(3), y))
    np.testing.assert_array_equal(by_y, np.einsum("i,jk->ijk", x, np.eye(2)))


def test_hessian_by_hand():
    found = sg.hessian(quartic)(X)
    np.testing.assert_allclose(found, QUARTIC_HESSIAN, rtol=1e-12)


def test_hessian_blocks_of_several_arguments():
    """f = (x·y)²: Hxx = 2 y yᵀ, Hxy = 2 y xᵀ + 2 (x·y) I."""
    x, y = X, V
    h = sg.hessian(lambda x, y: (x * y).sum() ** 2, (0, 1))(x, y)
    np.testing.assert_allclose(h[0][0], 2 * np.outer(y, y), rtol=1e-12)
    np.testing.assert_allclose(h[0][1], 2 * np.outer(y, x) + 2 * (x @ y) * np.eye(3), rtol=1e-12)
    np.testing.assert_allclose(h[1][0], h[0][1].T, rtol=1e-12)


def test_hessian_vector_product_by_hand():
    found = sg.hessian_vector_product(quartic)(X, V)
    np.testing.assert_allclose(found, QUARTIC_HESSIAN @ V, rtol=1e-12)


def test_hessian_vector_product_of_several_arguments():
    """f = (x·y)², vector (u, w): x part is 2 y (y·u) + (2 y xᵀ + 2 (x·y) I) w."""
    x, y, u, w = X, V, V[::-1].copy(), X[::-1].copy()
    found = sg.hessian_vector_product(lambda x, y: (x * y).sum() ** 2, (0, 1))(x, y, (u, w))
    expected = 2 * y * (y @ u) + 2 * y * (x @ w) + 2 * (x @ y) * w
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)


def test_jvp_by_hand():
    value, derivative = sg.jvp(affine_tanh, X, V)
    np.testing.assert_array_equal(value, np.tanh(A @ X))
    np.testing.assert_allclose(derivative, AFFINE_TANH_JACOBIAN @ V, rtol=1e-12)


def test_jvp_of_several_arguments():
    _, derivative = sg.jvp(lambda x, y: x * y, (X, V), (V, X))
    np.testing.assert_allclose(derivative, V * V + X * X, rtol=1e-15)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x * 2.0, 2 * V),
        (lambda x: x, V),
        (lambda x: sg.tensor([1.0, 2.0, 3.0]), 0 * V),
    ],
    ids=["linear", "identity", "constant"],
)
def test_jvp_of_functions_whose_gradient_does_not_depend_on_the_point(function, expected):
    np.testing.assert_array_equal(sg.jvp(function, X, V)[1], expected)


def test_unused_arguments_and_constant_functions_give_zeros_of_the_right_shape():
    y = np.ones(2)
    h = sg.hessian(lambda x, y: (x * x).sum(), (0, 1))(X, y)
    assert [[block.shape for block in row] for row in h] == [[(3, 3), (3, 2)], [(2, 3), (2, 2)]]
    assert not h[0][1].any()
    assert not h[1][1].any()
    assert sg.jacobian(lambda x: sg.tensor([1.0, 2.0]))(X).tolist() == [[0.0] * 3] * 2
    assert sg.hessian(lambda x: (x * 2.0).sum())(X).tolist() == [[0.0] * 3] * 3
    product = sg.hessian_vector_product(lambda x: sg.tensor(1.0))(X, V)
    assert product.tolist() == [0.0] * 3


def test_create_graph_makes_each_of_them_differentiable():
    """Of Σx³: the Hessian is diag(6x), so the Jacobian of its diagonal sum is 6 everywhere."""

    def cubes(x):
        return (x * x * x).sum()

    third = sg.jacobian(lambda x: sg.hessian(cubes, create_graph=True)(x))(X)
    expected = np.zeros((3, 3, 3))
    expected[range(3), range(3), range(3)] = 6.0
    np.testing.assert_allclose(third, expected, rtol=1e-12)

    along = sg.jacobian(lambda x: sg.hessian_vector_product(cubes, create_graph=True)(x, V))(X)
    np.testing.assert_allclose(along, np.diag(6 * V), rtol=1e-12)
    slope = sg.jacobian(lambda x: sg.jvp(lambda z: z * z, x, V, create_graph=True)[1])(X)
    np.testing.assert_allclose(slope, np.diag(2 * V), rtol=1e-12)


def test_gradients_of_gradients_by_grad():
    """x⁴ at 2: 32, 48, 48, 24."""
    x = leaf(2.0)
    value, found = x * x * x * x, []
    for order in range(4):
        (value,) = sg.grad(value, x, create_graph=order < 3)
        found.append(float(value.item() if order < 3 else value))
    assert found == [32.0, 48.0, 48.0, 24.0]


def test_an_inner_gradient_does_not_see_the_outer_variable():
    """d/dx of x · d/dy(x + y) at y = x is 1: the inner derivative is 1, not 2."""

    def outer(x):
        _, inner = sg.value_and_grad(lambda y: (x + y).sum(), create_graph=True)(x)
        return x * inner

    assert float(sg.value_and_grad(outer)(3.0)[1]) == 1.0


def test_one_tensor_for_two_arguments_gives_partial_derivatives():
    """a b with both x: by the first it is x, not 2x."""
    x = leaf(3.0)
    _, (by_a, by_b) = sg.value_and_grad(lambda a, b: a * b, (0, 1))(x, x)
    assert (float(by_a), float(by_b)) == (3.0, 3.0)
    assert float(sg.jacobian(lambda a, b: a * b)(x, x)) == 3.0
    y = x * 2.0
    by_a, by_b = sg.jacobian(lambda a, b: a * b, (0, 1), create_graph=True)(x, y)
    assert (by_a.item(), by_b.item()) == (6.0, 3.0)


def test_recording_is_on_inside_whatever_the_caller_chose():
    with sg.no_grad():
        np.testing.assert_allclose(sg.hessian(quartic)(X), QUARTIC_HESSIAN, rtol=1e-12)
        assert not sg.is_recording()


def test_custom_operations_take_part():
    np.testing.assert_allclose(
        sg.hessian(lambda x: Cube.apply(x).sum())(X), np.diag(6 * X), rtol=1e-12
    )


def test_float32_stays_float32():
    x = X.astype(np.float32)
    assert sg.hessian(quartic)(x).dtype == np.float32
    assert sg.jvp(quartic, x, V)[1].dtype == np.float32
    assert sg.hessian_vector_product(quartic)(x, V).dtype == np.float32


@pytest.mark.parametrize("make", [sg.jacobian, sg.hessian])
def test_a_function_that_returns_no_tensor_is_refused(make):
    with pytest.raises(sg.TensorTypeError, match=f"{make.__name__} needs a function"):
        make(lambda x: 1.0)(X)


def test_a_hessian_needs_one_value():
    for make in (sg.hessian, lambda f: lambda x: sg.hessian_vector_product(f)(x, V)):
        with pytest.raises(sg.GradientError, match=r"shape \(4,\)"):
            make(affine_tanh)(X)


def test_directions_of_the_wrong_shape_or_number_are_refused():
    with pytest.raises(sg.GradientError, match="a tangent has shape"):
        sg.jvp(affine_tanh, X, np.ones(2))
    with pytest.raises(sg.GradientError, match="2 tangents for 1"):
        sg.jvp(affine_tanh, (X,), (V, V))
    with pytest.raises(sg.GradientError, match="a vector has shape"):
        sg.hessian_vector_product(quartic)(X, np.ones(2))


def test_complex_functions_are_refused_with_the_way_out():
    with pytest.raises(sg.DtypeError, match="real and imaginary parts"):
        sg.jacobian(lambda z: z * z)(np.array([1j]))


def test_a_rule_that_allows_one_order_only_is_refused_by_name():
    class Once(sg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        @sg.once_differentiable
        def backward(ctx, g):
            return g * 2.0

    with pytest.raises(sg.HigherOrderError, match="Once"):
        sg.jvp(lambda x: Once.apply(x), X, V)


def test_they_leave_nothing_behind(baseline):
    sg.hessian(quartic)(X)
    sg.jacobian(affine_tanh)(X)
    sg.jvp(affine_tanh, X, V)
    sg.hessian_vector_product(quartic)(X, V)
    assert sg.memory_report().nodes == baseline.nodes


def test_threads_take_hessians_of_one_function_at_once(baseline, busy_switching):
    expected = sg.hessian(quartic)(X).tobytes()

    def worker(index):
        for _ in range(10):
            assert sg.hessian(quartic)(X).tobytes() == expected

    repeat(worker, 4)
