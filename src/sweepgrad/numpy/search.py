"""Sorting, searching and sets by the standard's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweepgrad.numpy.results import as_tensors
from sweepgrad.tensor import Tensor, untracked


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The places of the elements in order; equal ones stay in theirs, also when descending."""
    return untracked(_order(np.asarray(x.detach()), axis, descending))


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order; g goes back to where each came from."""
    order = _order(np.asarray(x.detach()), axis, descending)
    return np.take_along_axis(x, order, axis)  # type: ignore[arg-type, return-value]


def _order(x: Any, axis: int, descending: bool) -> Any:
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    # Reversed twice: once for the order, once for equal elements to stay in theirs.
    order = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - order


def searchsorted(x1: Tensor, x2: Any, /, *, side: Any = "left", sorter: Any = None) -> Tensor:
    """Where elements would have to be put into a sorted vector."""
    plain = [x.detach().numpy() if type(x) is Tensor else x for x in (x1, x2, sorter)]
    return as_tensors(np.searchsorted(plain[0], plain[1], side, plain[2]))  # type: ignore[no-any-return]


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of the elements that are not 0, an index vector for each axis."""
    return as_tensors(np.nonzero(x.detach().numpy()))  # type: ignore[no-any-return]


def unique_all(x: Tensor, /) -> Any:
    """As the standard; a tracked tensor is refused by name."""
    return as_tensors(np.unique_all(_constant(x, np.unique_all)))


def unique_counts(x: Tensor, /) -> Any:
    """As the standard; a tracked tensor is refused by name."""
    return as_tensors(np.unique_counts(_constant(x, np.unique_counts)))


def unique_inverse(x: Tensor, /) -> Any:
    """As the standard; a tracked tensor is refused by name."""
    return as_tensors(np.unique_inverse(_constant(x, np.unique_inverse)))


def unique_values(x: Tensor, /) -> Any:
    """As the standard; a tracked tensor is refused by name."""
    return as_tensors(np.unique_values(_constant(x, np.unique_values)))


def _constant(x: Tensor, function: Any) -> Any:
    if x.requires_grad:
        function(x)  # raises, naming the function and what to write instead
    return x.numpy()
