"""Stand-ins for ``threading``: a user's trainer runs on the model as it is.

``Event``, ``Semaphore``, ``Barrier``, ``queue.Queue`` and the rest of the
standard library are written in Python on top of ``Lock``, ``RLock`` and
``Condition``, which they look up in ``threading`` when they are made.  So swapping
these brings all of them.  Of ``Thread`` a few methods are replaced, which serves
subclasses and imported names, too.  Other threads of the process, such as a test
runner's watchdog, get what they always got.

Time stands still while any thread can go on: ``sleep`` is a step, and a wait with
a time limit ends without success only when nothing else can run.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from sweepgrad import sync
from sweepgrad.explore.model_thread import Gate, Nobody
from sweepgrad.explore.primitives import ModelLock
from sweepgrad.explore.switching import BOARD

_NOBODY = Nobody("nobody")


class ModelRLock:
    """A reentrant lock."""

    def __init__(self) -> None:
        self._lock = ModelLock("an RLock")
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if BOARD.current is not None and self._lock.owner is BOARD.current:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._count = 1
        return True

    def release(self) -> None:
        if not self._is_owned():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._lock.release()

    def _is_owned(self) -> bool:
        return self._lock.owner is not None and BOARD.current in (self._lock.owner, None)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc_info: Any) -> None:
        self.release()


class ModelCondition:
    """A condition variable; each waiter waits for a gate of its own, first come first served."""

    def __init__(self, lock: Any = None) -> None:
        self._lock = lock if lock is not None else ModelRLock()
        self._waiters: list[Gate] = []
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *exc_info: Any) -> None:
        self._lock.__exit__(*exc_info)

    def wait(self, timeout: float | None = None) -> bool:
        gate = Gate("a notification", _NOBODY)
        self._waiters.append(gate)
        count = getattr(self._lock, "_count", 1)
        if count > 1:
            self._lock._count = 1
        self._lock.release()
        try:
            return wait_for_gate("wait for", gate, timeout)
        finally:
            if gate in self._waiters:
                self._waiters.remove(gate)
            self._lock.acquire()
            if count > 1:
                self._lock._count = count

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        result = predicate()
        while not result:
            if not self.wait(timeout):
                return predicate()
            result = predicate()
        return result

    def notify(self, n: int = 1) -> None:
        for gate in self._waiters[:n]:
            BOARD.step("notify", gate, gate.key)
            gate.owner = None
        del self._waiters[:n]

    def notify_all(self) -> None:
        self.notify(len(self._waiters))


def wait_for_gate(kind: str, gate: Gate, timeout: float | None) -> bool:
    """Wait until the gate opens; False when the time limit ended the wait."""
    me = BOARD.current
    if me is None:
        return gate.owner is None
    me.timed = timeout is not None
    try:
        BOARD.step(kind, gate, gate.key, True, gate)
    finally:
        me.timed = False
        me.waits = None
    return gate.owner is None


def here() -> bool:
    """True in the thread of the process that explores."""
    return BOARD.ident == _native_ident()


_native_ident = sync.get_ident
_native_sleep = time.sleep
_native_current = sync.current_thread
_Thread = sync.Thread


def _start(self: Any) -> None:
    if not here():
        _NATIVE_METHODS["start"](self)
    elif hasattr(self, "_on_model"):
        raise RuntimeError("threads can only be started once")
    else:
        thread = BOARD.add_thread(self.name, lambda: self.run(), started=False)
        self._on_model, thread.handle = thread, self
        BOARD.start_if_running(thread)


def _join(self: Any, timeout: float | None = None) -> None:
    if not hasattr(self, "_on_model"):
        _NATIVE_METHODS["join"](self, timeout)
    else:
        wait_for_gate("join", self._on_model.end, timeout)


def _is_alive(self: Any) -> bool:
    if not hasattr(self, "_on_model"):
        return bool(_NATIVE_METHODS["is_alive"](self))
    end = self._on_model.end
    BOARD.step("is alive", end, end.key, False)
    return end.owner is not None


_METHODS = {"start": _start, "join": _join, "is_alive": _is_alive}
_NATIVE_METHODS: dict[str, Any] = {name: vars(_Thread)[name] for name in _METHODS}


def _current_thread() -> Any:
    me = BOARD.current
    if not here() or me is None:
        return _native_current()
    if me.handle is None:
        me.handle = SimpleNamespace(name=me.name, ident=me.index + 1, daemon=False)
    return me.handle


class LocalOnModel:
    """``threading.local`` with attributes of each model thread."""

    def __init__(self) -> None:
        object.__setattr__(self, "_by_thread", {})

    def _own(self) -> dict[str, Any]:
        by_thread: dict[Any, dict[str, Any]] = object.__getattribute__(self, "_by_thread")
        return by_thread.setdefault(BOARD.current, {})

    def __getattr__(self, name: str) -> Any:
        try:
            return self._own()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._own()[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self._own()[name]
        except KeyError:
            raise AttributeError(name) from None


def _sleep(seconds: float) -> None:
    if here():
        BOARD.step("sleep", BOARD, 0, False)
    else:
        _native_sleep(seconds)


def _get_ident() -> int:
    me = BOARD.current
    return me.index + 1 if me is not None and here() else _native_ident()


def _or_native(stand_in: Callable[..., Any], native: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the stand-in in the exploring thread and the native object in others."""
    return lambda *args, **kwargs: (stand_in if here() else native)(*args, **kwargs)


def _stand_ins() -> dict[str, Any]:
    """Name in ``threading`` and what stands for it on the model."""
    makers: dict[str, Callable[..., Any]] = {
        "Lock": ModelLock,
        "_allocate_lock": ModelLock,
        "RLock": ModelRLock,
        "Condition": ModelCondition,
        "local": LocalOnModel,
    }
    native = sync.swap_threading(dict.fromkeys(makers))
    sync.swap_threading(native)
    found = {name: _or_native(makers[name], native[name]) for name in makers}
    return found | {"get_ident": _get_ident, "current_thread": _current_thread}


@contextmanager
def threading_on_model(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Swap the names in ``threading``, ``sweepgrad.sync`` and the given modules.

    In other modules only names that *are* the native objects are swapped.
    """
    stand_ins = _stand_ins()
    native = sync.swap_threading(stand_ins)
    replaced = {id(native[name]): stand_ins[name] for name in stand_ins}
    replaced[id(time.sleep)] = _sleep
    replaced[id(queue.SimpleQueue)] = queue.Queue
    undo: list[tuple[Any, str, Any]] = []
    try:
        for name, method in _METHODS.items():
            undo.append((_Thread, name, vars(_Thread)[name]))
            setattr(_Thread, name, method)
        for module in (sync, time, queue, *modules):
            for name, value in list(vars(module).items()):
                if id(value) in replaced:
                    undo.append((module, name, value))
                    setattr(module, name, replaced[id(value)])
        yield
    finally:
        for owner, name, value in undo:
            setattr(owner, name, value)
        sync.swap_threading(native)
