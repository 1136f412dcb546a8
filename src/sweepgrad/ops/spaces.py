"""Evenly spaced values between tracked ends, and arrays filled with a tracked value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.ops.arguments import refuse, shape_of
from sweepgrad.ops.arithmetic import power
from sweepgrad.ops.declare import fit
from sweepgrad.ops.elementwise import astype
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rules import plain, weak
from sweepgrad.ops.shape import broadcast_to, expand_dims, reshape
from sweepgrad.tensor import Tensor


def _nearness(num: int, endpoint: bool, dtype: np.dtype[Any]) -> NDArray[Any]:
    """How near each of the points is to the stop: from 0 to 1."""
    steps = max(num - 1 if endpoint else num, 1)
    near: NDArray[Any] = np.arange(num, dtype=dtype) / dtype.type(steps)
    return near


def _gathered(
    g: Any, num: int, endpoint: bool, axis: int, of_stop: bool, dtype: np.dtype[Any]
) -> Any:
    """The sum over the points of g times the nearness to one end."""
    near = _nearness(num, endpoint, np.dtype(g.real.dtype))
    return np.moveaxis(g, axis, -1) @ (near if of_stop else 1 - near).astype(g.dtype)


_linspace = primitive(
    "linspace",
    lambda start, stop, num, endpoint, axis: np.linspace(start, stop, num, endpoint, axis=axis),
    start=lambda g, num, endpoint, axis, start_shape, start_dtype: fit(
        _gathered(g, num, endpoint, axis, False, start_dtype), start_shape, start_dtype
    ),
    stop=lambda g, num, endpoint, axis, stop_shape, stop_dtype: fit(
        _gathered(g, num, endpoint, axis, True, stop_dtype), stop_shape, stop_dtype
    ),
)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """``numpy.linspace``: start (1 - w) + stop w with w from 0 to 1; dstart = sum of g (1 - w).

    Args:
        retstep: give the distance of the points too, as a tensor.
    """
    if device != "cpu":
        refuse("linspace", "device", device, "tensors live in NumPy's memory")
    start, stop = weak(start, stop), weak(stop, start)
    points: Any = _linspace(start, stop, num, endpoint, axis)
    if dtype is not None:
        points = astype(points, dtype)
    if not retstep:
        return points
    return points, (stop - start) / max(num - 1 if endpoint else num, 1)


def _with_axes(value: Any, ndim: int) -> Any:
    """The value with axes of length 1 in front, as NumPy has them here."""
    shape = shape_of(value)
    return reshape(value, (1,) * (ndim - len(shape)) + shape)


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """``numpy.logspace``: ``base`` to the powers of :func:`linspace`."""
    if shape_of(base):
        ndim = max(len(shape_of(value)) for value in (start, stop, base))
        start, stop, base = (_with_axes(value, ndim) for value in (start, stop, base))
        base = expand_dims(base, axis)
    result = power(base, linspace(start, stop, num, endpoint, axis=axis))
    return result if dtype is None else astype(result, dtype)


def _geometric_rule(
    g: Any, ans: Any, end: Any, num: int, endpoint: bool, axis: int, of_stop: bool
) -> Any:
    part = _gathered(g * ans, num, endpoint, axis, of_stop, g.dtype) / end
    return fit(part, plain(end).shape, plain(end).dtype)


_geomspace = primitive(
    "geomspace",
    lambda start, stop, num, endpoint, axis: np.geomspace(start, stop, num, endpoint, axis=axis),
    start=lambda g, ans, start, num, endpoint, axis: _geometric_rule(
        g, ans, start, num, endpoint, axis, False
    ),
    stop=lambda g, ans, stop, num, endpoint, axis: _geometric_rule(
        g, ans, stop, num, endpoint, axis, True
    ),
)


def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """``numpy.geomspace``: y = start^(1-w) stop^w; dstart = sum of g y (1 - w) / start."""
    result = _geomspace(weak(start, stop), weak(stop, start), num, endpoint, axis)
    return result if dtype is None else astype(result, dtype)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """``numpy.full_like``; a tensor, with dfill = sum of g, where ``fill_value`` is one."""
    like = plain(a)
    if type(fill_value) is not Tensor:
        return np.full_like(like, plain(fill_value), dtype, order, subok, shape, device=device)
    goal = np.shape(like) if shape is None else shape
    value = astype(fill_value, np.asarray(like).dtype if dtype is None else dtype)
    return broadcast_to(value, goal)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.full_like: full_like,
    np.geomspace: geomspace,
    np.linspace: linspace,
    np.logspace: logspace,
}

PUBLIC: dict[str, Any] = {
    "full_like": full_like,
    "geomspace": geomspace,
    "linspace": linspace,
    "logspace": logspace,
}
