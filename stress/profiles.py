"""What the workers do.  Each profile makes pieces of work whose results are checked on the spot."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

import sweepgrad as sg
from stress.counters import MINE, Counters, Paced

Work = Callable[[random.Random, Counters], None]


class WrongResultError(Exception):
    """A result that is not the right one."""


def check(found: Any, expected: Any, what: str) -> None:
    """Compare bit for bit."""
    if not np.array_equal(found, expected):
        raise WrongResultError(f"{what}: found {found!r}, expected {expected!r}")


class Shared:
    """What the threads of a run share: parameters, a pool of tensors, exact totals."""

    def __init__(self) -> None:
        self.parameter = sg.tensor(np.zeros(4), requires_grad=True)
        self.weights = [sg.tensor(np.eye(4) * (k + 1), requires_grad=True) for k in range(3)]
        self.pool: deque[Any] = deque(maxlen=32)
        #: Appended once per finished update of ``parameter``; append is one C call.
        self.updates: deque[int] = deque()
        self.forks = Paced(rest=1.0)
        self.sweeps_in_finalizers = Paced(rest=9.0)


class Trainers:
    """Hogwild on a shared parameter, exact to the last update, and a small private network."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    def __call__(self, rng: random.Random, counters: Counters) -> None:
        p = self.shared.parameter
        gradient = (p * 1.0).backward(np.ones(4))[p]
        check(gradient, np.ones(4), "gradient of p * 1")
        p.update(lambda a: a + gradient)
        self.shared.updates.append(1)
        x = sg.tensor(np.array([[1.0, 2.0, 3.0, 4.0]]), requires_grad=True)
        y = x
        for weight in self.shared.weights:
            y = y @ weight
        grads = y.sum().backward()
        check(grads[x], np.full((1, 4), 6.0), "gradient through three shared weights")
        counters.step("trainers", operations=6, backwards=2)


class Churn:
    """Create, operate and drop in every order, mostly without any backward."""

    def __init__(self, shared: Shared) -> None:
        self.kept: deque[Any] = deque(maxlen=64)
        # Full from the start: 64 threads took six minutes to fill them, and whether memory is
        # flat can be told only then.
        for length in range(64):
            self.kept.append(self._chain(length % 8)[2])

    @staticmethod
    def _chain(length: int) -> tuple[Any, Any, Any]:
        leaf = sg.tensor(np.array([3.0]), requires_grad=True)
        y = chain = leaf * leaf
        for _ in range(length):
            chain = chain * 1.0
        return leaf, y, chain

    def __call__(self, rng: random.Random, counters: Counters) -> None:
        leaf, y, chain = self._chain(rng.randrange(8))
        choice = rng.randrange(5)
        if choice == 0:
            self.kept.append(chain)
        elif choice == 1:
            check(chain.backward(np.ones(1))[leaf], [6.0], "gradient of a chain")
            counters.backwards += 1
        elif choice == 2:
            del leaf, y
            chain = chain + 1.0
        elif choice == 3 and rng.random() < 0.02:
            sg.graph_cleanup()
        del chain
        counters.step("churn", operations=6)


class Merge:
    """Tensors handed between threads and joined, so that graphs merge while others use them."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    def __call__(self, rng: random.Random, counters: Counters) -> None:
        pool = self.shared.pool
        leaf = sg.tensor(np.array([2.0]), requires_grad=True)
        mine = leaf * 3.0
        pool.append(mine)
        other = self._other(pool, rng, mine)
        joined = mine * other if rng.random() < 0.5 else other * mine
        try:
            value = float(other.numpy()[0])
            found = sg.grad(joined, [leaf], np.ones(1), retain_graph=rng.random() < 0.5)
            if other is not mine:
                check(found[0], [3.0 * value], "gradient of a joined graph")
            counters.step("merge", operations=3, backwards=1)
        except sg.GraphConsumedError:
            counters.consumed += 1
            counters.step("merge", operations=3)
        if rng.random() < 0.05:
            sg.graph_cleanup()
        if rng.random() < 0.1:
            self._pop(pool)

    @staticmethod
    def _other(pool: deque[Any], rng: random.Random, default: Any) -> Any:
        try:
            return pool[rng.randrange(max(len(pool), 1))]
        except IndexError:  # another thread emptied it meanwhile
            return default

    @staticmethod
    def _pop(pool: deque[Any]) -> None:
        with contextlib.suppress(IndexError):
            pool.popleft()


class Cycle:
    """A cycle that holds a tensor and whose finalizer uses tensors, for the collector to find."""

    def __init__(self, tensor: Any, sweeps: Paced | None) -> None:
        self.me = self
        #: Not in every finalizer: a collection finds hundreds of cycles, and each sweep
        #: looks at the graphs of all of them.
        self.sweeps = sweeps
        self.tensor = tensor

    def __del__(self) -> None:
        try:
            leaf = sg.tensor(np.array([3.0]), requires_grad=True)
            (leaf * leaf).backward(np.ones(1))
            (self.tensor * 2.0).backward(np.ones(1))
            if self.sweeps is not None:
                self.sweeps.run(sg.graph_cleanup)
        except (sg.ReentrantCallError, sg.GraphConsumedError):
            MINE.counters.refused += 1
        MINE.counters.finalizers += 1
        MINE.counters.step("a finalizer")


class Hazards:
    """Collections, finalizers that use tensors, forks and exceptions, beside ordinary work."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.trainers = Trainers(shared)

    def __call__(self, rng: random.Random, counters: Counters) -> None:
        leaf = sg.tensor(np.array([3.0]), requires_grad=True)
        Cycle(leaf * 2.0, self.shared.sweeps_in_finalizers if rng.random() < 0.1 else None)
        choice = rng.randrange(20)
        if choice == 0:
            gc.collect()
        elif choice == 1:
            self._raise_inside(leaf)
        elif choice == 2:
            counters.forks += self.shared.forks.run(lambda: self._fork(counters))
        self.trainers(rng, counters)
        counters.step("hazards", operations=1)

    @staticmethod
    def _raise_inside(leaf: Any) -> None:
        try:
            raise KeyError((leaf * leaf, "kept by a traceback for a moment"))
        except KeyError:
            return

    @staticmethod
    def _fork(counters: Counters) -> None:
        if not hasattr(os, "fork"):
            return
        counters.where = "fork"
        child = os.fork()
        if child == 0:
            _in_child()
        deadline = time.monotonic() + 10.0
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() > deadline:
                _show_stacks(child)
                os.kill(child, 9)
                os.waitpid(child, 0)
                raise WrongResultError("a forked child did not finish within 10 s")
            time.sleep(0.005)
        if status:
            raise WrongResultError(f"a forked child ended with status {status}")


def _show_stacks(child: int) -> None:
    """Have a child that hangs write every thread's stack; the handler is the parent's own."""
    if hasattr(signal, "SIGUSR1"):
        os.kill(child, signal.SIGUSR1)
        time.sleep(3.0)


def _in_child() -> None:
    """Make, join, back-propagate and sweep in a forked child, then leave at once."""
    code = 1
    try:
        leaf = sg.tensor(np.array([3.0]), requires_grad=True)
        one, other = leaf * leaf, leaf * 2.0
        found = (one * other).backward(np.ones(1))[leaf]
        sg.graph_cleanup()
        code = 0 if found[0] == 54.0 else 2
    finally:
        os._exit(code)


PROFILES: dict[str, Callable[[Shared], Work]] = {
    "trainers": Trainers,
    "churn": Churn,
    "merge": Merge,
    "hazards": Hazards,
}
