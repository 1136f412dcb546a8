"""Functions of NumPy whose results are tensors, whatever their dtype."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from sweepgrad.tensor import Tensor, untracked


def as_tensors(result: Any) -> Any:
    """Arrays and NumPy scalars as tensors, also inside tuples and lists; the rest as it is."""
    if isinstance(result, (np.ndarray, np.generic)):
        return untracked(np.asarray(result))
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[as_tensors(item) for item in result])
    if type(result) in (tuple, list):
        return type(result)(as_tensors(item) for item in result)
    return result


def wrapped(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function on tensors, arrays of the standard's namespace."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return as_tensors(function(*args, **kwargs))

    try:
        functools.update_wrapper(call, function)
    except (AttributeError, TypeError):  # a ufunc has no dictionary
        call.__doc__ = function.__doc__
    call.__name__ = call.__qualname__ = name
    call.__module__ = "sweepgrad.numpy"
    return call
