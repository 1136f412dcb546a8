"""NumPy's dispatch protocols: ``np.tanh(t)`` and ``np.concatenate([t, u])`` on tensors.

A NumPy function with a declared operation runs that operation.  One without a
gradient rule is refused when a tracked tensor is among its arguments (it never
detaches silently); on untracked tensors, or inside ``no_grad()``, it runs on the
plain arrays.  Comparisons and tests have no gradient and give plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sweepgrad.errors import NoGradientRuleError
from sweepgrad.graph import is_recording
from sweepgrad.ops.ufunc_methods import UFUNC_METHODS, outer, with_keywords
from sweepgrad.tensor import Tensor, untracked

#: NumPy's function to ours.  Filled by :mod:`sweepgrad.ops`.
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}

#: Ufuncs whose result has no gradient: it is a plain array.
UNTRACKED_UFUNCS: frozenset[np.ufunc] = frozenset(
    {
        np.equal,
        np.not_equal,
        np.less,
        np.less_equal,
        np.greater,
        np.greater_equal,
        np.isfinite,
        np.isinf,
        np.isnan,
        np.signbit,
        np.logical_and,
        np.logical_or,
        np.logical_xor,
        np.logical_not,
    }
)

#: Functions whose result has no gradient: it is a plain array or Python value.
UNTRACKED_FUNCTIONS: frozenset[Callable[..., Any]] = frozenset(
    {
        np.all,
        np.allclose,
        np.any,
        np.argmax,
        np.argmin,
        np.argpartition,
        np.argsort,
        np.argwhere,
        np.array2string,
        np.array_equal,
        np.array_equiv,
        np.array_repr,
        np.array_str,
        np.can_cast,
        np.common_type,
        np.count_nonzero,
        np.diag_indices_from,
        np.digitize,
        np.einsum_path,
        np.empty_like,
        np.flatnonzero,
        np.full_like,
        np.histogram_bin_edges,
        np.isclose,
        np.iscomplex,
        np.iscomplexobj,
        np.isin,
        np.isneginf,
        np.isposinf,
        np.isreal,
        np.isrealobj,
        np.ix_,
        np.lexsort,
        np.linalg.matrix_rank,
        np.may_share_memory,
        np.nanargmax,
        np.nanargmin,
        np.min_scalar_type,
        np.ndim,
        np.nonzero,
        np.ones_like,
        np.ravel_multi_index,
        np.result_type,
        np.searchsorted,
        np.shape,
        np.shares_memory,
        np.size,
        np.tril_indices_from,
        np.triu_indices_from,
        np.unravel_index,
        np.zeros_like,
    }
)


def array_ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """``Tensor.__array_ufunc__``; installed on the class, so that NumPy calls it directly."""
    if not kwargs and method == "__call__":
        operation = UFUNCS.get(ufunc)
        if operation is not None:
            return operation(*inputs)
    return _other_ufunc(ufunc, method, inputs, kwargs)


def _other_ufunc(
    function: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A ufunc without a rule, with keyword arguments, or a method of one."""
    if kwargs.get("out") is not None:
        raise NoGradientRuleError(
            f"np.{function.__name__} with out= would write into an array behind the graph's back "
            "(an ndarray on the left of *=, for instance); write result = ... instead"
        )
    if method != "__call__":
        return _ufunc_method(function, method, inputs, kwargs)
    if function in UNTRACKED_UFUNCS:
        return function(*_plain(inputs), **_plain(kwargs))
    operation = UFUNCS.get(function)
    if operation is not None and is_recording() and _tracked(inputs):
        return with_keywords(function, operation, inputs, kwargs)
    return on_arrays(function.__name__, function, inputs, kwargs)


def _ufunc_method(
    function: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """``np.add.reduce(t)`` and the like."""
    operation = UFUNC_METHODS.get((function, method))
    if operation is not None:
        return operation(*inputs, **kwargs)
    if method == "outer" and not kwargs and function.nin == 2 and function in UFUNCS:
        return outer(UFUNCS[function], *inputs)
    name = f"{function.__name__}.{method}"
    if method == "at" and type(inputs[0]) is Tensor:
        raise NoGradientRuleError(
            f"np.{name} writes into its first operand, and a tensor is never written into; "
            "use t.at[index].add(values), or add a tensor with the values in place"
        )
    return on_arrays(name, getattr(function, method), inputs, kwargs)


def array_function(
    self: Any,
    func: Callable[..., Any],
    types: object,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """``Tensor.__array_function__``; installed on the class, so that NumPy calls it directly."""
    operation = FUNCTIONS.get(func)
    if operation is not None:
        return operation(*args, **kwargs)
    if func in UNTRACKED_FUNCTIONS:
        return func(*_plain(args), **_plain(kwargs))
    return on_arrays(func.__name__, func, args, kwargs)


def on_arrays(
    name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a function without a rule on plain arrays, unless that would lose a gradient."""
    if is_recording() and _tracked((args, kwargs)):
        raise NoGradientRuleError(
            f"np.{name} (with these arguments) has no gradient rule here, and a tracked tensor "
            "does not leave the graph silently; compose it of functions listed by "
            "sweepgrad.operations(), or pass t.detach() if no gradient should flow"
        )
    return _wrap(func(*_plain(args), **_plain(kwargs)))


def _plain(value: Any) -> Any:
    """The same arguments with arrays in place of tensors."""
    if type(value) is Tensor:
        return value._array
    if type(value) in (tuple, list):
        return type(value)(_plain(item) for item in value)
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    return value


def _tracked(value: Any) -> bool:
    if type(value) is Tensor:
        return value._node is not None
    if type(value) in (tuple, list):
        return any(_tracked(item) for item in value)
    if type(value) is dict:
        return any(_tracked(item) for item in value.values())
    return False


def _wrap(value: Any) -> Any:
    """Results as untracked tensors, for arrays of numbers."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fciub":
        return untracked(value)
    if type(value) in (tuple, list):
        return type(value)(_wrap(item) for item in value)
    return value
