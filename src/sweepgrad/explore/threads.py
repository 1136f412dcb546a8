"""Stand-ins for ``threading``: a user's trainer runs on the model as it is.

``Event``, ``Semaphore``, ``Barrier``, ``queue.Queue`` and the rest of the
standard library are written in Python on top of ``Lock``, ``RLock``, ``Condition``
and ``Thread``, which they look up in ``threading`` when they are made.  So
swapping these few brings all of them.

Time stands still while any thread can go on: ``sleep`` is a step, and a wait with
a time limit ends without success only when nothing else can run.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from sweepgrad import sync
from sweepgrad.explore.primitives import ModelLock
from sweepgrad.explore.switching import BOARD, Gate, ModelThread, Nobody

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
            BOARD.step("notify", gate)
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
        BOARD.step(kind, gate, 0, True, gate)
    finally:
        me.timed = False
        me.waits = None
    return gate.owner is None


_names = itertools.count(1)


class ThreadOnModel:
    """``threading.Thread`` as a model thread."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target, self._args, self._kwargs = target, tuple(args), dict(kwargs or {})
        self._thread: ModelThread | None = None
        self.name = name if name is not None else f"Thread-{len(BOARD.everyone) + 1}"
        self.daemon = bool(daemon)

    def start(self) -> None:
        if self._thread is not None:
            raise RuntimeError("threads can only be started once")
        self._thread = BOARD.add_thread(self.name, self.run)

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def join(self, timeout: float | None = None) -> None:
        if self._thread is None:
            raise RuntimeError("cannot join thread before it is started")
        wait_for_gate("join", self._thread.end, timeout)

    def is_alive(self) -> bool:
        thread = self._thread
        if thread is None:
            return False
        BOARD.step("is alive", thread.end, 0, False)
        return thread.end.owner is not None

    @property
    def ident(self) -> int | None:
        return None if self._thread is None else self._thread.index + 1

    native_id = ident


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
    BOARD.step("sleep", BOARD, 2, False)


def _get_ident() -> int:
    me = BOARD.current
    return _native_ident() if me is None else me.index + 1


_native_ident = sync.get_ident


def _lock() -> ModelLock:
    return ModelLock()


#: Name in ``threading`` and what stands for it on the model.
STAND_INS: dict[str, Any] = {
    "Lock": _lock,
    "_allocate_lock": _lock,
    "RLock": ModelRLock,
    "Condition": ModelCondition,
    "Thread": ThreadOnModel,
    "local": LocalOnModel,
    "get_ident": _get_ident,
}


@contextmanager
def threading_on_model(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Swap the names in ``threading``, ``sweepgrad.sync`` and the given modules.

    In other modules only names that *are* the native objects are swapped.
    """
    native = sync.swap_threading(STAND_INS)
    replaced = {id(native[name]): STAND_INS[name] for name in STAND_INS}
    replaced[id(time.sleep)] = _sleep
    replaced[id(queue.SimpleQueue)] = queue.Queue
    undo: list[tuple[ModuleType, str, Any]] = []
    try:
        for module in (sync, time, queue, *modules):
            for name, value in list(vars(module).items()):
                if id(value) in replaced:
                    undo.append((module, name, value))
                    setattr(module, name, replaced[id(value)])
        yield
    finally:
        for module, name, value in undo:
            setattr(module, name, value)
        sync.swap_threading(native)
