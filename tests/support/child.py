"""Run a program in a child process with a hard limit; all its stacks are shown when it is met."""

from __future__ import annotations

import os
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
    done = subprocess.run(
        [sys.executable, *options, "-c", source, *arguments],
        capture_output=True,
        text=True,
        timeout=limit + 10,
        env=environment,
        check=False,
    )
    report = f"exit code {done.returncode}\n--- output\n{done.stdout}\n--- errors\n{done.stderr}"
    assert done.returncode == 0, report
    if quiet:
        assert done.stderr == "", report
    return done.stdout
