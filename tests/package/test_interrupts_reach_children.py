"""Where a shell ignores SIGINT for a run in the background, Ctrl-C is tested all the same."""

import os
import signal
import subprocess
import sys

import pytest

from support.child import TESTS

CHILD = "import signal; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"


@pytest.mark.skipif(os.name != "posix", reason="only POSIX hands ignored signals on")
def test_a_child_of_a_background_run_can_be_interrupted():
    program = (
        "import signal, subprocess, sys\n"
        "import conftest\n"
        f"sys.exit(subprocess.run([sys.executable, '-c', {CHILD!r}]).returncode)\n"
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=TESTS,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
            capture_output=True,
            text=True,
            timeout=55,
            check=False,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.returncode == 0, done.stderr
