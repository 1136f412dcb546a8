"""Hooks: user code that sees, or replaces, the gradient of one tensor.

The order within one backward:

1. hooks of results of operations, each when its tensor's gradient is complete,
   right before the rule of the operation that made the tensor;
2. hooks of leaves, after the last rule, in the order in which the leaves got
   their first contribution;
3. hooks registered with ``register_post_accumulate``, in that order too;
4. callbacks registered with ``after_backward``.

Several hooks on one tensor run in the order in which they were registered, each
on what the one before it gave.  Each runs once, in the thread that runs the
backward, with no lock held.  A tensor that gets no gradient runs no hook.

A hook hangs on its tensor's node and goes with it, or with the node's rule when
a backward consumes that.  No registry holds it, so a hook that closes over the
loss is an ordinary cycle.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from sweepgrad import dispatch
from sweepgrad.errors import GradientError, GraphConsumedError, TensorTypeError
from sweepgrad.graph import Node
from sweepgrad.graph.watch import extras_of, run_user_code, watch
from sweepgrad.tensor import Tensor, node_of, untracked

_keys = itertools.count(1)

Hook = Callable[[Any], Any]


class HookHandle:
    """Removes a hook: call :meth:`remove`, or use it as a context manager.

    Thread safety: any thread.  A backward that is running may still run the hook.
    """

    __slots__ = ("_key", "_kind", "_node")

    def __init__(self, node: Node, kind: str, key: int) -> None:
        # Weak: a handle kept for long must keep neither the graph nor the hook.
        self._node = weakref.ref(node)
        self._kind = kind
        self._key = key

    def remove(self) -> None:
        """Take the hook away; harmless when it is gone already."""
        node = self._node()
        extras = getattr(node, "extras", None)
        if extras is not None:
            extras.get(self._kind, {}).pop(self._key, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def register_hook(tensor: Tensor, hook: Hook) -> HookHandle:
    """``Tensor.register_hook``; see there."""
    node = node_of(tensor, "register_hook")
    _refuse_consumed(node, tensor)
    return _add(node, "hooks", _checked(hook, tensor.shape, tensor.dtype))


def register_post_accumulate(tensor: Tensor, hook: Callable[[Tensor, Any], Any]) -> HookHandle:
    """``Tensor.register_post_accumulate``; see there."""
    node = node_of(tensor, "register_post_accumulate")
    if node.graph is not None:
        raise TensorTypeError(
            "register_post_accumulate() is for leaves, whose gradients a backward gives out, but "
            "this tensor is the result of an operation; use register_hook()"
        )

    def after(handle: Tensor, gradient: Any) -> None:
        run_user_code("a hook", hook, handle, _read_only(gradient))

    return _add(node, "after", after)


def retain_grad(tensor: Tensor) -> None:
    """``Tensor.retain_grad``; see there."""
    node = node_of(tensor, "retain_grad")
    if node.graph is None:
        return
    _refuse_consumed(node, tensor)
    extras_of(node)["retain"] = True
    watch(node)


def _add(node: Node, kind: str, hook: Callable[..., Any]) -> HookHandle:
    key = next(_keys)
    # setdefault is one C call, so two threads that come first together share one dict.
    extras_of(node).setdefault(kind, {})[key] = hook
    watch(node)
    return HookHandle(node, kind, key)


def _refuse_consumed(node: Node, tensor: Tensor) -> None:
    claim = node.claim
    if claim is not None and claim.committed:
        raise GraphConsumedError(
            f"no backward can reach the tensor of shape {tensor.shape} any more: {claim.why}; "
            "call register_hook() and retain_grad() before the backward"
        )


def _read_only(gradient: Any) -> Any:
    """What a hook sees: a tensor if it is to be differentiated, else a view nobody writes into."""
    if type(gradient) is Tensor:
        return gradient
    view = np.asarray(gradient).view()
    view.flags.writeable = False
    return view


def _checked(hook: Hook, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Hook:
    """The hook as the engine calls it; it must not hold the tensor, only what it checks."""

    def run(gradient: Any) -> Any:
        seen = _read_only(gradient)
        replacement = run_user_code("a hook", hook, seen)
        if replacement is None:
            # The view goes on, not the array: the hook may have kept the view, and an array
            # that is given to the caller must be nobody else's.
            return seen
        return _replacement(replacement, seen, shape, dtype)

    return run


def _replacement(value: Any, seen: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    data = value._array if type(value) is Tensor else np.asarray(value)
    if data.shape != shape or data.dtype != dtype:
        raise GradientError(
            f"a hook returned a gradient of shape {data.shape} and dtype {data.dtype} for a tensor "
            f"of shape {shape} and dtype {dtype}; they must be the same (return None to leave the "
            "gradient as it is)"
        )
    if type(seen) is Tensor:
        return value if type(value) is Tensor else untracked(data)
    return data.view()


dispatch.register_hook = register_hook
dispatch.register_post_accumulate = register_post_accumulate
dispatch.retain_grad = retain_grad
