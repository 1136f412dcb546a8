"""Raise an exception where an interrupt could arrive: KeyboardInterrupt or an asynchronous one.

CPython looks for interrupts when a function is entered, when a loop jumps back, after a
call of C code, and while it waits for a lock.  So a *point* is each such instruction of
the given files, before it runs, and each instruction after a call.  That is finer than
lines, and it leaves out what cannot happen: between the end of a ``with`` body and the
release of its lock, or between entering a ``finally`` and its first call, nobody looks.
An exception at a call belongs to the exception handler of the call, so the instruction
after it stands for it only where both have the same handler.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, ModuleType
from typing import Any


class Interrupted(BaseException):  # as KeyboardInterrupt
    """Stands for KeyboardInterrupt."""


_LOOKS = ("RESUME", "JUMP_BACKWARD", "BEFORE_WITH")


@functools.cache
def _instructions(code: CodeType) -> dict[int, str]:
    return {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}


@functools.cache
def _handlers(code: CodeType) -> tuple[tuple[int, int, int], ...]:
    parse = dis._parse_exception_table  # type: ignore[attr-defined]
    return tuple((entry.start, entry.end, entry.target) for entry in parse(code))


def _handler(code: CodeType, offset: int) -> int | None:
    for start, end, target in _handlers(code):
        if start <= offset < end:
            return target
    return None


def _is_point(code: CodeType, previous: int | None, offset: int, dense: bool) -> bool:
    names = _instructions(code)
    if names[offset].startswith(_LOOKS):
        return True
    if previous is not None and offset < previous and "POP_JUMP_BACKWARD" in names[previous]:
        return True  # on 3.11 the test at the end of a `while` jumps back and then looks
    handler = _handler(code, offset)
    if previous is not None and names[previous].startswith("CALL"):
        return _handler(code, previous) == handler
    return dense and handler is not None and _leaves_a_with(code, handler)


def _leaves_a_with(code: CodeType, handler: int) -> bool:
    """True if this handler is the one that calls ``__exit__``: the protected code is a body."""
    names = _instructions(code)
    following = sorted(offset for offset in names if offset >= handler)[:2]
    return "WITH_EXCEPT_START" in [names[offset] for offset in following]


class Interrupter:
    """Traces an action and raises :class:`Interrupted` at one point of it.

    Args:
        modules: whose functions are traced.
        at: the number of the point, counted from 0, or None to raise nowhere.
        dense: make every instruction in the body of a ``with`` a point as well,
            whether or not this interpreter looks for interrupts there.
    """

    def __init__(self, modules: tuple[ModuleType, ...], at: int | None, dense: bool) -> None:
        self.codes = code_objects(modules)
        self._at = at
        self._dense = dense
        #: By identity of the frame, which is not held: it would keep its locals alive.
        self._previous: dict[int, int] = {}
        #: Points met so far.
        self.met = 0
        #: Where it raised: "file:line function", or None.
        self.place: str | None = None
        #: True if the interpreter swallowed the exception (in a finalizer).
        self.swallowed = False

    def run(self, action: Callable[[], Any]) -> Any:
        """Run the action; returns its result, or None if it was interrupted."""
        before = sys.unraisablehook
        sys.unraisablehook = self._unraisable
        try:
            with _tracing(self):
                return action()
        except Interrupted:
            return None
        finally:
            sys.unraisablehook = before

    def _unraisable(self, args: Any) -> None:
        if isinstance(args.exc_value, Interrupted):
            self.swallowed = True
        else:
            sys.__unraisablehook__(args)

    # --- called for each event ---------------------------------------------------------

    def started(self, frame: FrameType) -> None:
        self._previous.pop(id(frame), None)

    def stands_at(self, frame: FrameType, offset: int) -> None:
        """The frame is about to run the instruction at this offset."""
        code, key = frame.f_code, id(frame)
        previous = self._previous.get(key)
        self._previous[key] = offset
        if self.place is None and _is_point(code, previous, offset, self._dense):
            self.met += 1
            if self.met - 1 == self._at:
                name = code.co_filename.rsplit("/", 1)[-1]
                self.place = f"{name}:{frame.f_lineno} {code.co_name}"
                raise Interrupted(self.place)


class Visitor(Interrupter):
    """Calls a function at every point, as signal handlers that come without end would.

    Args:
        modules: whose functions are traced.
        handler: what to call; points met while it runs do not count.
    """

    def __init__(self, modules: tuple[ModuleType, ...], handler: Callable[[], object]) -> None:
        super().__init__(modules, None, dense=False)
        self._handler = handler
        self._busy = False

    def stands_at(self, frame: FrameType, offset: int) -> None:
        if self._busy:
            return
        met = self.met
        super().stands_at(frame, offset)
        if self.met > met:
            self._busy = True
            try:
                self._handler()
            finally:
                self._busy = False


@functools.cache
def code_objects(modules: tuple[ModuleType, ...]) -> frozenset[CodeType]:
    """Every code object written in these modules."""
    files = {module.__file__ for module in modules}
    found: set[CodeType] = set()
    waiting: list[Any] = [value for module in modules for value in vars(module).values()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, type) and value.__module__ in [m.__name__ for m in modules]:
            waiting.extend(vars(value).values())
        elif isinstance(value, property):
            waiting.append(value.fget)
        code = value if isinstance(value, CodeType) else getattr(value, "__code__", None)
        if isinstance(code, CodeType) and code.co_filename in files and code not in found:
            found.add(code)
            waiting.extend(code.co_consts)
    return frozenset(found)


#: The interrupter whose action runs now; one at a time.
_current: Interrupter | None = None


@contextmanager
def _tracing(interrupter: Interrupter) -> Iterator[None]:
    global _current
    _current = interrupter
    try:
        if sys.version_info < (3, 12):
            sys.settrace(_call)
        yield
    finally:
        if sys.version_info < (3, 12):
            sys.settrace(None)
        _current = None


def _call(frame: FrameType, event: str, arg: Any) -> Any:
    if _current is None or frame.f_code not in _current.codes:
        return None
    frame.f_trace_opcodes = True
    frame.f_trace_lines = False
    _py_start(_current, frame, frame.f_lasti)
    return _local


def _local(frame: FrameType, event: str, arg: Any) -> Any:
    if event == "opcode" and _current is not None:
        _current.stands_at(frame, frame.f_lasti)
    return _local


@contextmanager
def watched(modules: tuple[ModuleType, ...]) -> Iterator[None]:
    """Prepare the modules for interrupters; wrap any number of them, since it takes a while.

    From Python 3.12 on it uses ``sys.monitoring``: there ``sys.settrace`` gives no opcode
    events for a frame that asks for them when it is called.
    """
    if sys.version_info < (3, 12):
        yield
        return
    monitoring, tool = sys.monitoring, 4
    started, instruction = monitoring.events.PY_START, monitoring.events.INSTRUCTION
    monitoring.use_tool_id(tool, "interrupts")
    try:
        monitoring.register_callback(tool, started, _monitored_start)
        monitoring.register_callback(tool, instruction, _monitored_instruction)
        for code in code_objects(modules):
            monitoring.set_local_events(tool, code, started | instruction)
        yield
    finally:
        for code in code_objects(modules):
            monitoring.set_local_events(tool, code, 0)
        monitoring.free_tool_id(tool)


def _monitored_start(code: CodeType, offset: int) -> None:
    if _current is not None:
        _py_start(_current, sys._getframe(1), offset)


def _monitored_instruction(code: CodeType, offset: int) -> None:
    if _current is not None:
        _current.stands_at(sys._getframe(1), offset)


def _py_start(interrupter: Interrupter, frame: FrameType, offset: int) -> None:
    interrupter.started(frame)
    interrupter.stands_at(frame, offset)  # RESUME, which has no event of its own


def count_points(
    modules: tuple[ModuleType, ...], action: Callable[[], Any], dense: bool = False
) -> int:
    """How many points an undisturbed run of the action has."""
    interrupter = Interrupter(modules, None, dense)
    interrupter.run(action)
    return interrupter.met
