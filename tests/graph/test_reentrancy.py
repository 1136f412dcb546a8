"""Finalizers that run inside critical sections, and destructors of saved values, which never do."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import sweepgrad as sg
from support.build import FREE_THREADED
from support.reentry import HookedPrimitives
from support.threads import repeat, run_threads
from sweepgrad import sync
from sweepgrad.graph import GraphRuntime, Rule, check_locks, register_one

ONE = [1.0]


@pytest.fixture
def world():
    """A runtime whose locks call back while they are held, without the order checker."""
    before = check_locks(False)
    primitives = HookedPrimitives()
    runtime = GraphRuntime(primitives)
    gc.collect()
    gc.freeze()  # many collections follow: leave out of them what is there already
    yield runtime
    gc.unfreeze()
    primitives.inside = None
    check_locks(before)
    assert primitives.errors == []


def leaf(runtime, value=2.0):
    return runtime.tensor([value], requires_grad=True)


def lock_kind(runtime, lock):
    if lock is runtime.sweeper.lock:
        return "SWEEP"
    if lock is runtime.locator.lock:
        return "LOCATOR"
    return "PARAM" if lock in runtime.parameters.locks else "GRAPH"


class Things:
    """What a stranger's finalizer may reach: tensors in two graphs and a parameter."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.x = leaf(runtime)
        self.one = self.x * 3.0
        self.other = leaf(runtime) * 5.0
        self.spare = [self.one * 1.0 for _ in range(20)]

    def drop(self):
        if self.spare:
            self.spare.pop()

    def try_everything(self):
        """Outcome of each call, by name."""
        calls = {
            "make a leaf": lambda: leaf(self.runtime),
            "start a graph": lambda: self.x * 2.0,
            "record": lambda: self.one * 2.0,
            "record on two": lambda: self.one * self.one,
            "join": lambda: self.one * self.other,
            "backward": lambda: self.one.backward(ONE, retain_graph=True),
            "update": lambda: self.x.update(lambda a: a),
            "assign": lambda: self.x.assign([2.0]),
            "report": lambda: self.runtime.memory_report(),
            "drop": self.drop,
            "cleanup": lambda: self.runtime.graph_cleanup().deferred,
        }
        outcomes = {}
        for name, call in calls.items():
            try:
                result = call()
                outcomes[name] = result if isinstance(result, bool) else "done"
            except sg.ReentrantCallError:
                outcomes[name] = "refused"
        return outcomes


REFUSED = {
    "make a leaf": "done",
    "start a graph": "done",
    "record": "refused",
    "record on two": "refused",
    "join": "refused",
    "backward": "refused",
    "update": "refused",
    "assign": "refused",
    "report": "refused",
    "drop": "done",
    "cleanup": True,
}
#: Between two graphs a sweep holds SWEEP alone, under which every other lock may be taken.
DURING_SWEEP = dict.fromkeys(REFUSED, "done") | {"cleanup": True}

SECTIONS = {
    "record": (lambda t: t.one * 7.0, {"GRAPH"}),
    "record on two": (lambda t: t.one * t.spare[0], {"GRAPH"}),
    "join": (lambda t: t.one * t.other, {"LOCATOR", "GRAPH"}),
    "backward": (lambda t: t.other.backward(ONE), {"GRAPH"}),
    "retaining backward": (lambda t: t.one.backward(ONE, retain_graph=True), {"GRAPH"}),
    "inner gradient": (
        lambda t: sg.grad(t.spare[0], [t.one], [ONE], retain_graph=True),
        {"GRAPH"},
    ),
    "sweep": (lambda t: t.runtime.graph_cleanup(), {"SWEEP", "LOCATOR", "GRAPH"}),
    "update": (lambda t: t.x.update(lambda a: a * 1.0), {"PARAM"}),
    "assign": (lambda t: t.x.assign([2.0]), {"PARAM"}),
    "report": (lambda t: t.runtime.memory_report(), {"LOCATOR"}),
    "drop": (Things.drop, {"GRAPH"}),
}


class Cycle:
    """Garbage that only a collection finds; its finalizer calls a function."""

    def __init__(self, finalizer):
        self.me = self
        self.finalizer = finalizer

    def __del__(self):
        self.finalizer()


@pytest.mark.parametrize("kind", ["__del__", "weakref callback"])
@pytest.mark.parametrize("section", SECTIONS)
def test_what_a_finalizer_may_do_inside_a_section(section, kind, world):
    """It may make and drop; what would have to wait is refused, a sweep is deferred."""
    things = Things(world)
    outcomes, callbacks = {}, []

    def collect(lock):
        found = outcomes.setdefault(lock_kind(world, lock), [])
        if len(found) == 8:
            return  # what is left for the end of the section takes locks again
        if kind == "__del__":
            Cycle(lambda: found.append(things.try_everything()))
        else:
            target = Cycle(lambda: None)
            callbacks.append(weakref.ref(target, lambda _: found.append(things.try_everything())))
            del target
        gc.collect()

    run, expected_locks = SECTIONS[section]
    sweeps = world.sweeper.sweeps
    world.primitives.inside = collect
    run(things)
    world.primitives.inside = None

    assert set(outcomes) >= expected_locks
    for lock, found in outcomes.items():
        assert len(found) >= 2, "after it was taken and before it was released"
        for outcome in found:
            if lock == "SWEEP":
                assert outcome == DURING_SWEEP
            else:
                assert outcome == REFUSED
    assert world.sweeper.sweeps > sweeps, "the deferred sweep was done when the section ended"
    assert world.primitives.held() == []
    world.check_valid()
    assert world.memory_report().pending_drops == 0
    assert (things.one * things.x).backward(ONE)[things.x].tolist() == [12.0]


def test_a_refused_call_says_what_and_how_to_fix_it(world):
    things = Things(world)
    messages = []

    def call(lock):
        try:
            things.one * 2.0
        except sg.ReentrantCallError as error:
            messages.append(str(error))

    world.primitives.inside = call
    things.one * 3.0
    assert "multiply was called while this thread is inside" in messages[0]
    assert "__del__" in messages[0]
    assert "Do the work later" in messages[0]


def train(runtime, rounds):
    w = leaf(runtime, 0.5)
    for round_ in range(rounds):
        x = leaf(runtime, float(round_ % 3))
        one, other = w * x, x * x
        loss = one * other + one  # a join
        grads = loss.backward(ONE)
        w.update(lambda a, g=grads[w]: a - 0.001 * g)
        if round_ % 10 == 0:
            runtime.graph_cleanup()
    return True


def litter(runtime, count):
    """Self-referring cycles that hold tracked tensors of graphs of their own."""
    for _ in range(count):
        cycle = Cycle(lambda: None)
        x = leaf(runtime)
        cycle.tensors = [x, x * 2.0, leaf(runtime) * x]


#: Steps of training, together, and cycles with tracked tensors at each collection.
FEW = (12 if FREE_THREADED else 48, 2)  # a collection takes far longer on that build
MANY = pytest.param((200, 50), marks=[pytest.mark.slow, pytest.mark.timeout(900)])


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("size", [FEW, MANY], ids=["few", "many"])
def test_collections_inside_every_section_never_take_a_lock(threads, size, world, busy_switching):
    """C20, C21.  Every lock collects while it is held, with tracked tensors in the garbage."""
    steps, pending = size
    primitives = world.primitives
    complaints = []
    hooks = sys.unraisablehook, threading.excepthook
    collected = []

    def collect(lock):
        litter(world, pending)
        collected.append(gc.collect())

    try:
        sys.unraisablehook = threading.excepthook = complaints.append
        gc.disable()
        litter(world, 50)
        primitives.inside = collect
        rounds = steps // threads
        assert repeat(lambda _: train(world, rounds), threads, timeout=800) == [True] * threads
    finally:
        primitives.inside = None
        gc.enable()
        sys.unraisablehook, threading.excepthook = hooks
    assert complaints == []
    assert sum(collected) > 50
    assert (primitives.waited, primitives.tried) == ([], []), "no finalizer takes a lock"
    gc.collect()
    world.graph_cleanup()
    world.check_valid()
    report = world.memory_report()
    assert (report.graphs, report.nodes, report.leaves, report.pending_drops) == (0, 0, 0, 0)


def test_a_tensors_finalizer_takes_no_lock_inside_a_section(world):
    """C20: the wrapper records 0 locks taken, waited for or tried."""
    primitives, things = world.primitives, Things(world)
    graph_of = [things.one * 1.0 for _ in range(60)]

    def drop(lock):
        if lock_kind(world, lock) != "SWEEP" and graph_of:
            graph_of.pop()
            cycle = Cycle(lambda: None)
            cycle.tensor = graph_of.pop()
            del cycle
            gc.collect()

    primitives.inside = drop
    for _ in range(5):
        things.one * 2.0
        (leaf(world) * 1.0) * (leaf(world) * 1.0)
        things.x.update(lambda a: a)
        world.memory_report()
    assert graph_of == []
    assert primitives.waited == []
    assert primitives.tried == []
    primitives.inside = None
    world.check_valid()
    assert world.memory_report().nodes == len(things.spare) + 2


def test_a_collection_in_the_first_use_of_a_thread_finds_the_threads_state(monkeypatch):
    """Making the state allocates, so it may collect; the finalizer operates and drops."""
    runtime = GraphRuntime(sync.NativePrimitives())
    x = leaf(runtime)
    made = []

    class Collecting(sync.ThreadState):
        __slots__ = ()

        def __init__(self):
            made.append(self)
            if len(made) == 1:
                Cycle(lambda: found.extend((x * x).backward(ONE)[x]))
                gc.collect()
            super().__init__()

    def first_use():
        x * 2.0
        return runtime.primitives.threads.state

    found, complaints = [], []
    monkeypatch.setattr(sync, "ThreadState", Collecting)
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    state = run_threads([first_use])[0]
    assert complaints == []
    assert found == [4.0]
    assert state is made[1], "the state that the finalizer made is the thread's"
    assert runtime.memory_report().nodes == 0
    assert state.section is None
    assert state.deferred == state.garbage == []


class Value:
    """A saved value whose destructor looks at the locks and then runs a function."""

    def __init__(self, primitives, seen, then=None):
        self.primitives, self.seen, self.then = primitives, seen, then

    def __del__(self):
        self.seen.append(
            (len(self.primitives.held()), self.primitives.threads.state.section is not None)
        )
        if self.then is not None:
            self.then()


def saving(source, value):
    """``source`` itself through an operation that saves ``value``."""
    result = sg.tensor(source.numpy())
    result._node = register_one(
        result, source._node, Rule("saving", lambda g, value: g), (value,), 0
    )
    return result


def drop(x, make):
    y = saving(x * 1.0, make())
    del y


def drop_a_chain(x, make):
    y = x * 1.0
    for _ in range(20):
        y = saving(y, make())
    del y


def consume(x, make):
    saving(x * 1.0, make()).backward(ONE)


def consume_with_an_error(x, make):
    def fail(g):
        raise ValueError("a rule")

    trunk = saving(x * 1.0, make())
    failing = sg.tensor(ONE)
    failing._node = register_one(failing, trunk._node, Rule("failing", fail), (), 0)
    failing = saving(failing, make())
    with pytest.raises(ValueError, match="a rule"):
        failing.backward(ONE)


def sweep_what_is_unavailable(x, make):
    trunk = x * 1.0
    kept = [saving(trunk, make()) for _ in range(5)]
    trunk.backward(ONE)
    freed = GraphRuntime.graph_cleanup(trunk._node.graph.runtime).nodes_freed
    assert freed == len(kept)


def sweep_with_a_backward(x, make):
    trunk = x * 1.0
    kept = [saving(trunk, make()) for _ in range(3)]
    sg.grad(trunk, [x], [ONE])
    alive = kept.pop() + x * 1.0
    assert alive.requires_grad


def unavailable_from_birth(x, make):
    trunk = x * 1.0
    trunk.backward(ONE)
    saving(trunk, make())


def merge_of_a_dirty_graph(x, make):
    one, other = saving(x * 1.0, make()), saving(x * 1.0, make())
    one._node.graph.dirty = other._node.graph.dirty = True
    joined = one * other
    del one, other, joined


def partly(x, make):
    inner = saving(x * 1.0, make())
    outer = saving(saving(inner, make()), make())
    sg.grad(outer, [inner], [ONE])


WAYS = [
    drop,
    drop_a_chain,
    consume,
    consume_with_an_error,
    sweep_what_is_unavailable,
    sweep_with_a_backward,
    unavailable_from_birth,
    merge_of_a_dirty_graph,
    partly,
]


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
def test_a_saved_values_destructor_runs_outside_every_lock(way, world):
    seen = []
    made = []

    def make():
        made.append(1)
        return Value(world.primitives, seen)

    x = leaf(world)
    way(x, make)
    gc.collect()
    world.graph_cleanup()
    assert len(seen) == len(made) > 0
    assert set(seen) == {(0, False)}
    world.check_valid()
    assert world.memory_report().nodes == 0


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
def test_a_saved_values_destructor_may_use_everything(way, world):
    """It runs as ordinary code: nothing is refused, nothing hangs, nothing is corrupted."""
    seen, outcomes = [], []
    things = Things(world)

    def then():
        outcomes.append(things.try_everything())

    x = leaf(world)
    way(x, lambda: Value(world.primitives, seen, then))
    gc.collect()
    world.graph_cleanup()
    assert outcomes
    for outcome in outcomes:
        assert outcome == dict.fromkeys(REFUSED, "done") | {"cleanup": False}
    world.check_valid()
    assert world.memory_report().nodes == len(things.spare) + 2
    assert world.primitives.held() == []


def test_destructors_that_free_further_nodes_do_not_nest(world):
    """Each saved value holds the last handle of another graph, 3,000 deep."""
    depth = [0, 0]

    class Deep:
        def __init__(self, tensor):
            self.tensor = tensor

        def __del__(self):
            depth[0] += 1
            depth[1] = max(depth[1], depth[0])
            del self.tensor
            depth[0] -= 1

    x = leaf(world)
    y = x * 1.0
    for _ in range(3_000):
        y = saving(x, Deep(y))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        del y
    finally:
        sys.setrecursionlimit(limit)
    assert world.memory_report().nodes == 0
    assert depth[0] == 0
    assert depth[1] <= 2, "an outer call takes the inner garbage apart"


def test_a_sweep_asked_for_by_several_finalizers_runs_once(world):
    things = Things(world)
    world.memory_report()  # counts what arrived, so that the next one is one section
    sweeps = world.sweeper.sweeps

    def ask(lock):
        for _ in range(5):
            assert world.graph_cleanup().deferred

    world.primitives.inside = ask
    world.memory_report()
    world.primitives.inside = None
    assert world.sweeper.sweeps == sweeps + 1
    things.one * 1.0
    assert world.sweeper.sweeps == sweeps + 2, "asked for during the first: with the next section"
    things.one * 1.0
    assert world.sweeper.sweeps == sweeps + 2
    assert things.one.requires_grad


def test_a_signal_handler_inside_a_section_is_refused_and_outside_is_not(world):
    import signal

    things, outcomes = Things(world), []

    def handler(signum, frame):
        try:
            things.one * 2.0
            outcomes.append("done")
        except sg.ReentrantCallError:
            outcomes.append("refused")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        world.primitives.inside = lambda lock: signal.raise_signal(signal.SIGUSR1)
        things.one * 3.0
        world.primitives.inside = None
        assert set(outcomes) == {"refused"}
        signal.raise_signal(signal.SIGUSR1)
        assert outcomes[-1] == "done"
    finally:
        signal.signal(signal.SIGUSR1, before)
    world.check_valid()


def test_a_drop_inside_another_graphs_section_waits_for_its_end(world):
    """Destructors of one graph's saved values must not run under another graph's lock."""
    seen = []
    mine, stranger = leaf(world) * 1.0, [saving(leaf(world), Value(world.primitives, seen))]
    during = []

    def drop_stranger(lock):
        if stranger:
            stranger.pop()
            during.append(len(seen))

    world.primitives.inside = drop_stranger
    mine * 2.0
    world.primitives.inside = None
    assert during == [0]
    assert seen == [(0, False)]


def test_finalizers_of_one_thread_do_not_delay_another(world, busy_switching):
    """Drops are per graph: a thread in a section of its own graph settles its own drops."""

    def work():
        x = leaf(world)
        for _ in range(100):
            y = x * 1.0
            z = [y * 2.0 for _ in range(3)]
            del y, z
        return True

    world.primitives.inside = None
    assert run_threads([work] * 4) == [True] * 4
    world.check_valid()
    assert world.memory_report().nodes == 0
    assert np.isfinite(world.memory_report().leaves)
