"""An exception, and a collection, on every line that registers, merges, claims, sweeps or releases.

Each run does it on one line of one operation.  The operations reach every line of that
code; a line added later that none of them reaches fails the test.
"""

import gc
import logging
import weakref

import pytest

import sweepgrad as sg
from graph.test_interrupts import (
    ONE,
    check_afterwards,
    check_emptied,
)
from hazards.operations import OPERATIONS, left_as_it_was
from support.build import FREE_THREADED
from support.interrupts import Interrupted
from support.lines import AtLines, cleaning_lines, lines_of, raising_lines
from sweepgrad.graph import (
    backlog,
    check_locks,
    engine,
    locator,
    node,
    parameters,
    register,
    registry,
    section,
    sweeper,
)

MODULES = (backlog, register, registry, section, locator, sweeper, engine, parameters, node)

#: What neither changes anything nor runs in production, and what makes objects before anyone
#: else can know of them.
NO_OPERATIONS = frozenset(
    {
        "Backlog.ids",
        "Claim.__repr__",
        "Graph.__repr__",
        "Graph.check_valid",
        "GraphLocator.__init__",
        "GraphLocator.check_valid",
        "GraphLocator.count",
        "GraphLocator.directory",
        "Node.__repr__",
        "Node.is_leaf",
        "NodeRegistry.__init__",
        "NodeRegistry.check_valid",
        "NodeRegistry.dead",
        "ParameterSwap.__init__",
        "ParameterSwap.renew_locks",
        "ParameterSwap._new_locks",
        "Rule.__init__",
        "Rule.__repr__",
        "Sweeper.__init__",
        "expect",
        "mismatch",
        "note_origins",
        "refused",
        "stop_settling",
    }
)


@pytest.fixture(autouse=True)
def plain_locks():
    """The checked lock is Python code and can be interrupted itself; production's cannot."""
    before = check_locks(False)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    check_locks(before)


def reached_lines(operation):
    """The lines that an operation reaches, in the order in which it first does."""
    prepare, action = OPERATIONS[operation]
    places = []
    scene = prepare()
    AtLines(MODULES, places.append, once=True).run(lambda: action(scene))
    return places


def interrupt_at(operation, at):
    """Raise on the line reached as number ``at``; then everything must be as documented."""
    prepare, action = OPERATIONS[operation]

    def interrupt(place):
        raise Interrupted(place)

    scene = prepare()
    raising = AtLines(MODULES, interrupt, at, once=True)
    raising.run(lambda: action(scene))
    assert raising.place is not None
    assert raising.complaints == [], raising.place
    settle_this_thread(scene)
    check_afterwards(scene, raising)
    left_as_it_was(scene)
    check_emptied(scene, raising.place)


def every_line():
    """Every line of these modules, but those that only raise or clean up after an exception."""
    return {
        (file, line): f"{file.rsplit('/', 1)[-1]}:{line} in {function}"
        for (file, line), function in lines_of(MODULES, NO_OPERATIONS).items()
        if line not in cleaning_lines(file) and line not in raising_lines(file)
    }


def test_an_exception_on_any_line_leaves_what_it_interrupts_absent_or_complete():
    """Each line once, in the first operation that reaches it; and the operations reach them all."""
    interrupted = set()
    for operation in OPERATIONS:
        for at, place in enumerate(reached_lines(operation)):
            if place not in interrupted:
                interrupted.add(place)
                interrupt_at(operation, at)
    missed = sorted(name for place, name in every_line().items() if place not in interrupted)
    assert not missed, "add an operation that reaches them:\n" + "\n".join(missed)
    assert len(interrupted) > 300


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_exception_on_any_line_of_any_operation(operation):
    lines = reached_lines(operation)
    assert len(lines) > 3
    for at in range(len(lines)):
        interrupt_at(operation, at)


def settle_this_thread(scene):
    """What an exception kept from being done when a section ended is done with the next one."""
    scene.runtime.graph_cleanup(full=True)


class Stranger:
    """What garbage of others does when a collection finds it: drop, operate, sweep, log."""

    KINDS = ("__del__", "weakref callback", "weakref.finalize")

    def __init__(self, scene):
        self.scene = scene
        self.outcomes = []
        self.references = []
        self.spare = [scene.a * 1.0 for _ in range(400)]
        self.log = logging.getLogger("hazards")

    def leave_garbage(self, number):
        """A cycle with a tracked tensor in it, and a finalizer of one of the kinds."""
        garbage = Cycle(self.scene.x * 2.0)
        tip = self.spare.pop()
        kind = self.KINDS[number % 3]
        if kind == "__del__":
            garbage.tip = tip
            garbage.finalizer = self.act
        elif kind == "weakref callback":
            self.references.append(weakref.ref(garbage, lambda _: self.act(tip)))
        else:
            weakref.finalize(garbage, self.act, tip)

    def act(self, tip):
        runtime = self.scene.runtime
        self.log.warning("%r is dropped", tip)
        tip = None
        for call in (self.differentiate, runtime.graph_cleanup, runtime.memory_report, self.update):
            try:
                call()
                self.outcomes.append("done")
            except sg.ReentrantCallError:
                self.outcomes.append("refused")

    def differentiate(self):
        y = self.scene.x * 3.0  # a graph of its own; then one that may be half-changed
        assert y.backward(ONE)[self.scene.x].item() == 3.0
        if hasattr(self.scene, "a"):
            self.scene.a * 2.0

    def update(self):
        self.scene.w.update(lambda a: a + 0.0)


class Cycle:
    """Garbage that only a collection finds."""

    finalizer = None

    def __init__(self, tensor):
        self.me = self
        self.tensor = tensor

    def __del__(self):
        if self.finalizer is not None:
            tip, self.tip = self.tip, None
            self.finalizer(tip)


#: Here this thread itself holds a lock, for want of another: a sweep would wait for it.
HOLDS_A_LOCK = {"drop while the lock is held"}


def collect_during(operation, wanted):
    """Collect before each of the wanted lines that the operation reaches; returns how often."""
    prepare, action = OPERATIONS[operation]
    scene = prepare()
    stranger = Stranger(scene)
    collected = []

    def collect(place):
        if place in wanted:
            stranger.leave_garbage(len(collected))
            collected.append(gc.collect())

    visitor = AtLines(MODULES, collect, once=True)
    try:
        gc.disable()
        kept = visitor.run(lambda: action(scene))
    finally:
        gc.enable()
    assert visitor.complaints == []
    assert len(stranger.outcomes) == 4 * len(collected), operation
    assert all(collected)
    stranger.spare.clear()
    del kept
    scene.runtime.graph_cleanup()
    scene.runtime.check_valid()
    assert scene.runtime.memory_report().pending_drops == 0
    left_as_it_was(scene)
    return stranger.outcomes


def test_a_collection_between_any_two_statements_changes_nothing():
    """C21: each line once, in the first operation that reaches it.

    Without a GIL one in four: a collection looks at frozen objects too there, and takes long.
    """
    met, outcomes = set(), []
    for operation in OPERATIONS:
        new = [place for place in reached_lines(operation) if place not in met]
        if new and operation not in HOLDS_A_LOCK:
            outcomes += collect_during(operation, set(new[:: 4 if FREE_THREADED else 1]))
            met.update(new)
    assert len(met) > 300
    assert {"done", "refused"} == set(outcomes)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name not in HOLDS_A_LOCK])
def test_a_collection_between_any_two_statements_of_any_operation(operation):
    wanted = set(reached_lines(operation))
    assert "done" in collect_during(operation, wanted)
