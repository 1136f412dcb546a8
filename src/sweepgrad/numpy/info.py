"""What the namespace and its dtypes offer, in the standard's form."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sweepgrad.tensor import Tensor


def __array_namespace_info__() -> Any:  # noqa: N807  # the standard's name
    """NumPy's own answers, which hold for tensors as well."""
    return np.__array_namespace_info__()


class FloatInfo(NamedTuple):
    """The limits of a floating-point dtype, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating or complex dtype, or a tensor's."""
    found = np.finfo(type.dtype if isinstance(type, (Tensor, np.ndarray)) else type)
    return FloatInfo(
        int(found.bits),
        float(found.eps),
        float(found.max),
        float(found.min),
        float(found.smallest_normal),
        found.dtype,
    )
