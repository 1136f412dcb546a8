"""Value, gradient, dtype and shape beside PyTorch's, where it has the operation.

Run with ``-m peers`` in an environment with PyTorch; without it the file is not
collected (see conftest.py).  Where the conventions differ on purpose the point
is not drawn here: the corner tests state ours.
"""

import functools
import operator

import numpy as np
import pytest
import torch
from elementwise_table import ALL
from torch.nn import functional as nn

import sweepgrad as sg

pytestmark = pytest.mark.peers

RNG = np.random.default_rng(11)
X = RNG.permutation(24).reshape(2, 3, 4) * 0.1 - 1.03
SCORES = RNG.normal(size=(5, 4))
OTHER = RNG.normal(size=(5, 4))
PROBABILITIES = np.exp(OTHER) / np.exp(OTHER).sum(axis=-1, keepdims=True)
LABELS = np.array([0, 3, -100, 1, 1])
WEIGHTS = np.array([1.0, 2.0, 0.5, 3.0])
IMAGES = RNG.normal(size=(2, 4, 3))


def torch_function(name):
    return functools.reduce(getattr, name.split("."), torch)


def compare(ours, theirs, arrays, dtype, loosest=0):
    """One weighted sum of both results, differentiated by both."""
    tight = max({np.float32: 2e-5, np.float64: 1e-10}[dtype], loosest)
    arrays = [np.asarray(array, dtype) for array in arrays]
    mine = [sg.tensor(array, requires_grad=True) for array in arrays]
    peers = [torch.tensor(array, requires_grad=True) for array in arrays]
    out, expected = ours(*mine), theirs(*peers)
    assert out.shape == tuple(expected.shape)
    assert str(out.dtype) == str(expected.dtype).removeprefix("torch.")
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=tight, atol=tight)
    seed = np.asarray(RNG.uniform(0.5, 1.5, out.shape), out.dtype)
    gradients = out.backward(seed)
    expected.backward(torch.tensor(seed))
    for leaf, peer in zip(mine, peers, strict=True):
        wanted = torch.zeros_like(peer) if peer.grad is None else peer.grad
        assert gradients[leaf].dtype == leaf.dtype == dtype
        np.testing.assert_allclose(gradients[leaf], wanted.numpy(), rtol=tight, atol=tight)


both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@both_dtypes
@pytest.mark.parametrize("operation", [one for one in ALL if one.torch], ids=str)
def test_elementwise(operation, dtype):
    rng = np.random.default_rng(1)
    shapes = [(2, 3), (3,)][: len(operation.domains)]
    arrays = [domain(rng, shape) for domain, shape in zip(operation.domains, shapes, strict=True)]
    theirs = torch_function(operation.torch)
    if operation.name == "float_power":
        dtype = np.float64
    # PyTorch's digamma and its derivative are good to 1e-8.
    compare(operation.call, theirs, arrays, dtype, 1e-7 if operation.name == "digamma" else 0)


REDUCTIONS = {
    "sum": (np.sum, torch.sum),
    "mean": (np.mean, torch.mean),
    "var": (np.var, lambda t, dim, keepdim: torch.var(t, dim, correction=0, keepdim=keepdim)),
    "std": (
        lambda t, **k: np.std(t, ddof=1, **k),
        lambda t, dim, keepdim: torch.std(t, dim, correction=1, keepdim=keepdim),
    ),
    "max": (np.max, torch.amax),
    "min": (np.min, torch.amin),
    "logsumexp": (sg.logsumexp, torch.logsumexp),
    "nansum": (np.nansum, torch.nansum),
    "nanmean": (np.nanmean, torch.nanmean),
}


@both_dtypes
@pytest.mark.parametrize(("ours", "theirs"), REDUCTIONS.values(), ids=REDUCTIONS)
def test_reductions(ours, theirs, dtype):
    for axis in (0, -1, (0, 2), (0, 1, 2)):
        for keep in (False, True):
            compare(
                lambda t, a=axis, k=keep: ours(t, axis=a, keepdims=k),
                lambda t, a=axis, k=keep: theirs(t, dim=a, keepdim=k),
                [X],
                dtype,
            )


@both_dtypes
def test_extremes_with_ties(dtype):
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    compare(lambda t: np.max(t, axis=1), lambda t: torch.amax(t, 1), [x], dtype)
    compare(lambda t: np.min(t, axis=0), lambda t: torch.amin(t, 0), [x], dtype)
    compare(np.max, torch.max, [x], dtype)
    compare(np.maximum, torch.maximum, [x, x], dtype)
    compare(lambda t: np.clip(t, 1, 2), lambda t: torch.clamp(t, 1, 2), [x], dtype)


@both_dtypes
def test_products_and_cumulative_operations(dtype):
    zeros = X.copy()
    zeros[0, 1, 2] = zeros[1, 0, 0] = zeros[1, 0, 1] = 0
    for x in (X, zeros):
        for axis in (0, 1, 2):
            compare(
                lambda t, a=axis: np.prod(t, axis=a),
                lambda t, a=axis: torch.prod(t, a),
                [x],
                dtype,
            )
            compare(
                lambda t, a=axis: np.cumprod(t, axis=a),
                lambda t, a=axis: torch.cumprod(t, a),
                [x],
                dtype,
            )
        compare(np.prod, torch.prod, [x], dtype)
    for ours, theirs in (
        (np.cumsum, torch.cumsum),
        (sg.logcumsumexp, torch.logcumsumexp),
        (sg.cummax, lambda t, dim: torch.cummax(t, dim).values),
        (sg.cummin, lambda t, dim: torch.cummin(t, dim).values),
    ):
        for axis in (0, 1, -1):
            compare(
                lambda t, f=ours, a=axis: f(t, axis=a),
                lambda t, f=theirs, a=axis: f(t, dim=a),
                [X],
                dtype,
            )
    compare(lambda t: np.diff(t, 2, axis=1), lambda t: torch.diff(t, n=2, dim=1), [X], dtype)
    compare(np.trapezoid, torch.trapezoid, [X, np.array([0.0, 0.2, 0.5, 1.0])], dtype)


@both_dtypes
@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(method, dtype):
    q = np.array([0.15, 0.6], dtype)
    compare(
        lambda t: np.quantile(t, q, axis=2, method=method),
        lambda t: torch.quantile(t, torch.tensor(q), dim=2, interpolation=method),
        [X],
        dtype,
    )


@both_dtypes
def test_where_and_conversion(dtype):
    mask = OTHER > 0
    compare(
        lambda a, b: np.where(mask, a, b),
        lambda a, b: torch.where(torch.tensor(mask), a, b),
        [SCORES, OTHER[:1]],
        dtype,
    )
    compare(lambda t: t.astype(np.float16), lambda t: t.half(), [SCORES], np.float32)
    compare(lambda t: t.astype(np.float64), lambda t: t.double(), [SCORES], np.float32)


@both_dtypes
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(reduction, smoothing, dtype):
    for weight in (None, WEIGHTS):
        theirs = functools.partial(
            nn.cross_entropy,
            weight=None if weight is None else torch.tensor(np.asarray(weight, dtype)),
            reduction=reduction,
            label_smoothing=smoothing,
        )
        ours = functools.partial(
            sg.cross_entropy, weight=weight, reduction=reduction, label_smoothing=smoothing
        )
        compare(
            lambda t, f=ours: f(t, LABELS),
            lambda t, f=theirs: f(t, torch.tensor(LABELS)),
            [SCORES],
            dtype,
        )
        compare(ours, theirs, [SCORES, PROBABILITIES], dtype)


@both_dtypes
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_other_losses(reduction, dtype):
    weight = torch.tensor(np.asarray(WEIGHTS, dtype))
    pairs = [
        (sg.mse_loss, nn.mse_loss, {}),
        (sg.huber_loss, nn.huber_loss, {"delta": 0.7}),
    ]
    for ours, theirs, options in pairs:
        compare(
            lambda t, u, f=ours, o=options: f(t, u, reduction=reduction, **o),
            lambda t, u, f=theirs, o=options: f(t, u, reduction=reduction, **o),
            [SCORES, OTHER],
            dtype,
        )
    compare(
        lambda t: sg.nll_loss(t, LABELS, weight=WEIGHTS, reduction=reduction),
        lambda t: nn.nll_loss(t, torch.tensor(LABELS), weight=weight, reduction=reduction),
        [SCORES],
        dtype,
    )
    compare(
        lambda t, u: sg.bce_with_logits(t, u, WEIGHTS, WEIGHTS + 1, reduction),
        lambda t, u: nn.binary_cross_entropy_with_logits(
            t, u, weight, pos_weight=weight + 1, reduction=reduction
        ),
        [SCORES, PROBABILITIES],
        dtype,
    )


@both_dtypes
def test_softmax_and_normalisations(dtype):
    for axis in (0, -1):
        compare(lambda t, a=axis: sg.softmax(t, a), lambda t, a=axis: t.softmax(a), [X], dtype)
        compare(
            lambda t, a=axis: sg.log_softmax(t, a),
            lambda t, a=axis: t.log_softmax(a),
            [X],
            dtype,
        )
    shift = WEIGHTS + 1
    compare(
        sg.layer_norm, lambda t, w, b: nn.layer_norm(t, (4,), w, b), [SCORES, WEIGHTS, shift], dtype
    )
    compare(
        lambda t, w: sg.rms_norm(t, w, eps=1e-5),
        lambda t, w: nn.rms_norm(t, (4,), w, eps=1e-5),
        [SCORES, WEIGHTS],
        dtype,
    )
    compare(
        sg.batch_norm,
        lambda t, w, b: nn.batch_norm(t, None, None, w, b, training=True),
        [IMAGES, WEIGHTS, shift],
        dtype,
    )
    compare(
        lambda t, w, b: sg.group_norm(t, 2, w, b),
        lambda t, w, b: nn.group_norm(t, 2, w, b),
        [IMAGES, WEIGHTS, shift],
        dtype,
    )
    compare(lambda t: sg.gelu(t, "tanh"), lambda t: nn.gelu(t, approximate="tanh"), [SCORES], dtype)


@both_dtypes
def test_embedding(dtype):
    rows = np.array([[0, 2, 2], [4, 1, 0]])
    compare(
        lambda t: sg.embedding(t, rows, padding_idx=2),
        lambda t: nn.embedding(torch.tensor(rows), t, padding_idx=2),
        [SCORES],
        dtype,
    )


@pytest.mark.parametrize("other", [2.5, 3, np.float32(2.5), np.float64(2.5)], ids=type)
def test_numbers_beside_a_float32_tensor(other):
    """Values and gradients agree; only a NumPy scalar promotes, and only here, as in NumPy."""
    leaf = sg.tensor(np.float32([0.5, 2.0]), requires_grad=True)
    peer = torch.tensor([0.5, 2.0], requires_grad=True)
    for call in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow):
        out, expected = call(leaf, other), call(peer, float(other))
        np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-6)
        expected.sum().backward()
        np.testing.assert_allclose(out.sum().backward()[leaf], peer.grad.numpy(), rtol=1e-6)
        peer.grad = None
