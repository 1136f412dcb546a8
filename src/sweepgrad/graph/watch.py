"""What makes a backward look closer: hooks, kept gradients, callbacks, an inspector; and nesting.

A backward without any of these must cost nothing for them.  So all of them
announce themselves in one set, :data:`WATCH`; while it is empty, backward runs
its short loop and asks nothing.  The rejected alternative, a look at each
node's extras, costs every step of every backward.

Nothing here holds a node, a hook or a callback for the whole process: ``WATCH``
has weak references and empty tokens only.  A hook hangs on its node, so one that
closes over the loss is a cycle for the cyclic collector to find.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from sweepgrad.errors import NestingError, OutsideBackwardError
from sweepgrad.graph.node import Node, Rule
from sweepgrad.graph.recording import enable_grad

#: Weak references to nodes with hooks or a kept gradient, a token for each callback
#: that waits and for each block with an inspector.  Changed by set.add and
#: set.discard alone, each one C call on every build.
WATCH: set[object] = set()

#: How many backwards may run inside each other.  Each level takes about ten Python
#: frames of ours and a few of the user's, so the limit is met before Python's own
#: limit of 1,000 frames is.
MAX_NESTING = 64

_depth: ContextVar[int] = ContextVar("sweepgrad_nesting", default=0)

#: What looks at every rule of a backward of this thread or task, or None:
#: ``inspector(node, rule)`` gives the rule to run in its place.
inspector: ContextVar[Callable[[Node, Rule], Rule] | None] = ContextVar(
    "sweepgrad_inspector", default=None
)


#: One instance serves every thread: what it remembers is kept in the context.
_recorded = enable_grad()


def run_user_code(what: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call a rule, hook or callback of the user's from inside a backward; no lock is held.

    Recording is on inside, whatever the caller of backward chose, so that a
    backward inside means the same everywhere.

    Raises:
        NestingError: if :data:`MAX_NESTING` backwards run inside each other already.
    """
    depth = _depth.get()
    if depth >= MAX_NESTING:
        raise NestingError(
            f"{depth} backwards run inside each other, and {what} of the innermost would start "
            f"one more level; the limit is {MAX_NESTING}. Is its own backward what it calls? "
            "Compute the inner gradient outside, or with create_graph=True"
        )
    # Values before and after, not tokens: an interrupt between setting and keeping
    # a token would leave the level raised for good.
    try:
        _depth.set(depth + 1)
        with _recorded:
            return function(*args)
    finally:
        _depth.set(depth)


# --- extras of a node ---------------------------------------------------------------------


class _ExtrasCell:
    """The extras of a node as a cell for the compare-and-swap of parameters."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def _array(self) -> Any:
        return getattr(self._node, "extras", None)

    @_array.setter
    def _array(self, value: Any) -> None:
        self._node.extras = value


def extras_of(node: Node) -> dict[str, Any]:
    """The extras of a node, made if it has none; of two threads that make them one wins.

    Raises:
        ReentrantCallError: inside a critical section of this thread.
    """
    # A graph that was merged away belongs to the runtime of its survivor.
    runtime = node.runtime if node.graph is None else node.graph.runtime
    cell = _ExtrasCell(node)
    while True:
        extras: dict[str, Any] | None = cell._array
        if extras is not None:
            return extras
        runtime.parameters.replace(cell, node.id, None, {})


def watch(node: Node) -> None:
    """Make backwards look at the extras of this node; call it after they are set."""
    WATCH.add(weakref.ref(node, WATCH.discard))


def hooked(node: Node, gradient: Any) -> Any:
    """The gradient after the node's hooks, in the order in which they were registered."""
    extras = getattr(node, "extras", None)
    if extras is None:
        return gradient
    # One C call copies the hooks: another thread may be adding or removing one.
    for hook in extras.get("hooks", {}).copy().values():
        replacement = hook(gradient)
        if replacement is not None:
            gradient = replacement
    return gradient


def after_hooks(node: Node) -> list[Callable[..., Any]]:
    """What runs after the final gradient of this leaf is known."""
    extras = getattr(node, "extras", None)
    return [] if extras is None else list(extras.get("after", {}).copy().values())


def keeps_gradient(node: Node) -> bool:
    """True for the result of an operation that was marked with ``retain_grad``."""
    extras = getattr(node, "extras", None)
    return extras is not None and "retain" in extras


def is_watched(node: Node) -> bool:
    """True if a hook or a kept gradient waits for this node, whatever lies behind it."""
    extras = getattr(node, "extras", None)
    return extras is not None and bool(extras.get("hooks") or extras.get("retain"))


def forget_hooks(node: Node) -> None:
    """The node's rule has been consumed, so its hooks can never run again."""
    extras = getattr(node, "extras", None)
    if extras is not None:
        extras.pop("hooks", None)


# --- callbacks at the end of a backward ------------------------------------------------------


class _Callback:
    """A callback that waits for the end of the backward it was registered in."""

    __slots__ = ("depth", "function", "token")

    def __init__(self, depth: int, function: Callable[[], object]) -> None:
        self.depth = depth
        self.function = function
        self.token = object()


_waiting: ContextVar[tuple[_Callback, ...]] = ContextVar("sweepgrad_callbacks", default=())


def after_backward(function: Callable[[], object]) -> None:
    """Run ``function()`` once when the backward that is running now has all its gradients.

    Call it from a rule or a hook.  Callbacks run in the order in which they were
    registered, after every hook, before ``backward`` or ``grad`` returns, in the
    thread that runs the backward.  In a backward that runs inside another, the
    inner one.  They do not run if the backward fails.

    Thread safety: concerns the backward of the calling thread or task alone.

    Raises:
        OutsideBackwardError: if no backward is running in this thread.
    """
    depth = _depth.get()
    if not depth:
        raise OutsideBackwardError(
            "after_backward() was called, but no rule or hook of a backward is running in this "
            "thread; call it from one, or do the work after backward() has returned"
        )
    callback = _Callback(depth, function)
    _waiting.set((*_waiting.get(), callback))
    WATCH.add(callback.token)


def run_callbacks() -> None:
    """Run what waits for the end of the backward that is ending now."""
    depth = _depth.get()
    while True:
        mine = next((callback for callback in _waiting.get() if callback.depth > depth), None)
        if mine is None:
            return
        _remove(mine)
        run_user_code("a callback", mine.function)


def drop_callbacks() -> None:
    """Forget what waits for the end of the backward that is failing now."""
    depth = _depth.get()
    for callback in _waiting.get():
        if callback.depth > depth:
            _remove(callback)


def _remove(callback: _Callback) -> None:
    _waiting.set(tuple(other for other in _waiting.get() if other is not callback))
    WATCH.discard(callback.token)
