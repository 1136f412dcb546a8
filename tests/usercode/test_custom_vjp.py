"""custom_vjp: a function with its rule."""

import functools

import numpy as np
import pytest
from custom_operations import leaf

import sweepgrad as sg


def make_softplus():
    """log(1 + eˣ) with its rule σ(x), without overflow on either side."""

    @sg.custom_vjp
    def softplus(x):
        return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0.0)

    def forward(x):
        return softplus(x), x

    def backward(x, g):
        return (g / (1.0 + np.exp(-x)),)

    softplus.defvjp(forward, backward)
    return softplus


def test_the_rule_gives_the_gradient_where_an_argument_is_tracked():
    softplus = make_softplus()
    x = leaf([0.0, 800.0])
    with np.errstate(over="ignore"):
        grads = softplus(x).sum().backward()
    assert grads[x].tolist() == [0.5, 1.0]


def test_one_rule_serves_two_orders():
    """σ'(x) = σ(x)(1 - σ(x)) = 1/4 at 0."""
    x = leaf(0.0)
    (first,) = sg.grad(make_softplus()(x), x, create_graph=True)
    assert float(first.backward()[x]) == 0.25


def test_without_a_tracked_argument_the_function_itself_runs():
    runs = []

    @sg.custom_vjp
    def double(x):
        runs.append("function")
        return x * 2.0

    def forward(x):
        runs.append("forward")
        return x * 2.0, None

    double.defvjp(forward, lambda needs, g: (g * 2.0,))
    assert double(sg.tensor(2.0)).item() == 4.0
    x = leaf(2.0)
    assert float(double(x).backward()[x]) == 2.0
    assert runs == ["function", "forward"]


def test_what_the_rule_needs_may_be_nested():
    @sg.custom_vjp
    def product(x, y):
        return x * y

    product.defvjp(
        lambda x, y: (x * y, {"first": x, "rest": [y, ("name", 3)]}),
        lambda needs, g: (g * needs["rest"][0], g * needs["first"]),
    )
    x, y = leaf(2.0), leaf(5.0)
    gx, gy = sg.grad(product(x, y), [x, y], create_graph=True)
    assert (gx.item(), gy.item()) == (5.0, 2.0)
    assert float(gx.backward()[y]) == 1.0


def test_arrays_among_what_the_rule_needs_come_back_as_arrays():
    seen = []

    @sg.custom_vjp
    def masked(x):
        return np.where(x.numpy() > 0, x, 0.0)

    def backward(mask, g):
        seen.append(type(mask))
        return (g * mask,)

    masked.defvjp(lambda x: (masked(x), (x.numpy() > 0).astype(float)), backward)
    x = leaf([-1.0, 2.0])
    assert masked(x).sum().backward()[x].tolist() == [0.0, 1.0]
    assert seen == [np.ndarray]


def test_several_results_get_their_gradients_as_a_tuple():
    @sg.custom_vjp
    def both(x):
        return x * 2.0, x * 3.0

    both.defvjp(lambda x: (both(x), None), lambda needs, gs: (gs[0] * 2.0 + gs[1] * 3.0,))
    x = leaf(1.0)
    one, two = both(x)
    assert float((one * 10.0 + two).backward()[x]) == 23.0


def test_keyword_arguments_find_their_places():
    @sg.custom_vjp
    def scaled(x, factor=2.0):
        return x * factor

    scaled.defvjp(lambda x, factor: (x * factor, factor), lambda factor, g: (g * factor, None))
    x = leaf(1.0)
    assert float(scaled(factor=7.0, x=x).backward()[x]) == 7.0
    assert float(scaled(x=x).backward()[x]) == 2.0


def test_nondiff_argnums_come_first_in_the_rule_and_get_no_gradient():
    @functools.partial(sg.custom_vjp, nondiff_argnums=(0, 2))
    def apply(f, x, times):
        return f(x) * times

    apply.defvjp(
        lambda f, x, times: (f(x) * times, None),
        lambda f, times, needs, g: (g * f(1.0) * times,),
    )
    x = leaf(3.0)
    assert float(apply(lambda v: v * 4.0, x, 5.0).backward()[x]) == 20.0


def test_a_tracked_tensor_for_a_nondiff_argument_is_refused():
    @functools.partial(sg.custom_vjp, nondiff_argnums=(1,))
    def scaled(x, factor):
        return x * factor

    scaled.defvjp(lambda x, f: (x * f, None), lambda f, needs, g: (g * f,))
    with pytest.raises(sg.TensorTypeError, match=r"argument 1 \('factor'\) of scaled"):
        scaled(leaf(1.0), leaf(2.0))


def test_a_wrong_number_of_gradients_names_the_function():
    @sg.custom_vjp
    def product(x, y):
        return x * y

    product.defvjp(lambda x, y: (x * y, (x, y)), lambda needs, g: (g * needs[1],))
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(sg.GradientError, match="product returned 1 gradients for 2 arguments"):
        product(x, y).backward()


def test_a_function_without_a_rule_says_so():
    @sg.custom_vjp
    def plain(x):
        return x

    with pytest.raises(sg.TensorTypeError, match="defvjp"):
        plain(leaf(1.0))


def test_a_forward_that_returns_no_pair_is_refused():
    @sg.custom_vjp
    def one(x):
        return x

    one.defvjp(lambda x: x * 1.0, lambda needs, g: (g,))
    with pytest.raises(sg.TensorTypeError, match="pair"):
        one(leaf(1.0))


def test_an_intermediate_among_what_the_rule_needs_is_refused_for_the_second_order():
    @sg.custom_vjp
    def square(x):
        return x * x

    square.defvjp(lambda x: (x * x, x * 2.0), lambda twice, g: (g * twice,))
    x = leaf(3.0)
    assert float(square(x).backward()[x]) == 6.0
    with pytest.raises(sg.HigherOrderError, match="square"):
        sg.grad(square(x), x, create_graph=True)


def test_it_keeps_the_functions_name_and_docstring():
    @sg.custom_vjp
    def named(x):
        """Its docstring."""

    assert (named.__name__, named.__doc__) == ("named", "Its docstring.")
