"""What ends a test that hangs: a timer, and a watchdog for when no thread of Python's gets to run.

The timer is a thread: it works while every other thread waits, the main thread in a native
wait included, and names the test.  It cannot run while a stuck thread keeps the
interpreter; then faulthandler's watchdog, a thread in C, ends the process a little later.
Both show every thread's stack.  Rejected: pytest-timeout's own two methods.  A signal
breaks neither a native wait nor a stuck worker, and its thread is only the first half.

The process ends with the test, for what a stuck thread holds cannot be taken back.  Under
pytest-xdist (``-n 1`` is enough) that is one worker: another takes its place, the test is
reported as failed, and all others are reported as ever.  Without it, the timer says what
was found up to then.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from typing import Any

import pytest
import pytest_timeout

from support.threads import all_stacks
from sweepgrad.graph import ORDER

#: Seconds after the time limit at which the watchdog ends what the timer could not.
GRACE = 3.0

_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STDERR] = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: Any, settings: Any) -> bool:
    """Arm both for the time limit of this test; pytest-timeout calls ``cancel_timeout``."""
    stderr = item.config.stash[_STDERR]
    timer = threading.Timer(settings.timeout, _end, (item, settings, stderr))
    timer.name = "time limit"
    timer.daemon = True
    faulthandler.dump_traceback_later(settings.timeout + GRACE, exit=True, file=stderr)

    def cancel() -> None:
        faulthandler.cancel_dump_traceback_later()
        timer.cancel()
        timer.join()

    item.cancel_timeout = cancel
    timer.start()
    return True


def _end(item: Any, settings: Any, stderr: int) -> None:
    if not settings.disable_debugger_detection and pytest_timeout.is_debugging():
        faulthandler.cancel_dump_traceback_later()
        return
    parts = [
        f"{item.nodeid} has not ended within {settings.timeout:g} s; where each thread is:",
        all_stacks(),
        ORDER.wait_for_graph(),
    ]
    reporter = item.config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None and not hasattr(item.config, "workerinput"):
        parts.append(_so_far(reporter, item.session.testscollected))
    # In one piece, for workers share the place where it goes.
    os.write(stderr, "\n\n".join(["", *parts, ""]).encode())
    os._exit(1)


def _so_far(reporter: Any, collected: int) -> str:
    """The verdicts up to now, for there is nobody else to give them."""
    failed = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]
    passed = len(reporter.stats.get("passed", ()))
    parts = [f"{report.nodeid} failed:\n{report.longreprtext}\n" for report in failed]
    left = collected - passed - len(failed) - 1
    parts.append(f"{passed} passed, {len(failed)} failed, 1 hung, {left} not run (-n 1 runs them)")
    return "\n".join(parts)
