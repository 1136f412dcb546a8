"""detect_anomaly: which operation a NaN or an exception in backward came from."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any

import numpy as np

from sweepgrad.autograd.calls import Bundle
from sweepgrad.errors import AnomalyError
from sweepgrad.graph import Node, Rule
from sweepgrad.graph.register import note_origins
from sweepgrad.graph.watch import WATCH, inspector
from sweepgrad.tensor import Tensor

#: Frames of a recorded origin, innermost first, at most.
DEPTH = 12

#: (file, line, function) for each frame; no frame is kept, since it would keep its locals.
Origin = tuple[tuple[str, int, str], ...]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_entered: ContextVar[tuple[detect_anomaly, ...]] = ContextVar("sweepgrad_anomaly", default=())


class detect_anomaly:  # noqa: N801  # a context manager is named as a function, as in PyTorch
    """Find the operation behind a NaN or an exception in backward.

    Inside the block each recorded operation notes where it was called, and a
    backward looks at what each gradient rule gives: a NaN raises AnomalyError,
    and an exception in a rule gets a note, both with that place.  Enter it
    around forward and backward.  Slow; for finding a fault.

    Thread safety: holds for the calling thread or asyncio task alone; an instance
    may be used again.  The first use in a process makes every later recorded
    operation a little slower, in all threads.
    """

    def __init__(self) -> None:
        # What WATCH has while an instance is entered anywhere in the process:
        # one for each entry, so that two threads that share the instance do not meet.
        self._tokens: list[object] = []

    def __enter__(self) -> detect_anomaly:
        note_origins(_noting_node)
        before = _entered.get()
        token = object()
        try:
            self._tokens.append(token)
            WATCH.add(token)
            _enter((*before, self))
        except BaseException:  # an interrupt: `with` does not leave what was not entered
            WATCH.discard(token)
            _enter(before)
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        modes = list(_entered.get())
        if self in modes:
            modes.remove(self)
        _enter(tuple(modes))
        WATCH.discard(self._tokens.pop())


def _enter(modes: tuple[detect_anomaly, ...]) -> None:
    _entered.set(modes)
    inspector.set(inspect_rule if modes else None)


def _noting_node(handle: object, on_drop: Callable[[Node], None]) -> Node:
    """Makes the record of an operation, with its origin when the mode is on."""
    node = Node(handle, on_drop)
    if _entered.get():
        node.extras = {"origin": _origin()}
    return node


def _origin() -> Origin:
    """Where sweepgrad was called from, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    found: list[tuple[str, int, str]] = []
    while frame is not None and len(found) < DEPTH:
        code = frame.f_code
        found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(found)


def _where(node: Node, name: str) -> str:
    """The message's part that says where the operation was recorded."""
    extras = getattr(node, "extras", None)
    origin: Origin | None = None if extras is None else extras.get("origin")
    if origin is None:
        return f"{name} was recorded outside of detect_anomaly(), so where is not known"
    lines = [
        traceback.FrameSummary(file, line, function) for file, line, function in reversed(origin)
    ]
    text = "".join(traceback.StackSummary.from_list(lines).format())
    return f"{name} was recorded here:\n{text.rstrip()}"


def inspect_rule(node: Node, rule: Rule) -> Rule:
    """The rule with its results looked at."""
    name = rule.name

    def looked_at(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(gradient: Any, *saved: Any) -> Any:
            try:
                result = function(gradient, *saved)
            except Exception as error:
                error.add_note(f"in the gradient rule of an operation: {_where(node, name)}")
                raise
            if _has_nan(result):
                before = " (the gradient it was given had one)" if _has_nan(gradient) else ""
                raise AnomalyError(
                    f"the gradient rule of {name} gave a NaN{before}. {_where(node, name)}"
                )
            return result

        return run

    parts = rule.parts
    if parts is not None:
        parts = tuple((looked_at(function), positions) for function, positions in parts)
    return Rule(name, looked_at(rule.backward), rule.roles, parts)


def _has_nan(value: Any) -> bool:
    if value is None:
        return False
    if type(value) is tuple:
        return any(_has_nan(part) for part in value)
    if type(value) is Bundle:
        return any(_has_nan(part) for part in value.parts.values())
    data = value._array if type(value) is Tensor else np.asarray(value)
    return bool(data.dtype.kind in "fc" and np.isnan(data).any())
