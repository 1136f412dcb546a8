"""Counts instead of times: what one operation executes, the same in every run on one Python.

Time on a shared machine is noise around a figure; the bytecodes that an
operation executes, the Python calls it makes, the locks it takes and the blocks
it keeps are the figure itself.  They depend on the Python version alone.
"""

from __future__ import annotations

import dis
import gc
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from sweepgrad.sync import NativePrimitives


@dataclass
class Counts:
    """What a call executed.

    Attributes:
        bytecodes: how many bytecodes, by function.
        calls: how many calls, by function.
        operations: how many bytecodes, by name.
    """

    bytecodes: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(self.bytecodes.values())

    @property
    def python_calls(self) -> int:
        return sum(self.calls.values())

    @property
    def attribute_loads(self) -> int:
        return self._named("LOAD_ATTR", "LOAD_METHOD")

    @property
    def attribute_stores(self) -> int:
        return self._named("STORE_ATTR")

    @property
    def all_calls(self) -> int:
        """Calls of functions written in Python or C."""
        return self._named("CALL", "CALL_FUNCTION_EX", "CALL_KW")

    def _named(self, *names: str) -> int:
        return sum(self.operations[name] for name in names)


def count(function: Callable[[], object], before: Callable[[], object] = object) -> Counts:
    """Run ``function`` and count what it executes in Python, its own frame left out.

    It runs twice, each time after ``before()``, and what the second run executes counts:
    CPython 3.13 begins to trace a function's bytecodes with its next call.  Finalizers that
    run meanwhile count too: they are part of the price.  Its result is dropped uncounted.
    """
    counts = Counts()

    def on_opcode(frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            code = frame.f_code
            counts.bytecodes[name_of(frame)] += 1
            counts.operations[dis.opname[code.co_code[frame.f_lasti]]] += 1
        return on_opcode

    def on_call(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is outer:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        counts.calls[name_of(frame)] += 1
        return on_opcode

    outer = function.__code__
    tracing = sys.gettrace()
    result: object = None
    collecting = gc.isenabled()
    gc.disable()
    sys.settrace(on_call)
    try:
        for _ in range(2):
            result = None  # uncounted, as it is the second time
            before()
            for counter in (counts.bytecodes, counts.calls, counts.operations):
                counter.clear()
            result = function()
    finally:
        sys.settrace(tracing)
        if collecting:
            gc.enable()
    del result
    return counts


def name_of(frame: FrameType) -> str:
    """Module and qualified name of the function of a frame."""
    module = str(frame.f_globals.get("__name__", "?")).removeprefix("sweepgrad.")
    return f"{module}.{frame.f_code.co_qualname}"


class CountingLock:
    """A plain lock that counts how often it is taken, and asked for in vain."""

    def __init__(self, taken: Counter[str]) -> None:
        self._lock = threading.Lock()
        self._taken = taken

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        got = self._lock.acquire(blocking, timeout)
        self._taken["taken" if got else "missed"] += 1
        return got

    def release(self) -> None:
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self.release()


class CountingPrimitives(NativePrimitives):
    """Primitives for a runtime of its own whose locks and queues are counted.

    Attributes:
        made: how many locks and queues have been made.
        taken: how many locks have been taken.
    """

    def __init__(self) -> None:
        super().__init__()
        self.made: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()

    def lock(self) -> Any:
        self.made["locks"] += 1
        return CountingLock(self.taken)

    def queue(self) -> deque[Any]:
        self.made["queues"] += 1
        return deque()


class HoldTimedLock(CountingLock):
    """A plain lock that notes for how long it was held, in processor time of its holder."""

    def __init__(self, longest: list[float]) -> None:
        super().__init__(Counter())
        self._longest = longest
        self._since = 0.0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        got = super().acquire(blocking, timeout)
        if got:
            self._since = time.thread_time()
        return got

    def release(self) -> None:
        self._longest[0] = max(self._longest[0], time.thread_time() - self._since)
        super().release()


class HoldTimedPrimitives(NativePrimitives):
    """Primitives for a runtime of its own that note the longest hold of any of its locks.

    Attributes:
        longest: its one item is seconds of processor time; set it to 0.0 to begin anew.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest = [0.0]

    def lock(self) -> Any:
        return HoldTimedLock(self.longest)


def kept_blocks(make: Callable[[], object]) -> int:
    """How many blocks of Python's allocator the result of ``make`` keeps."""
    make()  # caches that fill at the first call are not its price
    gc.collect()
    before = sys.getallocatedblocks()
    result = make()
    kept = sys.getallocatedblocks() - before
    del result
    return kept
