"""PyTorch's arguments as ours: what the lines of ``opinfo_table`` share."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import sweepgrad as sg


class NotOfferedError(Exception):
    """This argument of PyTorch's operation has no counterpart here."""


def no(argument: str) -> Any:
    raise NotOfferedError(argument)


def _dim(keywords: dict[str, Any]) -> dict[str, Any]:
    """PyTorch's names of arguments as NumPy's."""
    names = {"dim": "axis", "keepdim": "keepdims"}
    return {names.get(key, key): value for key, value in keywords.items()}


def like(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same arguments, with ``dim`` for ``axis``."""
    return lambda *a, **k: function(*a, **_dim(k))


def axes(x: Any, dim: Any) -> Any:
    """PyTorch lets a 0-d tensor have an axis 0, and an empty list mean all."""
    if isinstance(dim, (list, tuple)):
        return tuple(dim) if len(dim) and x.ndim else None
    return dim if x.ndim else None


def reduction(function: Callable[..., Any], **always: Any) -> Callable[..., Any]:
    def run(x: Any, dim: Any = None, keepdim: bool = False, **k: Any) -> Any:
        return function(x, axis=axes(x, dim), keepdims=keepdim if x.ndim else False, **always, **k)

    return run


def spread(function: Callable[..., Any], both: bool = False) -> Callable[..., Any]:
    """var, std: ``correction`` or ``unbiased``; of an axis, or of all."""
    mean_too = both

    def run(x: Any, dim: Any = None, unbiased: Any = True, *, correction: Any = None,
            keepdim: bool = False) -> Any:  # fmt: skip
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        ddof = (1 if unbiased else 0) if correction is None else correction
        axis = axes(x, dim)
        out = function(x, axis=axis, ddof=ddof, keepdims=keepdim)
        return (out, np.mean(x, axis=axis, keepdims=keepdim)) if mean_too else out

    return run


def one_of_each(pick: Callable[..., Any]) -> Callable[..., Any]:
    """max, min along an axis: the element at the position, which alone gets the gradient."""

    def run(x: Any, dim: int, keepdim: bool = False) -> Any:
        if not x.ndim:
            return x * 1
        out = np.take_along_axis(x, np.expand_dims(pick(x, axis=dim), dim), dim)
        return out if keepdim else np.squeeze(out, dim)

    return run


def at_dim(function: Callable[..., Any]) -> Callable[..., Any]:
    """Cumulative operations, of an axis that a 0-d tensor may be said to have."""

    def run(x: Any, dim: int, **k: Any) -> Any:
        return function(x, axis=dim, **k) if x.ndim else function(x[None], axis=0, **k)[0]

    return run


def plain(x: Any) -> Any:
    return x.numpy() if isinstance(x, sg.Tensor) else x


def flat(shape: Sequence[Any]) -> tuple[int, ...]:
    """A shape, given as one argument or as many."""
    return tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)


def along(x: Any, dim: int, index: Any) -> Any:
    return x[(*(slice(None),) * (dim % builtins.max(x.ndim, 1)), index)]


def sized(x: Any, size: Any, dim: int = 0) -> list[Any]:
    """Pieces of a size, or of the sizes."""
    length = x.shape[dim]
    sizes = [size] * -(-length // size) if isinstance(size, int) else size
    return list(np.split(x, np.cumsum(sizes)[:-1], dim))


def chunk(x: Any, chunks: int, dim: int = 0) -> list[Any]:
    return sized(x, -(-x.shape[dim] // chunks), dim)


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    return np.clip(x, min, max)


def repeats(x: Any, *shape: Any) -> Any:
    return np.tile(x, flat(shape))


def expand(x: Any, *shape: Any) -> Any:
    goal = flat(shape)
    front = len(goal) - x.ndim
    return np.broadcast_to(
        x, tuple(x.shape[i - front] if n == -1 else n for i, n in enumerate(goal))
    )


def gather(x: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    if not x.ndim:
        return np.reshape(x, (1,))[index]
    part = x[
        tuple(slice(None) if i == dim % x.ndim else slice(n) for i, n in enumerate(index.shape))
    ]
    return np.take_along_axis(part, np.broadcast_to(index, index.shape), dim)


def scattered(how: str) -> Callable[..., Any]:
    def run(x: Any, dim: int, index: Any, src: Any, **k: Any) -> Any:
        if k or not x.ndim or not index.ndim:
            no("reduce, or no axes")
        dim = dim % x.ndim
        grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
        grid[dim] = index
        if np.ndim(plain(src)):
            src = src[tuple(slice(n) for n in index.shape)]
        return getattr(x.at[tuple(np.broadcast_arrays(*grid))], how)(src)

    return run


def indexed(how: str) -> Callable[..., Any]:
    """index_add, index_copy, index_fill: whole slices along an axis."""

    def run(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
        if not x.ndim:
            no("no axes")
        where = (*(slice(None),) * (dim % x.ndim), np.atleast_1d(index))
        if alpha != 1:
            source = source * alpha
        return getattr(x.at[where], how)(source)

    return run


def norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The vector norm, of all elements where no axis is given."""
    if dtype is not None:
        no("dtype")
    if dim is None or (isinstance(dim, (list, tuple)) and not dim) or not x.ndim:
        out = np.linalg.norm(np.reshape(x, (-1,)), ord)
        return np.reshape(out, (1,) * x.ndim) if keepdim else out
    return np.linalg.vector_norm(x, axis=axes(x, dim), keepdims=keepdim, ord=ord)


def legacy_norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, **k: Any) -> Any:
    if k or p == "nuc":
        no("nuc, dtype")
    return norm(x, 2 if p in ("fro", None) else p, dim, keepdim)


def matrix_norm(
    x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, **k: Any
) -> Any:
    return no("dtype") if k else np.linalg.norm(x, ord, axis=tuple(dim), keepdims=keepdim)


def any_norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, **k: Any) -> Any:
    if k:
        no("dtype")
    if ord is None:
        return norm(x, 2, dim, keepdim)
    axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    return np.linalg.norm(x, ord, axis=axis, keepdims=keepdim)


def divided(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    q = np.divide(x, y)
    return q if rounding_mode is None else {"trunc": np.trunc, "floor": np.floor}[rounding_mode](q)


def scaled(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y, alpha=1: function(x, y if alpha == 1 else y * alpha)


def added(product: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, a, b, beta=1, alpha=1: x * beta + product(a, b) * alpha


def padded(mode: str) -> Callable[..., Any]:
    """PyTorch states the widths from the last axis on."""

    def run(x: Any, pad: Sequence[int], *more: Any, value: Any = None) -> Any:
        if builtins.min(pad, default=0) < 0:
            no("negative widths")
        pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)][::-1]
        widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs
        value = more[-1] if more and not isinstance(more[-1], str) else value
        options = {"constant_values": value or 0} if mode == "constant" else {}
        return np.pad(x, widths, mode, **options)

    return run


def pooled(kind: str, ndim: int) -> Callable[..., Any]:
    """PyTorch's indices, where it is asked for them, have no gradient and are not compared."""
    function = getattr(sg, f"{kind}_pool{ndim}d")

    def average(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
                ceil_mode: bool = False, count_include_pad: bool = True,
                divisor_override: Any = None) -> Any:  # fmt: skip
        return run(x, kernel_size, stride, padding, ceil_mode=ceil_mode,
                   divisor_override=divisor_override,
                   count_include_pad=count_include_pad)  # fmt: skip

    def run(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, *,
            ceil_mode: bool = False, return_indices: bool = False, **k: Any) -> Any:  # fmt: skip
        if ceil_mode or k.get("divisor_override"):
            no("ceil_mode, divisor_override")
        k.pop("divisor_override", None)
        if kind == "max":
            k["dilation"] = dilation
        batched = x if x.ndim == ndim + 2 else x[None]
        out = function(batched, kernel_size, stride or None, padding, **k)
        return out if x.ndim == ndim + 2 else out[0]

    return run if kind == "max" else average


def adaptive(kind: str, ndim: int) -> Callable[..., Any]:
    function = getattr(sg, f"adaptive_{kind}_pool")

    def run(x: Any, output_size: Any, return_indices: bool = False) -> Any:
        sizes = (output_size,) * ndim if isinstance(output_size, int) else tuple(output_size)
        kept = x.shape[x.ndim - ndim :]
        return function(x, tuple(n if s is None else s for s, n in zip(sizes, kept, strict=True)))

    return run


def convolved(function: Callable[..., Any], ndim: int) -> Callable[..., Any]:
    def run(x: Any, w: Any, *a: Any, **k: Any) -> Any:
        return function(x, w, *a, **k) if x.ndim == ndim + 2 else function(x[None], w, *a, **k)[0]

    return run


def softmaxed(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, dim: int, _stacklevel: Any = None, dtype: Any = None) -> Any:
        x = x if dtype is None else x.astype(dtype)
        return function(x, dim) if x.ndim else function(np.reshape(x, (1,)), 0)[0]

    return run


def cross_entropy(x: Any, target: Any, **k: Any) -> Any:
    return sg.cross_entropy(x, target, axis=1 if x.ndim > 1 else 0, **k)


def nll(x: Any, target: Any, weight: Any = None, **k: Any) -> Any:
    return sg.nll_loss(np.moveaxis(x, 1, -1) if x.ndim > 1 else x, target, plain(weight), **k)


def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return sg.layer_norm(x, weight, bias, tuple(range(-len(shape), 0)), eps)


def batch_norm(x: Any, mean: Any = None, var: Any = None, weight: Any = None, bias: Any = None,
               training: bool = False, momentum: float = 0.1,
               eps: float = 1e-5) -> Any:  # fmt: skip
    if training or mean is None:
        return sg.batch_norm(x, weight, bias, eps=eps)
    return sg.batch_norm(x, weight, bias, mean, var, eps=eps)


def rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    eps = np.finfo(x.dtype).eps if eps is None else eps
    return sg.rms_norm(x, weight, tuple(range(-len(shape), 0)), eps)


def attention(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0,
              is_causal: bool = False, scale: Any = None,
              enable_gqa: bool = False) -> Any:  # fmt: skip
    if dropout_p or enable_gqa:
        no("dropout_p, enable_gqa")
    return sg.scaled_dot_product_attention(q, k, v, attn_mask, is_causal, scale)


def embedded(
    weight: Any, indices: Any, padding_idx: Any = None, max_norm: Any = None, **k: Any
) -> Any:
    if max_norm is not None or k.get("scale_grad_by_freq"):
        no("max_norm, scale_grad_by_freq")
    if padding_idx is not None:
        padding_idx %= weight.shape[0]
    return sg.embedding(weight, indices, padding_idx)


def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """PyTorch's ``accumulate`` adds repeated places; ours and NumPy's puts the last there."""
    if accumulate or not x.ndim:
        no("accumulate, or no axes")
    return sg.put(x, index, source.reshape(-1))


def put_at(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    place = x.at[tuple(indices)]
    return place.add(values) if accumulate else place.set(values)


def real_fft(name: str) -> Callable[..., Any]:
    function = getattr(np.fft, name)

    def run(x: Any, n: Any = None, dim: Any = None, norm: Any = None, **k: Any) -> Any:
        n = k.get("s", n)
        if isinstance(dim, int) and name.endswith(("n", "2")):
            dim = (dim,)
        if isinstance(n, int) and name.endswith(("n", "2")):
            n = (n,)
        several = name.endswith(("n", "2"))
        if dim is None:
            dim = (-2, -1) if name.endswith("2") else None if several else -1
        if several and dim is None and n is not None:
            dim = tuple(range(-len(n), 0))
        return function(x, tuple(n) if several and n is not None else n,
                        tuple(dim) if several and dim is not None else dim, norm)  # fmt: skip

    return run


def gradient(x: Any, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    spacing = 1 if spacing is None else spacing
    axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    given = spacing if isinstance(spacing, (list, tuple)) else [spacing]
    return np.gradient(x, *given, axis=axis, edge_order=edge_order)


def eigen_phase(w: Any, v: Any) -> tuple[Any, Any]:
    return w, np.abs(v)


def interpolated(x: Any, q: Any, dim: Any = None, keepdim: bool = False, *,
                 interpolation: str = "linear", name: str = "quantile") -> Any:  # fmt: skip
    if isinstance(q, sg.Tensor) and q.requires_grad:
        no("a gradient of q")
    return getattr(np, name)(x, q, axis=dim, keepdims=keepdim, method=interpolation)


def lower_median(x: Any) -> Any:
    return np.sort(x, axis=None)[(x.size - 1) // 2]


def kth(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.ndim:
        return x * 1
    out = along(np.sort(x, axis=dim), dim, slice(k - 1, k))
    return out if keepdim else np.squeeze(out, dim)


def top(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return sg.topk(x, k, dim, largest)[0] if x.ndim else x * 1


def sort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    if not x.ndim:
        return x * 1
    order = np.argsort(-plain(x) if descending else plain(x), axis=dim, kind="stable")
    return np.take_along_axis(x, order, dim)


def to_repeat(x: Any, repeats: Any, dim: Any = None, output_size: Any = None) -> Any:
    return np.repeat(x, plain(repeats), dim)


def taken(x: Any, index: Any) -> Any:
    return np.take(x, index)


def selected(x: Any, dim: int, index: Any) -> Any:
    return np.take(x, np.atleast_1d(index), dim) if x.ndim else x * 1


def covariance(x: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    return np.cov(x, ddof=correction, fweights=plain(fweights), aweights=aweights)


def tensor_split(x: Any, sections: Any, dim: int = 0) -> Any:
    return np.array_split(x, plain(sections), dim)


def squeezed(x: Any, dim: Any = None) -> Any:
    if dim is None:
        return np.squeeze(x)
    dims = [d % builtins.max(x.ndim, 1) for d in ([dim] if isinstance(dim, int) else dim)]
    return np.squeeze(x, tuple(d for d in dims if x.ndim and x.shape[d] == 1))


def triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if left:
        return sg.solve_triangular(a, b, not upper, unitriangular)
    # X A = B is Aᵀ Xᵀ = Bᵀ.
    a, b = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
    return np.swapaxes(sg.solve_triangular(a, b, upper, unitriangular), -1, -2)


def each(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of one tensor, or of a tuple of them."""
    return lambda x: function(*x) if isinstance(x, (list, tuple)) else function(x)


def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return np.diagonal(x, offset, dim1, dim2)


def solve(a: Any, b: Any) -> Any:
    if b.ndim > 1 and b.ndim == a.ndim - 1:
        no("stacks of vectors")  # NumPy 2 takes them for a matrix
    return np.linalg.solve(a, b)


def pinv(x: Any, *, hermitian: bool = False, rtol: Any = None, atol: Any = None) -> Any:
    if atol is not None and rtol is None:
        no("atol")
    return np.linalg.pinv(x, hermitian=hermitian, rtol=plain(rtol))


def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    """PyTorch's is the identity above the threshold."""
    return np.where(plain(x) * beta > threshold, x, sg.softplus(x * beta) / beta)


def flattened(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if not x.ndim:
        return np.reshape(x, (1,))
    start, end = start_dim % x.ndim, end_dim % x.ndim
    size = int(np.prod(x.shape[start : end + 1]))
    return np.reshape(x, (*x.shape[:start], size, *x.shape[end + 1 :]))
