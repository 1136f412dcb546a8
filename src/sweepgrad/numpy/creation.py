"""Making arrays, by the standard's arguments; numbers may be given as tensors without axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweepgrad.tensor import Tensor, untracked


def _number(value: Any) -> Any:
    """A tensor as a NumPy scalar; a tracked one is refused by ``__array__``."""
    return np.asarray(value)[()] if type(value) is Tensor else value


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Evenly spaced numbers from ``start`` to before ``stop``."""
    first, last, width = _number(start), _number(stop), _number(step)
    bounds: Any = (0, first) if last is None else (first, last)
    return untracked(np.arange(bounds[0], bounds[1], width, dtype=dtype, device=device))


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of any values."""
    return untracked(np.empty(shape, dtype or float, device=device))


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    return untracked(np.eye(n_rows, n_cols, k, dtype or float, device=device))


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor filled with one value; a tracked value gets the sum of g."""
    if type(fill_value) is Tensor and fill_value.requires_grad:
        value = fill_value if dtype is None else fill_value.astype(dtype)
        return np.broadcast_to(value, shape)  # type: ignore[return-value]
    return untracked(np.full(shape, _number(fill_value), dtype, device=device))


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` evenly spaced numbers from ``start`` to ``stop``, which may be tracked."""
    points: Any = np.linspace(start, stop, num, endpoint, dtype=dtype, device=device)
    return points if type(points) is Tensor else untracked(points)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of ones."""
    return untracked(np.ones(shape, dtype or float, device=device))


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of zeros."""
    return untracked(np.zeros(shape, dtype or float, device=device))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of a Fourier transform of length n with steps of d."""
    return untracked(np.fft.fftfreq(n, d, device=device).astype(dtype or float))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies that are not negative."""
    return untracked(np.fft.rfftfreq(n, d, device=device).astype(dtype or float))
