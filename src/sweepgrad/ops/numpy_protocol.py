"""NumPy's dispatch protocols: ``np.tanh(t)`` and ``np.concatenate([t, u])`` on tensors.

A NumPy function with a declared operation runs that operation.  One without a
gradient rule is refused when a tracked tensor is among its arguments (it never
detaches silently); on untracked tensors, or inside ``no_grad()``, it runs on the
plain arrays.  Comparisons and tests have no gradient and give plain arrays.
"""

from __future__ import annotations

import difflib
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
        np.isclose,
        np.iscomplex,
        np.iscomplexobj,
        np.isin,
        np.isneginf,
        np.isposinf,
        np.isreal,
        np.isrealobj,
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

_SORTED = "np.sort for the values, or index with np.unique(t.numpy(), return_index=True)[1]"
_COUNTED = "np.bincount(np.digitize(t, edges), weights=...), whose weights get gradients"
_NUMBERS = "t.numpy(), for what is written to a file"

#: What to write in place of a function, where no similar name leads there.
INSTEAD: dict[str, str] = {
    **dict.fromkeys(
        ("unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"), _SORTED
    ),
    **dict.fromkeys(("intersect1d", "setdiff1d", "setxor1d", "union1d"), _SORTED),
    **dict.fromkeys(("histogram", "histogram2d", "histogramdd"), _COUNTED),
    **dict.fromkeys(("save", "savetxt", "savez", "savez_compressed"), _NUMBERS),
    "histogram_bin_edges": "np.linspace(np.min(t), np.max(t), bins + 1)",
    "polydiv": "np.polymul and np.polysub",
    "i0": "sweepgrad.bridge.autograd.lend(scipy.special.i0)",
    "ix_": "np.expand_dims, since an index is made of integers",
    "nextafter": "np.add with a step",
    "spacing": "np.add with a step",
    "piecewise": "np.select",
    "add.reduceat": "np.split and np.sum, or np.cumsum with np.diff",
}


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
    if method != "at" and function in UNTRACKED_UFUNCS:
        return getattr(function, method)(*_plain(inputs), **_plain(kwargs))
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


def _way_out(name: str) -> str:
    """What to write instead of a function that is not offered."""
    if name in INSTEAD:
        return f"use {INSTEAD[name]}."
    short = name.rpartition(".")[2]
    functions: tuple[Any, ...] = (*FUNCTIONS, *UFUNCS)
    offered = sorted({f.__name__ for f in functions})
    near = difflib.get_close_matches(short, offered, 1) or difflib.get_close_matches(
        short.partition("_")[0], offered, 1, 0.0
    )
    return f"the nearest function offered is np.{near[0]}."


def on_arrays(
    name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a function without a rule on plain arrays, unless that would lose a gradient."""
    if is_recording() and _tracked((args, kwargs)):
        raise NoGradientRuleError(
            f"np.{name} (with these arguments) has no gradient rule here, and a tracked tensor "
            f"does not leave the graph silently; {_way_out(name)} sweepgrad.operations() lists "
            "what is offered; pass t.detach() if no gradient should flow"
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
