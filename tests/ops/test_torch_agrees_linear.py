"""Products, shapes, indexing, linear algebra and convolution beside PyTorch.

Value, gradient and dtype for the same operands and the same incoming gradient.
Collected where PyTorch is installed (see conftest.py).  Not compared: the
determinant of a singular matrix, whose gradient PyTorch takes for 0.
"""

import numpy as np
import pytest
import torch

import sweepgrad as sg

pytestmark = pytest.mark.peers


def _n(*shape):
    return np.random.default_rng(shape).normal(size=shape)


def _spd(*shape):
    x = _n(*shape)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])


def _pairs():
    """Name, our function, PyTorch's, operands."""
    functional, linalg = torch.nn.functional, torch.linalg
    index = torch.tensor
    return [
        ("matmul", np.matmul, torch.matmul, _n(4, 2, 3), _n(3, 5)),
        ("matmul of vectors", np.matmul, torch.matmul, _n(3), _n(3)),
        ("matmul of a vector and a stack", np.matmul, torch.matmul, _n(3), _n(4, 3, 2)),
        ("matmul, stretched", np.matmul, torch.matmul, _n(5, 1, 2, 3), _n(4, 3, 2)),
        ("einsum", *_both("einsum", "bij,bjk->ik"), _n(4, 2, 3), _n(4, 3, 5)),
        ("einsum diagonal", *_both("einsum", "ii->i"), _n(3, 3)),
        (
            "tensordot",
            lambda x, y: np.tensordot(x, y, 2),
            torch.tensordot,
            _n(2, 3, 4),
            _n(3, 4, 5),
        ),
        ("outer", np.outer, torch.outer, _n(3), _n(2)),
        ("kron", np.kron, torch.kron, _n(2, 3), _n(3, 2)),
        ("cross", np.cross, torch.linalg.cross, _n(4, 3), _n(4, 3)),
        ("inv", np.linalg.inv, linalg.inv, _n(2, 3, 3)),
        ("solve", np.linalg.solve, linalg.solve, _n(2, 3, 3), _n(2, 3, 4)),
        ("det", np.linalg.det, linalg.det, _n(2, 3, 3)),
        ("slogdet", lambda x: np.linalg.slogdet(x)[1], lambda x: linalg.slogdet(x)[1], _n(2, 3, 3)),
        ("cholesky", np.linalg.cholesky, linalg.cholesky, _spd(2, 3, 3)),
        ("eigvalsh", np.linalg.eigvalsh, linalg.eigvalsh, _spd(2, 3, 3)),
        (
            "eigh",
            lambda x: np.abs(np.linalg.eigh(x)[1]),
            lambda x: linalg.eigh(x)[1].abs(),
            _spd(3, 3),
        ),
        ("svdvals", np.linalg.svdvals, linalg.svdvals, _n(2, 4, 3)),
        (
            "svd",
            lambda x: np.abs(np.linalg.svd(x, full_matrices=False)[0]),
            lambda x: linalg.svd(x, full_matrices=False)[0].abs(),
            _n(4, 3),
        ),
        ("qr", lambda x: np.abs(np.linalg.qr(x)[1]), lambda x: linalg.qr(x)[1].abs(), _n(4, 3)),
        ("pinv", np.linalg.pinv, linalg.pinv, _n(4, 3)),
        (
            "matrix_power",
            lambda x: np.linalg.matrix_power(x, -3),
            lambda x: linalg.matrix_power(x, -3),
            _spd(3, 3),
        ),
        ("norm", np.linalg.norm, linalg.norm, _n(3, 4)),
        ("norm of zeros", np.linalg.norm, linalg.norm, np.zeros(3)),
        (
            "nuclear norm",
            lambda x: np.linalg.norm(x, "nuc"),
            lambda x: linalg.norm(x, "nuc"),
            _n(3, 4),
        ),
        ("norm 3", lambda x: np.linalg.norm(x, 3, 0), lambda x: linalg.norm(x, 3, 0), _n(3, 4)),
        ("slices", lambda x: x[1:, ::2], lambda x: x[1:, ::2], _n(3, 4)),
        ("repeats", lambda x: x[[0, 2, 0]], lambda x: x[index([0, 2, 0])], _n(3, 4)),
        (
            "mixed index",
            lambda x: x[:, [0, 1], ..., None],
            lambda x: x[:, index([0, 1]), ..., None],
            _n(3, 4, 2),
        ),
        ("mask", lambda x: x[x.numpy() > 0], lambda x: x[x > 0], _n(3, 4)),
        ("roll", lambda x: np.roll(x, (1, 2), (0, 1)), lambda x: x.roll((1, 2), (0, 1)), _n(3, 4)),
        ("tile", lambda x: np.tile(x, (2, 3)), lambda x: x.tile((2, 3)), _n(3, 4)),
        ("repeat", lambda x: np.repeat(x, 3, 1), lambda x: x.repeat_interleave(3, 1), _n(3, 4)),
        (
            "concatenate",
            lambda x, y: np.concatenate([x, y], 1),
            lambda x, y: torch.cat([x, y], 1),
            _n(3, 4),
            _n(3, 2),
        ),
        ("tril", np.tril, torch.tril, _n(2, 3, 3)),
        ("diag", np.diag, torch.diag, _n(3)),
        ("sort with ties", np.sort, lambda x: x.sort(stable=True)[0], np.array([2.0, 1, 2, 0, 1])),
        ("topk", lambda x: sg.topk(x, 2).values, lambda x: x.topk(2)[0], _n(3, 4)),
        (
            "pad",
            lambda x: np.pad(x, ((0, 0), (1, 2)), "reflect"),
            lambda x: functional.pad(x, (1, 2), "reflect"),
            _n(3, 4),
        ),
        ("rfft", lambda x: np.abs(np.fft.rfft(x)), lambda x: torch.fft.rfft(x).abs(), _n(3, 7)),
        (
            "conv2d",
            lambda x, w, b: sg.conv2d(x, w, b, (2, 1), (1, 2), (1, 2), 2),
            lambda x, w, b: functional.conv2d(x, w, b, (2, 1), (1, 2), (1, 2), 2),
            _n(2, 4, 7, 8),
            _n(6, 2, 3, 3),
            _n(6),
        ),
        ("conv1d", sg.conv1d, functional.conv1d, _n(2, 3, 7), _n(4, 3, 3), _n(4)),
        ("conv3d", sg.conv3d, functional.conv3d, _n(1, 2, 3, 4, 3), _n(2, 2, 2, 2, 2)),
        (
            "conv_transpose2d",
            lambda x, w, b: sg.conv_transpose2d(x, w, b, 2, 1, 1, 2),
            lambda x, w, b: functional.conv_transpose2d(x, w, b, 2, 1, 1, 2),
            _n(2, 4, 3, 3),
            _n(4, 3, 3, 3),
            _n(6),
        ),
        (
            "max_pool2d",
            lambda x: sg.max_pool2d(x, 3, 2, 1),
            lambda x: functional.max_pool2d(x, 3, 2, 1),
            _n(2, 3, 7, 8),
        ),
        (
            "avg_pool2d",
            lambda x: sg.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            _n(2, 3, 7, 8),
        ),
        (
            "adaptive_avg_pool",
            lambda x: sg.adaptive_avg_pool(x, (3, 2)),
            lambda x: functional.adaptive_avg_pool2d(x, (3, 2)),
            _n(2, 3, 7, 8),
        ),
        (
            "adaptive_max_pool",
            lambda x: sg.adaptive_max_pool(x, (3, 2)),
            lambda x: functional.adaptive_max_pool2d(x, (3, 2)),
            _n(2, 3, 7, 8),
        ),
        (
            "attention",
            lambda q, k, v: sg.scaled_dot_product_attention(q, k, v, causal=True),
            lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
            _n(2, 4, 3),
            _n(2, 4, 3),
            _n(2, 4, 5),
        ),
        # PyTorch's weights are the transpose of ours.
        (
            "gru_cell",
            sg.gru_cell,
            lambda x, h, wi, wh, bi, bh: torch.gru_cell(x, h, wi.T, wh.T, bi, bh),
            *(_n(*shape) for shape in ((2, 3), (2, 4), (3, 12), (4, 12), (12,), (12,))),
        ),
        (
            "lstm_cell",
            lambda *x: np.concatenate(sg.lstm_cell(*x)),
            lambda x, h, c, wi, wh, bi, bh: torch.cat(
                torch.lstm_cell(x, (h, c), wi.T, wh.T, bi, bh)
            ),
            *(_n(*shape) for shape in ((2, 3), (2, 4), (2, 4), (3, 16), (4, 16), (16,), (16,))),
        ),
    ]


PLACES = np.array([[0, 2, 0], [1, 1, 2]])
MASK = np.array([True, False, True])


def _by_other_names():
    """Operations of ours that PyTorch has under another name, or as two steps."""
    functional, index = torch.nn.functional, torch.tensor(PLACES)
    mask = torch.tensor(MASK)
    return [
        ("vecdot", sg.vecdot, torch.linalg.vecdot, _n(2, 3), _n(2, 3)),
        ("matvec", sg.matvec, torch.matmul, _n(4, 2, 3), _n(3)),
        ("vecmat", sg.vecmat, torch.matmul, _n(3), _n(4, 3, 2)),
        ("matrix_transpose", np.matrix_transpose, lambda x: x.mT, _n(2, 3, 4)),
        (
            "scatter_add",
            lambda x, v: sg.scatter_add(x, PLACES, v, 1),
            lambda x, v: x.scatter_add(1, index, v),
            _n(2, 4),
            _n(2, 3),
        ),
        (
            "put_along_axis",
            lambda x, v: sg.put_along_axis(x, PLACES[:, 1:], v, 1),
            lambda x, v: x.scatter(1, index[:, 1:], v),
            _n(2, 4),
            _n(2, 2),
        ),
        ("median", lambda x: np.median(x, 1), lambda x: x.quantile(0.5, 1), _n(3, 4)),
        ("nanmedian", lambda x: np.nanmedian(x, 1), lambda x: x.nanquantile(0.5, 1), _n(3, 4)),
        ("percentile", lambda x: np.percentile(x, 30, 0), lambda x: x.quantile(0.3, 0), _n(4, 3)),
        ("ptp", lambda x: np.ptp(x, 1), lambda x: x.amax(1) - x.amin(1), _n(3, 4)),
        (
            "cumulative_sum",
            lambda x: np.cumulative_sum(x, axis=1),
            lambda x: x.cumsum(1),
            _n(2, 3),
        ),
        (
            "cumulative_prod",
            lambda x: np.cumulative_prod(x, axis=0),
            lambda x: x.cumprod(0),
            _n(2, 3),
        ),
        ("append", np.append, lambda x, y: torch.cat([x.ravel(), y.ravel()]), _n(2, 3), _n(4)),
        ("extract", lambda x: np.extract(MASK, x), lambda x: x[mask], _n(3)),
        ("compress", lambda x: np.compress(MASK, x, 0), lambda x: x[mask], _n(3, 2)),
        ("delete", lambda x: np.delete(x, 1, 0), lambda x: x[mask], _n(3, 2)),
        (
            "choose",
            lambda x, y: np.choose(MASK.astype(int), [x, y]),
            lambda x, y: torch.where(mask, y, x),
            _n(2, 3),
            _n(3),
        ),
        (
            "select",
            lambda x, y: np.select([MASK], [x], y),
            lambda x, y: torch.where(mask, x, y),
            _n(2, 3),
            _n(3),
        ),
        (
            "average",
            lambda x, w: np.average(x, 1, w**2),
            lambda x, w: (x * w**2).sum(1) / (w**2).sum(1),
            _n(2, 3),
            _n(2, 3),
        ),
        (
            "convolve",
            np.convolve,
            lambda a, v: functional.conv1d(a[None, None], v.flip(0)[None, None], padding=2)[0, 0],
            _n(5),
            _n(3),
        ),
        (
            "correlate",
            np.correlate,
            lambda a, v: functional.conv1d(a[None, None], v[None, None])[0, 0],
            _n(5),
            _n(3),
        ),
        ("polyval", np.polyval, lambda p, x: (p[0] * x + p[1]) * x + p[2], _n(3), _n(4)),
        ("sliding windows", _windows, lambda x: x.unfold(1, 2, 1), _n(3, 4)),
    ]


def _windows(x):
    return np.lib.stride_tricks.sliding_window_view(x, 2, 1)


def _both(name, first):
    ours, theirs = getattr(sg, name), getattr(torch, name)
    return (lambda *x: ours(first, *x)), (lambda *x: theirs(first, *x))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_value_gradient_and_dtype_are_pytorchs(dtype):
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if dtype == "float64" else {"rtol": 2e-2, "atol": 5e-3}
    pairs = [*_pairs(), *_by_other_names()]
    assert len(pairs) == 74
    for name, ours, theirs, *arrays in pairs:
        mine = [sg.tensor(array, dtype, requires_grad=True) for array in arrays]
        others = [
            torch.tensor(array, dtype=getattr(torch, dtype), requires_grad=True) for array in arrays
        ]
        out, expected = ours(*mine), theirs(*others)
        assert out.dtype == np.dtype(dtype), name
        assert out.shape == tuple(expected.shape), name
        np.testing.assert_allclose(
            out.numpy(), expected.detach().numpy(), **tolerance, err_msg=name
        )
        seed = np.random.default_rng(1).normal(size=out.shape).astype(dtype)
        gradients = out.backward(seed)
        expected.backward(torch.tensor(seed))
        for leaf, other in zip(mine, others, strict=True):
            assert gradients[leaf].dtype == np.dtype(dtype), name
            np.testing.assert_allclose(
                gradients[leaf], other.grad.numpy(), **tolerance, err_msg=name
            )


def test_second_derivatives_are_pytorchs():
    for name, ours, theirs, *arrays in [*_pairs(), *_by_other_names()]:
        if name == "norm of zeros":
            continue  # whose second derivative does not exist
        mine = [sg.tensor(array, requires_grad=True) for array in arrays]
        others = [torch.tensor(array, requires_grad=True) for array in arrays]
        out, expected = ours(*mine), theirs(*others)
        first = sg.grad((out**2).sum(), mine, create_graph=True)
        theirs_first = torch.autograd.grad((expected**2).sum(), others, create_graph=True)
        loss, other_loss = sum((g**2).sum() for g in first), sum((g**2).sum() for g in theirs_first)
        second = sg.grad(loss, mine, allow_unused=True)
        theirs_second = torch.autograd.grad(other_loss, others, allow_unused=True)
        for got, want in zip(second, theirs_second, strict=True):
            np.testing.assert_allclose(
                np.zeros(1) if got is None else got,
                np.zeros(1) if want is None else want.numpy(),
                rtol=1e-7,
                atol=1e-7 * max(1.0, 0.0 if want is None else float(want.abs().max())),
                err_msg=name,
            )
