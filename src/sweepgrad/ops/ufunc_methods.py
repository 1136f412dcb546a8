"""What else NumPy's ufuncs can do with tensors: keyword arguments, and methods like ``reduce``.

``np.add.reduce(t)`` is a sum and ``np.multiply.accumulate(t)`` a cumulative
product; they run the declared operations, with NumPy's default axis 0.  The
keyword ``dtype=`` converts the operands first.  ``where=`` and ``out=`` are
refused: the first leaves elements uninitialised, the second writes into an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sweepgrad.errors import DtypeError, NoGradientRuleError
from sweepgrad.ops import cumulative, logspace, products, reductions
from sweepgrad.ops.arguments import refuse_out
from sweepgrad.ops.elementwise import astype
from sweepgrad.ops.rules import plain
from sweepgrad.tensor import Tensor


def with_keywords(
    function: np.ufunc,
    operation: Callable[..., Any],
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A ufunc called with keyword arguments.

    Raises:
        NoGradientRuleError: for any but ``dtype``, naming it and the fix.
        DtypeError: if the operands do not convert to ``dtype`` without losing their kind.
    """
    name = function.__name__
    given = {key: value for key, value in kwargs.items() if value is not None}
    if function is np.vecdot and "axis" in given:
        axis = given.pop("axis")
        return with_keywords(
            function, lambda *both: products.vecdot(*both, axis=axis), inputs, given
        )
    dtype = given.pop("dtype", None)
    if given.pop("where", True) is not True:
        raise NoGradientRuleError(
            f"np.{name}(where=...) leaves the other elements uninitialised; "
            f"write np.where(mask, np.{name}(...), other) instead"
        )
    if given:
        raise NoGradientRuleError(
            f"np.{name} of a tensor does not take {', '.join(sorted(given))}; leave it out"
        )
    if dtype is None:
        return operation(*inputs)
    return operation(*[_converted(name, value, np.dtype(dtype)) for value in inputs])


def _converted(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    if type(value) in (float, int, complex):
        return value
    have = np.asarray(plain(value)).dtype
    if not np.can_cast(have, dtype, "same_kind"):
        raise DtypeError(
            f"np.{name}(dtype={dtype}) would convert {have}, losing its kind; "
            "convert the operand with .astype first if that is meant"
        )
    return astype(value, dtype)


def _reducing(reduction: Callable[..., Any]) -> Callable[..., Tensor]:
    """``ufunc.reduce`` by a reduction."""

    def reduce(
        x: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Tensor:
        refuse_out("reduce", out)
        if dtype is not None:
            x = astype(x, dtype)
        chosen = None if where is True else where
        result: Tensor = reduction(x, axis=axis, keepdims=keepdims, initial=initial, where=chosen)
        return result

    return reduce


def _accumulating(operation: Callable[..., Any]) -> Callable[..., Tensor]:
    """``ufunc.accumulate`` by a cumulative operation."""

    def accumulate(x: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Tensor:
        refuse_out("accumulate", out)
        result: Tensor = operation(x if dtype is None else astype(x, dtype), axis)
        return result

    return accumulate


def _logsumexp(x: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Tensor:
    if where is not None:
        x = np.where(plain(where), x, -np.inf)
    result = logspace.logsumexp(x, axis, keepdims)
    return result if initial is None else np.logaddexp(result, initial)


def outer(operation: Callable[..., Any], x: Any, y: Any) -> Tensor:
    """``ufunc.outer``: the operation on every pair of elements."""
    x = x if type(x) is Tensor else np.asarray(x)
    result: Tensor = operation(x.reshape(x.shape + (1,) * np.ndim(plain(y))), y)
    return result


METHODS: dict[str, Any] = {}
NUMPY: dict[Any, Any] = {}
PUBLIC: dict[str, Any] = {}

#: (ufunc, method) to the operation that stands for it.
UFUNC_METHODS: dict[tuple[np.ufunc, str], Callable[..., Any]] = {
    (np.add, "reduce"): _reducing(reductions.sum),
    (np.multiply, "reduce"): _reducing(cumulative.prod),
    (np.maximum, "reduce"): _reducing(reductions.max),
    (np.minimum, "reduce"): _reducing(reductions.min),
    (np.logaddexp, "reduce"): _reducing(_logsumexp),
    (np.add, "accumulate"): _accumulating(cumulative.cumsum),
    (np.multiply, "accumulate"): _accumulating(cumulative.cumprod),
    (np.maximum, "accumulate"): _accumulating(cumulative.cummax),
    (np.minimum, "accumulate"): _accumulating(cumulative.cummin),
    (np.logaddexp, "accumulate"): _accumulating(cumulative.logcumsumexp),
}
