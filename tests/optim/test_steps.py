"""What one thread's steps do, against values worked out by hand."""

import numpy as np
import pytest

import sweepgrad as sg
from sweepgrad.optim import SGD, Adam


def parameter(value=1.0, dtype=np.float64):
    return sg.tensor([value], dtype=dtype, requires_grad=True)


def steps(optimizer, p, *gradients):
    values = []
    for gradient in gradients:
        optimizer.step({p: np.array([gradient])})
        values.append(p.tolist()[0])
    return values


def test_plain_descent_subtracts_the_scaled_gradient():
    p = parameter()

    assert steps(SGD([p], 0.25), p, 1.0, 2.0, -4.0) == [0.75, 0.25, 1.25]


def test_momentum_adds_up_in_the_velocity():
    """v = 1, 1.5, 2.75 with half of it kept each time."""
    p = parameter()

    assert steps(SGD([p], 0.1, momentum=0.5), p, 1.0, 1.0, 2.0) == pytest.approx(
        [0.9, 0.75, 0.475], abs=1e-15
    )


def test_weight_decay_adds_the_parameter_to_its_gradient():
    """1 - 0.1 (1 + 0.1), then 0.89 - 0.1 (1 + 0.089)."""
    p = parameter()

    assert steps(SGD([p], 0.1, weight_decay=0.1), p, 1.0, 1.0) == pytest.approx([0.89, 0.7811])


def test_weight_decay_goes_through_the_velocity():
    """v = 1.1, then 0.55 + 1 + 0.089 = 1.639."""
    p = parameter()

    values = steps(SGD([p], 0.1, momentum=0.5, weight_decay=0.1), p, 1.0, 1.0)

    assert values == pytest.approx([0.89, 0.7261])


def test_adam_follows_its_algorithm():
    """First step: the sign of g times the rate, as m/(1-β1) = g and v/(1-β2) = g².

    Second, g = -1: m = 0.9·0.2 - 0.1 = 0.08, m̂ = 0.08/0.19; v = 0.999·0.004 + 0.001 = 0.004996,
    v̂ = 0.004996/0.001999; change = 0.1·0.42105263/1.58090155.
    """
    p = parameter()

    values = steps(Adam([p], 0.1), p, 2.0, -1.0)

    assert values == pytest.approx([0.9, 0.8733662962], abs=1e-8)


def test_adam_adds_weight_decay_to_the_gradient():
    """g + λp = 0 + 0.5·1 makes a whole step although the gradient is 0."""
    p = parameter()

    assert steps(Adam([p], 0.1, weight_decay=0.5), p, 0.0) == pytest.approx([0.9], abs=1e-8)


@pytest.mark.parametrize("make", [lambda p: SGD([p], 0.1, 0.9, 0.01), lambda p: Adam([p])])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_a_parameter_keeps_its_dtype(make, dtype):
    p = parameter(dtype=dtype)
    optimizer = make(p)

    for _ in range(3):
        optimizer.step({p: np.ones(1, dtype)})

    assert p.dtype == dtype


def test_a_parameter_without_a_gradient_stays_and_keeps_its_state():
    """Adam counts steps by parameter: the skipped one moves by a whole first step later."""
    p, q = parameter(), parameter()
    optimizer = Adam([p, q], 0.1)

    optimizer.step({p: np.ones(1)})
    assert q.tolist() == [1.0]

    optimizer.step({q: np.ones(1)})
    assert q.tolist() == pytest.approx([0.9], abs=1e-7)


def test_what_backward_returns_is_what_step_takes():
    p = parameter(3.0)

    SGD([p], 0.5).step((p * p).sum().backward())

    assert p.tolist() == [0.0]


def test_the_learning_rate_may_change_between_steps():
    p = parameter()
    optimizer = SGD([p], 1.0)
    optimizer.step({p: np.ones(1)})
    optimizer.learning_rate = 0.25

    assert steps(optimizer, p, 1.0) == [-0.25]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: SGD([], 0.1),
        lambda p: SGD([p, p], 0.1),
        lambda p: SGD([p], -0.1),
        lambda p: SGD([p], float("nan")),
        lambda p: SGD([p], 0.1, momentum=1.0),
        lambda p: SGD([p], 0.1, weight_decay=-1.0),
        lambda p: Adam([p], betas=(1.0, 0.9)),
        lambda p: Adam([p], epsilon=0.0),
        lambda p: Adam([p], weight_decay=float("inf")),
    ],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(sg.SettingError):
        make(parameter())


def test_only_leaves_are_optimized():
    p = parameter()
    with pytest.raises(sg.NotTrackedError):
        SGD([p.detach()], 0.1)
    with pytest.raises(sg.TensorTypeError, match="leaves"):
        SGD([p * 2.0], 0.1)


@pytest.mark.parametrize(
    ("gradient", "message"), [(np.ones(2), "shape"), (np.ones(1, complex), "dtype")]
)
def test_a_gradient_that_does_not_fit_is_refused_and_changes_nothing(gradient, message):
    p = parameter()

    with pytest.raises(sg.GradientError, match=message):
        SGD([p], 0.1).step({p: gradient})

    assert p.tolist() == [1.0]


@pytest.mark.parametrize("make", [SGD, Adam])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">f8", "<f2", "<c8"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0,)])
def test_a_step_keeps_the_shape_and_the_dtype_of_a_parameter(make, dtype, shape):
    """Also where NumPy gives a scalar, or bytes in the machine's own order."""
    p = sg.tensor(np.ones(shape, dtype), requires_grad=True)

    make([p], 0.25).step({p: np.ones(shape, dtype)})

    assert (p.shape, p.dtype) == (shape, np.dtype(dtype))
    np.testing.assert_allclose(p.numpy(), np.full(shape, 0.75), atol=1e-3)


def test_get_of_gradients_tells_no_gradient_from_no_tensor():
    p, other = parameter(), parameter()
    gradients = (p * 2.0).backward()

    assert gradients.get(p).tolist() == [2.0]
    assert gradients.get(other) is None
    assert gradients.get(sg.tensor([1.0]), 7) == 7
    with pytest.raises(sg.TensorTypeError, match="by tensor"):
        gradients.get("p")
