"""What a tensor hands on to the layers above it, which install themselves here.

``Tensor`` must know backward and NumPy's dispatch protocols without importing
the modules that implement them, since those import ``Tensor``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _missing(*args: Any) -> Any:
    raise ImportError("import sweepgrad before its modules: the operations are not installed")


#: ``backward(tensor, gradient, retain_graph, create_graph)``; installed by sweepgrad.gradients.
backward: Callable[..., Any] = _missing
#: ``ufunc(ufunc, method, inputs, kwargs)``; installed by sweepgrad.ops.numpy_protocol.
ufunc: Callable[..., Any] = _missing
#: ``function(func, args, kwargs)``; installed by sweepgrad.ops.numpy_protocol.
function: Callable[..., Any] = _missing
#: ``register_hook(tensor, hook)``; installed by sweepgrad.autograd.hooks, as are the next two.
register_hook: Callable[..., Any] = _missing
register_post_accumulate: Callable[..., Any] = _missing
retain_grad: Callable[..., Any] = _missing
