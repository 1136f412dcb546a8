"""Switching: model threads as greenlets of one OS thread, one step at a time.

A model thread runs until it is about to do something another thread could
notice: take a lock, touch a queue, look at a field without its lock.  There it
calls :meth:`Switchboard.step`, which *announces* the operation and asks the
policy who goes on.  What follows the announcement, up to the next one, is one
step.  So at every moment the pending operation of every thread is known, which
is what deadlock detection and partial-order reduction need.

The policy is asked inside the thread that announced; only when another thread
is to go on is there a switch, and it goes straight there.  The rejected shape,
a scheduler greenlet between any two steps, costs two switches for each step.

There is one switchboard for the process, because the fields of nodes and graphs
are watched on their classes: one exploration runs at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from sweepgrad.errors import ExplorerError
from sweepgrad.explore.model_thread import (
    CLOCK_KEY,
    KEYS,
    THROWS,
    Abandoned,
    ModelThread,
    Waitable,
)
from sweepgrad.sync import ThreadState
from sweepgrad.sync import get_ident as _native_ident

try:
    from greenlet import getcurrent, greenlet  # type: ignore[import-untyped, unused-ignore]
except ImportError as error:  # pragma: no cover - the extra is installed wherever tests run
    raise ImportError(
        "sweepgrad.explore needs greenlet, which the extra 'explore' brings: "
        "pip install 'sweepgrad[explore]'"
    ) from error


class Chooser(Protocol):
    """The part of a policy that a run needs."""

    def choose(self, enabled: list[ModelThread], last: ModelThread | None) -> ModelThread | None:
        """The thread that goes on, or None to give the run up as redundant."""


class _Alone:
    """The policy of a forked process."""

    def choose(self, enabled: list[ModelThread], last: ModelThread | None) -> ModelThread | None:
        return enabled[0]


class Watcher(Protocol):
    """Takes notes about each step; present only while a failure is described."""

    def note(self, thread: ModelThread, kind: str, what: object) -> None: ...
    def executed(self, thread: ModelThread) -> None: ...
    def where(self) -> Any: ...


class Switchboard:
    """Runs model threads; see the module.

    Attributes:
        current: the model thread that runs now; None outside a run, in set-up
            and checks, and while a run is unwound: steps then do nothing.
        trace: (thread index, kind) of each step executed.
        deviations: (step number, letter) where the choice was not the default
            one, which is to let the last thread go on, else the first that can.
        reason: why the run stopped before its threads ended, or None.
    """

    def __init__(self) -> None:
        self.current: ModelThread | None = None
        self.live: list[ModelThread] = []
        self.events: list[ModelThread] = []
        self.everyone: list[ModelThread] = []
        self.last: ModelThread | None = None
        self.trace: list[tuple[int, str]] = []
        self.deviations: list[tuple[int, str]] = []
        self.limit = 0
        self.reason: str | None = None
        self.culprit: ModelThread | None = None
        self.error: BaseException | None = None
        self.watcher: Watcher | None = None
        self.after_step: Callable[[], None] | None = None
        self.unwinding = 0
        self.outside = ThreadState()
        #: Identity of the thread of the process that explores; 0 when none does.
        self.ident = 0
        #: In a forked process: what ends it.
        self.child: Any = None
        self._policy: Any = None
        self._hub: Any = None
        self._pool: list[Any] = []

    # --- the life of a run ------------------------------------------------------------

    def begin(self, policy: Chooser, limit: int, watcher: Watcher | None) -> None:
        """Forget the last run."""
        self._policy = policy
        self._hub = getcurrent()
        self.ident = _native_ident()
        self.limit = limit
        self.watcher = watcher
        self.live, self.events, self.everyone = [], [], []
        self.trace, self.deviations = [], []
        self.current = self.last = self.culprit = None
        self.reason = self.error = self.after_step = None
        self.unwinding = 0
        self.outside = ThreadState()
        KEYS.restart()

    def add_thread(self, name: str, job: Callable[[], Any], started: bool = True) -> ModelThread:
        """A new thread; it runs up to its first step at once when the run is under way."""
        thread = ModelThread(len(self.everyone), name, job)
        self.everyone.append(thread)
        self.live.append(thread)
        if started:
            self.start_if_running(thread)
        return thread

    def start_if_running(self, thread: ModelThread) -> None:
        """Run a new thread up to its first step, unless the set-up is still under way."""
        if self.current is not None:
            self._start(thread)

    def add_event(self, name: str, target: ModelThread, fire: Callable[[], None]) -> ModelThread:
        """An event that the policy may let happen once, at any step, while ``target`` can run."""
        event = ModelThread(len(self.everyone), name, None)
        event.kind, event.event, event.fire = name, target, fire
        event.key, event.write = target.end.key, True
        self.everyone.append(event)
        self.events.append(event)
        return event

    def run(self) -> None:
        """Run all threads to their ends, or until something stops the run."""
        for thread in list(self.live):
            if not thread.started:
                self._start(thread)
        while self.live and self.reason is None:
            self._go_on(None)
        self.current = None

    def become_child(self, me: ModelThread, child: Any) -> None:
        """Go on in a forked process, where the forking thread is the only one."""
        self.live, self.events = [me], []
        self.child = child
        self._policy = _Alone()
        self.watcher = self.after_step = None
        self.outside = ThreadState()
        self.current = me

    def unwind(self) -> None:
        """End what is left of the threads: their ``finally`` blocks run, their steps do nothing."""
        self.current = None
        self.unwinding = 1
        for thread in list(self.live):
            for _ in range(THROWS):  # a finalizer swallows what is raised in it
                if thread.greenlet is None:
                    break
                thread.greenlet.throw(Abandoned)
            else:
                raise ExplorerError(f"{thread.name} does not end: it swallows every exception")
        self.live = []
        self.watcher = self.after_step = None
        self.unwinding = 0

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What runs inside belongs to no run: its exceptions in finalizers are nobody's."""
        self.unwinding = 1
        try:
            yield
        finally:
            self.unwinding = 0

    def forget(self) -> None:
        """Let go of everything that belongs to the last run."""
        for thread in self.everyone:
            thread.greenlet = thread.job = thread.fire = thread.injected = thread.event = None
            thread.handle = None
        self.live, self.events, self.everyone = [], [], []
        self.last = self.culprit = self.error = None
        self._policy = None

    def close(self) -> None:
        """End the pooled greenlets."""
        for worker in self._pool:
            worker.throw()
        self._pool = []
        self.ident = 0

    # --- a step -----------------------------------------------------------------------

    def step(
        self,
        kind: str,
        what: object,
        key: int,
        write: bool = True,
        waits: Waitable | None = None,
        shielded: bool = False,
    ) -> None:
        """Announce the next operation of the running thread; returns when it may be done.

        Args:
            kind: name of the operation, for tables and for telling runs apart.
            what: what it touches, for tables.
            key: stands for that, or the part of it touched; the same in every run
                that began alike, which an address would not be.
            write: whether it changes what it touches.
            waits: what must have no owner before the operation can run.
            shielded: an injected exception or handler waits for the next step,
                as it does in CPython, where a C call or the exit of a ``with``
                block on a C lock is not interrupted.
        """
        me = self.current
        if me is None:
            if self.unwinding:
                self._count_unwinding()
            return
        while True:
            me.kind, me.key, me.write, me.waits = kind, key, write, waits
            if self.watcher is not None:
                self._note(me, kind, what)
            if me.started:
                self._go_on(me)
            else:
                self._announce_start(me)
            if me.injected is None or shielded:
                return
            injected, me.injected = me.injected, None
            injected()
            if self.current is None:  # a finalizer swallowed the unwinding
                raise Abandoned

    def _note(self, me: ModelThread, kind: str, what: object) -> None:
        assert self.watcher is not None
        self.current = None  # looking at an object must not be a step of its own
        try:
            self.watcher.note(me, kind, what)
        except BaseException as error:
            self.error = error
            self.stop("fault")
        self.current = me

    def _go_on(self, me: ModelThread | None) -> None:
        """Ask the policy who goes on, and switch there.  Returns when ``me`` goes on."""
        if self.reason is not None:  # an exception in a finalizer has stopped the run
            self.stop(self.reason)
            return
        if self.after_step is not None and not self._check_step(me):
            return
        while True:
            enabled = [t for t in self.live if (w := t.waits) is None or w.owner is None]
            if not enabled:
                enabled = self._time_out()
                if not enabled:
                    self.stop("stuck")
                    return
            default = self.last if self.last in enabled else enabled[0]
            if self.events:
                enabled.extend(e for e in self.events if self._deliverable(e))
            chosen = self._choose(enabled)
            if chosen is None:
                return
            if chosen is not default:
                self.deviations.append((len(self.trace), chosen.letter))
            self.trace.append((chosen.index, chosen.kind))
            if self.watcher is not None:
                self.watcher.executed(chosen)
            if chosen.fire is not None:
                self.events.remove(chosen)
                chosen.fire()
                continue
            if len(self.trace) >= self.limit:
                self.stop("limit")
                return
            self.last = chosen
            if chosen is not me:
                self.current = chosen
                chosen.greenlet.switch()
            return

    def _choose(self, enabled: list[ModelThread]) -> ModelThread | None:
        """What the policy chooses; None when the run has stopped instead."""
        try:
            chosen: ModelThread | None
            if enabled[0].ready():
                chosen = self._policy.choose(enabled, self.last)
            else:
                chosen = self._choose_time_out(enabled)
        except BaseException as error:
            self.error = error
            self.stop("fault")
            return None
        if chosen is None:
            self.stop("pruned")
        return chosen

    def _choose_time_out(self, enabled: list[ModelThread]) -> ModelThread | None:
        """As ``_choose``: the threads all touch the clock, so their time-outs do not commute."""
        keys = [thread.key for thread in enabled]
        for thread in enabled:
            thread.key = CLOCK_KEY
        try:
            chosen: ModelThread | None = self._policy.choose(enabled, self.last)
        finally:
            for thread, key in zip(enabled, keys, strict=True):
                thread.key = key
        return chosen

    def _check_step(self, me: ModelThread | None) -> bool:
        assert self.after_step is not None
        self.current = None
        try:
            self.after_step()
        except BaseException as error:
            self.error = error
            self.culprit = self.last
            self.stop("invariant")
            return False
        self.current = me
        return True

    @staticmethod
    def _deliverable(event: ModelThread) -> bool:
        target = event.event
        assert target is not None
        return target.end.owner is not None and target.injected is None and target.ready()

    def _time_out(self) -> list[ModelThread]:
        """Nothing can run: time passes, and a wait with a time limit may end."""
        return [thread for thread in self.live if thread.timed]

    def stop(self, reason: str) -> None:
        """End the run.  In a model thread this does not return."""
        if self.unwinding:
            raise Abandoned
        self.reason = reason
        self.current = None
        if getcurrent() is not self._hub:
            self._hub.switch()

    def _count_unwinding(self) -> None:
        self.unwinding += 1
        if self.unwinding > 100_000:
            raise Abandoned

    # --- greenlets --------------------------------------------------------------------

    def _start(self, thread: ModelThread) -> None:
        """Run a thread up to its first step.  What comes before is its own business."""
        starter = self.current
        # Making a greenlet costs as much as a dozen steps, so they are used again.
        worker = self._pool.pop() if self._pool else greenlet(self._work, self._hub)
        worker.gr_context = None  # a new thread starts with an empty context
        thread.greenlet = worker
        thread.starter = getcurrent()
        self.current = thread
        worker.switch(thread)
        self.current = starter
        if starter is not None and self.reason is not None:
            self.stop(self.reason)

    @staticmethod
    def _announce_start(me: ModelThread) -> None:
        me.started = True
        starter, me.starter = me.starter, None
        starter.switch()

    def _work(self, thread: ModelThread | None) -> None:
        """The life of a pooled greenlet: one thread after the other."""
        while True:
            assert thread is not None
            self._live(thread)
            back = self._retire(thread)
            thread = None  # this frame outlives the run
            thread = back.switch()

    def _live(self, thread: ModelThread) -> None:
        try:
            job, thread.job = thread.job, None
            assert job is not None
            job()
        except Abandoned:
            pass
        except BaseException as error:
            if error is not thread.interrupt and self.reason is None:
                # Ctrl-C in the terminal is for whoever explores.
                self.reason = "fault" if isinstance(error, KeyboardInterrupt) else "exception"
                self.error, self.culprit = error, thread

    def _retire(self, thread: ModelThread) -> Any:
        """The thread has ended; returns the greenlet to switch to."""
        starter, thread.starter = thread.starter, None
        self._pool.append(thread.greenlet)
        thread.greenlet = None
        if self.unwinding:
            return self._hub
        thread.end.owner = None
        self.live.remove(thread)
        return self._hub if thread.started else starter


#: The one switchboard.
BOARD = Switchboard()
