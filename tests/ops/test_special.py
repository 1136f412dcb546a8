"""Special functions and activations against known values and the C library."""

import math

import numpy as np
import pytest
from finite_differences import check_gradients

import sweepgrad as sg
from sweepgrad.ops import special

EULER = 0.57721566490153286060651209
ZETA3 = 1.20205690315959428539973816


@pytest.fixture(params=["own", "as installed"])
def source(request, monkeypatch):
    """With our own fallbacks, and with SciPy where it is installed."""
    if request.param == "own":
        monkeypatch.setattr(special, "_found", {"special": None})


def of(function, *values):
    return function(sg.tensor(values[0] if len(values) == 1 else values)).numpy()


@pytest.mark.usefixtures("source")
def test_error_functions_are_those_of_the_c_library():
    x = np.concatenate([np.linspace(-7, 30, 200), [1e-300, -0.0, 1e3, math.inf, -math.inf]])
    np.testing.assert_allclose(sg.erf(sg.tensor(x)).numpy(), [math.erf(v) for v in x], rtol=1e-14)
    np.testing.assert_allclose(
        sg.erfc(sg.tensor(x)).numpy(), [math.erfc(v) for v in x], rtol=1e-13, atol=1e-300
    )
    assert np.isnan(of(sg.erf, math.nan))


@pytest.mark.usefixtures("source")
def test_gammaln_is_that_of_the_c_library_and_inf_at_the_poles():
    x = np.concatenate([np.linspace(0.01, 40, 200), [-0.5, -2.5, 1e10, 1e300]])
    np.testing.assert_allclose(
        sg.gammaln(sg.tensor(x)).numpy(), [math.lgamma(v) for v in x], rtol=1e-13, atol=1e-14
    )
    np.testing.assert_array_equal(of(sg.gammaln, 0.0, -1.0, -7.0), [math.inf] * 3)


@pytest.mark.usefixtures("source")
def test_digamma_at_known_points():
    third = math.pi / (2 * math.sqrt(3))
    expected = {
        1.0: -EULER,
        2.0: 1 - EULER,
        0.5: -EULER - 2 * math.log(2),
        1 / 3: -EULER - third - 1.5 * math.log(3),
        0.25: -EULER - math.pi / 2 - 3 * math.log(2),
        10.0: sum(1 / k for k in range(1, 10)) - EULER,
        100.0: sum(1 / k for k in range(1, 100)) - EULER,
        -0.5: 2 - EULER - 2 * math.log(2),
        -1.5: 2 + 2 / 3 - EULER - 2 * math.log(2),
    }
    np.testing.assert_allclose(
        sg.digamma(sg.tensor(list(expected))).numpy(), list(expected.values()), rtol=1e-13
    )
    assert np.isnan(of(sg.digamma, -3.0))


@pytest.mark.usefixtures("source")
def test_polygamma_at_known_points():
    np.testing.assert_allclose(
        sg.polygamma(1, sg.tensor([1.0, 0.5, 2.0])).numpy(),
        [math.pi**2 / 6, math.pi**2 / 2, math.pi**2 / 6 - 1],
        rtol=1e-13,
    )
    np.testing.assert_allclose(
        sg.polygamma(2, sg.tensor([1.0, 0.5])).numpy(), [-2 * ZETA3, -14 * ZETA3], rtol=1e-13
    )
    np.testing.assert_allclose(
        sg.polygamma(3, sg.tensor([1.0])).numpy(), [math.pi**4 / 15], rtol=1e-13
    )
    np.testing.assert_allclose(of(lambda x: sg.polygamma(0, x), 1.0), -EULER, rtol=1e-13)
    with pytest.raises(sg.SettingError, match="polygamma"):
        sg.polygamma(-1, sg.tensor([1.0]))


@pytest.mark.usefixtures("source")
def test_gradients_of_gamma_functions_match_differences_to_second_order():
    x = np.array([0.6, 1.7, 3.9, -0.4, 20.0])
    check_gradients(sg.gammaln, x, rtol=1e-6)
    check_gradients(sg.digamma, x, rtol=1e-6)
    check_gradients(lambda t: sg.polygamma(1, t), x, rtol=1e-6)


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("name", ["erf", "erfc", "gammaln", "digamma"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_special_functions_keep_the_dtype_and_are_silent_far_out(name, dtype):
    leaf = sg.tensor([-1e3, -2.5, 0.0, 0.5, 1e3], dtype=dtype, requires_grad=True)
    out = getattr(sg, name)(leaf)
    assert out.dtype == dtype
    assert out.sum().backward()[leaf].dtype == dtype


def test_integers_are_taken_as_float64():
    for name in ("erf", "gammaln", "digamma"):
        assert getattr(sg, name)(sg.tensor([1, 2])).dtype == np.float64


# --- activations --------------------------------------------------------------------------

POINTS = [-3.0, -0.5, 0.0, 0.5, 3.0]


@pytest.mark.parametrize(
    ("function", "formula"),
    [
        (sg.sigmoid, lambda x: 1 / (1 + math.exp(-x))),
        (sg.expit, lambda x: 1 / (1 + math.exp(-x))),
        (sg.softplus, lambda x: math.log(1 + math.exp(x))),
        (sg.log_sigmoid, lambda x: -math.log(1 + math.exp(-x))),
        (sg.silu, lambda x: x / (1 + math.exp(-x))),
        (sg.relu, lambda x: x if x > 0 else 0.0),
        (sg.leaky_relu, lambda x: x if x > 0 else 0.01 * x),
        (lambda x: sg.leaky_relu(x, 0.2), lambda x: x if x > 0 else 0.2 * x),
        (sg.elu, lambda x: x if x > 0 else math.exp(x) - 1),
        (lambda x: sg.elu(x, 2.0), lambda x: x if x > 0 else 2 * (math.exp(x) - 1)),
        (sg.gelu, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
        (
            lambda x: sg.gelu(x, approximate="tanh"),
            lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ),
    ],
    ids=[
        "sigmoid",
        "expit",
        "softplus",
        "log_sigmoid",
        "silu",
        "relu",
        "leaky_relu",
        "leaky_relu_slope",
        "elu",
        "elu_alpha",
        "gelu",
        "gelu_tanh",
    ],
)
def test_activations_by_their_formulas(function, formula):
    got = function(sg.tensor(POINTS)).numpy()
    np.testing.assert_allclose(got, [formula(x) for x in POINTS], rtol=1e-14, atol=1e-16)


def test_parameters_of_activations_enter_the_gradient():
    x = np.array([-1.5, -0.3, 0.4, 2.0])
    for function in (
        lambda t: sg.leaky_relu(t, 0.3),
        lambda t: sg.elu(t, 1.7),
        lambda t: sg.gelu(t, "tanh"),
    ):
        check_gradients(function, x)
    with pytest.raises(sg.SettingError, match="approximate"):
        sg.gelu(sg.tensor(x), "fast")


def test_activations_at_zero():
    def slope(function):
        leaf = sg.tensor([0.0], requires_grad=True)
        return function(leaf).backward([1.0])[leaf]

    assert slope(sg.relu) == [0.0]
    assert slope(sg.leaky_relu) == [0.01]
    assert slope(lambda x: sg.elu(x, 2.0)) == [2.0]


def test_logit_inverts_sigmoid_without_cancelling_in_the_middle():
    tiny = 2.0**-40
    np.testing.assert_allclose(of(sg.logit, 0.5 + tiny), 4 * tiny, rtol=1e-15)
    np.testing.assert_allclose(of(sg.logit, 0.75, 0.25), [math.log(3), -math.log(3)], rtol=1e-15)
    np.testing.assert_array_equal(of(sg.logit, 0.0, 1.0), [-math.inf, math.inf])
    x = np.linspace(-20, 20, 9)
    np.testing.assert_allclose(sg.logit(sg.sigmoid(sg.tensor(x))).numpy(), x, rtol=1e-7, atol=1e-9)


def test_slopes_are_right_where_cubes_and_squares_overflow():
    for function in (sg.gelu, lambda t: sg.gelu(t, "tanh"), sg.silu, sg.softplus, sg.elu, sg.relu):
        leaf = sg.tensor([-1e30, 1e30], dtype=np.float32, requires_grad=True)
        out = function(leaf)
        assert np.isfinite(out.numpy()).all()
        np.testing.assert_array_equal(out.sum().backward()[leaf], [0, 1])


def test_second_derivatives_far_out_are_finite():
    for function in (sg.gelu, lambda t: sg.gelu(t, "tanh"), sg.silu, sg.softplus, sg.elu):
        leaf = sg.tensor([-1e3, 1e3], dtype=np.float32, requires_grad=True)
        (slope,) = sg.grad(function(leaf).sum(), leaf, create_graph=True)
        np.testing.assert_array_equal(sg.grad(slope.sum(), leaf)[0], [0, 0])
