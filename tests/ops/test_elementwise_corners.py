"""Corners of the elementwise operations: the convention chosen for each, as literal values.

Warnings are errors in this suite, so every test here also says that the corner
is silent in backward.  Where NumPy itself warns in the forward, the test says so.
"""

import math

import numpy as np
import pytest

import sweepgrad as sg

INF, NAN = math.inf, math.nan


def gradient(function, *values, dtype=np.float64):
    """Gradients of the sum of function(*leaves), one array each (or one alone)."""
    leaves = [sg.tensor(value, dtype=dtype, requires_grad=True) for value in values]
    out = function(*leaves)
    gradients = out.backward(np.ones(out.shape, out.dtype))
    results = [gradients[leaf] for leaf in leaves]
    return results if len(results) > 1 else results[0]


def numpy_warns():
    """NumPy gives its own floating-point warnings in the forward, as on arrays."""
    return np.errstate(all="ignore")


# --- one operand --------------------------------------------------------------------------


def test_the_gradient_of_abs_is_the_sign_and_0_at_0():
    np.testing.assert_array_equal(gradient(np.abs, [-2.0, -0.0, 0.0, 3.0]), [-1, 0, 0, 1])
    np.testing.assert_array_equal(gradient(np.fabs, [-2.0, 0.0, 3.0]), [-1, 0, 1])
    np.testing.assert_array_equal(gradient(abs, [-2.0, 0.0, 3.0]), [-1, 0, 1])


def test_the_gradient_of_sqrt_and_cbrt_at_0_is_inf():
    np.testing.assert_array_equal(gradient(np.sqrt, [0.0, 4.0]), [INF, 0.25])
    np.testing.assert_array_equal(gradient(np.cbrt, [0.0, 8.0]), [INF, 1 / 12])


def test_the_gradient_of_log_at_0_is_inf():
    with numpy_warns():
        np.testing.assert_array_equal(gradient(np.log, [0.0, 2.0]), [INF, 0.5])
        np.testing.assert_array_equal(gradient(np.log1p, [-1.0, 1.0]), [INF, 0.5])


@pytest.mark.parametrize(
    "function",
    [np.sign, np.floor, np.ceil, np.trunc, np.rint, np.round, np.fix, lambda x: x // 1.0],
    ids=["sign", "floor", "ceil", "trunc", "rint", "round", "fix", "floor_divide"],
)
def test_piecewise_constant_functions_have_gradient_zero_rather_than_none(function):
    np.testing.assert_array_equal(gradient(function, [-1.5, -1.0, 0.0, 0.5, 1.0]), np.zeros(5))


def test_a_zero_gradient_is_zero_however_large_what_comes_after_it():
    x = sg.tensor([1.5], requires_grad=True)
    assert np.floor(x).backward([INF])[x] == [0.0]
    assert sg.relu(sg.tensor([1.0]) * 0 - x).backward([INF])[x] == [0.0]


def test_round_keeps_decimals_as_numpy_does():
    x = sg.tensor([1.2345, -0.55], requires_grad=True)
    np.testing.assert_array_equal(np.round(x, 2).numpy(), np.round([1.2345, -0.55], 2))
    np.testing.assert_array_equal(round(x, 1).numpy(), np.round([1.2345, -0.55], 1))


def test_the_gradient_of_relu_at_0_is_0_and_nan_passes():
    np.testing.assert_array_equal(gradient(sg.relu, [-1.0, -0.0, 0.0, 2.0, NAN]), [0, 0, 0, 1, 1])


def test_inverse_sines_at_the_end_of_their_domain():
    np.testing.assert_array_equal(gradient(np.arcsin, [-1.0, 0.0, 1.0]), [INF, 1, INF])
    np.testing.assert_array_equal(gradient(np.arccos, [-1.0, 0.0, 1.0]), [-INF, -1, -INF])
    np.testing.assert_array_equal(gradient(np.arccosh, [1.0]), [INF])
    with numpy_warns():
        np.testing.assert_array_equal(gradient(np.arctanh, [-1.0, 0.0, 1.0]), [INF, 1, INF])


def test_inverse_sines_are_accurate_next_to_the_end():
    # With x = 1 - d: 1 / sqrt(1 - x²) = 1 / sqrt(d (2 - d)).
    d = 2.0**-52
    np.testing.assert_allclose(
        gradient(np.arcsin, [1 - d]), [1 / math.sqrt(d * (2 - d))], rtol=1e-15
    )


def test_sinc_has_gradient_0_at_0_and_is_accurate_beside_it():
    assert gradient(np.sinc, 0.0) == 0
    # sinc'(x) = -π²x/3 + π⁴x³/30 - …
    for x in (1e-9, -1e-5, 1e-3):
        t = math.pi * x
        exact = math.pi * (-t / 3 + t**3 / 30 - t**5 / 840)
        np.testing.assert_allclose(gradient(np.sinc, x), exact, rtol=1e-14)
    # Both sides of where the series ends: (cos πx - sinc x) / x by the definition.
    for x in (0.1113, 0.1115):
        t = math.pi * x
        exact = (math.cos(t) - math.sin(t) / t) / x
        np.testing.assert_allclose(gradient(np.sinc, x), exact, rtol=1e-12)


def test_the_second_derivative_of_sinc_at_0():
    x = sg.tensor(0.0, requires_grad=True)
    (slope,) = sg.grad(np.sinc(x), x, create_graph=True)
    np.testing.assert_allclose(sg.grad(slope, x)[0], -(math.pi**2) / 3, rtol=1e-14)


def test_nan_to_num_passes_gradients_of_finite_values_only():
    x = [1.0, NAN, INF, -INF]
    np.testing.assert_array_equal(gradient(np.nan_to_num, x), [1, 0, 0, 0])
    out = np.nan_to_num(sg.tensor(x), nan=5.0, posinf=6.0, neginf=7.0)
    np.testing.assert_array_equal(out.numpy(), [1, 5, 6, 7])


EXTREMES = np.array([-1e3, 1e3], np.float32)


@pytest.mark.parametrize(
    ("function", "values", "slopes"),
    [
        (sg.sigmoid, [0, 1], [0, 0]),
        (sg.softplus, [0, 1e3], [0, 1]),
        (sg.log_sigmoid, [-1e3, 0], [1, 0]),
        (sg.silu, [0, 1e3], [0, 1]),
        (sg.gelu, [0, 1e3], [0, 1]),
        (lambda x: sg.gelu(x, "tanh"), [0, 1e3], [0, 1]),
        (sg.elu, [-1, 1e3], [0, 1]),
        (sg.leaky_relu, [-10, 1e3], [0.01, 1]),
        (np.tanh, [-1, 1], [0, 0]),
        (np.arctan, [-math.pi / 2 + 1e-3, math.pi / 2 - 1e-3], [1 / (1 + 1e6)] * 2),
        (np.arcsinh, [-7.6009027, 7.6009027], [1e-3, 1e-3]),
        (sg.erf, [-1, 1], [0, 0]),
        (sg.erfc, [2, 0], [0, 0]),
        (lambda x: np.logaddexp(x, 0), [0, 1e3], [0, 1]),
        (lambda x: np.hypot(x, 1), [1e3, 1e3], [-1, 1]),
    ],
    ids=[
        "sigmoid",
        "softplus",
        "log_sigmoid",
        "silu",
        "gelu",
        "gelu_tanh",
        "elu",
        "leaky_relu",
        "tanh",
        "arctan",
        "arcsinh",
        "erf",
        "erfc",
        "logaddexp",
        "hypot",
    ],
)
def test_accurate_at_plus_and_minus_1000_in_float32(function, values, slopes):
    x = sg.tensor(EXTREMES, requires_grad=True)
    out = function(x)
    slope = out.backward(np.ones(2, np.float32))[x]
    np.testing.assert_allclose(out.numpy(), np.float32(values), rtol=1e-6)
    np.testing.assert_allclose(slope, np.float32(slopes), rtol=1e-6, atol=1e-30)
    assert out.dtype == slope.dtype == np.float32


def test_expm1_and_log1p_keep_tiny_values_in_float32():
    tiny = np.float32(1e-10)
    np.testing.assert_array_equal(np.expm1(sg.tensor([tiny])).numpy(), [tiny])
    np.testing.assert_array_equal(np.log1p(sg.tensor([tiny])).numpy(), [tiny])
    assert gradient(np.expm1, [-1e3], dtype=np.float32) == [0.0]
    np.testing.assert_allclose(gradient(np.log1p, [1e3], dtype=np.float32), [1 / 1001], rtol=1e-6)


def test_squares_that_would_overflow_do_not():
    big = np.float32(1e30)
    np.testing.assert_allclose(gradient(np.arcsinh, [big], dtype=np.float32), [1e-30], rtol=1e-6)
    np.testing.assert_allclose(
        gradient(np.hypot, [big], [big], dtype=np.float32), [[0.5**0.5]] * 2, rtol=1e-6
    )
    np.testing.assert_allclose(
        gradient(np.arctan2, [big], [big], dtype=np.float32), [[5e-31], [-5e-31]], rtol=1e-6
    )


# --- two operands -------------------------------------------------------------------------


@pytest.mark.parametrize("function", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_a_tie_is_shared_evenly(function):
    np.testing.assert_array_equal(gradient(function, [1.0], [1.0]), [[0.5], [0.5]])
    np.testing.assert_array_equal(gradient(lambda x: function(x, 1.0), [1.0]), [0.5])


def test_maximum_and_minimum_follow_the_chosen_operand_and_nan():
    np.testing.assert_array_equal(
        gradient(np.maximum, [1, 5, NAN, 2, NAN], [3, 2, 2, NAN, NAN]),
        [[0, 1, 1, 0, 0.5], [1, 0, 0, 1, 0.5]],
    )
    np.testing.assert_array_equal(
        gradient(np.minimum, [1, 5, NAN, 2, NAN], [3, 2, 2, NAN, NAN]),
        [[1, 0, 1, 0, 0.5], [0, 1, 0, 1, 0.5]],
    )


def test_fmax_and_fmin_pass_nan_over():
    for function, wins in ((np.fmax, [0, 1]), (np.fmin, [1, 0])):
        np.testing.assert_array_equal(
            gradient(function, [1, 5, NAN, 2], [3, 2, 2, NAN]), [[*wins, 0, 1], [*wins[::-1], 1, 0]]
        )


def test_powers_of_zero_and_of_negative_numbers():
    for exponent in (0, 0.0, np.array([0.0]), sg.tensor([0.0])):
        assert gradient(lambda x, e=exponent: x**e, [0.0]) == [0.0]
    for exponent in (2, 2.0, np.array([2.0])):
        assert gradient(lambda x, e=exponent: x**e, [0.0]) == [0.0]
        assert gradient(lambda x, e=exponent: x**e, [-2.0]) == [-4.0]
    assert gradient(lambda x: x**1, [0.0]) == [1.0]
    assert gradient(lambda x: x**0.5, [0.0]) == [INF]
    np.testing.assert_array_equal(gradient(np.power, [0.0, 0.0], [2.0, 0.0]), [[0, 0], [0, 0]])


def test_the_base_has_no_nan_where_the_exponent_is_tracked_too():
    base, exponent = gradient(np.power, [-2.0], [2.0])
    assert base == [-4.0]
    assert np.isnan(exponent).all()  # log(-2)


def test_no_logarithm_is_taken_for_a_constant_exponent(monkeypatch):
    def refuse(x):
        raise AssertionError("log was computed")

    x = sg.tensor([-2.0, 3.0], requires_grad=True)
    out = (x ** np.array([2.0, 3.0])).sum()
    monkeypatch.setattr(np, "log", refuse)
    np.testing.assert_array_equal(out.backward()[x], [-4, 27])


def test_second_derivatives_of_powers_at_zero():
    for exponent, expected in ((0, 0), (1, 0), (2, 2), (3, 0)):
        for y in (exponent, np.array(float(exponent))):
            x = sg.tensor(0.0, requires_grad=True)
            (slope,) = sg.grad(x**y, x, create_graph=True)
            second = sg.grad(slope, x)[0] if slope.requires_grad else 0.0
            assert second == expected


def test_division_by_zero_gives_infinite_gradients_without_a_warning():
    with numpy_warns():
        one, other = gradient(np.divide, [1.0, 0.0], [0.0, 0.0])
    np.testing.assert_array_equal(one, [INF, INF])
    np.testing.assert_array_equal(other, [-INF, NAN])


def test_hypot_and_arctan2_have_gradient_0_at_the_origin():
    np.testing.assert_array_equal(gradient(np.hypot, [0.0, 3.0], [0.0, 4.0]), [[0, 0.6], [0, 0.8]])
    np.testing.assert_array_equal(gradient(np.arctan2, [0.0, 0.0], [0.0, 2.0]), [[0, 0.5], [0, 0]])


def test_logaddexp_of_minus_infinity_has_gradient_0():
    np.testing.assert_array_equal(
        gradient(np.logaddexp, [-INF, -INF], [-INF, 1.0]), [[0, 0], [0, 1]]
    )
    np.testing.assert_array_equal(gradient(np.logaddexp2, [-INF], [-INF]), [[0], [0]])


def test_copysign_and_heaviside_at_zero():
    np.testing.assert_array_equal(
        gradient(np.copysign, [0.0, 2.0, -2.0], [-1.0, -1.0, -1.0]), [[0, -1, 1], [0, 0, 0]]
    )
    np.testing.assert_array_equal(
        gradient(np.heaviside, [-1.0, 0.0, 1.0], [0.5, 0.5, 0.5]), [[0, 0, 0], [0, 1, 0]]
    )


def test_remainders_divide_down_or_towards_zero():
    np.testing.assert_array_equal(gradient(np.remainder, [-7.0], [2.0]), [[1], [4]])
    np.testing.assert_array_equal(gradient(np.fmod, [-7.0], [2.0]), [[1], [3]])
    x = sg.tensor([-7.0], requires_grad=True)
    quotient, rest = divmod(x, 2.0)
    assert (quotient.item(), rest.item()) == (-4.0, 1.0)
    assert rest.backward()[x] == [1.0]


def test_the_parts_of_a_number():
    x = sg.tensor([3.5, -0.75], requires_grad=True)
    fraction, whole = np.modf(x)
    np.testing.assert_array_equal(fraction.numpy(), [0.5, -0.75])
    np.testing.assert_array_equal((fraction + whole).sum().backward()[x], [1, 1])
    mantissa, exponents = np.frexp(x)
    np.testing.assert_array_equal(mantissa.numpy(), [0.875, -0.75])
    np.testing.assert_array_equal(exponents, [2, 0])
    np.testing.assert_array_equal(mantissa.sum().backward()[x], [0.25, 1])
    assert gradient(lambda x: np.ldexp(x, 3), [1.5]) == [8.0]


# --- where and clip -----------------------------------------------------------------------


def test_where_gives_each_branch_the_gradient_of_what_was_chosen():
    mask = np.array([True, False])
    np.testing.assert_array_equal(
        gradient(lambda x, y: np.where(mask, x, y), [1.0, 2.0], [3.0, 4.0]), [[1, 0], [0, 1]]
    )
    # Broadcast both ways, a number and a tensor condition.
    one, other = gradient(lambda x, y: np.where(x > 0, x, y), [[1.0], [-1.0]], [2.0, 3.0])
    np.testing.assert_array_equal(one, [[2], [0]])
    np.testing.assert_array_equal(other, [1, 1])
    out = np.where(sg.tensor([True, False]), sg.tensor([1.0], np.float32, requires_grad=True), 0.0)
    assert out.dtype == np.float32


def test_where_with_a_condition_alone_gives_the_indices():
    (index,) = np.where(sg.tensor([0.0, 2.0, 0.0, 1.0], requires_grad=True))
    np.testing.assert_array_equal(index, [1, 3])
    with pytest.raises(TypeError, match="both"):
        np.where(sg.tensor([True]), 1.0)


def test_where_is_nan_behind_a_masked_infinity_and_the_double_where_is_not():
    with numpy_warns():
        masked = gradient(lambda x: np.where(x > 0, np.log(x), 0.0), [0.0, 2.0])
    np.testing.assert_array_equal(masked, [NAN, 0.5])

    def twice(x):
        safe = np.where(x > 0, x, 1.0)
        return np.where(x > 0, np.log(safe), 0.0)

    np.testing.assert_array_equal(gradient(twice, [0.0, 2.0]), [0, 0.5])


def test_where_gives_an_exact_zero_to_what_was_not_chosen():
    x = sg.tensor([1.0], requires_grad=True)
    assert np.where([False], x, 0.0).backward([INF])[x] == [0.0]


def test_clip_passes_the_gradient_inside_and_on_the_bounds():
    x = [-1.0, 0.0, 0.5, 1.0, 2.0]
    np.testing.assert_array_equal(gradient(lambda t: np.clip(t, 0, 1), x), [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(gradient(lambda t: t.clip(0.0, 1.0), x), [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(gradient(lambda t: np.clip(t, None, 1), x), [1, 1, 1, 1, 0])
    np.testing.assert_array_equal(gradient(lambda t: np.clip(t, 0, None), x), [0, 1, 1, 1, 1])
    np.testing.assert_array_equal(gradient(lambda t: np.clip(t, None, None), x), [1, 1, 1, 1, 1])
    np.testing.assert_array_equal(gradient(lambda t: np.clip(t, min=0), x), [0, 1, 1, 1, 1])


def test_bounds_of_clip_come_under_one_name():
    with pytest.raises(ValueError, match="not some of each"):
        np.clip(sg.tensor([1.0]), 0, 1, min=0)


def test_clip_with_bounds_the_wrong_way_round_is_the_upper_bound():
    x, low, high = gradient(np.clip, [0.0, 5.0], [2.0, 2.0], [1.0, 1.0])
    np.testing.assert_array_equal(np.clip(sg.tensor([0.0, 5.0]), 2, 1).numpy(), [1, 1])
    np.testing.assert_array_equal(x, [0, 0])
    np.testing.assert_array_equal(low, [0, 0])
    np.testing.assert_array_equal(high, [1, 1])


def test_bounds_of_clip_that_are_tensors_get_the_gradient_where_they_were_taken():
    x, low, high = gradient(np.clip, [-1.0, 0.5, 2.0], 0.0, [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(x, [0, 1, 0])
    assert low == 1.0
    np.testing.assert_array_equal(high, [0, 0, 1])


# --- conversion ---------------------------------------------------------------------------


def test_astype_casts_the_gradient_back_and_cuts_the_graph_at_integers():
    x = sg.tensor([1.5, 2.5], dtype=np.float32, requires_grad=True)
    wide = x.astype(np.float64)
    assert wide.dtype == np.float64
    assert wide.sum().backward()[x].dtype == np.float32
    assert x.astype(np.float16).sum().backward()[x].dtype == np.float32
    whole = x.astype(np.int64)
    assert whole.dtype == np.int64
    assert not whole.requires_grad
    assert not x.astype(bool).requires_grad


# --- complex numbers ----------------------------------------------------------------------


def complex_gradient(function):
    z = sg.tensor([1 + 2j], requires_grad=True)
    return function(z).sum().backward()[z]


def test_complex_gradients_follow_the_convention_of_jax():
    """df/dx - i df/dy, by hand at z = 1 + 2i."""
    np.testing.assert_allclose(complex_gradient(lambda z: np.abs(z) ** 2), [2 - 4j])
    np.testing.assert_allclose(complex_gradient(np.real), [1])
    np.testing.assert_allclose(complex_gradient(np.imag), [-1j])
    np.testing.assert_allclose(complex_gradient(lambda z: (z * np.conj(z)).real), [2 - 4j])
    np.testing.assert_allclose(complex_gradient(np.angle), [-0.4 - 0.2j])
    np.testing.assert_allclose(complex_gradient(lambda z: np.real(z * z)), [2 + 4j])
    np.testing.assert_allclose(
        complex_gradient(lambda z: np.real(np.exp(z))), [np.exp(1 + 2j)], rtol=1e-14
    )
    # |z - 1| has no derivative at z = 1; as for real numbers 0 is chosen.
    z = sg.tensor([1 + 0j], requires_grad=True)
    np.testing.assert_array_equal(np.abs(z - 1).backward([1.0])[z], [0])


def test_a_real_operand_of_a_complex_result_has_a_real_gradient():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    out = np.abs(x * np.array([1j, 2.0])).sum()
    gradient = out.backward()[x]
    assert gradient.dtype == np.float64
    np.testing.assert_allclose(gradient, [1, 2])


def test_the_complex_sign_is_the_direction():
    z = sg.tensor([3 + 4j, 0], requires_grad=True)
    np.testing.assert_allclose(np.sign(z).numpy(), [0.6 + 0.8j, 0])
    # Re(z / |z|) = cos θ: df/dx = y²/r³, df/dy = -xy/r³.
    got = np.real(np.sign(z)).backward([1.0, 0.0])[z]
    np.testing.assert_allclose(got, [16 / 125 + 12j / 125, 0], atol=1e-15)
