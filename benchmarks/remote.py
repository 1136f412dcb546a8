"""Workers: child processes that run rounds on request, in this interpreter or another.

A child is needed where an engine needs an interpreter of its own (two threads on
the free-threaded build), and where the process is what is measured (peak memory,
resident memory).  A worker waits, idle, between its rounds, so that rounds of
several workers interleave like those of :mod:`benchmarks.timing`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.one_thread import SETTINGS

ROOT = Path(__file__).resolve().parents[1]


class WorkerError(Exception):
    """A worker ended or answered with an error; the message is its own."""


class Worker:
    """A child that answers each request with one line of JSON.

    Attributes:
        about: what the child said of its interpreter and engine.
    """

    def __init__(self, engine: str, python: str = sys.executable, timeout: float = 120.0) -> None:
        self._timeout = timeout
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=_environment(),
        )
        try:
            self.about = self.receive()
        except BaseException:
            self.close()
            raise

    def ask(self, task: str, **options: Any) -> dict[str, Any]:
        """One round of a task.

        Raises:
            WorkerError: if the task failed or took longer than the timeout.
        """
        self.send(task, **options)
        return self.receive()

    def send(self, task: str, **options: Any) -> None:
        """Start a task; ``receive`` must come next."""
        assert self._process.stdin is not None
        # A child that has ended closes the pipe; receive() says how it ended.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"task": task, **options}) + "\n")
            self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The answer to what was sent; errors as ``ask``."""
        assert self._process.stdout is not None
        # Killing the child is the one way out of a blocking read that works everywhere.
        guard = threading.Timer(self._timeout, self._process.kill)
        guard.start()
        try:
            line = self._process.stdout.readline()
        finally:
            guard.cancel()
        if not line:
            code = self._process.wait(10)
            assert self._process.stderr is not None
            last = self._process.stderr.read().strip().splitlines()[-1:]
            raise WorkerError(f"ended with code {code}: {' '.join(last) or 'no message'}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def close(self) -> None:
        """Let the child end."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _environment() -> dict[str, str]:
    """This process's environment, with the same sweepgrad and one arithmetic thread."""
    import sweepgrad

    source = str(Path(sweepgrad.__file__).resolve().parents[1])
    paths = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    if "site-packages" in source:
        paths = paths[
            1:
        ]  # an installed package needs no path, and must not leak to the other build
    return {**os.environ, **SETTINGS, "PYTHONPATH": os.pathsep.join(paths)}


def run_once(
    engine: str, task: str, python: str = sys.executable, timeout: float = 300.0, **options: Any
) -> dict[str, Any]:
    """One task in a fresh process."""
    with Worker(engine, python, timeout) as worker:
        return worker.ask(task, **options)
