"""What a tensor hands on to the layers above it, which install themselves here.

``Tensor`` must know backward and hooks without importing the modules that
implement them, since those import ``Tensor``.  NumPy's dispatch protocols and
the operations are installed on the class itself (:mod:`sweepgrad.ops.install`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _missing(*args: Any) -> Any:
    raise ImportError("import sweepgrad before its modules: the operations are not installed")


#: ``backward(tensor, gradient, retain_graph, create_graph)``; installed by sweepgrad.gradients.
backward: Callable[..., Any] = _missing
#: ``register_hook(tensor, hook)``; installed by sweepgrad.autograd.hooks, as are the next two.
register_hook: Callable[..., Any] = _missing
register_post_accumulate: Callable[..., Any] = _missing
retain_grad: Callable[..., Any] = _missing
