"""PyTorch's operations in ours, one line each, for the sample inputs of its testing module.

A line takes what PyTorch's operation takes, with tensors as ours and everything
else as NumPy's.  ``None`` and unlisted means that there is no such operation here.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from opinfo_adapters import (
    adaptive,
    added,
    along,
    any_norm,
    at_dim,
    attention,
    batch_norm,
    chunk,
    clamp,
    convolved,
    covariance,
    cross_entropy,
    diagonal,
    divided,
    each,
    embedded,
    expand,
    flat,
    flattened,
    gather,
    gradient,
    indexed,
    interpolated,
    kth,
    layer_norm,
    legacy_norm,
    like,
    lower_median,
    matrix_norm,
    nll,
    no,
    norm,
    one_of_each,
    padded,
    pinv,
    pooled,
    put,
    put_at,
    real_fft,
    reduction,
    repeats,
    rms_norm,
    scaled,
    scattered,
    selected,
    sized,
    softmaxed,
    softplus,
    solve,
    sort,
    spread,
    squeezed,
    taken,
    tensor_split,
    to_repeat,
    top,
    triangular,
)

import sweepgrad as sg

UNARY = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "angle": np.angle, "asin": np.arcsin,
    "asinh": np.arcsinh, "atan": np.arctan, "atanh": np.arctanh, "ceil": np.ceil,
    "clone": np.copy, "conj": np.conj, "conj_physical": np.conjugate, "cos": np.cos,
    "cosh": np.cosh, "deg2rad": np.deg2rad, "digamma": sg.digamma, "erf": sg.erf, "erfc": sg.erfc,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "floor": np.floor, "lgamma": sg.gammaln,
    "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "neg": np.negative,
    "positive": np.positive, "rad2deg": np.rad2deg, "real": np.real, "imag": np.imag,
    "reciprocal": np.reciprocal, "rsqrt": lambda x: 1 / np.sqrt(x), "sgn": np.sign,
    "sigmoid": sg.sigmoid, "sign": np.sign, "sin": np.sin, "sinc": np.sinc, "sinh": np.sinh,
    "sqrt": np.sqrt, "square": np.square, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
    "frac": lambda x: x - np.trunc(x), "nn.functional.relu": sg.relu,
    "nn.functional.silu": sg.silu, "nn.functional.logsigmoid": sg.log_sigmoid,
    "nn.functional.softsign": lambda x: x / (1 + np.abs(x)),
    "nn.functional.tanhshrink": lambda x: x - np.tanh(x),
    "nn.functional.relu6": lambda x: np.clip(x, 0, 6),
    "nn.functional.mish": lambda x: x * np.tanh(sg.softplus(x)),
    "mH": lambda x: np.conj(x).mT if x.ndim else x * 1, "T": lambda x: x.T, "mT": lambda x: x.mT,
    "H": lambda x: np.conj(x).T, "t": np.transpose, "ravel": np.ravel, "trace": np.trace,
    "fliplr": np.fliplr, "flipud": np.flipud, "inner": np.inner, "msort": lambda x: sort(x, 0),
    **{f"polygamma.polygamma_n_{n}": lambda x, n: sg.polygamma(n, x) for n in range(5)},
    "special.polygamma.special_polygamma_n_0": lambda x, n: sg.polygamma(n, x),
    "logit": lambda x, eps=None: sg.logit(x if eps is None else np.clip(x, eps, 1 - eps)),
    "nan_to_num": np.nan_to_num, "round": np.round, "round.decimals_0": np.round,
    "round.decimals_3": np.round, "round.decimals_neg_3": np.round,
    "frexp": lambda x: np.frexp(x)[0],
    "alias_copy": np.copy, "resolve_conj": np.copy, "resolve_neg": np.copy,
}  # fmt: skip

BINARY = {
    "add": scaled(np.add), "sub": scaled(np.subtract), "mul": np.multiply,
    "div.no_rounding_mode": divided, "div.trunc_rounding": divided, "div.floor_rounding": divided,
    "true_divide": np.true_divide, "pow": np.power, "float_power": np.float_power,
    "fmod": np.fmod, "remainder": np.remainder, "maximum": np.maximum, "minimum": np.minimum,
    "max.binary": np.maximum, "min.binary": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
    "atan2": np.arctan2, "hypot": np.hypot, "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2, "copysign": np.copysign, "__radd__": operator.add,
    "__rmul__": operator.mul, "__rsub__": lambda x, y: y - x, "__rdiv__": lambda x, y: y / x,
    "__rpow__": lambda x, y: y**x, "__rmod__": lambda x, y: y % x,
    "__rmatmul__": lambda x, y: y @ x, "rsub": lambda x, y, alpha=1: y - alpha * x,
    "lerp": lambda x, y, w: x + w * (y - x), "clamp_max": np.minimum, "clamp_min": np.maximum,
    "clamp": clamp, "addcmul": lambda x, a, b, value=1: x + value * a * b,
    "addcdiv": lambda x, a, b, value=1: x + value * a / b, "complex": lambda x, y: x + 1j * y,
    "polar": lambda r, a: r * np.cos(a) + 1j * (r * np.sin(a)),
}  # fmt: skip

PRODUCTS = {
    "dot": np.dot, "vdot": np.vdot, "mv": np.matmul, "mm": np.matmul, "bmm": np.matmul,
    "matmul": np.matmul, "outer": np.outer, "kron": np.kron, "addmm": added(np.matmul),
    "addmm.decomposed": added(np.matmul), "addmv": added(np.matmul), "addr": added(np.outer),
    "baddbmm": added(np.matmul), "addbmm": added(lambda a, b: np.matmul(a, b).sum(0)),
    "tensordot": lambda x, y, dims=2: np.tensordot(x, y, dims),
    "einsum": lambda operands, equation: np.einsum(equation, *operands),
    "cross": lambda x, y, dim=-1: np.cross(x, y, axis=dim), "linalg.cross": like(np.linalg.cross),
    "linalg.vecdot": lambda x, y, dim=-1: np.vecdot(x, y, axis=dim),
    "linalg.multi_dot": np.linalg.multi_dot,
    "nn.functional.linear": lambda x, w, b=None: x @ w.T if b is None or w.ndim < 2
    else sg.linear(x, w.T, b),
    "nn.functional.scaled_dot_product_attention": attention,
}  # fmt: skip

REDUCTIONS = {
    "sum": reduction(np.sum), "mean": reduction(np.mean), "nansum": reduction(np.nansum),
    "nanmean": reduction(np.nanmean), "prod": reduction(np.prod), "amax": reduction(np.max),
    "amin": reduction(np.min), "max.reduction_no_dim": np.max, "min.reduction_no_dim": np.min,
    "max.reduction_with_dim": one_of_each(np.argmax),
    "min.reduction_with_dim": one_of_each(np.argmin), "std": spread(np.std),
    "var": spread(np.var), "std.unbiased": spread(np.std), "var.unbiased": spread(np.var),
    "std_mean": spread(np.std, True), "var_mean": spread(np.var, True),
    "std_mean.unbiased": spread(np.std, True), "var_mean.unbiased": spread(np.var, True),
    "logsumexp": reduction(sg.logsumexp), "norm": legacy_norm, "norm.inf": legacy_norm,
    "norm.fro": legacy_norm, "norm.nuc": None, "linalg.norm": any_norm,
    "linalg.vector_norm": norm,
    "linalg.matrix_norm": matrix_norm, "linalg.cond": np.linalg.cond, "quantile": interpolated,
    "nanquantile": lambda *a, **k: interpolated(*a, name="nanquantile", **k),
    "cumsum": at_dim(np.cumsum), "cumprod": at_dim(np.cumprod), "cummax": at_dim(sg.cummax),
    "cummin": at_dim(sg.cummin), "logcumsumexp": at_dim(sg.logcumsumexp),
    "trapz": lambda y, x=None, dx=1.0, dim=-1: np.trapezoid(y, x, dx, dim),
    "trapezoid": lambda y, x=None, dx=1.0, dim=-1: np.trapezoid(y, x, dx, dim),
    "diff": lambda x, n=1, dim=-1, prepend=None, append=None: sg.diff(x, n, dim, prepend, append),
    "gradient": gradient, "cov": covariance, "corrcoef": np.corrcoef,
    "aminmax": lambda x, dim=None, keepdim=False: (
        reduction(np.min)(x, dim, keepdim), reduction(np.max)(x, dim, keepdim)
    ),
    "dist": lambda x, y, p=2: norm(x - y, p),
}  # fmt: skip

SHAPE = {
    "reshape": lambda x, *s: np.reshape(x, flat(s)), "view": lambda x, *s: np.reshape(x, flat(s)),
    "view_copy": lambda x, *s: np.reshape(x, flat(s)),
    "reshape_as": lambda x, y: np.reshape(x, y.shape),
    "view_as": lambda x, y: np.reshape(x, y.shape), "flatten": flattened,
    "unsqueeze": np.expand_dims, "unsqueeze_copy": np.expand_dims, "squeeze": squeezed,
    "squeeze.multiple": squeezed, "squeeze_copy": squeezed, "transpose": np.swapaxes,
    "transpose_copy": np.swapaxes, "t_copy": np.transpose,
    "permute": lambda x, *d: np.transpose(x, flat(d)),
    "permute_copy": lambda x, *d: np.transpose(x, flat(d)), "movedim": np.moveaxis,
    "expand": expand, "expand_copy": expand, "broadcast_to": np.broadcast_to,
    "expand_as": lambda x, y: np.broadcast_to(x, y.shape),
    "broadcast_tensors": lambda x, *y: np.broadcast_arrays(x, *y), "tile": repeats,
    "repeat": repeats, "repeat_interleave": to_repeat,
    "flip": lambda x, *d, dims=None: np.flip(x, flat(d) if dims is None else dims),
    "roll": lambda x, shifts, dims=None: np.roll(x, shifts, None if dims == () else dims),
    "rot90": np.rot90,
    "atleast_1d": each(np.atleast_1d), "atleast_2d": each(np.atleast_2d),
    "atleast_3d": each(np.atleast_3d),
    "stack": lambda x, dim=0: np.stack(x, dim), "cat": lambda x, dim=0: np.concatenate(x, dim),
    "hstack": np.hstack, "vstack": np.vstack, "dstack": np.dstack,
    "column_stack": np.column_stack, "chunk": chunk, "unsafe_chunk": chunk, "split": sized,
    "split.list_args": sized, "unsafe_split": sized, "split_with_sizes": sized,
    "split_with_sizes_copy": sized, "tensor_split": tensor_split, "hsplit": np.hsplit,
    "vsplit": np.vsplit, "dsplit": np.dsplit,
    "unbind": lambda x, dim=0: list(np.unstack(x, axis=dim)),
    "unbind_copy": lambda x, dim=0: list(np.unstack(x, axis=dim)),
    "meshgrid.variadic_tensors": lambda *x, indexing="ij": np.meshgrid(*x, indexing=indexing),
    "meshgrid.list_of_tensors": lambda x, indexing="ij": np.meshgrid(*x, indexing=indexing),
    "diag": np.diag, "diagflat": lambda x, offset=0: np.diagflat(x, offset),
    "diagonal": diagonal,
    "diagonal_copy": diagonal,
    "linalg.diagonal": lambda x, offset=0, dim1=-2, dim2=-1: np.diagonal(x, offset, dim1, dim2),
    "tril": np.tril, "triu": np.triu,
    "narrow": lambda x, dim, start, length: along(
        x, dim, slice(int(start) % x.shape[dim], int(start) % x.shape[dim] + length)),
    "narrow_copy": None, "select": lambda x, dim, index: along(x, dim, index),
    "constant_pad_nd": padded("constant"), "nn.functional.pad.constant": padded("constant"),
    "nn.functional.pad.reflect": padded("reflect"), "nn.functional.pad.replicate": padded("edge"),
    "nn.functional.pad.circular": padded("wrap"),
    "nn.functional.pad.replicate_negative": padded("edge"),
    "contiguous": np.copy, "linalg.vander": lambda x, **k: np.vander(x, k.get("N"), increasing=True)
    if x.ndim == 1 else no("stacks"),
    "block_diag": None, "unfold": None,
}  # fmt: skip

INDEXING = {
    "__getitem__": lambda x, index: x[index], "take": taken, "gather": gather,
    "take_along_dim": lambda x, i, dim=None: np.take_along_axis(x, i, dim)
    if dim is None or i.ndim == x.ndim else no("broadcasting"),
    "index_select": selected, "masked_select": lambda x, mask: np.broadcast_to(
        x, np.broadcast_shapes(x.shape, mask.shape))[np.broadcast_to(
            mask, np.broadcast_shapes(x.shape, mask.shape))],
    "masked_fill": lambda x, mask, value: np.where(mask, value, x),
    "where": lambda x, mask, y: np.where(mask, x, y), "scatter": scattered("set"),
    "scatter_add": scattered("add"), "index_add": indexed("add"), "index_copy": indexed("set"),
    "index_fill": indexed("set"), "index_put": put_at, "put": put, "sort": sort,
    "topk": top, "kthvalue": kth,
    "median": lambda x, dim=None, keepdim=False: no("dim") if dim is not None else lower_median(x),
}  # fmt: skip

LINEAR = {
    "linalg.det": np.linalg.det, "linalg.inv": np.linalg.inv, "linalg.solve": solve,
    "linalg.solve_ex": lambda a, b, left=True, check_errors=False: solve(a, b)
    if left else no("left=False"),
    "linalg.cholesky_ex": lambda x, upper=False, check_errors=False: np.linalg.cholesky(
        x, upper=upper),
    "linalg.eigh": lambda x, **k: np.linalg.eigh(x, **k),
    "linalg.eig": lambda x: [part + 0j for part in np.linalg.eig(x)],
    "linalg.svd": lambda x, full_matrices=True: np.linalg.svd(x, full_matrices),
    "linalg.qr": lambda x, mode="reduced": np.linalg.qr(x, mode),
    "linalg.lstsq": lambda a, b, driver=None: np.linalg.lstsq(a, b)[0]
    if a.ndim == 2 else no("stacks"),
    "linalg.lstsq.grad_oriented": lambda a, b, driver=None: np.linalg.lstsq(a, b)[0]
    if a.ndim == 2 else no("stacks"),
    "linalg.inv_ex": lambda x, check_errors=False: np.linalg.inv(x),
    "logdet": lambda x: np.linalg.slogdet(x)[1],
    "linalg.slogdet": lambda x: np.linalg.slogdet(x)[1],
    "linalg.cholesky": lambda x, upper=False: np.linalg.cholesky(x, upper=upper),
    "cholesky": lambda x, upper=False: np.linalg.cholesky(x, upper=upper),
    "linalg.eigvalsh": lambda x, **k: np.linalg.eigvalsh(x, **k),
    "linalg.svdvals": np.linalg.svdvals,
    "linalg.matrix_power": np.linalg.matrix_power,
    "linalg.pinv": pinv, "linalg.pinv.hermitian": pinv,
    "pinverse": np.linalg.pinv, "linalg.tensorinv": np.linalg.tensorinv,
    "linalg.tensorsolve": lambda a, b, dims=None: np.linalg.tensorsolve(a, b, dims),
    "linalg.solve_triangular": triangular, "linalg.eigvals": lambda x: np.linalg.eigvals(x) + 0j,
}  # fmt: skip

FFT = {
    f"fft.{name}": real_fft(name)
    for name in ("fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "rfft", "rfft2", "rfftn",
                 "irfft", "irfft2", "irfftn", "hfft", "ihfft")
} | {
    "fft.fftshift": lambda x, dim=None: np.fft.fftshift(x, dim),
    "fft.ifftshift": lambda x, dim=None: np.fft.ifftshift(x, dim),
}  # fmt: skip

NEURAL = {
    "softmax": softmaxed(sg.softmax), "log_softmax": softmaxed(sg.log_softmax),
    "softmax.with_dtype": softmaxed(sg.softmax),
    "log_softmax.with_dtype": softmaxed(sg.log_softmax),
    "nn.functional.softmin": lambda x, dim, **k: softmaxed(sg.softmax)(-x, dim, **k),
    "nn.functional.leaky_relu": sg.leaky_relu,
    "nn.functional.elu": lambda x, alpha=1.0: sg.elu(x, alpha),
    "nn.functional.gelu": lambda x, approximate="none": sg.gelu(x, approximate),
    "nn.functional.softplus": softplus,
    "nn.functional.hardtanh": lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
    "nn.functional.glu": lambda x, dim=-1: operator.mul(
        np.split(x, 2, dim)[0], sg.sigmoid(np.split(x, 2, dim)[1])),
    "nn.functional.cross_entropy": cross_entropy, "nn.functional.nll_loss": nll,
    "nn.functional.mse_loss": sg.mse_loss,
    "nn.functional.l1_loss": lambda x, t, reduction="mean": {
        "mean": np.mean, "sum": np.sum, "none": np.positive
    }[reduction](np.abs(x - t)),
    "nn.functional.huber_loss": lambda x, t, delta=1.0, reduction="mean": sg.huber_loss(
        x, t, delta, reduction),
    "nn.functional.smooth_l1_loss": lambda x, t, beta=1.0, reduction="mean": sg.huber_loss(
        x, t, beta, reduction) / beta if beta else no("beta=0"),
    "nn.functional.binary_cross_entropy_with_logits": lambda x, t, weight=None, pos_weight=None,
    reduction="mean": sg.bce_with_logits(x, t, weight, pos_weight, reduction),
    "nn.functional.layer_norm": layer_norm, "nn.functional.rms_norm": rms_norm,
    "nn.functional.group_norm": lambda x, groups, weight=None, bias=None, eps=1e-5: sg.group_norm(
        x, groups, weight, bias, eps=eps),
    "nn.functional.batch_norm": batch_norm, "nn.functional.embedding": embedded,
    **{f"nn.functional.conv{n}d": convolved(getattr(sg, f"conv{n}d"), n) for n in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{n}d": convolved(getattr(sg, f"conv_transpose{n}d"), n)
       for n in (1, 2, 3)},
    **{f"nn.functional.{k}_pool{n}d": pooled(k, n) for k in ("max", "avg") for n in (1, 2, 3)},
    **{f"nn.functional.adaptive_{k}_pool{n}d": adaptive(k, n)
       for k in ("max", "avg") for n in (1, 2, 3)},
}  # fmt: skip

#: PyTorch's name, with the variant after a dot, to ours.
TABLE: dict[str, Callable[..., Any]] = {
    name: function
    for part in (UNARY, BINARY, PRODUCTS, REDUCTIONS, SHAPE, INDEXING, LINEAR, FFT, NEURAL)
    for name, function in part.items()
    if function is not None
}


#: What is not compared in complex numbers, and why.
REAL_ONLY = {
    "logdet": "PyTorch's is complex, with the phase; ours the logarithm of the absolute value",
    "cholesky": "the diagonal of the factor is real, so the imaginary part of its gradient has "
    "no influence; PyTorch adds it to the diagonal of the result all the same",
    "linalg.cholesky": "as cholesky",
    "linalg.cholesky_ex": "as cholesky",
}
