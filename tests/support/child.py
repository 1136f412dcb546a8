"""Run a program in a child process with a hard limit; all its stacks are shown when it is met."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent

_PRELUDE = """\
import faulthandler, os, sys
faulthandler.enable()
faulthandler.dump_traceback_later({limit}, exit=True)
"""


def run_child(
    program: str,
    *arguments: str,
    limit: float = 30.0,
    check_locks: bool = True,
    options: tuple[str, ...] = (),
    quiet: bool = True,
) -> str:
    """Run Python source in a child; returns what it printed.

    Args:
        program: the source; may import sweepgrad and the test helpers.
        arguments: its ``sys.argv[1:]``.
        limit: seconds after which the child prints all stacks and exits.
        check_locks: whether the order checker is on in the child.
        options: further options for the interpreter.
        quiet: fail also if the child wrote to its standard error.

    Raises:
        AssertionError: if it hung, failed, or was not quiet; with its output.
    """
    source = _PRELUDE.format(limit=limit) + textwrap.dedent(program)
    environment = dict(os.environ)
    import sweepgrad

    places = [str(Path(sweepgrad.__file__).parent.parent), str(TESTS)]
    environment["PYTHONPATH"] = os.pathsep.join(places)
    environment["SWEEPGRAD_CHECK_LOCKS"] = "1" if check_locks else "0"
    with subprocess.Popen(
        [sys.executable, *options, "-c", source, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as child:
        try:
            output, errors = child.communicate(timeout=limit + 5)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # with the children that it forked
            output, errors = child.communicate()
    report = f"exit code {child.returncode}\n--- output\n{output}\n--- errors\n{errors}"
    assert child.returncode == 0, report
    if quiet:
        assert errors == "", report
    return output
