"""The operations and their gradient rules, one file per chapter of NumPy.

Importing this package installs the operators and methods on ``Tensor`` and the
table behind NumPy's dispatch.
"""

from __future__ import annotations

from sweepgrad.ops import arithmetic, numpy_protocol
from sweepgrad.ops.install import install

install()

__all__ = ["arithmetic", "numpy_protocol"]
