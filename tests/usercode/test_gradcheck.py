"""gradcheck and gradgradcheck find wrong rules and pass right ones."""

import numpy as np
import pytest
from custom_operations import Cube, ProductAndSum, leaf, ruled

import sweepgrad as sg

GENERATOR = np.random.default_rng(0)


def normal(*shape):
    return leaf(GENERATOR.normal(size=shape))


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (Cube.apply, (normal(2, 3),)),
        (ProductAndSum.apply, (normal(3), normal(3))),
        (lambda x, y: np.tanh(sg.matmul(x, y)), (normal(2, 3), normal(3, 2))),
        (lambda x: sg.checkpoint(Cube.apply, x), (normal(3),)),
        (lambda x, n: x**n, (leaf([1.5, 2.0]), 3)),
        (lambda x: x.sum(axis=0), (normal(2, 2),)),
    ],
    ids=["cube", "several results", "matmul", "checkpoint", "constant argument", "sum"],
)
def test_right_rules_pass_both(function, inputs):
    assert sg.gradcheck(function, inputs)
    assert sg.gradgradcheck(function, inputs)


def test_a_wrong_rule_is_found_and_its_worst_entry_named():
    """x² y with a rule that forgets one x in dy; the entry with the largest error is [1]."""

    class Wrong(sg.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * 2.0 * x * y, g * x

    with pytest.raises(sg.GradcheckError) as caught:
        sg.gradcheck(Wrong.apply, (leaf([2.0, 9.0]), leaf([1.0, 1.0])))
    text = str(caught.value)
    assert "result 0[1] by input 1[1] is 9 by the rules and 81" in text
    assert "2 of 8 entries disagree" in text


def test_false_is_returned_when_no_exception_is_wanted():
    wrong = ruled(lambda x, g: g * 2.0)
    assert sg.gradcheck(wrong.apply, leaf([1.0]), raise_exception=False) is False


@pytest.mark.parametrize("error", [1e-4, np.nan, np.inf])
def test_small_errors_and_nan_are_errors(error):
    wrong = ruled(lambda x, g: g * (1.0 + error))
    with pytest.raises(sg.GradcheckError):
        sg.gradcheck(wrong.apply, leaf([1.0]))


def test_a_missing_gradient_is_an_error():
    class Forgets(sg.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g, None

    with pytest.raises(sg.GradcheckError, match=r"by input 1\[0\] is 0 by the rules and 1"):
        sg.gradcheck(Forgets.apply, (leaf([1.0]), leaf([1.0])))


def test_a_rule_that_is_right_in_first_order_only_is_found_by_gradgradcheck():
    """The rule of x² treats its own 2x as a constant: right once, wrong twice."""
    wrong_twice = type(
        "WrongTwice",
        (sg.Function,),
        {
            "forward": staticmethod(lambda ctx, x: (ctx.save_for_backward(x), x * x)[1]),
            "backward": staticmethod(lambda ctx, g: g * 2.0 * ctx.saved_tensors[0].detach()),
        },
    )
    x = leaf([3.0])
    assert sg.gradcheck(wrong_twice.apply, x)
    with pytest.raises(sg.GradcheckError, match="is 0 by the rules and"):
        sg.gradgradcheck(wrong_twice.apply, x)


def test_the_complex_step_is_exact_to_rounding():
    """A relative error of 1e-11 in a rule is beyond central differences, not beyond this."""

    def function(x):
        return np.exp(x) * x

    exact = {"method": "complex", "rtol": 1e-13, "atol": 1e-14}
    x = leaf([0.3, -1.2])
    assert sg.gradcheck(function, x, **exact)
    slightly = ruled(lambda x, g: g * (1.0 + 1e-11))
    assert sg.gradcheck(slightly.apply, x)
    with pytest.raises(sg.GradcheckError, match="the complex step"):
        sg.gradcheck(slightly.apply, x, **exact)


def test_the_complex_step_says_where_it_does_not_apply():
    with pytest.raises(sg.DtypeError, match="complex step does not apply"):
        sg.gradcheck(lambda x: np.abs(x), leaf([1.0]), method="complex")
    with pytest.raises(sg.DtypeError, match="'complex'"):
        sg.gradcheck(lambda x: x * x, sg.tensor([1j], requires_grad=True), method="complex")


def test_complex_arguments_follow_the_convention():
    """d|z|²: (2x, 2y) is 2x - 2iy, and holomorphic functions have their own derivative."""
    z = sg.tensor(GENERATOR.normal(size=2) + 1j * GENERATOR.normal(size=2), requires_grad=True)
    assert sg.gradcheck(lambda z: z * z * np.exp(z), z)
    assert sg.gradgradcheck(lambda z: z * z * np.exp(z), z)
    assert sg.gradcheck(lambda z: np.real(z * np.conjugate(z)), z)
    conjugated = ruled(lambda z, g: np.conjugate(g))
    with pytest.raises(sg.GradcheckError):
        sg.gradcheck(conjugated.apply, z)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_coarse_dtypes_are_refused(dtype):
    with pytest.raises(sg.DtypeError, match=np.dtype(dtype).name):
        sg.gradcheck(lambda x: x * x, leaf([1.0], dtype))


def test_untracked_inputs_or_results_leave_nothing_to_check():
    with pytest.raises(sg.NotTrackedError, match="among the inputs"):
        sg.gradcheck(lambda x: x * x, sg.tensor([1.0]))
    with pytest.raises(sg.NotTrackedError, match="no tracked result"):
        sg.gradcheck(lambda x: x.detach(), leaf([1.0]))


def test_a_function_that_draws_anew_each_time_is_named_as_the_cause():
    generator = np.random.default_rng(0)
    with pytest.raises(sg.GradcheckError, match="called twice"):
        sg.gradcheck(lambda x: x * generator.random(3), normal(3))


def test_results_that_are_no_tensors_are_refused():
    with pytest.raises(sg.TensorTypeError, match="float"):
        sg.gradcheck(lambda x: 1.0, leaf([1.0]))


def test_empty_and_axisless_inputs_are_checked():
    assert sg.gradcheck(lambda x, y: x.sum() * y, (leaf(np.ones((0, 2))), leaf(2.0)))
    assert sg.gradgradcheck(lambda y: y * y, leaf(2.0))


def test_given_output_gradients_are_used():
    assert sg.gradgradcheck(lambda x: x * x, leaf([1.0, 2.0]), np.array([0.5, -3.0]))


def test_the_checked_tensors_are_left_as_they_were(baseline):
    x = leaf([1.0, 2.0])
    sg.gradcheck(Cube.apply, x)
    sg.gradgradcheck(Cube.apply, x)
    assert x.numpy().tolist() == [1.0, 2.0]
    assert sg.memory_report().nodes == baseline.nodes
    del x
