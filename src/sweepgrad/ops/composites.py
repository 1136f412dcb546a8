"""NumPy functions that are made of others: finite differences, covariance, windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import constant, refuse, shape_of
from sweepgrad.ops.conjugates import conjugated
from sweepgrad.ops.joining import concatenate
from sweepgrad.ops.matmul import matmul
from sweepgrad.ops.reductions import as_float
from sweepgrad.ops.rules import plain
from sweepgrad.ops.shape import moveaxis, reshape
from sweepgrad.ops.windows import Geometry, numbers, windows
from sweepgrad.tensor import Tensor, untracked


def _spacings(varargs: tuple[Any, ...], axes: tuple[int, ...], shape: tuple[int, ...]) -> list[Any]:
    """For each axis a number, or the distances between the coordinates along it."""
    if not varargs:
        return [1.0] * len(axes)
    if len(varargs) == 1 and not shape_of(varargs[0]):
        return [varargs[0]] * len(axes)
    if len(varargs) != len(axes):
        raise ShapeError(
            f"gradient got {len(varargs)} spacings for {len(axes)} axes; give none, one number, or "
            "one spacing for each axis"
        )
    found: list[Any] = []
    for spacing, axis in zip(varargs, axes, strict=True):
        rank = len(shape_of(spacing))
        if not rank:
            found.append(spacing)
            continue
        if rank != 1 or shape_of(spacing)[0] != shape[axis]:
            raise ShapeError(
                f"gradient: coordinates of shape {shape_of(spacing)} for axis {axis} of length "
                f"{shape[axis]}; give one coordinate for each element"
            )
        steps: Any = np.diff(spacing)
        known = plain(steps)
        found.append(steps[0] if (known == known[0]).all() else steps)
    return found


def _slope(f: Any, step: Any, edge_order: int) -> Any:
    """Differences along the last axis: central inside, one-sided at the ends.

    B. Fornberg, "Generation of finite difference formulas on arbitrarily spaced grids" (1988).
    """
    if not shape_of(step):
        first, second = step, step
        inside = (f[..., 2:] - f[..., :-2]) / (2 * step)
        ends = (step, step, step, step)
    else:
        first, second = step[:-1], step[1:]
        inside = (
            f[..., :-2] * (-second / (first * (first + second)))
            + f[..., 1:-1] * ((second - first) / (first * second))
            + f[..., 2:] * (first / (second * (first + second)))
        )
        ends = (step[0], step[-1], step[1 % len(step)], step[-2 % len(step)])
    if edge_order == 1:
        before = (f[..., 1:2] - f[..., :1]) / ends[0]
        after = (f[..., -1:] - f[..., -2:-1]) / ends[1]
    else:
        before = _one_sided(f[..., :1], f[..., 1:2], f[..., 2:3], ends[0], ends[2])
        after = -_one_sided(f[..., -1:], f[..., -2:-1], f[..., -3:-2], ends[1], ends[3])
    return concatenate([before, inside, after], -1)


def _one_sided(f0: Any, f1: Any, f2: Any, near: Any, far: Any) -> Any:
    """The slope at f0 of the parabola through three points."""
    total = near + far
    return (
        f0 * (-(near + total) / (near * total))
        + f1 * (total / (near * far))
        - f2 * (near / (far * total))
    )


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """``numpy.gradient``: differences along axes; its own gradient is that of the formula.

    Args:
        varargs: nothing, a spacing, or for each axis a spacing or coordinates.
        axis: one axis, several, or None for all.
        edge_order: 1 or 2: the order of the one-sided differences at the ends.

    Returns:
        A tensor for one axis, else a tuple with one for each.

    Raises:
        ShapeError: if an axis has too few elements, or spacings do not fit.
    """
    f = as_float(f)
    shape = shape_of(f)
    axes = tuple(range(len(shape))) if axis is None else normalize_axis_tuple(axis, len(shape))
    if edge_order not in (1, 2):
        raise ShapeError(f"gradient: edge_order is 1 or 2, got {edge_order!r}")
    results = []
    for one, step in zip(axes, _spacings(varargs, axes, shape), strict=True):
        if shape[one] < edge_order + 1:
            raise ShapeError(
                f"gradient along axis {one} of length {shape[one]}; edge_order={edge_order} needs "
                f"at least {edge_order + 1} elements"
            )
        results.append(moveaxis(_slope(moveaxis(f, one, -1), step, edge_order), -1, one))
    return results[0] if len(results) == 1 else tuple(results)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """``numpy.ediff1d``: differences of the flattened elements, with more at the ends."""
    parts: list[Any] = [np.diff(reshape(ary, (-1,)))]
    if to_begin is not None:
        parts.insert(0, reshape(to_begin, (-1,)))
    if to_end is not None:
        parts.append(reshape(to_end, (-1,)))
    return concatenate(parts)


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """``numpy.cov``: the covariance of variables, one in each row.

    Args:
        y: more variables.
        rowvar: False when each column is a variable.
        bias, ddof: divide by the number of observations, or that minus ``ddof``.
        fweights: how often each observation was made; integers.
        aweights: the weight of each observation; may be tracked.

    Dtypes: the operands'; NumPy gives float64 for float32 as well.
    """
    refuse("cov", "dtype", dtype, "convert the operand with .astype(dtype)")
    x = _variables(m, rowvar)
    if y is not None:
        x = concatenate([x, _variables(y, rowvar)], 0)
    off = (0 if bias else 1) if ddof is None else ddof
    if fweights is None and aweights is None:
        centred = x - np.mean(x, axis=1, keepdims=True)
        return np.squeeze(matmul(centred, conjugated(centred).T) / (shape_of(x)[1] - off))
    given = _weights("aweights", aweights, x)
    weights = _weights("fweights", constant("cov", "fweights", fweights), x) * given
    total = weights.sum()
    freedom = total - off * (weights * given).sum() / total
    centred = x - (x * weights).sum(axis=1, keepdims=True) / total
    return np.squeeze(matmul(centred, conjugated(centred * weights).T) / freedom)


def _weights(name: str, value: Any, x: Any) -> Any:
    """A weight for each observation, in the precision of x."""
    count, dtype = shape_of(x)[1], x.real.dtype
    weights: Any = value if type(value) is Tensor else np.asarray(value)
    if value is None:
        weights = np.ones(count)
    if weights.shape != (count,) or (plain(weights) < 0).any():
        raise ShapeError(
            f"cov got {name} of shape {weights.shape}; {count} observations need a vector of that "
            "many numbers, none below 0"
        )
    return weights.astype(dtype)


def _variables(m: Any, rowvar: bool) -> Any:
    x = as_float(m if type(m) is Tensor else untracked(np.asarray(m)))
    if x.ndim > 2:
        raise ShapeError(f"cov of shape {x.shape}; it takes one variable or a matrix of them")
    if x.ndim < 2:
        return reshape(x, (1, -1))
    return x if rowvar else x.T


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """``numpy.corrcoef``: the covariance over the product of the standard deviations.

    Dtypes: as for :func:`cov`.
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    deviation = np.sqrt(np.diagonal(c).real if c.dtype.kind == "c" else np.diagonal(c))
    return c / deviation[:, None] / deviation[None, :]


def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """``numpy.lib.stride_tricks.sliding_window_view``, as a view; dx adds up the windows' g.

    Args:
        window_shape: length along each axis in ``axis``, by default all.
    """
    refuse("sliding_window_view", "subok", subok, "tensors have no subclasses", False)
    refuse("sliding_window_view", "writeable", writeable, "a tensor is never written into", False)
    x = x if type(x) is Tensor else untracked(np.asarray(x))
    lengths = window_shape if isinstance(window_shape, (tuple, list)) else (window_shape,)
    axes = normalize_axis_tuple(range(x.ndim) if axis is None else axis, x.ndim)
    kernel = numbers(lengths, len(axes), "window_shape")
    ones = (1,) * len(axes)
    geometry = Geometry(kernel, ones, ((0, 0),) * len(axes), ones)
    count = len(axes)
    last = tuple(range(x.ndim - count, x.ndim))
    return moveaxis(windows(moveaxis(x, axes, last), geometry, 0.0), last, axes)


METHODS: dict[str, Callable[..., Any]] = {}

NUMPY: dict[Any, Any] = {
    np.corrcoef: corrcoef,
    np.cov: cov,
    np.ediff1d: ediff1d,
    np.gradient: gradient,
    np.lib.stride_tricks.sliding_window_view: sliding_window_view,
}

PUBLIC: dict[str, Callable[..., Any]] = {
    "corrcoef": corrcoef,
    "cov": cov,
    "ediff1d": ediff1d,
    "gradient": gradient,
    "sliding_window_view": sliding_window_view,
}
