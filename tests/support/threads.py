"""Run functions in threads at the same moment; a hang or an exception in any of them fails."""

from __future__ import annotations

import faulthandler
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from sweepgrad.graph import ORDER


class ThreadsFailed(AssertionError):  # noqa: N818  # reads as what happened
    """A thread hung or raised; the message has every stack or traceback."""


def all_stacks() -> str:
    """Where every thread is now."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()


def run_threads(workers: Sequence[Callable[[], Any]], timeout: float = 30.0) -> list[Any]:
    """Run the workers at once, started by a barrier; returns their results in order.

    Args:
        workers: one function for each thread.
        timeout: seconds within which all have to end.

    Raises:
        ThreadsFailed: if a thread hangs (with all stacks, and who waits for which
            lock of sweepgrad) or raises (with its traceback).
    """
    barrier = threading.Barrier(len(workers))
    results: list[Any] = [None] * len(workers)
    errors: list[str] = []

    def run(index: int) -> None:
        try:
            barrier.wait(timeout)
            results[index] = workers[index]()
        except BaseException:
            errors.append(f"thread {index}:\n{traceback.format_exc()}")

    threads = [
        threading.Thread(target=run, args=(index,), daemon=True, name=f"worker-{index}")
        for index in range(len(workers))
    ]
    for thread in threads:
        thread.start()
    join_all(threads, timeout)
    if errors:
        raise ThreadsFailed("\n".join(errors))
    return results


def join_all(threads: Sequence[threading.Thread], timeout: float = 30.0) -> None:
    """Join every thread within ``timeout`` seconds altogether, and check that it ended."""
    deadline = monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - monotonic()))
    hung = [thread.name for thread in threads if thread.is_alive()]
    if hung:
        raise ThreadsFailed(
            f"{', '.join(hung)} did not end within {timeout} s\n{all_stacks()}\n"
            f"{ORDER.wait_for_graph()}"
        )


def repeat(worker: Callable[[int], Any], threads: int, timeout: float = 30.0) -> list[Any]:
    """``run_threads`` with ``worker(0)`` to ``worker(threads - 1)``."""
    return run_threads([lambda index=index: worker(index) for index in range(threads)], timeout)


class Gate:
    """A named point at which one thread waits until another opens it; fails instead of hanging."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def open(self) -> None:
        self._event.set()

    def wait(self, timeout: float = 20.0) -> None:
        if not self._event.wait(timeout):
            raise ThreadsFailed("a gate was not opened\n" + all_stacks())
