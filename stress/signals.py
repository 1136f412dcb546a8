"""The timer whose signal handler uses tensors, and which thread the system hands the signal to."""

from __future__ import annotations

import _thread
import signal
import sys
from collections.abc import Callable

from sweepgrad.sync import Thread

SECONDS = 0.005


def breaks_waits() -> bool:
    """True on a free-threaded CPython that a signal in a wait may crash: gh-148820.

    A signal that interrupts the wait for a lock of CPython's own leaves that lock with a
    waiter on a stack that is gone.  glibc ends the process then ("The futex facility
    returned an unexpected error code"), or a thread is never woken.
    """
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return sys.version_info < (3, 13, 14) or (3, 14) <= sys.version_info < (3, 14, 5)


def arm(seconds: float = SECONDS) -> None:
    """One signal from now; 0.0 for none."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def start(handler: Callable[..., None]) -> bool:
    """Have the main thread run the handler; call it before any thread starts.  False if it cannot.

    Where a signal breaks waits, a thread that does nothing else fetches it and has the
    main thread run the handler, between any two bytecodes as ever.  No wait is
    interrupted then; that is tested on every other build.
    """
    if not hasattr(signal, "setitimer"):
        return False
    signal.signal(signal.SIGALRM, handler)
    if breaks_waits():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # threads inherit it
        Thread(target=_fetch, name="fetches signals", daemon=True).start()
    arm()
    return True


def _fetch() -> None:
    while True:
        _thread.interrupt_main(signal.sigwait({signal.SIGALRM}))
