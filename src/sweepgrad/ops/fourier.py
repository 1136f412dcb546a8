"""Discrete Fourier transforms, as ``numpy.fft``.

With gradients as in JAX (∂L/∂Re - i ∂L/∂Im) a linear map's rule is its plain
transpose, and the transform's matrix is symmetric: the gradient of a transform
is the same transform of g.  Zero padding and cutting to length n are each
other's transposes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import refuse_out, shape_of
from sweepgrad.ops.conjugates import conjugated
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rearrange import roll
from sweepgrad.tensor import Tensor

_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _resized(g: Any, length: int, axis: int) -> Any:
    """Cut or padded with zeros to a length."""
    have = g.shape[axis]
    before = (slice(None),) * axis
    if have >= length:
        return g[(*before, slice(length))] if have > length else g
    widths = [(0, length - have) if one == axis else (0, 0) for one in range(len(g.shape))]
    return np.pad(g, widths)


def _cast(g: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind != "c" and g.dtype.kind == "c":
        g = g.real
    return g if g.dtype == dtype else g.astype(dtype)


def _complex(name: str, transform: Callable[..., NDArray[Any]]) -> Callable[..., Tensor]:
    """A transform between complex signals along one axis."""

    def rule(
        g: Any, n: int, axis: int, norm: Any, x_shape: tuple[int, ...], x_dtype: np.dtype[Any]
    ) -> Any:
        return _cast(_resized(transform(g, n, axis, norm), x_shape[axis], axis), x_dtype)

    return primitive(name, lambda x, n, axis, norm: transform(x, n, axis, norm), x=rule)


_fft = _complex("fft", np.fft.fft)
_ifft = _complex("ifft", np.fft.ifft)


def _rfft_rule(
    g: Any, n: int, axis: int, norm: Any, x_shape: tuple[int, ...], x_dtype: np.dtype[Any]
) -> Any:
    """The real part of the transform of g, padded by zeros for the half that was not computed."""
    whole = np.fft.fft(_resized(g, n, axis), n, axis, norm)
    return _cast(_resized(whole, x_shape[axis], axis), x_dtype)


_rfft = primitive("rfft", lambda x, n, axis, norm: np.fft.rfft(x, n, axis, norm), x=_rfft_rule)


def _irfft_rule(
    g: Any, n: int, axis: int, norm: Any, x_shape: tuple[int, ...], x_dtype: np.dtype[Any]
) -> Any:
    """The inverse transform of g; twice where an element stands for its mirror image as well.

    The constant and, for even n, the highest frequency are their own mirror images.
    """
    half = n // 2 + 1
    weights = np.full(half, 2.0)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    place = [-1 if one == axis else 1 for one in range(len(x_shape))]
    part = np.fft.ifft(g, n, axis, norm)
    part = part[(*(slice(None),) * axis, slice(half))] * weights.reshape(place)
    return _cast(_resized(part, x_shape[axis], axis), x_dtype)


_irfft = primitive("irfft", lambda x, n, axis, norm: np.fft.irfft(x, n, axis, norm), x=_irfft_rule)


def _one_axis(
    name: str, operation: Callable[..., Tensor], default: Callable[[int], int]
) -> Callable[..., Tensor]:
    def transform(
        a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None
    ) -> Tensor:
        refuse_out(name, out)
        shape = shape_of(a)
        axis = normalize_axis_index(axis, len(shape))
        length = default(shape[axis]) if n is None else operator.index(n)
        if length < 1:
            raise ShapeError(f"{name} of length {length}; at least one point is needed")
        return operation(a, length, axis, norm)

    transform.__name__ = transform.__qualname__ = name
    return transform


fft = _one_axis("fft", _fft, lambda n: n)
fft.__doc__ = "``numpy.fft.fft``; dx = fft(g), cut or padded to x's length."
ifft = _one_axis("ifft", _ifft, lambda n: n)
ifft.__doc__ = "``numpy.fft.ifft``; dx = ifft(g), cut or padded to x's length."
rfft = _one_axis("rfft", _rfft, lambda n: n)
rfft.__doc__ = "``numpy.fft.rfft``; dx = Re fft(g padded with zeros)."
irfft = _one_axis("irfft", _irfft, lambda n: 2 * (n - 1))
irfft.__doc__ = "``numpy.fft.irfft``; dx = ifft(g), doubled except for its own mirror images."


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Tensor:
    """``numpy.fft.hfft``: irfft of the conjugate, with the other normalization."""
    refuse_out("hfft", out)
    return irfft(conjugated(a), n, axis, _other(norm, "hfft"))


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """``numpy.fft.ihfft``: the conjugate of rfft, with the other normalization."""
    refuse_out("ihfft", out)
    return conjugated(rfft(a, n, axis, _other(norm, "ihfft")))


def _other(norm: Any, name: str) -> str:
    if norm not in _SWAPPED:
        raise ShapeError(f'{name}: norm is "backward", "ortho" or "forward", got {norm!r}')
    return _SWAPPED[norm]


def _plan(a: Any, s: Any, axes: Any) -> list[tuple[int | None, int]]:
    """Length and axis of each transform of several, in NumPy's reading of the arguments."""
    ndim = len(shape_of(a))
    if axes is None:
        count = ndim if s is None else len(s)
        axes = range(-count, 0)
    chosen = [normalize_axis_index(axis, ndim) for axis in axes]
    lengths: list[int | None] = [None] * len(chosen)
    if s is not None:
        if len(s) != len(chosen):
            raise ShapeError(f"s gives {len(s)} lengths for {len(chosen)} axes; give one for each")
        # As in NumPy, -1 stands for the axis' own length.
        lengths = [None if n is None or n == -1 else operator.index(n) for n in s]
    return list(zip(lengths, chosen, strict=True))


def _several(name: str, one: Callable[..., Tensor]) -> Callable[..., Any]:
    def transform(
        a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None
    ) -> Any:
        refuse_out(name, out)
        result = a
        for length, axis in reversed(_plan(a, s, axes)):
            result = one(result, length, axis, norm)
        return result

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"``numpy.fft.{name}``: one transform after the other."
    return transform


fftn = _several("fftn", fft)
ifftn = _several("ifftn", ifft)


def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """``numpy.fft.rfftn``: rfft along the last axis, then fft along the others."""
    refuse_out("rfftn", out)
    *rest, (length, axis) = _plan(a, s, axes)
    result = rfft(a, length, axis, norm)
    for length, axis in reversed(rest):
        result = fft(result, length, axis, norm)
    return result


def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """``numpy.fft.irfftn``: ifft along all axes but the last, then irfft along that."""
    refuse_out("irfftn", out)
    *rest, (length, axis) = _plan(a, s, axes)
    result = a
    for other_length, other in rest:
        result = ifft(result, other_length, other, norm)
    return irfft(result, length, axis, norm)


def _plane(name: str, several: Callable[..., Any]) -> Callable[..., Any]:
    def transform(
        a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None
    ) -> Any:
        return several(a, s, axes, norm, out)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"``numpy.fft.{name}``: over two axes, by default the last ones."
    return transform


fft2, ifft2 = _plane("fft2", fftn), _plane("ifft2", ifftn)
rfft2, irfft2 = _plane("rfft2", rfftn), _plane("irfft2", irfftn)


def _shift(x: Any, axes: Any, sign: int) -> Tensor:
    shape = shape_of(x)
    if axes is None:
        axes = range(len(shape))
    elif not isinstance(axes, (tuple, list)):
        axes = (axes,)
    places = [normalize_axis_index(axis, len(shape)) for axis in axes]
    moves = [shape[axis] // 2 if sign > 0 else -(shape[axis] // 2) for axis in places]
    return roll(x, tuple(moves), tuple(places))


def fftshift(x: Any, axes: Any = None) -> Tensor:
    """``numpy.fft.fftshift``: frequency 0 to the middle; dx = g shifted back."""
    return _shift(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Tensor:
    """``numpy.fft.ifftshift``: undoes ``fftshift``; dx = g shifted back."""
    return _shift(x, axes, -1)


_ALL: dict[str, Callable[..., Any]] = {
    operation.__name__: operation
    for operation in (
        fft, ifft, rfft, irfft, hfft, ihfft, fftn, ifftn, rfftn, irfftn,
        fft2, ifft2, rfft2, irfft2, fftshift, ifftshift,
    )
}  # fmt: skip

METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {getattr(np.fft, name): operation for name, operation in _ALL.items()}

PUBLIC: dict[str, Any] = dict(_ALL)
