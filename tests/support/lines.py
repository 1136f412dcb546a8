"""Do something at one line of the runtime's code, or at each of its lines.

A trace function can raise where CPython never would: on the first line of a ``finally``
suite, or on the way from the end of a ``with`` body to ``__exit__``.  No lock of any
Python program survives that, so these lines are left to ``support.interrupts``, which
knows at which instructions the interpreter looks for interrupts.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from support.interrupts import Interrupted, code_objects

Place = tuple[str, int]


@functools.cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text())


@functools.cache
def cleaning_lines(file: str) -> frozenset[int]:
    """The lines of ``finally`` suites and ``except`` clauses, and those that return through them.

    A ``return`` of a constant has no instruction of its own before the ``finally`` suite.
    """
    lines: set[int] = set()
    for node in ast.walk(_tree(file)):
        if not isinstance(node, ast.Try):
            continue
        suites = [node.finalbody, *(handler.body for handler in node.handlers)]
        lines.update(handler.lineno for handler in node.handlers)
        for statement in (statement for suite in suites for statement in suite):
            lines.update(range(statement.lineno, (statement.end_lineno or 0) + 1))
        if node.finalbody:
            inner = [part for statement in node.body for part in ast.walk(statement)]
            lines.update(
                part.lineno
                for part in inner
                if isinstance(part, ast.Return) and isinstance(part.value, (ast.Constant, ast.Name))
            )
    return frozenset(lines)


@functools.cache
def with_lines(file: str) -> frozenset[int]:
    """The lines on which a ``with`` statement begins."""
    return frozenset(n.lineno for n in ast.walk(_tree(file)) if isinstance(n, ast.With))


@functools.cache
def raising_lines(file: str) -> frozenset[int]:
    """The lines of ``raise`` and ``assert`` statements: there an error is on its way already."""
    lines: set[int] = set()
    for node in ast.walk(_tree(file)):
        if isinstance(node, (ast.Raise, ast.Assert)):
            lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return frozenset(lines)


def lines_of(modules: tuple[ModuleType, ...], without: frozenset[str]) -> dict[Place, str]:
    """Every line of code of the functions in these modules: (file, line) to function.

    Args:
        modules: whose functions.
        without: qualified names of functions that are left out.
    """
    found: dict[Place, str] = {}
    for code in code_objects(modules):
        if code.co_qualname.split(".<locals>")[0] in without:
            continue
        for _, _, line in code.co_lines():
            if line is not None and line != code.co_firstlineno:
                found[code.co_filename, line] = code.co_qualname
    return found


class AtLines:
    """Runs an action and calls ``visit(place)`` on its lines.

    Args:
        modules: whose lines count.
        visit: called with (file, line) before the line runs; what it raises is raised there.
        at: call it at this event only, counted from 0, or at every one for None.
        once: count only the first time that a line is reached.
    """

    def __init__(
        self,
        modules: tuple[ModuleType, ...],
        visit: Callable[[Place], Any],
        at: int | None = None,
        once: bool = False,
    ) -> None:
        self._codes = code_objects(modules)
        self._visit = visit
        self._at = at
        self._once = once
        self._busy = False
        self._entered: set[tuple[int, int]] = set()
        self._seen: set[Place] = set()
        #: Lines reached so far that count.
        self.met = 0
        #: Where it was called last: "file:line function".
        self.place: str | None = None
        #: True if the interpreter swallowed :class:`Interrupted` (in a finalizer).
        self.swallowed = False
        #: What else the interpreter swallowed: nothing of ours may add to it.
        self.complaints: list[str] = []

    def run(self, action: Callable[[], Any]) -> Any:
        """Run the action; returns its result, or None if :class:`Interrupted` ended it."""
        hook, trace = sys.unraisablehook, sys.gettrace()
        sys.unraisablehook = self._unraisable
        try:
            sys.settrace(self._call)
            return action()
        except Interrupted:
            return None
        finally:
            sys.settrace(trace)
            sys.unraisablehook = hook

    def _unraisable(self, args: Any) -> None:
        if isinstance(args.exc_value, Interrupted):
            self.swallowed = True
        else:
            self.complaints.append(repr(args.exc_value))

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code not in self._codes:
            return None
        self._entered = {key for key in self._entered if key[0] != id(frame)}
        return self._line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and not self._busy and self._counts(frame):
            self.met += 1
            if self._at is None or self.met - 1 == self._at:
                self._call_visit(frame.f_code, frame.f_lineno)
        return self._line

    def _counts(self, frame: FrameType) -> bool:
        file, line = place = frame.f_code.co_filename, frame.f_lineno
        if line in cleaning_lines(file):
            return False
        if line in with_lines(file):
            key = id(frame), line
            if key in self._entered:
                return False  # back from the body, on the way to __exit__
            self._entered.add(key)
        if self._once and place in self._seen:
            return False
        self._seen.add(place)
        return True

    def _call_visit(self, code: CodeType, line: int) -> None:
        name = code.co_filename.rsplit("/", 1)[-1]
        self.place = f"{name}:{line} {code.co_qualname}"
        self._busy = True
        try:
            self._visit((code.co_filename, line))
        finally:
            self._busy = False
