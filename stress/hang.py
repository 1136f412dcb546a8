"""A planted deadlock, so that the watcher itself is under test."""

from __future__ import annotations

import os
import time

from sweepgrad.graph import DEFAULT, Rank
from sweepgrad.graph.hierarchy import make_lock
from sweepgrad.sync import Barrier, Thread


def run() -> None:
    """Deadlock for ever, in the way that the environment variable STRESS_HANG names.

    ``workers``: two threads wait for each other's lock, the main thread for them.
    ``main``: the main thread sits in a native wait for a lock that a worker keeps.
    ``gil``: a thread keeps the interpreter busy in one C call.
    """
    kind = os.environ.get("STRESS_HANG", "workers")
    if kind == "gil":
        sum(range(10**15))  # one C call that never looks up
    one = make_lock(DEFAULT.primitives, Rank.LOCATOR, 1)
    other = make_lock(DEFAULT.primitives, Rank.GRAPH, 1)
    barrier = Barrier(2)

    def in_order() -> None:
        with one:
            barrier.wait()
            with other:
                pass

    def against_order() -> None:
        other.acquire()
        barrier.wait()
        while not one.acquire(blocking=False):  # a try is not refused by the checker
            time.sleep(0.01)

    threads = [Thread(target=in_order, daemon=True), Thread(target=against_order, daemon=True)]
    if kind == "main":
        threads = threads[1:]
        threads[0].start()
        in_order()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
