"""Events: what may happen to a thread at any step without its asking.

An event is scheduled like a thread with one step.  When the policy lets it
happen, its target does it before its pending operation: so it runs where the
interpreter would run it, in the target's own frames, critical sections included.
"""

from __future__ import annotations

import gc
import os
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from sweepgrad.explore.model_thread import ModelThread
from sweepgrad.explore.switching import BOARD
from sweepgrad.graph import fork as hooks
from sweepgrad.sync import ThreadState


class ForkedChildError(AssertionError):
    """The forked process failed; the message is what it printed."""


def collect(thread: ModelThread) -> None:
    """A full collection in ``thread``."""
    _once(f"collection in {thread.name}", thread, _collect)


def _collect() -> None:
    gc.collect()


def interrupt(
    thread: ModelThread, exception: BaseException | type[BaseException] | None = None
) -> None:
    """An asynchronous exception in ``thread``."""
    if exception is None:
        exception = KeyboardInterrupt
    sent = exception() if isinstance(exception, type) else exception
    thread.interrupt = sent

    def raise_it() -> None:
        raise sent

    _once(f"{type(sent).__name__} in {thread.name}", thread, raise_it)


def signal(thread: ModelThread, handler: Callable[[], Any], name: str = "signal") -> None:
    """A signal handler that runs in ``thread``."""
    _once(f"{name} in {thread.name}", thread, handler)


def fork(thread: ModelThread, child: Callable[[], Any]) -> None:
    """A fork in ``thread``; ``child`` runs in the new process."""
    _once(f"fork in {thread.name}", thread, lambda: fork_now(child))


def _once(name: str, thread: ModelThread, action: Callable[[], Any]) -> None:
    def fire() -> None:
        thread.injected = action

    BOARD.add_event(name, thread, fire)


def fork_now(child: Callable[[], Any]) -> None:
    """Fork the process here and wait for the verdict of the new one.

    In the new process the forking thread goes on to its end, alone, and then
    ``child`` runs.

    Raises:
        ForkedChildError: if the thread or ``child`` failed there, or waited for a
            lock that a thread held which does not exist in the new process.
    """
    me = BOARD.current
    assert me is not None, "a fork point is inside a model thread"
    reader, writer = os.pipe()
    hooks._before()  # takes locks, step by step
    # The interpreter calls the registered hooks as well: they shall find nothing to do.
    held, runtimes, known = me.state.fork, hooks.runtimes, hooks._renewed_in
    hooks.runtimes = set()
    BOARD.current, BOARD.outside = None, me.state  # no switch in the middle of the fork
    with warnings.catch_warnings():
        # The interpreter warns when other threads exist, such as a test runner's watchdog.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    me.state.fork, hooks.runtimes, hooks._renewed_in = held, runtimes, known
    if pid == 0:
        end = _Child(writer, child)
        try:
            hooks._after_in_child()
        except BaseException:
            end.leave(traceback.format_exc())  # or two processes would go on with this run
        BOARD.become_child(me, end)
        return
    hooks._after_in_parent()
    BOARD.current, BOARD.outside = me, ThreadState()
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        message = stream.read().decode()
    os.waitpid(pid, 0)
    if message:
        raise ForkedChildError(f"in the forked process:\n{message}")


class _Child:
    """The end of the forked process: run the scenario's function, report, and leave at once."""

    def __init__(self, writer: int, function: Callable[[], Any]) -> None:
        self.writer = writer
        self.function = function

    def finish(self) -> NoReturn:
        message = ""
        try:
            if BOARD.error is not None:
                raise BOARD.error
            if BOARD.reason is not None:
                waits = [f"{thread} for {thread.waits!r}" for thread in BOARD.live]
                raise AssertionError(f"the forked thread is {BOARD.reason}: waits {waits}")
            self.function()
        except BaseException:
            message = traceback.format_exc()
        finally:
            self.leave(message)

    def leave(self, message: str) -> NoReturn:
        """Report ``message``, nothing if all went well, and end the process."""
        os.write(self.writer, message.encode()[-60_000:])
        os._exit(0)
