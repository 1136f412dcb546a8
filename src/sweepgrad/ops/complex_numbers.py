"""Parts of complex numbers; of real tensors, what NumPy takes them to be.

The convention of gradients is JAX's: see :mod:`sweepgrad.ops.arithmetic`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sweepgrad.ops.declare import unary
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.rules import plain, zeros
from sweepgrad.ops.trigonometric import arctan2, degrees
from sweepgrad.tensor import Tensor

conjugate = unary(
    "conjugate",
    np.conjugate,
    lambda g: np.conjugate(g),
    "``x*``; dx = g*, which is g if x is real.",
)

_real = primitive("real", lambda x: x.real, x=lambda g, x_dtype: g.astype(x_dtype))
_imag = primitive(
    "imag",
    lambda x: x.imag,
    x=lambda g, x_dtype: (g * -1j).astype(x_dtype) if x_dtype.kind == "c" else zeros(g),
)


def real(x: Any) -> Tensor:
    """Real part; dx = g.  A real tensor is its own real part."""
    return x if type(x) is Tensor and x.dtype.kind != "c" else _real(x)


def imag(x: Any) -> Tensor:
    """Imaginary part; dx = -i g.  That of a real tensor is 0, with gradient 0."""
    return _imag(x)


_half_turn = unary("angle", lambda x: np.angle(x), zeros)


def angle(x: Any, deg: bool = False) -> Tensor:
    """Angle of x in the complex plane; by ``arctan2`` of its parts, with its gradients.

    Args:
        deg: in degrees instead of radians.
    """
    if np.iscomplexobj(plain(x)):
        result: Tensor = arctan2(imag(x), real(x))
    else:
        result = _half_turn(x)
    return degrees(result) if deg else result


METHODS: dict[str, Any] = {
    "conj": conjugate,
    "conjugate": conjugate,
    "real": property(real, doc=real.__doc__),
    "imag": property(imag, doc=imag.__doc__),
}

NUMPY: dict[Any, Any] = {
    np.conjugate: conjugate,
    np.real: real,
    np.imag: imag,
    np.angle: angle,
}

PUBLIC = {"conj": conjugate, "conjugate": conjugate, "real": real, "imag": imag, "angle": angle}
