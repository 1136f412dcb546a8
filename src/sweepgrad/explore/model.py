"""Model: what a scenario is given, to state its threads, events and checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sweepgrad.explore import events
from sweepgrad.explore.model_thread import ModelThread
from sweepgrad.explore.primitives import Cell, ModelLock, ModelQueue
from sweepgrad.explore.switching import BOARD
from sweepgrad.graph import DEFAULT, GraphRuntime


class Model:
    """One run's threads, events and checks.

    A scenario is a function of a model.  It is called once for each run, before
    any thread starts; it makes all state anew and states what is to run::

        def scenario(m):
            w = sg.tensor([1.0], requires_grad=True)
            m.spawn(lambda: (w * 2.0).backward())
            m.spawn(lambda: sg.graph_cleanup())
            m.check(lambda: ...)

    Inside, ``sg.tensor`` and the rest of sweepgrad work on a runtime of the
    model, and ``threading``'s classes are the model's.
    """

    def __init__(self) -> None:
        self._checks: list[Callable[[], None]] = []
        self._each_step: list[Callable[[], None]] = []
        #: Whether an explicit ``collect`` makes leftover garbage a part of the run.
        self.collects = False

    @property
    def runtime(self) -> GraphRuntime:
        """The default runtime, made anew for this run."""
        return DEFAULT

    # --- what runs --------------------------------------------------------------------

    def spawn(
        self, function: Callable[..., Any], *args: Any, name: str | None = None
    ) -> ModelThread:
        """A thread that runs ``function(*args)``.

        An exception that it lets out is a failure of the scenario.  An exception
        that an ``interrupt`` sent is none.
        """
        title = name if name is not None else getattr(function, "__name__", "thread")
        if title == "<lambda>":
            title = f"thread {len(BOARD.everyone) + 1}"
        return BOARD.add_thread(title, _Job(function, args))

    thread = spawn

    def lock(self, name: str) -> ModelLock:
        """A lock of the scenario's own."""
        return ModelLock(name)

    def queue(self) -> ModelQueue:
        """A deque whose operations are steps."""
        return ModelQueue()

    def cell(self, value: Any = None, name: str = "a cell") -> Cell:
        """A shared variable whose ``get`` and ``set`` are steps."""
        return Cell(value, name)

    # --- what may happen at any step ---------------------------------------------------

    def collect(self, thread: ModelThread) -> None:
        """A garbage collection that starts in ``thread`` at any one of its steps, or never."""
        self.collects = True
        events.collect(thread)

    def interrupt(
        self, thread: ModelThread, exception: BaseException | type[BaseException] | None = None
    ) -> None:
        """An exception, by default ``KeyboardInterrupt``, in ``thread`` at any step or never.

        It arrives where CPython could deliver it: not between the entering of a
        ``with`` block and its first step, nor in the exit of one.
        """
        events.interrupt(thread, exception)

    def signal(self, thread: ModelThread, handler: Callable[[], Any], name: str = "signal") -> None:
        """A handler that runs in ``thread`` between any two steps, or never."""
        events.signal(thread, handler, name)

    def fork(self, thread: ModelThread, child: Callable[[], Any]) -> None:
        """A fork in ``thread`` at any step, or never; ``child`` runs in the forked process.

        The process is really forked, with the runtime's fork hooks.  Only the
        forking thread exists in the child, where waiting for a lock that
        another thread held is a failure, as is an exception from ``child``.
        """
        events.fork(thread, child)

    # --- what must hold ------------------------------------------------------------------

    def check(self, function: Callable[[], None]) -> Callable[[], None]:
        """Call ``function`` after each complete run; an exception from it is a broken invariant."""
        self._checks.append(function)
        return function

    def check_each_step(self, function: Callable[[], None]) -> Callable[[], None]:
        """Call ``function`` before each step as well; it must not change anything."""
        self._each_step.append(function)
        BOARD.after_step = self._run_each_step
        return function

    def run_checks(self) -> None:
        """The checks, in the order they were stated."""
        for check in self._checks:
            check()

    def forget(self) -> None:
        """Let go of everything the checks hold."""
        self._checks.clear()
        self._each_step.clear()

    def _run_each_step(self) -> None:
        for check in self._each_step:
            check()


class _Job:
    """A call that lets go of its arguments when it starts, so that locals die with the thread."""

    __slots__ = ("args", "function")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function: Any = function
        self.args: Any = args

    def __call__(self) -> None:
        function, args = self.function, self.args
        self.function = self.args = None
        function(*args)
