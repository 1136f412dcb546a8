"""Transposes and conjugates for rules, on arrays and tensors alike."""

from __future__ import annotations

from typing import Any

import numpy as np


def transposed(x: Any) -> Any:
    """The last two axes exchanged."""
    return x.swapaxes(-1, -2)


def conjugated(x: Any) -> Any:
    """The complex conjugate; a real value itself, without a copy."""
    kind = x.dtype.kind if hasattr(x, "dtype") else np.asarray(x).dtype.kind
    return np.conjugate(x) if kind == "c" else x


def adjoint(x: Any) -> Any:
    """Transposed and conjugated."""
    return conjugated(transposed(x))
