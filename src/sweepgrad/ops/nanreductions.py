"""Reductions that pass over NaN: the gradient of a NaN is 0.

Each is the plain operation on values in which NaN was replaced by what does not
count, so gradients, ties and exactness at zeros are those of the plain one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sweepgrad.ops import cumulative, reductions
from sweepgrad.ops.arguments import refuse_out
from sweepgrad.ops.elementwise import where as choose
from sweepgrad.ops.reductions import as_float
from sweepgrad.ops.rules import plain
from sweepgrad.tensor import Tensor


def _without(x: Any, instead: float) -> Any:
    """x with ``instead`` in place of NaN."""
    x = as_float(x)
    missing = np.isnan(plain(x))
    return choose(missing, instead, x) if missing.any() else x


def _valid(x: Any, where: Any) -> Any:
    """What counts: selected and not NaN."""
    there = ~np.isnan(plain(as_float(x)))
    return there if where is None else there & np.asarray(plain(where), bool)


def nansum(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Sum of what is not NaN; dx = g there, 0 at a NaN.  Args: as ``sum``."""
    return reductions.sum(_without(x, 0.0), axis, dtype, out, keepdims, initial, where)


def nanprod(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Product of what is not NaN; the gradient at a NaN is 0.  Args: as ``prod``."""
    return cumulative.prod(_without(x, 1.0), axis, dtype, out, keepdims, initial, where)


def nanmean(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Tensor:
    """Mean of what is not NaN, NaN for slices of NaN only; the gradient at a NaN is 0."""
    there = _valid(x, where)
    return reductions.mean(_without(x, 0.0), axis, dtype, out, keepdims, where=there)


def nanvar(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Tensor:
    """Variance of what is not NaN; the gradient at a NaN is 0.  Args: as ``var``."""
    there = _valid(x, where)
    return reductions.var(_without(x, 0.0), axis, dtype, out, ddof, keepdims, where=there)


def nanstd(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Tensor:
    """Standard deviation of what is not NaN; the gradient at a NaN is 0.  Args: as ``std``."""
    there = _valid(x, where)
    return reductions.std(_without(x, 0.0), axis, dtype, out, ddof, keepdims, where=there)


def nanmax(
    x: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Largest of what is not NaN, NaN for slices of NaN only; ties share g.  Args: as ``max``."""
    result = reductions.max(_without(x, -np.inf), axis, out, keepdims, initial, where)
    return _missing_if_all(result, x, axis, keepdims, initial)


def nanmin(
    x: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """Smallest of what is not NaN, NaN for slices of NaN only; ties share g.  Args: as ``min``."""
    result = reductions.min(_without(x, np.inf), axis, out, keepdims, initial, where)
    return _missing_if_all(result, x, axis, keepdims, initial)


def _missing_if_all(result: Tensor, x: Any, axis: Any, keepdims: bool, initial: Any) -> Tensor:
    """NaN where there was nothing but NaN to choose from."""
    nothing = np.isnan(plain(as_float(x))).all(axis=axis, keepdims=keepdims)
    if initial is not None or not nothing.any():
        return result
    chosen: Tensor = choose(nothing, np.nan, result)
    return chosen


def nancumsum(x: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Sums so far of what is not NaN; the gradient at a NaN is 0.  Args: as ``cumsum``."""
    refuse_out("nancumsum", out)
    return cumulative.cumsum(_without(x, 0.0), axis, dtype)


def nancumprod(x: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Products so far of what is not NaN; the gradient at a NaN is 0.  Args: as ``cumprod``."""
    refuse_out("nancumprod", out)
    return cumulative.cumprod(_without(x, 1.0), axis, dtype)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {
    np.nansum: nansum,
    np.nanprod: nanprod,
    np.nanmean: nanmean,
    np.nanvar: nanvar,
    np.nanstd: nanstd,
    np.nanmax: nanmax,
    np.nanmin: nanmin,
    np.nancumsum: nancumsum,
    np.nancumprod: nancumprod,
}

PUBLIC = {function.__name__: operation for function, operation in NUMPY.items()}
