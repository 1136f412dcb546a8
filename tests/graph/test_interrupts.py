"""An interrupt at any point of a critical section: locks free, counts true, the next step right.

An interrupted change is absent or complete.  Each test interrupts one operation once at
every point (see support.interrupts), each time on a fresh runtime.
"""

import gc

import numpy as np
import pytest

import sweepgrad as sg
from support.interrupts import Interrupter, count_points, watched
from sweepgrad.graph import (
    GraphRuntime,
    backlog,
    check_locks,
    engine,
    hierarchy,
    locator,
    node,
    parameters,
    register,
    registry,
    running,
    runtime,
    section,
    sweeper,
    watch,
)
from sweepgrad.sync import NATIVE

MODULES = (
    backlog,
    engine,
    hierarchy,
    locator,
    node,
    parameters,
    register,
    registry,
    running,
    runtime,
    section,
    sweeper,
    watch,
)
ONE = [1.0]


@pytest.fixture(autouse=True, scope="module")
def watched_modules():
    with watched(MODULES):
        yield


@pytest.fixture(autouse=True)
def cheap_collections():
    """Thousands of collections follow; leave out of them what is there already."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def plain_locks():
    """The checked lock is Python code and can be interrupted itself; production's cannot."""
    before = check_locks(False)
    yield
    check_locks(before)


class Scene:
    """Two graphs on one leaf: a -> b -> c (b dropped), and d -> e; a second leaf; a lost trunk.

    All values are small integers, so that every gradient is exact.
    """

    def __init__(self):
        self.runtime = GraphRuntime()
        self.x = self.leaf(2.0)
        self.w = self.leaf(3.0)
        self.a = self.x * self.w  # 6
        self.c = (self.a * 2.0) * self.a  # 72
        self.d = self.w * 5.0
        self.e = self.d + self.x  # 17
        trunk = self.x * 7.0
        self.lost = trunk * self.d  # in the graph of d, unavailable
        trunk.backward(ONE)

    def leaf(self, value):
        return self.runtime.tensor([value], requires_grad=True)

    def graphs(self):
        return [g for ref in self.runtime.locator._directory if (g := ref()) is not None]


def gradient(output, *inputs):
    grads = sg.grad(output, inputs, [ONE], retain_graph=True)
    return [array.item() for array in grads]


def check_afterwards(scene, interrupter):
    """What must hold after an interrupt anywhere; leaves the scene's tips alone."""
    runtime, where = scene.runtime, interrupter.place
    state = NATIVE.threads.state
    assert (state.section, state.sweeping, state.discarding) == (None, False, False), where
    locks = [runtime.sweeper.lock, runtime.locator.lock, *runtime.parameters.locks]
    locks += [graph.lock for graph in scene.graphs()]
    assert not any(lock.locked() for lock in locks), where

    # The next touch of each graph repairs it.
    for name in ("a", "d"):
        if hasattr(scene, name):
            getattr(scene, name) * 1.0
    if interrupter.swallowed:
        runtime.graph_cleanup(
            full=True
        )  # a finalizer that never began: its drop is found by the sweep
    runtime.check_valid()
    report = runtime.memory_report()
    assert report.pending_drops == 0, where
    assert report.nodes == sum(len(graph.nodes) for graph in runtime.locator.list_graphs()), where

    # An operation, a backward and a sweep in this runtime.
    y = scene.leaf(2.0)
    assert ((y * y) * scene.x).backward(ONE)[y].item() == 8.0, where
    runtime.graph_cleanup()
    runtime.check_valid()
    assert "lost" not in vars(scene) or scene.lost._node.saved == (), where


def check_emptied(scene, where):
    """With every handle dropped nothing is left."""
    runtime = scene.runtime
    vars(scene).clear()
    if runtime.locator.count():
        gc.collect()  # an interrupt's traceback may have closed a cycle
    report = runtime.memory_report()
    assert (report.nodes, report.graphs, report.leaves, report.saved_bytes) == (0, 0, 0, 0), where
    assert runtime.locator.count() == 0, where


def interrupt_everywhere(prepare, action, check, dense=False):
    """Run ``action(scene)`` interrupted at each of its points in turn.

    ``prepare()`` makes a scene, ``check(scene, result)`` says what must hold of it then.
    """
    scene = prepare()
    points = count_points(MODULES, lambda: action(scene), dense)
    assert points > 1
    places = set()
    for at in range(points):
        scene = prepare()
        interrupter = Interrupter(MODULES, at, dense)
        result = interrupter.run(lambda scene=scene: action(scene))
        assert interrupter.place is not None
        places.add(interrupter.place)
        check_afterwards(scene, interrupter)
        check(scene, result)
        result = None
        check_emptied(scene, interrupter.place)
    return places


def all_as_before(scene, _=None):
    assert gradient(scene.c, scene.x, scene.w) == [72.0, 48.0]
    assert gradient(scene.e, scene.x, scene.w) == [1.0, 5.0]


@pytest.mark.parametrize("dense", [False, True])
def test_registering_with_one_operand(dense):
    """Dense: the fast path has no point of its own on today's interpreters."""
    places = interrupt_everywhere(Scene, lambda s: s.a * 3.0, all_as_before, dense)
    assert any("register_one" in place for place in places)


@pytest.mark.parametrize("dense", [False, True])
def test_registering_with_two_operands_of_one_graph(dense):
    places = interrupt_everywhere(Scene, lambda s: s.a * s.c, all_as_before, dense)
    assert any("register_two" in place for place in places)


def test_starting_a_graph():
    places = interrupt_everywhere(Scene, lambda s: s.x * s.w, all_as_before)
    assert any("start" in place for place in places)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("larger", ["left", "right"])
def test_joining_two_graphs(larger, dense):
    def prepare():
        scene = Scene()
        if larger == "right":
            scene.more = [scene.d * 2.0 for _ in range(5)]
        return scene

    places = interrupt_everywhere(prepare, lambda s: s.c * s.e, all_as_before, dense)
    assert any("_take_over" in place for place in places)
    assert any("merge" in place for place in places)


def test_joining_three_graphs():
    def prepare():
        scene = Scene()
        scene.z = scene.leaf(1.0)
        scene.third = scene.z * 4.0
        return scene

    def check(scene, result):
        all_as_before(scene)
        assert gradient(scene.third, scene.z) == [4.0]

    interrupt_everywhere(prepare, lambda s: sg.concatenate([s.c, s.e, s.third]), check)


def absent_or_complete(scene, tip, inputs, expected):
    """A claim that was interrupted is absent, or complete and has let go of everything."""
    tip = getattr(scene, tip)
    try:
        found = gradient(tip, *inputs)
    except sg.GraphConsumedError:
        assert tip._node.saved == ()
        assert tip._node.parents == ()
        return
    assert found == expected


def test_a_backward():
    def check(scene, result):
        absent_or_complete(scene, "c", [scene.x, scene.w], [72.0, 48.0])
        assert gradient(scene.e, scene.x, scene.w) == [1.0, 5.0]
        if result is not None:
            assert result[scene.x].item() == 72.0

    places = interrupt_everywhere(Scene, lambda s: s.c.backward(ONE), check)
    for function in ("_claim", "_ancestors", "_run_plain", "let_go", "remove_all"):
        assert any(function in place for place in places), function


def test_a_backward_beside_another_tip():
    """Not all nodes of the graph are claimed, so those that arrived are counted first."""

    def prepare():
        scene = Scene()
        scene.beside = scene.x * scene.a
        return scene

    def check(scene, result):
        absent_or_complete(scene, "c", [scene.x, scene.w], [72.0, 48.0])

    places = interrupt_everywhere(prepare, lambda s: s.c.backward(ONE), check)
    for function in ("_claim", "_count_arrivals", "remove_closed"):
        assert any(function in place for place in places), function


def test_a_backward_through_a_part_of_a_graph_with_a_sweep():
    """Consumes d's part only; pays for the sweep that takes the lost node."""

    def prepare():
        scene = Scene()
        scene.runtime.graph_cleanup()
        scene.other = scene.d * 2.0
        return scene

    def check(scene, result):
        absent_or_complete(scene, "e", [scene.x, scene.w], [1.0, 5.0])
        assert gradient(scene.c, scene.x, scene.w) == [72.0, 48.0]

    places = interrupt_everywhere(prepare, lambda s: s.e.backward(ONE), check)
    for function in ("sweep_with_backward", "_forget_unavailable", "_let_go_of_parents"):
        assert any(function in place for place in places), function


def test_a_retaining_backward():
    interrupt_everywhere(Scene, lambda s: s.c.backward(ONE, retain_graph=True), all_as_before)


def test_gradients_of_inner_nodes():
    def check(scene, result):
        absent_or_complete(scene, "c", [scene.a], [24.0])
        assert gradient(scene.a, scene.x, scene.w) == [3.0, 2.0]
        assert gradient(scene.e, scene.x, scene.w) == [1.0, 5.0]

    places = interrupt_everywhere(Scene, lambda s: sg.grad(s.c, [s.a], [ONE]), check)
    assert any("remove_part" in place for place in places)


def test_a_differentiable_backward():
    def action(scene):
        return sg.grad(scene.c, [scene.x], [ONE], create_graph=True)

    def check(scene, result):
        all_as_before(scene)
        if result is not None:
            assert gradient(result[0], scene.x) == [36.0]

    interrupt_everywhere(Scene, action, check)


@pytest.mark.parametrize("full", [False, True])
def test_a_full_sweep(full):
    def prepare():
        scene = Scene()
        scene.f = scene.a * 9.0
        return scene

    places = interrupt_everywhere(prepare, lambda s: s.runtime.graph_cleanup(full), all_as_before)
    inner = "rebuild" if full else "_forget_unavailable"
    for function in ("_begin", "_sweep_piece", inner, "list_locked", "discard"):
        assert any(function in place for place in places), function


def test_a_report():
    interrupt_everywhere(Scene, lambda s: s.runtime.memory_report(), all_as_before)


def test_dropping_a_chain():
    """The finalizer of a handle: the interpreter swallows what is raised in it."""

    def prepare():
        scene = Scene()
        y = scene.a * 1.0
        for _ in range(5):
            y = y * scene.a
        scene.chain = y
        return scene

    def action(scene):
        del scene.chain

    places = interrupt_everywhere(prepare, action, all_as_before)
    for function in ("on_drop", "_try_drain", "reclaim", "discard", "_take_apart"):
        assert any(function in place for place in places), function


def test_draining_what_other_threads_queued():
    """The holder of the lock does the work of a drop that could not get it."""

    def prepare():
        scene = Scene()
        graph = scene.a._node.graph
        scene.f, scene.g = scene.a * 3.0, scene.a * 4.0
        graph.lock.acquire()
        del scene.f, scene.g
        graph.lock.release()
        assert len(graph.drops) == 2
        return scene

    places = interrupt_everywhere(
        prepare, lambda s: s.a.backward(ONE, retain_graph=True), all_as_before
    )
    for function in ("_locked", "drain", "_count_arrivals"):
        assert any(function in place for place in places), function


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("way", ["update", "assign"])
def test_replacing_a_parameter(way, dense):
    def action(scene):
        if way == "update":
            scene.w.update(lambda a: a + 1.0)
        else:
            scene.w.assign([4.0])

    def check(scene, _):
        assert scene.w.item() in (3.0, 4.0)
        assert gradient(scene.c, scene.x, scene.w) == [72.0, 48.0], "saved values never change"

    interrupt_everywhere(Scene, action, check, dense)


def test_repairing_what_an_earlier_interrupt_left():
    """Interrupt a merge, then interrupt its repair, at every pair of points (every third)."""

    def merge(scene):
        return scene.c * scene.e

    points = count_points(MODULES, lambda: merge(Scene()))
    for first in range(0, points, 3):
        scene = Scene()
        Interrupter(MODULES, first, dense=False).run(lambda scene=scene: merge(scene))
        if not any(graph.dirty for graph in scene.graphs()):
            continue
        second = 0
        while True:
            scene = Scene()
            Interrupter(MODULES, first, dense=False).run(lambda scene=scene: merge(scene))
            interrupter = Interrupter(MODULES, second, dense=False)
            interrupter.run(lambda scene=scene: scene.a.backward(ONE, retain_graph=True))
            if interrupter.place is None:
                break
            check_afterwards(scene, interrupter)
            all_as_before(scene)
            check_emptied(scene, interrupter.place)
            second += 3
        assert second > 10


@pytest.mark.parametrize("larger", ["left", "right"])
def test_an_interrupted_merge_is_completed_from_either_side(larger):
    """Whoever touches either of the two graphs next finds one graph or two, never half."""

    def prepare():
        scene = Scene()
        if larger == "right":
            scene.more = [scene.d * 2.0 for _ in range(5)]
        return scene

    scene = prepare()
    points = count_points(MODULES, lambda: scene.c * scene.e)
    both = set()
    for at in range(points):
        for touch in ("a", "d"):
            scene = prepare()
            interrupter = Interrupter(MODULES, at, dense=False)
            interrupter.run(lambda scene=scene: scene.c * scene.e)
            getattr(scene, touch) * 1.0
            live = {graph for graph in scene.graphs() if graph.forward is None and graph.nodes}
            both.add(len(live))
            for graph in live:
                if graph.dirty:
                    continue
                graph.check_valid()
            all_as_before(scene)
            check_afterwards(scene, interrupter)
            del live, graph
            check_emptied(scene, interrupter.place)
    assert both == {1, 2}


def test_values_are_exact():
    """The expectations above, by NumPy."""
    x, w = 2.0, 3.0
    assert np.allclose([2 * 2 * x * w * w, 2 * 2 * x * x * w], [72.0, 48.0])
