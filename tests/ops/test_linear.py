"""linear is x @ weight + bias, whatever is tracked, in value and in every gradient."""

import itertools

import numpy as np
import pytest

import sweepgrad as sg

SHAPES = [((4, 3), 2), ((3,), 2), ((2, 5, 3), 4), ((0, 3), 2), ((1, 3), 1)]
TRACKED = [choice for choice in itertools.product([False, True], repeat=3) if any(choice)]


def operands(shape, outputs, tracked, dtypes=(np.float64,) * 3):
    rng = np.random.default_rng(1)
    values = [rng.normal(size=s) for s in (shape, (shape[-1], outputs), (outputs,))]
    return [
        sg.tensor(value.astype(dtype), requires_grad=flag)
        for value, dtype, flag in zip(values, dtypes, tracked, strict=True)
    ]


@pytest.mark.parametrize("tracked", TRACKED)
@pytest.mark.parametrize(("shape", "outputs"), SHAPES)
def test_value_and_gradients_are_those_of_the_two_operations(shape, outputs, tracked):
    one, two = operands(shape, outputs, tracked), operands(shape, outputs, tracked)
    fused, apart = sg.linear(*one), two[0] @ two[1] + two[2]
    seed = np.random.default_rng(2).normal(size=fused.shape)
    np.testing.assert_allclose(fused.numpy(), apart.numpy())
    of_one, of_two = fused.backward(seed), apart.backward(seed)

    for a, b, flag in zip(one, two, tracked, strict=True):
        if flag:
            assert of_one[a].shape == a.shape
            np.testing.assert_allclose(of_one[a], of_two[b], atol=1e-12)


@pytest.mark.parametrize(("shape", "outputs"), SHAPES)
def test_first_and_second_order_agree_with_finite_differences(shape, outputs):
    inputs = operands(shape, outputs, (True,) * 3)
    assert sg.gradcheck(sg.linear, inputs)
    assert sg.gradgradcheck(sg.linear, inputs)


@pytest.mark.parametrize("kinds", [("f4", "f8", "f4"), ("f4", "f4", "f8"), ("f4", "f4", "f4")])
def test_dtypes_promote_and_gradients_keep_their_operands(kinds):
    dtypes = [np.dtype(kind) for kind in kinds]
    inputs = operands((4, 3), 2, (True,) * 3, dtypes)
    result = sg.linear(*inputs)
    gradients = result.sum().backward()

    assert result.dtype == np.result_type(*dtypes)
    assert [gradients[t].dtype for t in inputs] == dtypes


def test_one_node_is_recorded_also_under_a_hidden_layer():
    runtime = sg.GraphRuntime()
    x, weight, bias = (runtime.tensor(t, requires_grad=True) for t in ([[1.0]], [[2.0]], [3.0]))
    first = sg.linear(x, weight, bias)
    second = sg.linear(first, weight, bias)

    assert runtime.memory_report().nodes == 2
    gradients = second.backward([[1.0]])
    # y = (x w + b) w + b at x = 1, w = 2, b = 3: dy/dw = x w + (x w + b), dy/db = w + 1
    assert [gradients[t].item() for t in (x, weight, bias)] == [4.0, 7.0, 3.0]


def test_leaves_of_two_runtimes_are_refused():
    other = sg.GraphRuntime()
    x, weight = sg.tensor([[1.0]], requires_grad=True), sg.tensor([[1.0]], requires_grad=True)
    bias = other.tensor([1.0], requires_grad=True)
    for hidden in (x, x * 2.0):
        with pytest.raises(sg.RuntimeMismatchError):
            sg.linear(hidden, weight, bias)


@pytest.mark.parametrize(
    "shapes",
    [((2, 3), (2, 4), (4,)), ((2, 3), (3, 4), (3,)), ((2, 3), (3,), (1,)), ((), (3, 4), (4,))],
)
def test_shapes_that_do_not_match_are_named(shapes):
    x, weight, bias = (sg.tensor(np.ones(shape), requires_grad=True) for shape in shapes)
    with pytest.raises(sg.ShapeError, match=r"linear got x of shape"):
        sg.linear(x, weight, bias)


@pytest.mark.parametrize(
    ("x", "weight", "bias"),
    [
        ((2, 3), (3, 3, 4), (3, 4)),  # a product over the second axis from the end would exist
        ((2, 3), (4, 2), (2,)),
        ((2, 3), (3, 2), (3,)),
        ((2, 3), (3, 2), (1, 2)),
        ((2, 3), (3,), ()),
        ((), (3, 2), (2,)),
    ],
)
@pytest.mark.parametrize("tracked", [False, True])
def test_shapes_that_do_not_fit_are_refused_and_named(x, weight, bias, tracked):
    tensors = [sg.tensor(np.ones(shape), requires_grad=tracked) for shape in (x, weight, bias)]
    with pytest.raises(sg.ShapeError) as refused:
        sg.linear(*tensors)
    for shape in (x, weight, bias):
        assert str(shape) in str(refused.value)
