"""Every error has a name of its own and says what was given, what was expected and the fix."""

import numpy as np
import pytest

import sweepgrad as sg


def leaf(*values):
    return sg.tensor(np.array(values, float), requires_grad=True)


def consumed():
    y = leaf(1.0) * 2.0
    y.backward([1.0])
    return y


def result():
    return leaf(1.0, 2.0) * 2.0


def stepped_by_an_operator():
    w = leaf(1.0, 2.0)
    w -= 0.1 * (w * w).sum().backward()[w]
    return (w * w).sum().backward()[w]


#: Name of the mistake: what makes it, the error, the builtin it also is, words of the message.
MISTAKES = {
    "a parameter stepped by an operator": (
        stepped_by_an_operator,
        sg.NoGradientError,
        KeyError,
        ["(2,)", "result of an operation", "retain_grad()", "w.update("],
    ),
    "an unknown dtype": (
        lambda: sg.tensor([1.0], dtype="nonsense"),
        sg.DtypeError,
        TypeError,
        ["'nonsense'", "not a dtype", "np.float32"],
    ),
    "strings": (
        lambda: sg.tensor(["a"]),
        sg.DtypeError,
        TypeError,
        ["<U1", "numbers or booleans", "astype"],
    ),
    "strings to floats": (
        lambda: sg.tensor(["a"], dtype=float),
        sg.DtypeError,
        TypeError,
        ["float64", "'a'", "convert them first"],
    ),
    "objects": (
        lambda: sg.tensor([None]),
        sg.DtypeError,
        TypeError,
        ["object", "numbers or booleans", "convert"],
    ),
    "an integer leaf": (
        lambda: sg.tensor([1, 2], requires_grad=True),
        sg.DtypeError,
        TypeError,
        ["int64", "floating or complex", "dtype=np.float32"],
    ),
    "a boolean leaf on shared memory": (
        lambda: sg.from_numpy(np.array([True]), requires_grad=True),
        sg.DtypeError,
        TypeError,
        ["bool", "floating or complex", "dtype=np.float32"],
    ),
    "ragged rows": (
        lambda: sg.tensor([[1.0, 2.0], [3.0]]),
        sg.ShapeError,
        ValueError,
        ["unequal lengths", "same length"],
    ),
    "a list where memory is shared": (
        lambda: sg.from_numpy([1.0]),
        sg.TensorTypeError,
        TypeError,
        ["list", "ndarray", "sweepgrad.tensor"],
    ),
    "operands that do not broadcast": (
        lambda: leaf(1.0, 2.0) + leaf(1.0, 2.0, 3.0),
        sg.ShapeError,
        ValueError,
        ["add", "(2,)", "(3,)", "reshape"],
    ),
    "a loss that is no scalar": (
        lambda: result().backward(),
        sg.GradientError,
        ValueError,
        ["(2,)", "more than one element", ".sum()", "gradient="],
    ),
    "a gradient of another shape": (
        lambda: result().backward([1.0]),
        sg.GradientError,
        ValueError,
        ["(1,)", "(2,)", "must be the same"],
    ),
    "a complex gradient of a real tensor": (
        lambda: result().backward([1j, 1j]),
        sg.GradientError,
        ValueError,
        ["complex128", "float64", "convert it first"],
    ),
    "a gradient of strings": (
        lambda: result().backward(["a", "b"]),
        sg.GradientError,
        ValueError,
        ["<U1", "float64", "convert it first"],
    ),
    "a ragged gradient": (
        lambda: result().backward([[1.0], [1.0, 2.0]]),
        sg.GradientError,
        ValueError,
        ["no array", "shape and dtype"],
    ),
    "too many seeds": (
        lambda: sg.grad([result()], [leaf(1.0)], [[1.0, 1.0]] * 2),
        sg.GradientError,
        ValueError,
        ["2 gradients", "1 outputs", "one each"],
    ),
    "a backward of a constant": (
        lambda: sg.tensor([1.0]).backward(),
        sg.NotTrackedError,
        RuntimeError,
        ["backward", "(1,)", "requires_grad=True", "no_grad()"],
    ),
    "a gradient by a constant": (
        lambda: sg.grad(leaf(1.0) * 1.0, sg.tensor([1.0])),
        sg.NotTrackedError,
        RuntimeError,
        ["grad", "requires_grad=True"],
    ),
    "a second backward": (
        lambda: consumed().backward([1.0]),
        sg.GraphConsumedError,
        RuntimeError,
        ["earlier backward", "once", "retain_graph=True", ".detach()"],
    ),
    "a backward after an ancestor's": (
        lambda: (consumed() * 3.0).backward([1.0]),
        sg.GraphConsumedError,
        RuntimeError,
        ["ancestors", "retain_graph=True"],
    ),
    "an input that is not used": (
        lambda: sg.grad(leaf(1.0) * 1.0, leaf(1.0)),
        sg.NoGradientError,
        KeyError,
        ["(1,)", "do not depend", "allow_unused=True"],
    ),
    "a gradient looked up by a constant": (
        lambda: (leaf(1.0) * 1.0).backward()[sg.tensor([1.0])],
        sg.NoGradientError,
        KeyError,
        ["(1,)", "untracked", "requires_grad=True"],
    ),
    "a gradient looked up by a stranger": (
        lambda: (leaf(1.0) * 1.0).backward()[leaf(1.0)],
        sg.NoGradientError,
        KeyError,
        ["(1,)", "does not depend"],
    ),
    "a gradient looked up by an array": (
        lambda: (leaf(1.0) * 1.0).backward()[np.ones(1)],
        sg.TensorTypeError,
        TypeError,
        ["by tensor", "ndarray"],
    ),
    "replacing a result": (
        lambda: result().assign([1.0, 2.0]),
        sg.TensorTypeError,
        TypeError,
        ["assign()", "(2,)", "result of an operation", "new tensor"],
    ),
    "updating a result": (
        lambda: result().update(lambda a: a),
        sg.TensorTypeError,
        TypeError,
        ["update()", "(2,)", "result of an operation", "new tensor"],
    ),
    "a parameter of another shape": (
        lambda: leaf(1.0).assign([1.0, 2.0]),
        sg.ShapeError,
        ValueError,
        ["(2,)", "(1,)", "reshape"],
    ),
    "a parameter of strings": (
        lambda: leaf(1.0).assign(["a"]),
        sg.DtypeError,
        TypeError,
        ["assign()", "float64", "convert"],
    ),
    "a function that returns no tensor": (
        lambda: sg.value_and_grad(lambda x: 1.0)(2.0),
        sg.TensorTypeError,
        TypeError,
        ["returns a Tensor", "float"],
    ),
    "item of several elements": (
        lambda: leaf(1.0, 2.0).item(),
        sg.TensorTypeError,
        TypeError,
        ["(2,)", "one element", "index it"],
    ),
    "truth of several elements": (
        lambda: bool(leaf(1.0, 2.0)),
        sg.TensorTypeError,
        TypeError,
        ["(2,)", "ambiguous", ".any()"],
    ),
    "a tensor made by its class": (
        lambda: sg.Tensor([1.0]),
        sg.TensorTypeError,
        TypeError,
        ["sweepgrad.tensor", "from_numpy"],
    ),
    "a ragged operand": (
        lambda: sg.add(leaf(1.0), [[1.0], [1.0, 2.0]]),
        sg.ShapeError,
        ValueError,
        ["unequal lengths", "same length"],
    ),
    "tensors of two runtimes": (
        lambda: leaf(1.0) * sg.GraphRuntime().tensor([1.0], requires_grad=True),
        sg.RuntimeMismatchError,
        ValueError,
        ["two runtimes", "'default'", ".detach()"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_has_a_named_error_that_says_how_to_fix_it(mistake):
    make, error, builtin, words = MISTAKES[mistake]
    with pytest.raises(error) as caught:
        make()
    assert isinstance(caught.value, sg.SweepgradError)
    assert isinstance(caught.value, builtin), "code written against NumPy's errors keeps working"
    message = str(caught.value)
    for word in words:
        assert word in message


@pytest.mark.parametrize("mistake", [m for m in MISTAKES if "gradient" in m or "loss" in m])
def test_a_refused_backward_consumed_nothing(mistake):
    x = leaf(1.0, 2.0)
    y = x * 3.0
    for wrong in ([1.0], [1j, 1j], ["a", "b"], [[1.0], [1.0, 2.0]], None):
        with pytest.raises(sg.GradientError):
            y.backward(wrong)
    assert y.backward([1.0, 1.0])[x].tolist() == [3.0, 3.0]


def test_a_failed_assign_changes_nothing():
    w = leaf(1.0)
    for wrong in (["a"], [1.0, 2.0], [[1.0], [2.0, 3.0]]):
        with pytest.raises(sg.SweepgradError):
            w.assign(wrong)
    assert w.tolist() == [1.0]
