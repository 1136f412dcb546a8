"""What every test gets: checked locks, no exception lost in a thread, a clean slate."""

import gc
import os
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores it for what it starts in the background, and so would every child that
    # is to be interrupted: it would train on for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("SWEEPGRAD_CHECK_LOCKS", "1")

import pytest
from hypothesis import HealthCheck, settings

from support.build import FREE_THREADED, gil_is_on
from support.hangs import pytest_configure, pytest_timeout_set_timer  # noqa: F401  # hooks
from sweepgrad.graph import DEFAULT, ORDER

# How long an example takes says how busy the machine is; hangs are pytest-timeout's.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


@pytest.fixture(autouse=True)
def lock_order_is_respected():
    """Fail the test that saw a wrong lock order, also when the code swallowed the exception."""
    ORDER.violations.clear()
    yield
    violations, ORDER.violations[:] = list(ORDER.violations), []
    assert not violations, "\n\n".join(violations)


@pytest.fixture(autouse=True)
def gil_is_off_on_the_free_threaded_build():
    """An extension that switches the GIL on would make the free-threaded run prove nothing."""
    yield
    assert not (FREE_THREADED and gil_is_on()), "the GIL was switched on"


@pytest.fixture
def busy_switching():
    """Threads take turns every microsecond while the test runs."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def baseline():
    """The statistics before the test, after a collection and a sweep; they must come back.

    Use it where a test claims that nothing is left behind.
    """
    gc.collect()
    DEFAULT.graph_cleanup()
    before = DEFAULT.memory_report()
    yield before
    gc.collect()
    DEFAULT.graph_cleanup()
    DEFAULT.check_valid()
    after = DEFAULT.memory_report()
    kept = ("graphs", "nodes", "leaves", "tips", "saved_bytes", "pending_drops")
    assert {k: getattr(after, k) for k in kept} == {k: getattr(before, k) for k in kept}
