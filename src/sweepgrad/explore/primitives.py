"""The model's locks, queues and thread states: what a runtime gets in place of the native ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from sweepgrad.errors import ExplorerError
from sweepgrad.explore.model_thread import KEYS, SETUP, Abandoned, ModelThread
from sweepgrad.explore.switching import BOARD
from sweepgrad.sync import ThreadState


class ModelLock:
    """A lock whose ``acquire``, try and ``release`` are steps.  Not reentrant.

    Attributes:
        owner: the model thread that holds it, or None.
        name: for tables; locks of a runtime are named when a failure is described.
        taken_at: where it was taken last; kept only while a failure is described.
    """

    __slots__ = ("__weakref__", "key", "name", "owner", "taken_at")

    def __init__(self, name: str | None = None) -> None:
        self.owner: Any = None
        self.key = KEYS.new()
        self.name = name
        self.taken_at: Any = None

    def __repr__(self) -> str:
        return self.name if self.name is not None else "a lock"

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = BOARD.current
        if me is None:
            return self._acquire_outside(blocking)
        if not blocking:
            BOARD.step("try", self, self.key)
        elif timeout >= 0:
            me.timed = True
            try:
                BOARD.step("acquire", self, self.key, True, self)
            finally:
                me.timed = False
        else:
            BOARD.step("acquire", self, self.key, True, self)
        me.waits = None
        if self.owner is not None:
            return False
        self.owner = BOARD.current
        if BOARD.watcher is not None:
            self.taken_at = BOARD.watcher.where()
        return True

    def _acquire_outside(self, blocking: bool) -> bool:
        if self.owner is None:
            self.owner = SETUP
            return True
        if not blocking:
            return False
        if BOARD.unwinding:
            raise Abandoned
        raise ExplorerError(
            f"{self!r} is waited for outside every model thread (in the scenario's set-up, in a "
            f"check, or in a forked child) while {self.owner!r} holds it: it would wait for ever"
        )

    def release(self) -> None:
        self._release(False)

    def _release(self, shielded: bool) -> None:
        BOARD.step("release", self, self.key, True, None, True)
        if self.owner is None:
            raise RuntimeError(f"release of {self!r}, which nobody holds")
        self.owner = None

    def locked(self) -> bool:
        BOARD.step("look at", self, self.key, False)
        return self.owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc_info: Any) -> None:
        self._release(True)


class ModelQueue(deque[Any]):
    """A deque of which every operation that the runtime uses is a step."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        deque.__init__(self, items)
        self.key = KEYS.new()

    def append(self, item: Any) -> None:
        BOARD.step("append to", self, self.key)
        deque.append(self, item)

    def popleft(self) -> Any:
        BOARD.step("popleft of", self, self.key)
        return deque.popleft(self)

    def extend(self, items: Iterable[Any]) -> None:
        # One C call natively, so no exception falls between an item's arrival and its
        # being appended; but a free-threaded build may run other threads in between.
        for item in items:
            BOARD.step("append to", self, self.key, True, None, True)
            deque.append(self, item)

    def __len__(self) -> int:
        BOARD.step("length of", self, self.key, False)
        return deque.__len__(self)

    def __bool__(self) -> bool:
        BOARD.step("truth of", self, self.key, False)
        return deque.__len__(self) > 0

    __hash__ = object.__hash__  # type: ignore[assignment]  # identity, as queues are compared

    def __repr__(self) -> str:
        return "a queue"


class ModelSet(set[Any]):
    """A set of which the three operations that the runtime uses without a lock are steps.

    Adding and discarding commute with each other, as the runtime does each once
    for an item, and a copy commutes with neither: so they are announced with the
    roles of reading and writing exchanged.
    """

    def __init__(self) -> None:
        set.__init__(self)
        self.key = KEYS.new()

    def add(self, item: Any) -> None:
        BOARD.step("add to", self, self.key, False)
        set.add(self, item)

    def discard(self, item: Any) -> None:
        BOARD.step("discard from", self, self.key, False)
        set.discard(self, item)

    def copy(self) -> set[Any]:
        BOARD.step("copy of", self, self.key, True)
        return set(set.__iter__(self))

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "a directory"


class ModelDeferred(list[Any]):
    """What a thread has deferred; taking from it is a step.

    No other thread sees the list, but a signal handler of its own thread does, and may
    come between the look at it and the pop.
    """

    __slots__ = ("key",)

    def __init__(self) -> None:
        list.__init__(self)
        self.key = KEYS.new()

    def pop(self, index: Any = -1) -> Any:
        BOARD.step("pop from", self, self.key)
        return list.pop(self, index)

    def __repr__(self) -> str:
        return "what is deferred"


ModelThread.new_deferred = ModelDeferred


class ModelStates:
    """Gives each model thread its own thread state, as attribute ``state``."""

    @property
    def state(self) -> ThreadState:
        me = BOARD.current
        return BOARD.outside if me is None else me.state


class ModelPrimitives:
    """What a runtime of the model is made of."""

    def __init__(self) -> None:
        self.threads = ModelStates()

    def lock(self) -> ModelLock:
        return ModelLock()

    def queue(self) -> deque[Any]:
        return ModelQueue()


MODEL = ModelPrimitives()


class Cell:
    """A shared variable of a scenario: reading and writing it are steps."""

    __slots__ = ("_value", "key", "name")

    def __init__(self, value: Any = None, name: str = "a cell") -> None:
        self.key = KEYS.new()
        self._value = value
        self.name = name

    def get(self) -> Any:
        BOARD.step("read", self, self.key, False)
        return self._value

    def set(self, value: Any) -> None:
        BOARD.step("write", self, self.key)
        self._value = value

    def __repr__(self) -> str:
        return self.name


def yield_point(what: object = None, write: bool = True) -> None:
    """Mark the place where the calling code is about to touch ``what`` without a lock.

    Does nothing outside an exploration.  Call it just before reading
    (``write=False``) or changing shared state that the explorer does not see by
    itself, such as a list or a dictionary of your own.
    """
    if BOARD.current is not None:
        # An object without a key of the run's own is known by its address while it lives.
        key = 1 if what is None else getattr(what, "key", id(what))
        BOARD.step("write" if write else "read", BOARD if what is None else what, key, write)
