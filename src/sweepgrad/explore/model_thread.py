"""Model threads and what they wait for: what a policy and the switchboard talk about."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from sweepgrad.errors import ExplorerError
from sweepgrad.sync import ThreadState

#: The key of the clock.
CLOCK_KEY = 2
#: Keys of what is made in a run begin here; below, those of nodes, 16 for each id.
_OWN_KEYS = 1 << 60
#: Keys of graphs, 16 for each serial.
GRAPH_KEYS = 1 << 50


class Keys:
    """Gives a key to each lock, queue, cell and gate of a run, in order of creation."""

    new: Callable[[], int]

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin a run: the same objects get the same keys in each."""
        self.new = itertools.count(_OWN_KEYS).__next__


KEYS = Keys()


class Abandoned(BaseException):
    """Unwinds a model thread whose run is over.  Never seen outside the explorer."""


class Waitable(Protocol):
    """What a thread can wait for.  ``owner`` is None when waiting is over at once."""

    owner: Any


class Nobody:
    """The owner of something that no thread holds and that some thread must provide."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


#: Owner of a lock that the scenario's set-up took and kept.
SETUP = Nobody("the scenario's set-up")


class Gate:
    """Something to wait for that is not a lock: a thread's end, a notification."""

    __slots__ = ("key", "name", "owner")

    def __init__(self, name: str | None, owner: Any) -> None:
        self.key = KEYS.new()
        self.name = name
        self.owner = owner

    def __repr__(self) -> str:
        return self.name if self.name is not None else f"the end of {self.owner!r}"


#: How often a thread may swallow the exception that unwinds it.
THROWS = 1000

#: The letters of threads in tokens, by index.
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def too_many_threads() -> NoReturn:
    """Refuse a thread that no letter is left for."""
    raise ExplorerError(
        f"a scenario has at most {len(_LETTERS)} threads and events, this one makes more"
    )


class ModelThread:
    """One thread of the model, or an event that is scheduled like one.

    Attributes:
        index: place in the order of creation; its letter in tokens.
        kind, key, write: the pending operation: its name, what it touches, and
            whether it changes it.  Two operations on one key commute only when
            neither changes it.
        waits: what must have no owner before the operation can run, or None.
        timed: the wait ends by itself when nothing else can run.
        event: None for a thread; else the thread an event is delivered to.
        injected: what the thread does before its pending operation, or None.
        end: the gate that opens when the thread has ended.
    """

    # Defaults on the class, no slots: most threads set few of these, and threads are made
    # for every run.
    kind = "start"
    key = 0
    write = False
    waits: Waitable | None = None
    timed = False
    event: ModelThread | None = None
    fire: Callable[[], None] | None = None
    injected: Callable[[], None] | None = None
    interrupt: BaseException | None = None
    started = False
    starter: Any = None
    greenlet: Any = None
    own_state: ThreadState | None = None
    #: What ``threading.current_thread`` gives in the thread.
    handle: Any = None
    #: Makes the list of what the thread has deferred; set by ``primitives``.
    new_deferred: Callable[[], list[Any]] = list

    def __init__(self, index: int, name: str, job: Callable[[], Any] | None) -> None:
        self.index = index
        self.letter = _LETTERS[index] if index < len(_LETTERS) else too_many_threads()
        self.name = name
        self.job = job
        self.end = Gate(None, self)

    def __repr__(self) -> str:
        return self.name

    @property
    def state(self) -> ThreadState:
        """The thread's state in the runtime, made when first asked for."""
        if self.own_state is None:
            self.own_state = ThreadState()
            self.own_state.deferred = ModelThread.new_deferred()
        return self.own_state

    def ready(self) -> bool:
        """True when the pending operation can run now."""
        waits = self.waits
        return waits is None or waits.owner is None


def dependent(one: ModelThread, other: ModelThread) -> bool:
    """True unless the pending operations of the two commute.

    Operations commute when they touch different things, or neither changes what
    both touch.  An event is delivered to a thread, so it commutes with no
    operation of that thread.
    """
    if one.key == other.key:
        return one.write or other.write
    return one.event is other or other.event is one
