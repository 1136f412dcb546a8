"""Operations that are in no other table: losses, norms, cells, polynomials, spaces, updates.

The references are written out in plain NumPy.
"""

import math

import numpy as np
import pytest
from operation_cases import (
    case,
    check_differences,
    check_float32,
    check_layouts,
    check_value,
)

import sweepgrad as sg

LOOSE = {"rtol": 2e-6, "atol": 2e-6}
LABELS = np.array([0, 3, 1])
WEIGHTS = np.array([1.0, 2.0, 0.5, 3.0])
MASK = np.array([True, False, True, False])
PLACES = np.array([1, 0, 1, 3])
CONDITION = np.array([[True, False, True], [False, True, True]])
POSITIVE = np.array([0.3, 1.2, 2.5, 0.7])


def log_softmax(x, axis=-1):
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


def cross_entropy(x):
    weights = WEIGHTS[LABELS]
    return (-log_softmax(x)[np.arange(3), LABELS] * weights).sum() / weights.sum()


def normal(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(x, h, wi, wh, bi, bh):
    xr, xz, xn = np.split(x @ wi + bi, 3, -1)
    hr, hz, hn = np.split(h @ wh + bh, 3, -1)
    z, n = sigmoid(xz + hz), np.tanh(xn + sigmoid(xr + hr) * hn)
    return (1 - z) * n + z * h


def lstm(x, h, c, wi, wh, bi, bh):
    i, f, g, o = np.split(x @ wi + bi + h @ wh + bh, 4, -1)
    memory = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return np.concatenate([sigmoid(o) * np.tanh(memory), memory])


def huber(x, t):
    d = np.abs(x - t)
    return np.where(d <= 1, d * d / 2, d - 0.5)


def conv(x, w):
    """A convolution written out, over three axes after batch and channels."""
    sizes = [n - k + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    for place in np.ndindex(*w.shape[2:]):
        part = x[(..., *(slice(p, p + s) for p, s in zip(place, sizes, strict=True)))]
        out += np.einsum("bi...,oi->bo...", part, w[(..., *place)])
    return out


def conv_transposed(x, w):
    sizes = [n + k - 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    out = np.zeros((x.shape[0], w.shape[1], *sizes))
    for place in np.ndindex(*w.shape[2:]):
        at = (..., *(slice(p, p + n) for p, n in zip(place, x.shape[2:], strict=True)))
        out[at] += np.einsum("bi...,io->bo...", x, w[(..., *place)])
    return out


def put(x, v):
    x = x.copy()
    np.put(x, [1, 4], v)
    return x


def _weighed(t):
    return t.real * 2 + t.imag if t.dtype.kind == "c" else t


def _last_columns(a):
    """A function of the columns that complete q which does not depend on their choice."""
    q = np.linalg.qr(a, mode="complete")[0]
    rest = q[:, a.shape[1] :]
    return rest @ np.conjugate(rest).T


NEURAL = [
    case("log_softmax", sg.log_softmax, (2, 3), reference=log_softmax),
    case("softmax", sg.softmax, (2, 3), reference=lambda x: np.exp(log_softmax(x))),
    case(
        "logsumexp",
        lambda x: sg.logsumexp(x, -1),
        (2, 3),
        reference=lambda x: np.log(np.exp(x).sum(-1)),
    ),
    case(
        "cross_entropy",
        lambda x: sg.cross_entropy(x, LABELS, weight=WEIGHTS),
        (3, 4),
        reference=cross_entropy,
    ),
    case(
        "nll_loss",
        lambda x: sg.nll_loss(x, LABELS),
        (3, 4),
        reference=lambda x: -x[np.arange(3), LABELS].mean(),
    ),
    case("mse_loss", sg.mse_loss, (2, 3), (2, 3), reference=lambda x, t: ((x - t) ** 2).mean()),
    case(
        "huber_loss",
        lambda x, t: sg.huber_loss(x, t, reduction="none"),
        [0.1, 2.0, -3.0],
        [0.4, 0.1, 0.2],
        reference=huber,
    ),
    case(
        "bce_with_logits",
        lambda x, t: sg.bce_with_logits(x, t, reduction="sum"),
        (3,),
        [0.2, 0.9, 0.5],
        reference=lambda x, t: (np.log1p(np.exp(x)) - t * x).sum(),
    ),
    case(
        "layer_norm",
        sg.layer_norm,
        (2, 4),
        (4,),
        (4,),
        reference=lambda x, w, b: normal(x, -1) * w + b,
    ),
    case(
        "rms_norm",
        sg.rms_norm,
        (2, 4),
        (4,),
        reference=lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w,
    ),
    case(
        "batch_norm",
        sg.batch_norm,
        (3, 2),
        (2,),
        (2,),
        reference=lambda x, w, b: normal(x, 0) * w + b,
    ),
    case(
        "group_norm",
        lambda x: sg.group_norm(x, 2),
        (2, 4),
        reference=lambda x: normal(x.reshape(2, 2, 2), -1).reshape(2, 4),
    ),
    case(
        "embedding",
        lambda w: sg.embedding(w, PLACES),
        (4, 2),
        reference=lambda w: w[PLACES],
    ),
    case(
        "dropout",
        lambda x: sg.dropout(x, 0.5, np.random.default_rng(3)),
        (6,),
        reference=lambda x: sg.dropout(sg.tensor(np.ones(6)), 0.5, np.random.default_rng(3)).numpy()
        * x,
    ),
    case("gru_cell", sg.gru_cell, (2, 3), (2, 2), (3, 6), (2, 6), (6,), (6,), reference=gru),
    case(
        "lstm_cell",
        lambda *a: sg.concatenate(list(sg.lstm_cell(*a))),
        (2, 3),
        (2, 2),
        (2, 2),
        (3, 8),
        (2, 8),
        (8,),
        (8,),
        reference=lstm,
    ),
    case("linear", sg.linear, (2, 2, 3), (3, 2), (2,), reference=lambda x, w, b: x @ w + b),
    case("conv3d", sg.conv3d, (1, 2, 2, 3, 2), (1, 2, 2, 2, 1), reference=conv),
    case("conv_transpose2d", sg.conv_transpose2d, (1, 2, 2, 2), (2, 1, 2, 2),
         reference=conv_transposed),
    case("conv_transpose3d", sg.conv_transpose3d, (1, 1, 2, 1, 2), (1, 2, 1, 2, 2),
         reference=conv_transposed),
    case(
        "avg_pool3d",
        lambda x: sg.avg_pool3d(x, 2),
        (1, 1, 2, 2, 4),
        reference=lambda x: x.reshape(1, 1, 2, 2, 2, 2).mean((2, 3, 5))[:, :, None, None],
    ),
]  # fmt: skip

ELEMENTWISE = [
    case("clip", lambda x: np.clip(x, -0.5, 0.8), [-1.0, -0.2, 0.3, 2.0]),
    case("clip by tensors", np.clip, [-1.0, -0.2, 2.0], [-0.5, -0.6, -0.7], [1.0, 0.9, 0.8]),
    case("where", lambda x, y: np.where(CONDITION, x, y), (2, 3), (3,)),
    case("fix", np.fix, [0.4, -1.3, 2.2], reference=np.trunc),  # np.fix of arrays is deprecated
    case("round", lambda x: np.round(x, 1), [0.42, -1.33, 2.21]),
    case("modf", lambda x: np.add(*np.modf(x)), [0.4, -1.3, 2.2]),
    case("frexp", lambda x: np.frexp(x)[0], [0.4, -1.3, 2.2]),
    case("ldexp", lambda x: np.ldexp(x, [1, -2, 3]), (3,)),
    case("divmod", lambda x, y: np.multiply(*np.divmod(x, y)), [4.3, -4.2], [1.2, 1.1]),
    case("astype", lambda x: np.astype(x, x.dtype) * 2, (3,)),
    case("polygamma", lambda x: sg.polygamma(1, x), POSITIVE,
         reference=lambda x: (1 / (x + np.arange(4000.0)[:, None]) ** 2)[::-1].sum(0)
         + 1 / (4000 + x) + 1 / (2 * (4000 + x) ** 2) + 1 / (6 * (4000 + x) ** 3)),
    case("imag", lambda x: np.imag(np.fft.fft(x)), (4,)),
    case("diff", lambda x: np.diff(x, 2), (2, 4)),
    case("trapezoid", np.trapezoid, (2, 3), [0.0, 0.4, 1.0]),
    case("unwrap", np.unwrap, [0.1, 3.0, 6.8, 0.3]),
    case("cumulative_sum", lambda x: np.cumulative_sum(x, axis=1), (2, 3)),
    case("cumulative_prod", lambda x: np.cumulative_prod(x, axis=0, include_initial=True), (2, 3)),
    case("nancumsum", np.nancumsum, (2, 3)),
    case("nancumprod", lambda x: np.nancumprod(x, axis=1), (2, 3)),
    case("pad", lambda x: np.pad(x, ((1, 2), (0, 1)), "reflect"), (3, 2)),
    case("fftn", lambda x: _weighed(np.fft.fftn(x)), (2, 3)),
    case("ifft2", lambda x: _weighed(np.fft.ifft2(x)), (2, 3)),
    case("rfft2", lambda x: _weighed(np.fft.rfft2(x)), (2, 3)),
    case("irfftn", lambda x: np.fft.irfftn(x, (2, 3), (0, 1)), (2, 2)),
    case("scimath.sqrt", lambda x: _weighed(np.lib.scimath.sqrt(x)), [2.0, -3.0]),
    case("scimath.log", lambda x: _weighed(np.lib.scimath.log(x)), [2.0, -3.0]),
    case("scimath.log2", lambda x: _weighed(np.lib.scimath.log2(x)), [2.0, -3.0]),
    case("scimath.log10", lambda x: _weighed(np.lib.scimath.log10(x)), [2.0, -3.0]),
    case("scimath.logn", lambda n, x: _weighed(np.lib.scimath.logn(n, x)), 2.5, [2.0, -3.0]),
    case("scimath.power", lambda x: _weighed(np.lib.scimath.power(x, 1.5)), [2.0, -3.0]),
    case("scimath.power, inside", np.lib.scimath.power, [2.0, 0.5], [1.5, -0.5]),
    case("scimath.arccos", lambda x: _weighed(np.lib.scimath.arccos(x)), [0.3, 2.0]),
    case("scimath.arcsin", lambda x: _weighed(np.lib.scimath.arcsin(x)), [0.3, 2.0]),
    case("scimath.arctanh", lambda x: _weighed(np.lib.scimath.arctanh(x)), [0.3, 2.0]),
]  # fmt: skip

ARRAYS = [
    case("linspace", lambda a, b: np.linspace(a, b, 5), 0.3, 2.0),
    case("linspace of vectors", lambda a, b: np.linspace(a, b, 4, False, axis=1), (2, 1), (3,)),
    case("linspace of one", lambda a, b: np.linspace(a, b, 1), 0.3, 2.0),
    case("linspace with its step", lambda a, b: np.multiply(*np.linspace(a, b, 3, retstep=True)),
         0.3, 2.0),
    case("logspace", lambda a, b, c: np.logspace(a, b, 3, base=c), 0.3, 1.0, [2.0, 3.0]),
    case("geomspace", lambda a, b: np.geomspace(a, b, 4, axis=-1), [0.3, 1.5], [2.0, 0.2]),
    case("full_like", lambda v: np.full_like(v, v, shape=(2, 3)), (3,),
         reference=lambda v: np.broadcast_to(v, (2, 3))),
    case("insert one", lambda x, v: np.insert(x, 1, v, axis=1), (2, 3), (2,)),
    case("insert several", lambda x, v: np.insert(x, [2, 0, 2], v, axis=0), (3, 2), (3, 2)),
    case("insert by a mask", lambda x: np.insert(x, MASK, 7.0), (4,)),
    case("insert a block", lambda x, v: np.insert(x, [1], v, axis=1), (2, 3), (2, 2)),
    case("insert at a slice", lambda x, v: np.insert(x, slice(None, None, 2), v), (2, 3), (3,)),
    case("bincount", lambda w: np.bincount(PLACES, w, 6), (4,),
         reference=lambda w: np.bincount(PLACES, w, 6)),
    case("apply_along_axis",
         lambda x: np.apply_along_axis(lambda v: v[:2, None] * v, 1, x), (2, 3, 2)),
    case("apply_over_axes", lambda x: np.apply_over_axes(np.sum, x, (0, -1)), (2, 3, 2)),
    case("trim_zeros", np.trim_zeros, [1.5, 0.0, 2.0]),
    case("real_if_close", np.real_if_close, (3,)),
    case("sort_complex", lambda x: _weighed(np.sort_complex(x)), [0.3, -1.0, 2.0]),
    case("put", lambda x, v: sg.put(x, [1, 4], v), (2, 3), (2,), reference=put),
    case("poly", np.poly, (3,)),
    case("poly of a matrix", np.poly, (3, 3), **LOOSE),
    case("polyadd", np.polyadd, (3,), (2,)),
    case("polysub", np.polysub, (2,), (3,)),
    case("polymul", np.polymul, (3,), (2,)),
    case("polyder", lambda p: np.polyder(p, 2), (4,)),
    case("polyint", lambda p, k: np.polyint(p, 2, k), (3,), (2,)),
    case("polyfit", lambda x, y: np.polyfit(x, y, 1), [0.0, 1.0, 2.5, 3.0], (4,), **LOOSE),
    case("polyfit with weights", lambda x, y, w: np.polyfit(x, y, 2, w=w),
         [0.0, 1.0, 2.0, 4.0], (4, 2), POSITIVE, **LOOSE),
    case("roots", lambda p: np.abs(np.roots(p)), [1.0, -6.0, 11.0, -5.0], **LOOSE),
    case("linalg.cross", np.linalg.cross, (2, 3), (2, 3)),
    case("linalg.diagonal", lambda x: np.linalg.diagonal(x, offset=1), (2, 3, 3)),
    case("linalg.trace", np.linalg.trace, (2, 3, 3)),
    case("linalg.outer", np.linalg.outer, (2,), (3,)),
    case("linalg.tensordot", lambda x, y: np.linalg.tensordot(x, y, axes=1), (2, 3), (3, 2)),
    case("qr, complete", lambda a: np.abs(np.linalg.qr(a, mode="complete")[1]), (4, 2), **LOOSE),
    case("qr, the added columns", _last_columns, (4, 2), **LOOSE),
    case("interp with a period",
         lambda x, xp, fp: np.interp(x, xp, fp, period=2.0),
         [-0.7, 0.4, 3.9, 1.9], [0.1, 0.9, 3.4], (3,)),
]  # fmt: skip

CASES = [*NEURAL, *ELEMENTWISE, *ARRAYS]


@pytest.mark.parametrize("one", CASES, ids=str)
def test_gradients_of_both_orders_agree_with_finite_differences(one):
    check_differences(one)


@pytest.mark.parametrize("one", CASES, ids=str)
def test_the_value_is_that_of_the_reference_and_operands_are_not_written_into(one):
    check_value(one)


#: NumPy's result is wider than float32 operands.
WIDER = {"bincount", "geomspace", "sort_complex"}


@pytest.mark.parametrize("one", [one for one in CASES if one.name not in WIDER], ids=str)
def test_float32_stays_float32(one):
    check_float32(one)


@pytest.mark.parametrize("one", CASES, ids=str)
def test_the_memory_layout_of_operands_does_not_matter(one):
    check_layouts(one)


def test_the_ends_of_a_space_are_exact_and_their_gradients_sum_to_those_of_the_points():
    ends = [sg.tensor(0.1, requires_grad=True), sg.tensor(0.7, requires_grad=True)]
    points = np.linspace(*ends, 7)
    assert points[0].item() == 0.1
    assert points[-1].item() == 0.7
    gradients = points.sum().backward()
    assert gradients[ends[0]] == pytest.approx(3.5, abs=1e-12)
    assert gradients[ends[1]] == pytest.approx(3.5, abs=1e-12)


def test_full_like_of_a_number_is_a_plain_array_as_it_has_no_gradient():
    t = sg.tensor([1.0, 2.0], requires_grad=True)
    assert type(np.full_like(t, 3.0)) is np.ndarray
    assert np.full_like(t, t[0]).backward(np.ones(2))[t].tolist() == [2.0, 0.0]


def test_trimmed_zeros_get_gradient_zero():
    t = sg.tensor([0.0, 1.5, 0.0, 2.0, 0.0], requires_grad=True)
    assert np.trim_zeros(t).sum().backward()[t].tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert np.trim_zeros(t, "b").tolist() == [0.0, 1.5, 0.0, 2.0]


def test_the_gradient_of_labels_reaches_scores_in_any_layout():
    scores = np.log([[1.0, 3.0], [2.0, 2.0]])
    labels, expected = [0, 1], [[-0.75, 0.75], [0.5, -0.5]]
    for layout in (scores, np.asfortranarray(scores), np.repeat(scores, 2, 1)[:, ::2]):
        x = sg.from_numpy(layout, requires_grad=True)
        loss = sg.cross_entropy(x, labels, reduction="sum")
        np.testing.assert_allclose(loss.backward()[x], expected, rtol=1e-14)
    x = sg.tensor(scores.T, requires_grad=True)
    loss = sg.cross_entropy(x, labels, reduction="sum", axis=0)
    np.testing.assert_allclose(loss.backward()[x], np.transpose(expected), rtol=1e-14)


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (np.arcsin, 1j / math.sqrt(3)),
        (np.arccos, -1j / math.sqrt(3)),
        (np.arccosh, 1 / math.sqrt(3)),
        (np.arctanh, -1 / 3),
    ],
)
def test_on_a_branch_cut_the_gradient_is_that_of_the_side_the_value_is_on(function, slope):
    """2 + 0i is on the upper side and 2 - 0i on the lower one, where the slope is conjugate."""
    for z, expected in ((complex(2, 0.0), slope), (complex(2, -0.0), np.conj(slope))):
        t = sg.tensor(z, requires_grad=True)
        assert function(t).backward(1 + 0j)[t] == pytest.approx(expected, rel=1e-14)


def test_the_gradient_of_arcsinh_on_its_branch_cut():
    for z, slope in (
        (2j, -1j),
        (complex(-0.0, 2), 1j),
        (complex(0, -2), 1j),
        (complex(-0.0, -2), -1j),
    ):
        t = sg.tensor(z, requires_grad=True)
        expected = slope / math.sqrt(3)
        assert np.arcsinh(t).backward(1 + 0j)[t] == pytest.approx(expected, rel=1e-14)


def test_logsumexp_of_complex_numbers_is_on_the_principal_branch():
    z = sg.tensor([1 - 7j, -np.inf + 0j], requires_grad=True)
    out = sg.logsumexp(z)
    assert out.item() == pytest.approx(1 + (2 * math.pi - 7) * 1j, abs=1e-14)
    np.testing.assert_allclose(out.backward(1 + 0j)[z], [1, 0], atol=1e-15)


def test_the_sigmoid_of_a_complex_number_and_what_is_refused_for_one():
    z = sg.tensor([2 + 1j, -700 - 3j], requires_grad=True)
    expected = 1 / (1 + np.exp(-z.numpy()))
    for function in (sg.sigmoid, sg.expit):
        np.testing.assert_allclose(function(z).numpy(), expected, rtol=1e-14)
    np.testing.assert_allclose(sg.silu(z).numpy(), z.numpy() * expected, rtol=1e-14)
    slope = sg.sigmoid(z).backward([1, 1])[z]
    np.testing.assert_allclose(slope, expected * (1 - expected), rtol=1e-13)
    for refused in (sg.softplus, sg.log_sigmoid, lambda t: sg.huber_loss(t, t)):
        with pytest.raises(sg.DtypeError, match="real numbers"):
            refused(z)


def test_no_difference_at_all_joins_nothing():
    """n=0 gives the operand back, as in NumPy."""
    assert np.diff(sg.tensor([1.0, 3.0]), 0, prepend=7.0).tolist() == [1.0, 3.0]


def test_zeros_are_added_where_output_padding_reaches_past_the_kernel():
    x = sg.tensor(np.ones((1, 1, 2)), requires_grad=True)
    w = np.array([[[1.0, 2.0]]])
    out = sg.conv_transpose1d(x, w, stride=1, dilation=3, output_padding=2)
    assert out.numpy().ravel().tolist() == [1.0, 1.0, 0.0, 2.0, 2.0, 0.0, 0.0]
    padded = sg.conv_transpose1d(x, w, stride=1, dilation=3, output_padding=2, padding=1)
    assert padded.numpy().ravel().tolist() == [1.0, 0.0, 2.0, 2.0, 0.0]
    assert padded.sum().backward()[x].ravel().tolist() == [2.0, 3.0]


def test_counts_without_weights_are_plain_integers():
    counts = np.bincount(sg.tensor([0, 2, 2]))
    assert type(counts) is np.ndarray
    assert counts.tolist() == [1, 0, 2]


def test_leading_zeros_of_a_polynomial_get_no_gradient():
    p = sg.tensor([0.0, 2.0, 1.0], requires_grad=True)
    product = np.polymul(p, [3.0, 1.0])
    assert product.tolist() == [6.0, 5.0, 1.0]
    assert product.sum().backward()[p].tolist() == [0.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda t: np.insert(t, 9, 1.0), IndexError, "out of bounds"),
        (lambda t: np.insert(t, 0.5, 1.0), sg.DtypeError, "places"),
        (lambda t: np.interp(t, [0.0], [1.0], period=0), sg.SettingError, "period=0"),
        (lambda t: np.polyfit(t, [1.0], 1), sg.ShapeError, "one row for each point"),
        (lambda t: np.polyfit(t, t, 1, full=True), sg.NoGradientRuleError, "lstsq"),
        (lambda t: np.polyint(t, 2, [1.0, 2.0, 3.0]), sg.ShapeError, "3 constants"),
        (lambda t: np.polyder(t, -1), sg.ShapeError, "order -1"),
        (lambda t: np.roots(t * 0), sg.ShapeError, "all 0"),
        (lambda t: np.poly(t[None, None]), sg.ShapeError, "a vector or a square matrix"),
        (lambda t: np.polyadd(t[None], t), sg.ShapeError, "vector"),
        (lambda t: np.linalg.qr(np.diag(t), "raw"), sg.NoGradientRuleError, "raw"),
        (lambda t: np.linspace(t, 1.0, device="gpu"), sg.NoGradientRuleError, "device"),
        (lambda t: sg.gru_cell(t, t, np.eye(2), np.eye(2)), sg.ShapeError, r"\(2, 6\)"),
        (lambda t: sg.put(t, [5], 1.0), IndexError, "out of bounds"),
    ],
)
def test_arguments_that_do_not_fit_are_named(call, error, said):
    with pytest.raises(error, match=said):
        call(sg.tensor([1.0, 2.0], requires_grad=True))


def test_a_cell_at_rest_stays_at_rest():
    zero = np.zeros((2, 6))
    h = sg.tensor([0.5, -0.5], requires_grad=True)
    out = sg.gru_cell(np.zeros(2), h, zero, zero)
    assert out.tolist() == [0.25, -0.25]
    assert out.backward(np.ones(2))[h].tolist() == [0.5, 0.5]
    h1, c1 = sg.lstm_cell(np.zeros(2), np.zeros(2), h, np.zeros((2, 8)), np.zeros((2, 8)))
    assert c1.tolist() == [0.25, -0.25]
    assert h1.tolist() == pytest.approx([0.5 * math.tanh(0.25), -0.5 * math.tanh(0.25)])
