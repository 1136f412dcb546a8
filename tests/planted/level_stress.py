"""The level *stress*: ``python -m stress`` with all profiles, the fault planted in its worker.

The suite's own watcher decides: a worker that fails, ends early or hangs is caught.
"""

import argparse
import contextlib
import io
import os
import pathlib
import sys
import time
from unittest import mock

from stress import __main__ as stress

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
#: Seconds of work, seconds without progress that count as a hang, and threads.
SECONDS = 4.0
LIMIT = 3.0
THREADS = 4


#: Seconds within which a process has started, on a busy machine too.
START = 30.0


class Patient(stress.Watcher):
    """Counts time without progress from the first beat: the start of a process is no hang.

    One that has not begun after so long is: a fault may hang it before its first beat.
    """

    def __init__(self, arguments):
        super().__init__(arguments)
        self._begun = time.monotonic()

    def take_lines(self):
        starting = not self.beats and time.monotonic() - self._begun < START
        return super().take_lines() or starting


def run(seed, fault=None):
    """The verdict of one stress run, or None when it passed; and the operations it made."""
    import sweepgrad

    arguments = argparse.Namespace(
        threads=THREADS, seconds=SECONDS, seed=seed, profile="all", limit=LIMIT
    )
    arguments.switch_interval = 1e-6
    python, _, _, _, _, *flags = stress.command(arguments)
    child = [python, str(HERE / "stress_child.py"), fault or "shipped", *flags]
    sources = pathlib.Path(sweepgrad.__file__).parents[1]
    paths = os.pathsep.join([str(sources), str(ROOT)])
    watcher = Patient(arguments)
    with (
        mock.patch.object(stress, "command", return_value=child),
        mock.patch.dict(os.environ, {"PYTHONPATH": paths}),
        contextlib.redirect_stderr(io.StringIO()),
        mock.patch.object(stress.subprocess, "Popen", _quiet(stress.subprocess.Popen)),
    ):
        verdict = watcher.watch()
    last = watcher.beats[-1]["operations"] if watcher.beats else 0
    operations = watcher.summary.get("operations", last)
    return (None if verdict == "passed" else verdict), operations


def _quiet(start):
    def started(*args, **options):
        return start(*args, **options, stderr=stress.subprocess.DEVNULL)

    return started


if __name__ == "__main__":
    print(run(int(sys.argv[1]), *sys.argv[2:]))
