"""A gradient inside a gradient is right in every thread: there is no level to get wrong."""

import numpy as np
import pytest

import sweepgrad as sg
from support.threads import Gate, repeat, run_threads

pytestmark = pytest.mark.usefixtures("busy_switching")


def derivative(function):
    """The derivative of a function of one number, itself differentiable."""
    value_and_gradient = sg.value_and_grad(function, create_graph=True)
    return lambda x: value_and_gradient(x)[1]


def test_a_gradient_inside_a_gradient_while_another_thread_starts_and_ends_one(baseline):
    """d/dx x * (d/dz z*x^2 at 3) = d/dx x^3 = 12 at 2.  HIPS/autograd gives 4."""
    b_in, a_in, b_done = Gate(), Gate(), Gate()

    def fb(x):
        b_in.open()
        a_in.wait()
        return x * x

    def fa(x):
        y = x * x
        a_in.open()
        b_done.wait()
        return derivative(lambda z: z * y)(3.0) * x

    def a():
        b_in.wait()
        return derivative(fa)(2.0).item()

    def b():
        result = derivative(fb)(5.0).item()
        b_done.open()
        return result

    assert run_threads([a, b]) == [12.0, 10.0]


def test_nested_gradients_in_eight_threads(baseline):
    """d/dx x * (d/dy x*y^2 at 2) = d/dx 4x^2 = 8x."""

    def work(index):
        f = derivative(lambda x: x * derivative(lambda y: x * y * y)(2.0))
        return [f(float(index + round_)).item() for round_ in range(25)]

    for index, found in enumerate(repeat(work, 8, timeout=50)):
        assert found == [8.0 * (index + round_) for round_ in range(25)]


def test_third_derivatives_in_threads(baseline):
    def work(_):
        f = lambda x: x * x * x * x
        for _ in range(3):
            f = derivative(f)
        return [f(float(x)).item() for x in range(5)]

    for found in repeat(work, 4):
        assert found == [24.0 * x for x in range(5)]


def test_an_exception_inside_a_traced_function_leaks_nothing(baseline):
    def fail(x):
        y = x * x
        raise ValueError(y.item())

    def work(_):
        for _ in range(20):
            with pytest.raises(ValueError, match="9"):
                derivative(lambda x: derivative(fail)(x) * x)(3.0)
            assert derivative(lambda x: x * x)(3.0).item() == 6.0
        return True

    assert repeat(work, 4) == [True] * 4


def test_the_argument_and_what_the_function_closes_over_are_kept_apart(baseline):
    """value_and_grad(z -> z*x)(x): x in the closure is a constant of this derivative."""
    x = sg.tensor(3.0, requires_grad=True)
    value, gradient = sg.value_and_grad(lambda z: z * x)(x)
    assert (value, gradient) == (9.0, 3.0)
    y = x * x
    value, gradient = sg.value_and_grad(lambda z: z * z * y)(y)
    assert (value, gradient) == (729.0, 162.0)


def test_outer_gradients_flow_through_the_argument(baseline):
    """d/dx (d/dz z^2 x at z=x) = d/dx 2x^2 = 4x, and not 2x with x held still twice."""
    assert derivative(lambda x: derivative(lambda z: z * z * x)(x))(3.0).item() == 12.0
    x = sg.tensor(3.0, requires_grad=True)
    _, inner = sg.value_and_grad(lambda z: z * z * x, create_graph=True)(x)
    assert inner.backward()[x].item() == 12.0


def test_value_and_grad_on_arrays_lists_and_several_arguments(baseline):
    def f(a, b, scale=1.0):
        return (a * b).sum() * scale

    value, (ga, gb) = sg.value_and_grad(f, argnums=(0, 1))([1.0, 2.0], np.array([3, 4]), scale=2.0)
    assert value == 22.0
    assert ga.tolist() == [6.0, 8.0]
    assert gb.tolist() == [2.0, 4.0]
    value, gb = sg.value_and_grad(f, argnums=1)([1.0, 2.0], [3.0, 4.0])
    assert (value, gb.tolist()) == (11.0, [1.0, 2.0])


def test_an_argument_that_is_tracked_is_left_as_it_was(baseline):
    x = sg.tensor([3.0], requires_grad=True)
    y = x * 2.0
    sg.value_and_grad(lambda z: (z * z).sum())(y)
    assert y.backward([1.0])[x].tolist() == [2.0], "the inner gradient consumed its own part only"


def test_the_functional_form_inside_no_grad(baseline):
    with sg.no_grad(), pytest.raises(sg.NotTrackedError):
        sg.value_and_grad(lambda z: z * z)(3.0)
    x = sg.tensor(3.0, requires_grad=True)

    @sg.enable_grad()
    def square(z):
        return z * z

    with sg.no_grad():
        assert sg.value_and_grad(square)(x)[1] == 6.0
