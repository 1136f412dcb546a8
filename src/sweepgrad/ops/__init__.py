"""The operations and their gradient rules, one file per chapter of NumPy.

Any thread may call any operation, on tensors that other threads use as well:
values are never written into, and recording takes the graph's own lock alone.
What an operation does not take it refuses by name; shapes that do not fit raise
ShapeError, axes out of range NumPy's AxisError.

Importing this package installs the operators and methods on ``Tensor`` and the
table behind NumPy's dispatch.
"""

from __future__ import annotations

from sweepgrad.ops import arithmetic, numpy_protocol
from sweepgrad.ops.install import install

install()

__all__ = ["arithmetic", "numpy_protocol"]
