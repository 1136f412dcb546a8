"""Reductions, quantiles and averages: values of NumPy, gradients of both orders, corners."""

import math

import numpy as np
import pytest
from finite_differences import check_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

import sweepgrad as sg

INF, NAN = math.inf, math.nan

#: Name to how it is called; all take axis and keepdims.
REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "var": np.var,
    "var_ddof": lambda x, **k: np.var(x, ddof=1, **k),
    "std": np.std,
    "std_ddof": lambda x, **k: np.std(x, correction=1, **k),
    "max": np.max,
    "min": np.min,
    "ptp": np.ptp,
    "median": np.median,
    "quantile": lambda x, **k: np.quantile(x, 0.3, **k),
    "percentile": lambda x, **k: np.percentile(x, [30, 80], **k),
    "average": np.average,
    "nansum": np.nansum,
    "nanmean": np.nanmean,
    "nanprod": np.nanprod,
    "nanvar": np.nanvar,
    "nanstd": np.nanstd,
    "nanmax": np.nanmax,
    "nanmin": np.nanmin,
    "nanmedian": np.nanmedian,
    "nanquantile": lambda x, **k: np.nanquantile(x, 0.3, **k),
    "nanpercentile": lambda x, **k: np.nanpercentile(x, [30, 80], **k),
}
AXES = [None, 0, 1, -1, (0, 1), (-1, 0)]

everywhere = pytest.mark.parametrize("call", REDUCTIONS.values(), ids=REDUCTIONS)


def distinct(shape, seed=0):
    """Values at least 0.02 apart, so that steps of the differences change no order."""
    rng = np.random.default_rng(seed)
    count = math.prod(shape)
    return (rng.permutation(count) * 0.1 + rng.uniform(0, 0.03, count) - 0.52).reshape(shape)


def gradient(function, value, **kwargs):
    leaf = sg.tensor(value, requires_grad=True, **kwargs)
    out = function(leaf)
    return out.backward(np.ones(out.shape, out.dtype))[leaf]


# --- every reduction ----------------------------------------------------------------------


@everywhere
def test_values_are_those_of_numpy(call):
    x = distinct((2, 3, 2))
    for axis in [*AXES, 2, (0, 2)]:
        for keepdims in (False, True):
            expected = np.asarray(call(x, axis=axis, keepdims=keepdims))
            got = call(sg.tensor(x, requires_grad=True), axis=axis, keepdims=keepdims)
            assert type(got) is sg.Tensor
            assert got.shape == expected.shape
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got.numpy(), expected, rtol=1e-14)


@everywhere
def test_gradients_match_differences_to_second_order(call):
    x = distinct((2, 3))
    for axis in AXES:
        for keepdims in (False, True):
            check_gradients(lambda t, a=axis, k=keepdims: call(t, axis=a, keepdims=k), x)
    check_gradients(lambda t: call(t, axis=(0, 2)), distinct((2, 2, 2)))


@pytest.mark.parametrize("name", [name for name in REDUCTIONS if "ddof" not in name])
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data(), shape=array_shapes(min_dims=1, max_dims=3, max_side=3))
def test_gradients_over_any_axes_match_differences(name, data, shape):
    call = REDUCTIONS[name]
    axis = data.draw(st.none() | st.sets(st.integers(0, len(shape) - 1), min_size=1).map(tuple))
    keepdims = data.draw(st.booleans())
    check_gradients(lambda t: call(t, axis=axis, keepdims=keepdims), distinct(shape), second=False)


@everywhere
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble])
def test_value_and_gradient_keep_the_dtype(call, dtype):
    x = distinct((2, 3)).astype(dtype)
    expected = np.asarray(call(x, axis=0)).dtype
    leaf = sg.tensor(x, requires_grad=True)
    out = call(leaf, axis=0)
    assert out.dtype == expected
    (slope,) = sg.grad(out.sum(), leaf, create_graph=True)
    assert slope.dtype == dtype
    assert slope.shape == leaf.shape


@everywhere
def test_memory_layout_changes_nothing(call):
    x = distinct((2, 3))
    read_only = x.copy()
    read_only.flags.writeable = False
    wide = np.zeros((2, 6))
    wide[:, ::2] = x
    layouts = [
        np.asfortranarray(x),
        wide[:, ::2],
        np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
        read_only,
        x.astype(x.dtype.newbyteorder()),
    ]
    for axis in (None, 1):
        expected = gradient(lambda t, a=axis: call(t, axis=a), x)
        for array in layouts:
            leaf = sg.from_numpy(array, requires_grad=True)
            out = call(leaf, axis=axis)
            got = out.backward(np.ones(out.shape))[leaf]
            np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-15)
            assert got.flags.c_contiguous


@pytest.mark.parametrize("name", [name for name in REDUCTIONS if "ddof" not in name])
def test_an_operand_without_axes_is_reduced_as_in_numpy(name):
    call = REDUCTIONS[name]
    for keepdims in (False, True):
        expected = np.asarray(call(np.array(0.7), axis=None, keepdims=keepdims))
        got = call(sg.tensor(0.7, requires_grad=True), axis=None, keepdims=keepdims)
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got.numpy(), expected)
        check_gradients(lambda t, k=keepdims: call(t, axis=None, keepdims=k), np.array(0.7))


@everywhere
def test_bad_axes_are_refused_as_in_numpy(call):
    x = sg.tensor(distinct((2, 3)), requires_grad=True)
    with pytest.raises(np.exceptions.AxisError):
        call(x, axis=2)
    with pytest.raises(ValueError, match="axis"):
        call(x, axis=(0, 0))


# --- keyword arguments --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std", "nansum", "nanmean"])
def test_where_leaves_elements_out(name):
    x = distinct((2, 3))
    mask = np.array([[True, False, True], [True, True, True]])
    function = getattr(np, name)
    for axis in (None, 0, 1):
        expected = function(x, axis=axis, where=mask)
        got = function(sg.tensor(x), axis=axis, where=mask)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-14)
    check_gradients(lambda t: function(t, axis=1, where=mask), x)
    assert gradient(lambda t: function(t, axis=1, where=mask), x)[0, 1] == 0


@pytest.mark.parametrize(("name", "initial"), [("max", -9.0), ("min", 9.0)])
def test_where_of_an_extreme_needs_an_initial_value(name, initial):
    x = distinct((2, 3))
    mask = np.array([[True, False, True], [True, True, True]])
    function = getattr(np, name)
    with pytest.raises(ValueError, match="initial"):
        function(sg.tensor(x, requires_grad=True), where=mask)
    got = function(sg.tensor(x), axis=1, where=mask, initial=initial)
    np.testing.assert_array_equal(got.numpy(), function(x, axis=1, where=mask, initial=initial))
    check_gradients(lambda t: function(t, axis=1, where=mask, initial=initial), x)


def test_initial_values_take_part():
    x = [1.0, 2.0]
    assert np.sum(sg.tensor(x), initial=5).item() == 8
    np.testing.assert_array_equal(gradient(lambda t: np.prod(t, initial=5), x), [10, 5])
    np.testing.assert_array_equal(gradient(lambda t: np.max(t, initial=5.0), x), [0, 0])
    np.testing.assert_array_equal(gradient(lambda t: np.max(t, initial=2.0), x), [0, 0.5])
    empty = sg.tensor(np.zeros((0, 2)), requires_grad=True)
    out = np.max(empty, axis=0, initial=-3.0)
    np.testing.assert_array_equal(out.numpy(), [-3, -3])
    assert out.sum().backward()[empty].shape == (0, 2)


def test_dtype_converts_before_the_reduction():
    x = np.float32([1e8, 1.0, -1e8])
    leaf = sg.tensor(x, requires_grad=True)
    out = np.sum(leaf, dtype=np.float64)
    assert out.dtype == np.float64
    assert out.item() == 1.0
    assert out.backward()[leaf].dtype == np.float32
    assert leaf.mean(dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize(
    "name", ["sum", "mean", "prod", "var", "std", "max", "min", "median", "ptp", "cumsum"]
)
def test_out_is_refused_by_name(name):
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(sg.NoGradientRuleError, match=rf"{name}.*out"):
        getattr(np, name)(x, out=np.zeros(()))


def test_methods_take_the_arguments_of_ndarray():
    x = sg.tensor(distinct((2, 3)), requires_grad=True)
    a = x.numpy()
    np.testing.assert_array_equal(x.sum(0).numpy(), a.sum(0))
    np.testing.assert_array_equal(x.sum(1, np.float64, None, True).numpy(), a.sum(1, keepdims=True))
    np.testing.assert_array_equal(x.max(-1, keepdims=True).numpy(), a.max(-1, keepdims=True))
    np.testing.assert_array_equal(x.var(ddof=1).numpy(), a.var(ddof=1))
    np.testing.assert_array_equal(x.std(0).numpy(), a.std(0))
    np.testing.assert_array_equal(x.prod(0).numpy(), a.prod(0))
    np.testing.assert_array_equal(x.cumsum(0).numpy(), a.cumsum(0))


def test_positions_of_extremes_are_plain_integers():
    x = sg.tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]], requires_grad=True)
    for got, expected in (
        (x.argmax(), 1),
        (np.argmax(x, axis=1), [1, 0]),
        (np.argmin(x, axis=0), [0, 1, 1]),
        (x.argmin(1), [0, 1]),
        (np.nanargmax(x, axis=1), [1, 0]),
    ):
        assert not isinstance(got, sg.Tensor)
        np.testing.assert_array_equal(got, expected)


# --- corners ------------------------------------------------------------------------------


def test_the_old_names_of_the_extremes_are_the_extremes():
    x = [1.0, 3.0, 3.0]
    np.testing.assert_array_equal(gradient(np.amax, x), [0, 0.5, 0.5])
    np.testing.assert_array_equal(gradient(np.amin, x), [1, 0, 0])


def test_ties_share_the_gradient_evenly_among_all_of_them():
    np.testing.assert_array_equal(gradient(np.max, [1.0, 3.0, 3.0]), [0, 0.5, 0.5])
    np.testing.assert_array_equal(gradient(np.min, [2.0, 2.0, 2.0, 2.0]), [0.25] * 4)
    x = [[1.0, 1.0, 0.0], [2.0, 1.0, 2.0]]
    np.testing.assert_array_equal(
        gradient(lambda t: np.max(t, axis=1), x), [[0.5, 0.5, 0], [0.5, 0, 0.5]]
    )
    np.testing.assert_array_equal(
        gradient(lambda t: np.max(t, axis=(0, 1)), x), [[0, 0, 0], [0.5, 0, 0.5]]
    )
    np.testing.assert_array_equal(gradient(np.ptp, [1.0, 1.0, 3.0]), [-0.5, -0.5, 1])


def test_where_the_extreme_is_nan_the_nans_share_the_gradient():
    np.testing.assert_array_equal(gradient(np.max, [1.0, NAN, 3.0, NAN]), [0, 0.5, 0, 0.5])
    np.testing.assert_array_equal(gradient(np.median, [1.0, NAN, 3.0]), [0, 1, 0])
    np.testing.assert_array_equal(gradient(np.nanmax, [1.0, NAN, 3.0, 3.0]), [0, 0, 0.5, 0.5])


def test_empty_reductions():
    empty = np.zeros((0,))
    for call, value in ((np.sum, 0.0), (np.prod, 1.0), (sg.logsumexp, -INF)):
        leaf = sg.tensor(empty, requires_grad=True)
        out = call(leaf)
        assert out.item() == value
        assert out.backward()[leaf].shape == (0,)
    for call in (np.max, np.min):
        with pytest.raises(ValueError, match="zero-size"):
            call(sg.tensor(empty, requires_grad=True))
    leaf = sg.tensor(empty, requires_grad=True)
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="empty slice"):
        out = np.mean(leaf)  # NumPy's value and NumPy's warning
    assert math.isnan(out.item())
    assert out.backward()[leaf].shape == (0,)


def test_zero_size_slices_beside_others_are_reduced():
    leaf = sg.tensor(np.zeros((0, 3)), requires_grad=True)
    for call in (np.sum, np.mean, np.prod, np.max, np.var, np.std, np.median):
        out = call(leaf, axis=1)
        assert out.shape == (0,)
        assert out.sum().backward(retain_graph=True)[leaf].shape == (0, 3)


def test_std_of_a_constant_has_gradient_0():
    np.testing.assert_array_equal(gradient(np.std, [2.0, 2.0, 2.0]), [0, 0, 0])
    np.testing.assert_array_equal(
        gradient(lambda t: np.std(t, axis=1), [[1.0, 1.0], [1.0, 3.0]]), [[0, 0], [-0.5, 0.5]]
    )
    mask = np.array([True, True, False])
    np.testing.assert_array_equal(
        gradient(lambda t: np.std(t, where=mask), [2.0, 2.0, 9.0]), [0, 0, 0]
    )


def test_std_of_a_constant_whose_mean_is_rounded_has_gradient_0_too():
    """The mean of three times 0.1 is not 0.1."""
    assert np.std([0.1, 0.1, 0.1]) != 0
    np.testing.assert_array_equal(gradient(np.std, [0.1, 0.1, 0.1]), [0, 0, 0])
    np.testing.assert_array_equal(gradient(np.nanstd, [0.1, 0.1, NAN, 0.1]), [0, 0, 0, 0])
    np.testing.assert_array_equal(
        gradient(lambda t: np.std(t, axis=1, ddof=1), [[0.1, 0.1, 0.1], [1.0, 2.0, 3.0]]),
        [[0, 0, 0], [-0.5, 0, 0.5]],
    )
    leaf = sg.tensor([0.1, 0.1, 0.1], requires_grad=True)
    np.testing.assert_array_equal(np.std(leaf).backward(INF)[leaf], [0, 0, 0])
    z = sg.tensor([1 + 2j, 1 + 2j], requires_grad=True)
    np.testing.assert_array_equal(np.std(z).backward()[z], [0, 0])


def test_var_of_one_element_has_gradient_0_and_without_freedom_it_is_nan():
    np.testing.assert_array_equal(gradient(np.var, [3.0]), [0])
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="freedom"):
        np.testing.assert_array_equal(gradient(lambda t: np.var(t, ddof=1), [3.0]), [NAN])
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="freedom"):
        out = gradient(lambda t: np.var(t, ddof=3), [1.0, 3.0])
    np.testing.assert_array_equal(out, [-INF, INF])


def test_logsumexp_does_not_overflow_and_is_0_where_there_is_nothing():
    np.testing.assert_array_equal(gradient(sg.logsumexp, [-INF, -INF]), [0, 0])
    np.testing.assert_array_equal(gradient(sg.logsumexp, [-INF, 5.0]), [0, 1])
    x = np.float32([[1e3, 1e3], [-1e3, -1e3]])
    leaf = sg.tensor(x, requires_grad=True)
    out = leaf.logsumexp(axis=1)
    np.testing.assert_allclose(out.numpy(), [1e3 + math.log(2), -1e3 + math.log(2)], rtol=1e-6)
    np.testing.assert_array_equal(out.sum().backward()[leaf], [[0.5, 0.5], [0.5, 0.5]])
    check_gradients(lambda t: sg.logsumexp(t, axis=(0, 1), keepdims=True), distinct((2, 3)))
    check_gradients(lambda t: sg.logsumexp(t, axis=0), distinct((2, 3)))


@pytest.mark.parametrize(
    ("values", "slope"),
    [
        ([1.0, 2.0, 3.0, 4.0], [0, 0.5, 0.5, 0]),
        ([3.0, 1.0, 2.0], [0, 0, 1]),
        ([2.0, 2.0, 1.0], [0.5, 0.5, 0]),
        ([1.0, 2.0, 2.0, 3.0], [0, 0.5, 0.5, 0]),
        ([1.0, 1.0, 2.0, 2.0], [0.25, 0.25, 0.25, 0.25]),
        ([5.0], [1]),
    ],
)
def test_the_median_leans_on_the_middle_values_and_shares_ties(values, slope):
    np.testing.assert_array_equal(gradient(np.median, values), slope)


@pytest.mark.parametrize(
    "method",
    [
        "linear",
        "lower",
        "higher",
        "midpoint",
        "nearest",
        "inverted_cdf",
        "averaged_inverted_cdf",
        "closest_observation",
        "interpolated_inverted_cdf",
        "hazen",
        "weibull",
        "median_unbiased",
        "normal_unbiased",
    ],
)
def test_every_method_of_quantile_has_its_gradient(method):
    x = distinct((2, 5))
    for q in (0.0, 0.33, 1.0, [[0.2], [0.7]]):
        check_gradients(lambda t, q=q: np.quantile(t, q, axis=1, method=method), x, second=False)


def test_quantile_promotes_as_numpy_does_and_refuses_weights():
    x = np.float32([1.0, 2.0, 4.0])
    leaf = sg.tensor(x, requires_grad=True)
    for q in (0.3, np.float64(0.3), [0.3]):
        out = np.quantile(leaf, q)
        assert out.dtype == np.quantile(x, q).dtype
        assert out.sum().backward()[leaf].dtype == np.float32
    with pytest.raises(sg.NoGradientRuleError, match="weights"):
        np.quantile(leaf, 0.3, method="inverted_cdf", weights=[1, 1, 1])


def test_average_is_differentiable_in_its_weights():
    x, w = distinct((2, 3)), np.array([[1.0, 2.0, 0.5], [0.3, 1.0, 1.0]])
    check_gradients(lambda t, u: np.average(t, weights=u), x, w)
    check_gradients(lambda t, u: np.average(t, axis=1, weights=u), x, w)
    check_gradients(lambda t, u: np.average(t, axis=0, weights=u), x, w[:, 0])
    check_gradients(lambda t, u: np.average(t, axis=(1, 0), weights=u), x, w.T)
    value, total = np.average(sg.tensor(x), axis=0, weights=w[:, 0], returned=True)
    expected = np.average(x, axis=0, weights=w[:, 0], returned=True)
    np.testing.assert_allclose(value.numpy(), expected[0])
    np.testing.assert_allclose(total.numpy(), expected[1])
    with pytest.raises(sg.ShapeError, match="weights"):
        np.average(sg.tensor(x), weights=w[0])


def test_the_gradient_at_a_nan_that_was_passed_over_is_0():
    x = [[1.0, NAN, 3.0], [NAN, NAN, NAN]]
    np.testing.assert_array_equal(gradient(np.nansum, x), [[1, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(gradient(lambda t: np.nanmean(t, axis=1), x[:1]), [[0.5, 0, 0.5]])
    np.testing.assert_array_equal(gradient(np.nanprod, x), [[3, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(gradient(np.nanvar, x), [[-1, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(gradient(np.nancumsum, x[0]), [3, 0, 1])
    np.testing.assert_array_equal(gradient(np.nancumprod, x[0]), [5, 0, 1])
    np.testing.assert_array_equal(np.nanmax(sg.tensor(x), axis=1).numpy(), [3, NAN])
    np.testing.assert_array_equal(
        gradient(lambda t: np.nanmedian(t, axis=1), [[3.0, NAN, 1.0, 7.0], [NAN, 2.0, NAN, 4.0]]),
        [[1, 0, 0, 0], [0, 0.5, 0, 0.5]],
    )
    np.testing.assert_allclose(
        gradient(lambda t: np.nanquantile(t, 0.25, axis=1), [[3.0, NAN, 1.0, 7.0], [NAN, 2, 5, 4]]),
        [[0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]],
    )


def test_a_slice_of_nothing_but_nan_has_gradient_0():
    with pytest.warns(RuntimeWarning, match="All-NaN"):
        slope = gradient(np.nanmedian, [NAN, NAN])
    np.testing.assert_array_equal(slope, [0, 0])


# --- complex ------------------------------------------------------------------------------


def test_the_variance_of_complex_numbers_is_real_with_a_complex_gradient():
    """var = mean |z - m|²; df/dx - i df/dy = 2 conj(z - m) / n."""
    z = np.array([1 + 2j, 3 - 1j])
    leaf = sg.tensor(z, requires_grad=True)
    out = np.var(leaf)
    np.testing.assert_allclose(out.item(), np.var(z))
    np.testing.assert_allclose(out.backward()[leaf], np.conj(z - z.mean()))
