"""The standard's linear algebra extension on tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as _np

from sweepgrad.numpy.results import wrapped

_NAMES = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

for _name in _NAMES:
    globals()[_name] = wrapped(getattr(_np.linalg, _name), _name)

__all__ = sorted(_NAMES)  # noqa: PLE0605  # a list

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The functions above are made in a loop, which type checkers cannot see."""
