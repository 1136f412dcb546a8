"""A test that hangs is ended, named and shown, and the other tests are reported all the same."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import sweepgrad
from support.child import TESTS
from support.threads import join_all

#: Seconds: the limit of a test in the planted suite, and what is allowed beyond it.
LIMIT, BEYOND = 2.0, 10.0

PLANTED = """
import gc, os, threading, time
import pytest
from sweepgrad.graph import Rank
from sweepgrad.graph.hierarchy import make_lock
from sweepgrad.sync import NATIVE


def begun(name):
    # Kept open until the process ends, which whoever reads it notices.
    pipe = open(os.path.join(os.environ["PIPES"], name), "w")
    print(time.time(), file=pipe, flush=True)
    globals()[name + " pipe"] = pipe


def cross(first, second, barrier):
    with first:
        barrier.wait()
        second.acquire()


def test_main_and_worker_hang():
    begun("test_main_and_worker_hang")
    one, other, barrier = threading.Lock(), threading.Lock(), threading.Barrier(2)
    threading.Thread(target=cross, args=(one, other, barrier), daemon=True).start()
    cross(other, one, barrier)


def test_two_workers_hang():
    begun("test_two_workers_hang")
    one, other, barrier = threading.Lock(), threading.Lock(), threading.Barrier(2)
    threads = [
        threading.Thread(target=cross, args=args, daemon=True)
        for args in ((one, other, barrier), (other, one, barrier))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Finalized:
    def __init__(self, lock):
        self.lock, self.me = lock, self

    def __del__(self):
        self.lock.acquire()


def test_a_finalizer_hangs():
    begun("test_a_finalizer_hangs")
    lock = threading.Lock()
    with lock:
        Finalized(lock)
        gc.collect()


def test_the_interpreter_is_kept():
    begun("test_the_interpreter_is_kept")
    sum(range(10**15))  # one C call that never looks up


def test_locks_of_sweepgrad_hang():
    begun("test_locks_of_sweepgrad_hang")
    lock = make_lock(NATIVE, Rank.GRAPH, 7)
    lock.acquire()
    worker = threading.Thread(target=lock.acquire, daemon=True)
    worker.start()
    worker.join()


@pytest.mark.parametrize("number", range(6))
def test_passes(number):
    assert number >= 0


def test_fails():
    assert "this" == "that"
"""

#: Test in the planted suite: functions that its stacks show.
HANGS = {
    "test_main_and_worker_hang": ["in cross", "in test_main_and_worker_hang"],
    "test_two_workers_hang": ["in cross", "in test_two_workers_hang"],
    "test_a_finalizer_hangs": ["in __del__", "in test_a_finalizer_hangs"],
    "test_the_interpreter_is_kept": ["in test_the_interpreter_is_kept"],
    "test_locks_of_sweepgrad_hang": ["waits for GRAPH lock 7"],
}
KEPT = "test_the_interpreter_is_kept"


#: The default run has the hang that any timer ends, and the one that only a watchdog ends.
QUICK = ["test_main_and_worker_hang", KEPT]


@pytest.fixture
def run_planted(tmp_path):
    """Run the planted suite under the project's own settings and hooks.

    Returns what it printed, and for each hang the seconds until its process ended.
    """
    suite = tmp_path / "suite"
    suite.mkdir()
    shutil.copy(TESTS / "conftest.py", suite)
    (suite / "test_planted.py").write_text(PLANTED)
    places = [str(Path(sweepgrad.__file__).parent.parent), str(TESTS), *sys.path]
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(TESTS.parent / "pyproject.toml")]
    command += ["--rootdir", str(suite), "-p", "no:cacheprovider", "-o", f"timeout={LIMIT}"]

    def run(hangs, workers):
        readers = [LastWords(tmp_path / hang) for hang in hangs]
        left_out = [f"--deselect=test_planted.py::{hang}" for hang in HANGS if hang not in hangs]
        done = subprocess.run(
            [*command, "-n", str(workers), "--max-worker-restart=9", *left_out, str(suite)],
            capture_output=True,
            text=True,
            timeout=100,
            cwd=suite,
            env={**os.environ, "PIPES": str(tmp_path), "PYTHONPATH": os.pathsep.join(places)},
            check=False,
        )
        shown = done.stdout + done.stderr
        join_all(readers, 20)
        assert done.returncode == 1, shown
        return shown, [reader.seconds for reader in readers]

    return run


class LastWords(threading.Thread):
    """Reads when a test began, and how long its process still lived."""

    def __init__(self, path):
        super().__init__(daemon=True, name=path.name)
        os.mkfifo(path)
        self.path = path
        self.start()

    def run(self):
        with open(self.path) as pipe:
            begun = float(pipe.readline())
            pipe.read()  # until the other end is closed
            self.seconds = time.time() - begun


def check_shown(hang, shown):
    for place in HANGS[hang]:
        assert place in shown, shown
    assert shown.count("most recent call first") >= 2, "every thread's stack"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("hangs", "workers"), [(QUICK, 2), pytest.param([*HANGS], 1, marks=pytest.mark.slow)]
)
def test_hangs_fail_alone_and_the_other_tests_are_reported(hangs, workers, run_planted):
    """C27.  As the README runs the tests: with workers, and each hang ends one of them.

    One worker is enough; two that are ended at the same moment may mix what they print.
    """
    shown, seconds = run_planted(hangs, workers)

    assert max(seconds) < LIMIT + BEYOND
    for hang in hangs:
        assert re.search(rf"crashed while running '\S*::{hang}'", shown), shown
        check_shown(hang, shown)
    assert f"{len(hangs) + 1} failed, 6 passed" in shown
    assert "assert 'this' == 'that'" in shown


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "hang", [pytest.param(hang, marks=[] if hang in QUICK else pytest.mark.slow) for hang in HANGS]
)
def test_a_hang_without_workers_ends_the_run_and_says_what_was_found(hang, run_planted):
    """C27.  Nobody takes the place of a process that ends; it tells what it knows."""
    shown, seconds = run_planted([hang], workers=0)

    assert seconds[0] < LIMIT + BEYOND
    check_shown(hang, shown)
    assert hang in shown
    if hang != KEPT:  # where no line of Python runs any more
        assert "0 passed, 0 failed, 1 hung, 7 not run" in shown
