"""The level *handlers*: one thread, and a signal handler wherever CPython looks for signals.

Each operation runs on a fresh scene with a handler that drops, operates, joins, assigns, adds
hooks, back-propagates and sweeps, at many of the points where a handler may run; then forks.
Looked at is what comes out: exceptions, also of finalizers, a lock that its own thread waits
for, counts against the truth, gradients, and what is left when everything is dropped.
"""

import contextlib
import os
import random
import signal
import sys
import warnings

import sweepgrad as sg
from graph.test_interrupts import MODULES as RUNTIME
from graph.test_interrupts import gradient
from planted import faults, faults_met
from planted.scenarios import Calls, with_saved
from support.interrupts import Visitor, watched
from support.worlds import with_rule
from sweepgrad.autograd import hooks
from sweepgrad.graph import DEFAULT, GraphRuntime, check_locks
from sweepgrad.sync import NativePrimitives

#: How often a handler does something in one scene.
CALLS = 60
ONE = [1.0]
#: Where handlers run.  A planted function stands for shipped code, so it has points as well.
MODULES = (*RUNTIME, sys.modules["sweepgrad.tensor"], hooks, faults, faults_met)


class SelfDeadlock(AssertionError):  # noqa: N818  # reads as what happened
    """The only thread waits for a lock that it holds: natively it would for ever."""


class OneThreadLock:
    """A lock in a program of one thread, where waiting for a held lock is a hang."""

    def __init__(self):
        self.taken = False

    def acquire(self, blocking=True, timeout=-1):
        if self.taken and blocking:
            raise SelfDeadlock("waits for a lock that its own thread holds")
        free, self.taken = not self.taken, True
        return free

    def release(self):
        self.taken = False

    def locked(self):
        return self.taken

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *exc_info):
        self.release()


class OneThread(NativePrimitives):
    lock = staticmethod(OneThreadLock)


class Scene:
    """Two graphs on one leaf and a second leaf, tips to drop, and what handlers may do."""

    def __init__(self, chance):
        self.chance = chance
        self.primitives = OneThread()
        self.runtime = GraphRuntime(self.primitives)
        self.x, self.w = self.leaf(2.0), self.leaf(3.0)
        self.a = self.x * self.w
        self.c = (self.a * 2.0) * self.a
        self.e = self.w * 5.0 + self.x
        self.tips = [self.a * 1.0 for _ in range(CALLS)]
        self.points = self.calls = self.updates = 0
        #: A leaf and how many hooks it was given; what has run of them.
        self.hooked = [self.x, 0]
        self.all_hooked = [self.hooked]
        self.ran = []
        #: What the handlers of this scene do; not all of it, since a hook makes every
        #: backward another one and a sweep leaves little to the others.
        names = ["operate", "join", "backward", "sweep", "update", "add_hook"]
        self.names = chance.sample(names, 2)

    def leaf(self, value):
        return self.runtime.tensor([value], requires_grad=True)

    # --- what an action or a handler does ------------------------------------------------

    def operate(self):
        self.a * 3.0

    def temporaries(self):
        y = (self.e * 2.0) * 3.0
        assert gradient(y, self.x) == [6.0]

    def join(self):
        (self.c * self.e).numpy()

    def drop(self):
        del self.tips[: self.chance.randrange(1, 4)]

    def backward(self):
        y = self.x * 3.0
        assert y.backward(ONE)[self.x].item() == 3.0

    def nested(self):
        """A rule that uses its own graph and another one."""
        stem = self.x * 7.0
        sibling = stem * 1.0
        y = with_rule(stem * 2.0, lambda g: (sibling * self.a).numpy() * 0.0 + g)
        assert y.backward(ONE)[self.x].item() == 14.0

    def sweep(self):
        self.runtime.graph_cleanup()

    def sweep_of_destructors(self):
        trunk = self.x * 7.0
        kept = [with_saved(trunk, Calls(lambda: self.e * 2.0)) for _ in range(3)]
        trunk.backward(ONE)  # one node claimed: too few to pay for a look at three
        self.sweep()
        del kept

    def update(self):
        for _ in range(3):
            self.w.update(lambda a: a + 1.0)
            self.updates += 1

    def hook(self):
        """Adds the first hook of some leaves, as handlers do to the one that has its turn."""
        for _ in range(20):
            self.hooked = [self.leaf(2.0), 0]
            self.all_hooked.append(self.hooked)
            self.add_hook()

    def add_hook(self):
        hooked = self.hooked
        hooked[0].register_hook(lambda g: self.ran.append(1))
        hooked[1] += 1

    def report(self):
        self.runtime.memory_report()

    # --- the handler, and what must hold afterwards -----------------------------------------

    def handler(self, every):
        self.points += 1
        if self.points % every or self.calls == CALLS:
            return
        self.calls += 1
        with contextlib.suppress(sg.ReentrantCallError, sg.GraphConsumedError):
            self.drop()
            getattr(self, self.chance.choice(self.names))()

    def check(self):
        self.tips.clear()
        assert gradient(self.e, self.w) == [5.0]
        assert self.w.numpy().tolist() == [3.0 + self.updates], "an update is lost"
        for leaf, count in self.all_hooked:
            self.ran.clear()
            gradient(leaf * 2.0, leaf)
            assert len(self.ran) == count, "a hook is lost"
        state = self.primitives.threads.state
        assert (state.section, state.sweeping, state.discarding) == (None, False, False)
        self.runtime.check_valid()
        assert self.runtime.memory_report().pending_drops == 0
        runtime = self.runtime
        vars(self).clear()
        runtime.graph_cleanup()
        assert runtime.locator.count() == 0, "something is left"


#: Action: turns; more for the short ones, of which one point in particular is to be met.
ACTIONS = {
    "operate": 3,
    "temporaries": 14,
    "join": 3,
    "drop": 3,
    "backward": 3,
    "nested": 3,
    "sweep": 6,
    "sweep_of_destructors": 10,
    "update": 6,
    "hook": 8,
    "report": 2,
    "fork": 1,
}


def visited(name, chance):
    """One operation with its handlers; raises what it shows."""
    scene = Scene(chance)
    every = chance.choice([1, 2, 3, 5, 8, 13, 21])
    lost = []
    before, sys.unraisablehook = sys.unraisablehook, lambda report: lost.append(report.exc_type)
    try:
        visitor = Visitor(MODULES, lambda: scene.handler(every))
        visitor._unraisable = lambda report: lost.append(report.exc_type)
        visitor.run(getattr(scene, name))
        del visitor
        scene.check()
    finally:
        sys.unraisablehook = before
    assert not lost, f"lost in a finalizer: {lost}"


def forked():
    """A child of one thread operates, back-propagates and sweeps within a second."""
    leaf = DEFAULT.tensor([2.0], requires_grad=True)
    trunk = leaf * 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(1)
        try:
            (trunk * 2.0).backward(ONE)
            DEFAULT.graph_cleanup()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"the forked child ended with status {status}"


def run(seed):
    """What the operations of one seed show: the kind of failure or None; how many there were."""
    chance = random.Random(seed)
    names = [name for name, turns in ACTIONS.items() for _ in range(turns)]
    chance.shuffle(names)
    before = check_locks(False)
    try:
        with watched(MODULES):
            for done, name in enumerate(names, start=1):
                try:
                    forked() if name == "fork" else visited(name, chance)
                except Exception as error:
                    return type(error).__name__, done
        return None, len(names)
    finally:
        check_locks(before)
