"""Convolution, pooling, attention, signals and Fourier transforms."""

import itertools
import math

import numpy as np
import pytest
from finite_differences import check_gradients
from operation_cases import (
    case,
    check_differences,
    check_float32,
    check_layouts,
    check_value,
)

import sweepgrad as sg


def _slow_conv(x, w, stride, padding, dilation, groups):
    """Convolution by its definition, one output element after the other."""
    ndim = x.ndim - 2
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *counts))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for batch, channel in np.ndindex(*out.shape[:2]):
        first = channel // per_out * per_in
        for place in np.ndindex(*counts):
            window = tuple(
                slice(p * s, p * s + (k - 1) * d + 1, d)
                for p, s, k, d in zip(place, stride, w.shape[2:], dilation, strict=True)
            )
            seen = x[(batch, slice(first, first + per_in), *window)]
            out[(batch, channel, *place)] = (seen * w[channel]).sum()
    assert ndim == len(counts)
    return out


def _conv_case(name, x, w, stride=1, padding=0, dilation=1, groups=1, bias=False):
    ndim = len(x) - 2

    def spread(value):
        return (value,) * ndim if isinstance(value, int) else value

    pairs = tuple((p, p) if isinstance(p, int) else p for p in spread(padding))
    conv = {1: sg.conv1d, 2: sg.conv2d, 3: sg.conv3d}[ndim]

    def function(x, w, *b):
        return conv(x, w, *b, stride=stride, padding=padding, dilation=dilation, groups=groups)

    def reference(x, w, *b):
        out = _slow_conv(x, w, spread(stride), pairs, spread(dilation), groups)
        return out + b[0].reshape(-1, *(1,) * ndim) if b else out

    operands = (x, w, (w[0],)) if bias else (x, w)
    return case(name, function, *operands, reference=reference)


def _transposed_reference(stride, padding, output_padding):
    """Each input element adds a copy of the kernel."""

    def reference(x, w, *b):
        k = w.shape[2]
        full = np.zeros((x.shape[0], w.shape[1], (x.shape[2] - 1) * stride + k + output_padding))
        for place in range(x.shape[2]):
            full[:, :, place * stride : place * stride + k] += np.einsum(
                "bi,iok->bok", x[:, :, place], w
            )
        out = full[:, :, padding : full.shape[2] - padding]
        return out + b[0][:, None] if b else out

    return reference


def _pool_reference(reduce, kernel, stride, fill, padding=0):
    def reference(x):
        x = np.pad(x, ((0, 0), (0, 0), (padding, padding)), constant_values=fill)
        count = (x.shape[2] - kernel) // stride + 1
        return np.stack(
            [reduce(x[:, :, i * stride : i * stride + kernel], axis=2) for i in range(count)], 2
        )

    return reference


def _attention(q, k, v, mask=None):
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def _both_parts(z):
    """A real function of a complex result, different in its real and imaginary part."""
    return z.real * 2 + z.imag * 3


TRIANGLE = np.tri(3, dtype=bool)

CASES = [
    _conv_case("conv1d", (2, 2, 5), (3, 2, 3), bias=True),
    _conv_case("conv1d, stride leaves a rest", (1, 2, 6), (2, 2, 3), stride=2),
    _conv_case("conv1d, padded unevenly", (1, 1, 4), (2, 1, 3), padding=((2, 0),), dilation=2),
    _conv_case("conv1d of kernel 1", (2, 2, 3), (2, 2, 1)),
    _conv_case("conv2d", (2, 2, 3, 4), (2, 2, 2, 3), stride=(1, 2), padding=(1, 0)),
    _conv_case("conv2d, grouped", (1, 4, 3, 3), (4, 2, 2, 2), groups=2, bias=True),
    _conv_case("conv2d by channel", (1, 2, 3, 3), (4, 1, 2, 2), groups=2, dilation=(2, 1)),
    _conv_case("conv3d", (1, 1, 2, 3, 3), (2, 1, 2, 2, 2)),
    case(
        "conv1d without a batch",
        lambda x, w: sg.conv1d(x, w),
        (2, 4),
        (2, 2, 3),
        reference=lambda x, w: _slow_conv(x[None], w, (1,), ((0, 0),), (1,), 1)[0],
    ),
    case(
        "conv2d, same",
        lambda x, w: sg.conv2d(x, w, padding="same", stride=2),
        (1, 1, 3, 4),
        (1, 1, 2, 3),
        reference=lambda x, w: _slow_conv(x, w, (2, 2), ((0, 1), (0, 1)), (1, 1), 1),
    ),
    *[
        case(
            f"conv_transpose1d, stride {stride}, padding {padding}, more {extra}",
            lambda x, w, b, s=stride, p=padding, e=extra: sg.conv_transpose1d(
                x, w, b, stride=s, padding=p, output_padding=e
            ),
            (2, 2, 3),
            (2, 2, 3),
            (2,),
            reference=_transposed_reference(stride, padding, extra),
        )
        for stride, padding, extra in ((1, 0, 0), (2, 1, 1), (3, 0, 2), (1, 2, 0))
    ],
    case(
        "max_pool1d",
        lambda x: sg.max_pool1d(x, 3, 2),
        (2, 2, 6),
        reference=_pool_reference(np.max, 3, 2, -np.inf),
    ),
    case(
        "max_pool1d, padded and overlapping",
        lambda x: sg.max_pool1d(x, 3, 1, 1),
        (2, 2, 5),
        reference=_pool_reference(np.max, 3, 1, -np.inf, 1),
    ),
    case(
        "max_pool2d",
        lambda x: sg.max_pool2d(x, 2),
        (1, 2, 5, 4),
        reference=lambda x: x[:, :, :4].reshape(1, 2, 2, 2, 2, 2).max(axis=(3, 5)),
    ),
    case(
        "max_pool3d",
        lambda x: sg.max_pool3d(x, (1, 2, 3)),
        (1, 1, 2, 2, 3),
        reference=lambda x: x.max(axis=(3, 4), keepdims=True),
    ),
    case(
        "avg_pool1d",
        lambda x: sg.avg_pool1d(x, 3, 2, 1),
        (2, 2, 6),
        reference=_pool_reference(np.mean, 3, 2, 0.0, 1),
    ),
    case(
        "avg_pool1d without the padding",
        lambda x: sg.avg_pool1d(x, 3, 2, 1, count_include_pad=False),
        (2, 2, 6),
        reference=_pool_reference(np.nanmean, 3, 2, np.nan, 1),
    ),
    case(
        "avg_pool2d",
        lambda x: sg.avg_pool2d(x, (2, 3)),
        (1, 2, 4, 3),
        reference=lambda x: x.reshape(1, 2, 2, 2, 1, 3).mean(axis=(3, 5)),
    ),
    case(
        "adaptive_avg_pool",
        lambda x: sg.adaptive_avg_pool(x, (2,)),
        (2, 3),
        reference=lambda x: np.stack([x[:, :2].mean(1), x[:, 1:].mean(1)], 1),
    ),
    case(
        "adaptive_max_pool",
        lambda x: sg.adaptive_max_pool(x, (2, 1)),
        (2, 3, 2),
        reference=lambda x: np.stack([x[:, :2].max((1, 2)), x[:, 1:].max((1, 2))], 1)[..., None],
    ),
    case(
        "attention",
        sg.scaled_dot_product_attention,
        (2, 2, 3),
        (2, 4, 3),
        (2, 4, 2),
        reference=_attention,
    ),
    case(
        "attention, causal",
        lambda q, k, v: sg.scaled_dot_product_attention(q, k, v, causal=True),
        (3, 2),
        (3, 2),
        (3, 2),
        reference=lambda q, k, v: _attention(q, k, v, TRIANGLE),
    ),
    case(
        "attention with added mask",
        sg.scaled_dot_product_attention,
        (3, 2),
        (3, 2),
        (3, 2),
        (3, 3),
        reference=_attention,
    ),
    *[
        case(f"{name} {mode} {m} {n}", lambda a, v, f=function, o=mode: f(a, v, o), (m,), (n,))
        for name, function in (("convolve", np.convolve), ("correlate", np.correlate))
        for mode in ("full", "same", "valid")
        for m, n in ((5, 3), (2, 5), (4, 4), (1, 1))
    ],
    case(
        "interp",
        np.interp,
        [-1.0, 0.5, 1.3, 2.7, 4.0],
        [0.0, 1.0, 2.0, 3.0],
        (4,),
    ),
    case(
        "interp with ends",
        lambda x, fp: np.interp(x, np.array([0, 1, 3], np.float32), fp, left=-1, right=2),
        [[-1.0, 0.5], [1.3, 4.0]],
        (3,),
    ),
    *[
        case(
            f"fft of length {n} {norm}",
            lambda x, n=n, norm=norm: _both_parts(np.fft.fft(x, n, 0, norm)),
            (5, 2),
        )
        for n in (None, 3, 7)
        for norm in (None, "ortho", "forward")
    ],
    case("ifft", lambda x, y: _both_parts(np.fft.ifft(x + 1j * y, 5)), (2, 4), (2, 4)),
    *[
        case(f"rfft of {m} to {n}", lambda x, n=n: _both_parts(np.fft.rfft(x, n)), (2, m))
        for m in (5, 6)
        for n in (None, 3, 8)
    ],
    *[
        case(f"irfft of {m} to {n}", lambda x, y, n=n: np.fft.irfft(x + 1j * y, n), (m,), (m,))
        for m in (3, 4)
        for n in (None, 2, 5, 8, 9)
    ],
    case("hfft", lambda x, y: np.fft.hfft(x + 1j * y, norm="ortho"), (4,), (4,)),
    case("ihfft", lambda x: _both_parts(np.fft.ihfft(x, 6)), (5,)),
    case("fft2", lambda x: _both_parts(np.fft.fft2(x)), (2, 3, 2)),
    case("ifftn", lambda x: _both_parts(np.fft.ifftn(x, s=(2, 4), axes=(1, 2))), (2, 3, 2)),
    case("rfftn", lambda x: _both_parts(np.fft.rfftn(x, axes=(0, 1))), (3, 4, 2)),
    case("irfft2", lambda x: np.fft.irfft2(x, s=(3, 4)), (3, 3)),
    case("fftshift", np.fft.fftshift, (3, 4)),
    case("ifftshift", lambda x: np.fft.ifftshift(x, 0), (3, 2)),
]


@pytest.mark.parametrize("one", CASES, ids=str)
def test_gradients_of_both_orders_agree_with_finite_differences(one):
    check_differences(one)


@pytest.mark.parametrize("one", CASES, ids=str)
def test_the_value_is_that_of_the_definition_and_operands_are_not_written_into(one):
    check_value(one)


@pytest.mark.parametrize("one", CASES, ids=str)
def test_float32_stays_float32(one):
    check_float32(one)


@pytest.mark.parametrize("one", CASES, ids=str)
def test_the_memory_layout_of_operands_does_not_matter(one):
    check_layouts(one)


# --- convolution ----------------------------------------------------------------------------


def test_what_no_window_covers_gets_gradient_zero():
    x = sg.tensor(np.ones((1, 1, 6)), requires_grad=True)
    w = sg.tensor(np.ones((1, 1, 2)), requires_grad=True)
    out = sg.conv1d(x, w, stride=4)
    gradients = out.sum().backward()
    np.testing.assert_array_equal(gradients[x], [[[1, 1, 0, 0, 1, 1]]])
    np.testing.assert_array_equal(gradients[w], [[[2, 2]]])


def test_a_transposed_convolution_is_the_transposed_map_of_the_convolution():
    """⟨conv(x, w), g⟩ = ⟨x, conv_transpose(g, w)⟩."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 4, 5, 6)), rng.normal(size=(6, 2, 3, 2))
    settings = {"stride": (2, 1), "padding": (1, 0), "groups": 2, "dilation": (1, 2)}
    out = sg.conv2d(x, w, **settings).numpy()
    g = rng.normal(size=out.shape)
    back = sg.conv_transpose2d(g, w, **settings)
    assert back.shape == x.shape
    assert (out * g).sum() == pytest.approx((x * back.numpy()).sum(), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x, w: sg.conv1d(x, w[:, :1]), "2 input channels"),
        (lambda x, w: sg.conv1d(x, w, groups=3), "groups"),
        (lambda x, w: sg.conv1d(x, w[0]), "its axes are"),
        (lambda x, w: sg.conv1d(x[0, 0], w), r"the input has the axes \(batch"),
        (lambda x, w: sg.conv1d(x[:, :, :2], w), "reaches over 3"),
        (lambda x, w: sg.conv1d(x, w, np.ones(2)), "bias has shape"),
        (lambda x, w: sg.conv1d(x, w, stride=0), "stride is a number from 1 on"),
        (lambda x, w: sg.conv1d(x, w, padding=(1, 2)), "padding is a number"),
        (lambda x, w: sg.conv1d(x, w, padding="full"), '"valid" or "same"'),
        (lambda x, w: sg.conv2d(x, w), "weight has shape|the input has the axes"),
        (lambda x, w: sg.conv_transpose1d(x, w), "in channels"),
        (lambda x, w: sg.conv_transpose1d(x, w[:2], output_padding=2), "output_padding"),
        (lambda x, w: sg.max_pool1d(x, 3, padding=3), "padding alone"),
        (lambda x, w: sg.max_pool2d(x[0], 2), r"the input has the axes \(batch"),
        (lambda x, w: sg.avg_pool1d(x, 9), "reaches over 9"),
        (lambda x, w: sg.scaled_dot_product_attention(x[0, 0], x, x), "query has shape"),
        (lambda x, w: np.convolve(x[0], w[0, 0]), "one axis"),
        (lambda x, w: np.convolve(x[0, 0], w[0, 0], "middle"), "mode is"),
        (lambda x, w: np.interp(x, [0.0, 1.0], [1.0]), "vectors of one length"),
        (lambda x, w: np.fft.fft(x, 0), "at least one point"),
        (lambda x, w: np.fft.fftn(x, s=(2,), axes=(0, 1)), "1 lengths for 2 axes"),
    ],
)
def test_shapes_and_settings_that_do_not_fit_are_named(call, said):
    x = sg.tensor(np.ones((1, 2, 4)), requires_grad=True)
    w = sg.tensor(np.ones((3, 2, 3)), requires_grad=True)
    with pytest.raises(sg.ShapeError, match=said):
        call(x, w)


def test_an_empty_batch_gives_an_empty_gradient():
    x = sg.tensor(np.ones((0, 2, 4)), requires_grad=True)
    w = sg.tensor(np.ones((3, 2, 3)), requires_grad=True)
    gradients = sg.conv1d(x, w).sum().backward()
    assert gradients[x].shape == (0, 2, 4)
    np.testing.assert_array_equal(gradients[w], np.zeros((3, 2, 3)))
    assert sg.max_pool1d(x, 2).sum().backward()[x].shape == (0, 2, 4)


# --- pooling --------------------------------------------------------------------------------


def test_of_equal_elements_in_a_window_the_first_gets_the_gradient():
    x = sg.tensor([[[1.0, 1.0, 0.0, 1.0]]], requires_grad=True)
    out = sg.max_pool1d(x, 2, 1)
    np.testing.assert_array_equal(out.backward([[[1.0, 10.0, 100.0]]])[x], [[[1, 10, 0, 100]]])


def test_padding_is_never_the_largest_element():
    x = sg.tensor(np.full((1, 1, 2, 2), -np.inf), requires_grad=True)
    out = sg.max_pool2d(x, 2, 1, 1)
    np.testing.assert_array_equal(out.numpy(), np.full((1, 1, 3, 3), -np.inf))
    gradient = out.backward(np.ones((1, 1, 3, 3)))[x]
    np.testing.assert_array_equal(gradient, [[[[4, 2], [2, 1]]]])


def test_negative_elements_are_larger_than_padding():
    x = sg.tensor([[[-1.0, -3.0, -2.0]]], requires_grad=True)
    out = sg.max_pool1d(x, 3, 1, 1)
    np.testing.assert_array_equal(out.numpy(), [[[-1, -1, -2]]])
    np.testing.assert_array_equal(out.backward([[[1.0, 10.0, 100.0]]])[x], [[[11, 0, 100]]])


def test_nan_wins_a_window():
    x = sg.tensor([[[1.0, np.nan, 3.0, 2.0]]], requires_grad=True)
    out = sg.max_pool1d(x, 2)
    np.testing.assert_array_equal(out.numpy(), [[[np.nan, 3]]])
    np.testing.assert_array_equal(out.backward([[[1.0, 1.0]]])[x], [[[0, 1, 1, 0]]])


# --- attention ------------------------------------------------------------------------------


def test_a_query_that_may_look_at_no_key_gives_zeros_and_sends_no_gradient():
    rng = np.random.default_rng(0)
    q, k, v = (sg.tensor(rng.normal(size=(2, 2)), requires_grad=True) for _ in range(3))
    mask = np.array([[False, False], [True, False]])
    out = sg.scaled_dot_product_attention(q, k, v, mask=mask)
    np.testing.assert_array_equal(out.numpy(), [[0, 0], v.numpy()[0]])
    gradients = out.backward(np.ones((2, 2)))
    np.testing.assert_array_equal(gradients[q][0], [0, 0])
    np.testing.assert_array_equal(gradients[v], [[1, 1], [0, 0]])


# --- interpolation and transforms -----------------------------------------------------------


def test_interp_is_exact_at_its_points_and_flat_outside():
    xp, fp = [0.1, 0.3, 0.7], [0.2, 0.9, 0.4]
    x = sg.tensor([*xp, -5.0, 5.0], requires_grad=True)
    out = np.interp(x, xp, fp)
    np.testing.assert_array_equal(out.numpy(), [*fp, 0.2, 0.4])
    gradient = out.backward(np.ones(5))[x]
    np.testing.assert_allclose(gradient, [3.5, -1.25, -1.25, 0, 0])


def test_the_gradient_of_a_complex_value_is_the_conjugate_of_the_steepest_ascent():
    """The convention: ∂L/∂Re - i ∂L/∂Im, as in JAX; for |z|² at 1 + 2i it is 2 - 4i."""
    z = sg.tensor([1.0 + 2.0j], requires_grad=True)
    loss = (np.abs(z) ** 2).sum()
    np.testing.assert_allclose(loss.backward()[z], [2 - 4j])
    z = sg.tensor([1.0 + 2.0j, 0.5j], requires_grad=True)
    loss = (np.abs(np.fft.fft(z, norm="ortho")) ** 2).sum()  # Parseval: the same sum
    np.testing.assert_allclose(loss.backward()[z], [2 - 4j, -1j], atol=1e-15)


def test_transforms_agree_with_numpys_for_all_lengths_axes_and_norms():
    rng = np.random.default_rng(0)
    real = rng.normal(size=(4, 6, 5))
    complex_ = real + 1j * rng.normal(size=real.shape)
    norms = (None, "backward", "ortho", "forward")
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        x = real if name in ("rfft", "ihfft") else complex_
        function = getattr(np.fft, name)
        for n, norm, axis in itertools.product((None, 2, 3, 9), norms, (0, -1)):
            got = function(sg.tensor(x), n, axis, norm).numpy()
            np.testing.assert_allclose(got, function(x, n, axis, norm), rtol=1e-12, atol=1e-12)
    for name in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"):
        x = real if name.startswith("r") else complex_
        function = getattr(np.fft, name)
        for options in (
            {},
            {"axes": (0, 2)},
            {"s": (3, 4), "axes": (1, 0)},
            {"axes": (-1, 0, 1)},
            {"norm": "ortho"},
        ):
            got = function(sg.tensor(x), **options).numpy()
            np.testing.assert_allclose(got, function(x, **options), rtol=1e-12, atol=1e-12)


def test_a_layer_stack_of_convolution_pooling_and_attention_has_second_derivatives():
    rng = np.random.default_rng(1)

    def network(x, w):
        seen = sg.max_pool2d(np.tanh(sg.conv2d(x, w, padding=1)), 2)
        flat = seen.reshape(2, -1)
        return sg.scaled_dot_product_attention(flat, flat, flat).sum()

    check_gradients(
        network, rng.normal(size=(1, 1, 4, 4)), rng.normal(size=(2, 1, 3, 3)), atol=1e-6
    )
