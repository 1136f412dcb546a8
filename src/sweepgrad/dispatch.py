"""What a tensor hands on to the layers above it, which install themselves here.

``Tensor`` must know backward and hooks without importing the modules that
implement them, since those import ``Tensor``.  NumPy's dispatch protocols and
the operations are installed on the class itself (:mod:`sweepgrad.ops.install`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

#: CPython before 3.12 collects wherever something is allocated, also inside the C code that
#: sets a context variable.  A finalizer that sets one then, as NumPy's error state is, frees the
#: mapping which that code goes on reading: the process crashes.  A copy of the context holds
#: the mapping and has variables of its own, so each backward runs in one: a finalizer may run
#: it, and inside whose code that is nobody can tell.
COLLECTS_ANYWHERE = sys.version_info < (3, 12)


def _missing(*args: Any) -> Any:
    raise ImportError("import sweepgrad before its modules: the operations are not installed")


#: ``backward(tensor, gradient, retain_graph, create_graph)``; installed by sweepgrad.gradients.
backward: Callable[..., Any] = _missing
#: ``register_hook(tensor, hook)``; installed by sweepgrad.autograd.hooks, as are the next two.
register_hook: Callable[..., Any] = _missing
register_post_accumulate: Callable[..., Any] = _missing
retain_grad: Callable[..., Any] = _missing
