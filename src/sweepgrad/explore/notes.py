"""Notes: what each step of a failing run did, where, and who waits for whom at its end.

Taken only when a failure found before is run again to be described, because
walking stacks costs more than the steps themselves.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any

from sweepgrad.explore.model_thread import Gate, ModelThread
from sweepgrad.explore.primitives import ModelLock
from sweepgrad.explore.switching import BOARD
from sweepgrad.graph.hierarchy import RankedLock
from sweepgrad.graph.locator import Graph, GraphLocator
from sweepgrad.graph.parameters import ParameterSwap
from sweepgrad.graph.sweeper import Sweeper
from sweepgrad.tensor import Tensor

#: A stack as (file, line, function), innermost first.
Stack = list[tuple[str, int, str]]

_HERE = os.path.dirname(os.path.abspath(__file__))
_DEPTH = 12
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


@dataclass(frozen=True)
class Note:
    """One step: who, what, on what, and the stack that led to it."""

    thread: int
    kind: str
    what: str
    stack: Stack


@dataclass(frozen=True)
class Waiting:
    """A thread that cannot go on: what it waits for, who holds that, and both stacks."""

    thread: str
    what: str
    owner: str | None
    owner_ended: bool
    waits_at: Stack
    taken_at: Stack
    is_lock: bool


class Recorder:
    """Takes a note of each step."""

    def __init__(self) -> None:
        self.steps: list[Note] = []
        self.pending: dict[int, Note] = {}

    def note(self, thread: ModelThread, kind: str, what: object) -> None:
        self.pending[thread.index] = Note(thread.index, kind, describe(what), self.where())

    def executed(self, thread: ModelThread) -> None:
        note = self.pending.get(thread.index)
        if note is None or thread.event is not None:
            note = Note(thread.index, thread.kind, "", [])
        self.steps.append(note)

    def where(self) -> Stack:
        """The stack of the running thread, without the explorer's own frames."""
        frame: FrameType | None = sys._getframe(1)
        found: Stack = []
        while frame is not None and len(found) < _DEPTH:
            code = frame.f_code
            if os.path.dirname(code.co_filename) != _HERE:
                found.append((code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back
        return found


def waits_of(live: list[ModelThread], recorder: Recorder | None) -> list[Waiting]:
    """Who waits for what, when nobody can go on."""
    found = []
    for thread in live:
        gate: Any = thread.waits
        if gate is None:
            continue
        owner = gate.owner
        is_thread = isinstance(owner, ModelThread)
        note = recorder.pending.get(thread.index) if recorder is not None else None
        found.append(
            Waiting(
                thread.name,
                describe(gate),
                repr(owner) if owner is not None else None,
                is_thread and owner.end.owner is None,
                note.stack if note is not None else [],
                getattr(gate, "taken_at", None) or [],
                isinstance(gate, ModelLock),
            )
        )
    return found


def describe(what: object) -> str:
    """A short name for what a step touches; finds the class of a runtime's lock by who has it."""
    if what is BOARD:
        return ""
    if isinstance(what, ModelLock):
        if what.name is None:
            what.name = _lock_class(what)
        return what.name
    if isinstance(what, Gate) and what.name is None:
        return "its end" if what.owner is None else f"the end of {what.owner}"
    if isinstance(what, Tensor):
        return f"tensor of shape {what.shape}"
    try:
        text = repr(what)
    except Exception:  # half-made, or the program's own repr is at fault
        return f"a {type(what).__name__}"
    text = _ADDRESS.sub("", text)  # an address is another one in each run
    return text if len(text) <= 60 else text[:57] + "..."


def _lock_class(lock: ModelLock) -> str:
    for owner in gc.get_referrers(lock):
        if isinstance(owner, RankedLock):
            return f"{owner.rank.name} lock {owner.serial}"
        if isinstance(owner, Graph):
            return f"GRAPH lock {owner.serial}"
        if isinstance(owner, GraphLocator):
            return "LOCATOR lock"
        if isinstance(owner, Sweeper):
            return "SWEEP lock"
        if isinstance(owner, list) and len(owner) > 1 and owner[0].__class__ is ModelLock:
            for holder in gc.get_referrers(owner):
                if isinstance(holder, ParameterSwap):
                    return f"PARAM lock {owner.index(lock) + 1}"
    return _attribute_name(lock)


def _attribute_name(lock: ModelLock) -> str:
    """The name under which some object of the program has the lock."""
    for owner in gc.get_referrers(lock):
        fields = owner if isinstance(owner, dict) else getattr(owner, "__dict__", {})
        for name, value in list(fields.items()):
            if value is lock and isinstance(name, str) and name != "waits":
                return f"lock {name!r}"
    return "a lock"
