"""Making arrays of what users pass, with errors that say what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweepgrad.errors import DtypeError, ShapeError, SweepgradError

#: 1 in each dtype, without axes and read-only: the seed of a backward from a loss, and for rules,
#: as in ``ONE[ans.dtype] - ans``.  As an operand it costs half of what Python's 1 costs, which
#: NumPy looks at and converts anew in every call.
ONE: dict[np.dtype[Any], NDArray[Any]] = {np.dtype(kind): np.ones((), kind) for kind in "efdgFDG"}
#: 0 likewise.
ZERO: dict[np.dtype[Any], NDArray[Any]] = {kind: np.zeros((), kind) for kind in ONE}
for _constant in (*ONE.values(), *ZERO.values()):
    _constant.flags.writeable = False


def converted(value: Any, dtype: DTypeLike | None, operation: str) -> NDArray[Any]:
    """A new array of ``value``; what NumPy cannot convert is a named error.

    Raises:
        DtypeError: if ``dtype`` is unknown, or a value does not convert to it.
        ShapeError: for nested sequences of unequal lengths.
    """
    try:
        return np.array(value, dtype=dtype)
    except SweepgradError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        reason = error
    try:
        np.dtype(dtype)
    except TypeError:
        raise DtypeError(
            f"{operation}() got dtype={dtype!r}, which is not a dtype; pass a NumPy dtype such as "
            "np.float32 or np.float64"
        ) from reason
    if dtype is None or _is_ragged(value):
        raise ShapeError(
            f"{operation}() got nested sequences of unequal lengths, which make no array "
            f"({reason}); give every row the same length"
        ) from reason
    raise DtypeError(
        f"{operation}() got values that do not convert to dtype {np.dtype(dtype)}: {reason}; "
        "convert them first"
    ) from reason


def _is_ragged(value: Any) -> bool:
    try:
        items = np.array(value, dtype=object)
    except ValueError:
        return True
    return any(isinstance(item, (list, tuple, np.ndarray)) for item in items.flat)
