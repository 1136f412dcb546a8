"""Scenes for the operations of ``operations.py``, beside the two graphs of ``Scene``.  No tests."""

import contextlib
from collections import deque

import sweepgrad as sg
from graph.test_interrupts import ONE, Scene
from support.interrupts import Interrupted
from support.lines import AtLines
from sweepgrad.graph import (
    GraphRuntime,
    Rule,
    engine,
    locator,
    register_one,
    registry,
    section,
    sweeper,
)
from sweepgrad.graph.node import next_id
from sweepgrad.sync import NATIVE


def larger_right():
    scene = Scene()
    scene.more = [scene.d * 2.0 for _ in range(5)]
    return scene


def with_a_third_graph():
    scene = Scene()
    scene.z = scene.leaf(1.0)
    scene.third = scene.z * 4.0
    return scene


def with_queued_drops():
    """Two drops that met the graph's lock held, as by another thread."""
    scene = Scene()
    scene.f, scene.g = scene.a * 3.0, scene.a * 4.0
    graph, dead = scene.a._node.graph, scene.f._node
    with graph.lock:
        del scene.f, scene.g
    # Two that are not to be reclaimed: one that has children, one that will be gone by then.
    graph.drops.extend([scene.a._node, dead])
    return scene


def with_deferred_work():
    """A drop and a sweep that finalizers of this thread asked for inside a section."""
    scene = Scene()
    scene.f = scene.a * 3.0
    state = NATIVE.threads.state
    state.section = scene
    del scene.f
    scene.runtime.graph_cleanup()
    state.section = None
    return scene


def with_a_chain():
    scene = Scene()
    y = scene.a * 1.0
    for _ in range(3):
        y = y * scene.a
    scene.chain = y
    return scene


def with_a_dirty_graph():
    scene = Scene()
    scene.a._node.graph.dirty = True
    return scene


def dirty_both():
    scene = Scene()
    scene.a._node.graph.dirty = scene.d._node.graph.dirty = True
    return scene


def half_merged():
    """An interrupted merge, which the next holder of the survivor's lock completes."""

    def stop(place):
        raise Interrupted

    for at in range(HALF_MERGED[0], 100):
        scene = Scene()
        AtLines((locator,), stop, at).run(lambda scene=scene: scene.c * scene.e)
        if any(graph.absorbing is not None for graph in scene.graphs()):
            HALF_MERGED[0] = at
            return scene
    raise AssertionError("no line of a merge left it half-done")


#: The line at which it was found to be half-done.
HALF_MERGED = [0]


def half_claimed():
    """An interrupted claim: committed, its nodes still in the registry."""

    def stop(place):
        raise Interrupted

    for at in range(HALF_CLAIMED[0], 200):
        scene = Scene()
        AtLines((engine, registry), stop, at).run(lambda scene=scene: scene.c.backward(ONE))
        nodes = scene.a._node.graph.nodes
        if any(node.claim is not None and node.claim.committed for node in nodes.values()):
            HALF_CLAIMED[0] = at
            return scene
    raise AssertionError("no line of a claim left it half-done")


HALF_CLAIMED = [0]


def consumed_in_a_merged_graph():
    """A consumed node names a graph that was merged away since."""
    scene = Scene()
    scene.gone = scene.d * 4.0
    sg.grad(scene.gone, [scene.d], [ONE])
    scene.joined = larger_than(scene, scene.e)
    assert scene.gone._node.graph.forward is not None
    return scene


def arrived_in_a_merged_graph():
    """A live node that was not counted when its graph was merged away, and still names that."""
    scene = Scene()
    scene.late = scene.d * 4.0
    scene.joined = larger_than(scene, scene.e)
    assert scene.late._node.graph.forward is not None
    return scene


def larger_than(scene, other):
    """Join the graph of ``other`` into the graph of ``scene.a``, which is made the larger."""
    scene.more = [scene.a * 2.0 for _ in range(8)]
    return scene.c * other


def two_tips():
    scene = Scene()
    scene.f = scene.a * 9.0
    return scene


def hooked_with_a_dead_leaf():
    scene = Scene()
    scene.hook = scene.c.register_hook(lambda gradient: None)
    scene.f = scene.leaf(1.0) * scene.c
    return scene


def hooked_leaf():
    scene = Scene()
    scene.hook = scene.x.register_hook(lambda gradient: None)
    return scene


def with_a_rule_that_gives_none():
    scene = Scene()
    result = sg.tensor([1.0])
    result._node = register_one(
        result, scene.a._node, Rule("gives none", lambda gradient: None), (), 0
    )
    scene.f = result
    return scene


class Queues:
    """A saved value; when it dies a drop is in the queue, as if by another thread."""

    def __init__(self, graph, node):
        self.graph, self.node = graph, node

    def __del__(self):
        self.graph.drops.append(self.node)


def with_a_value_that_queues():
    scene = Scene()
    result = sg.tensor([1.0])
    value = Queues(scene.a._node.graph, scene.a._node)
    rule = Rule("saving", lambda gradient, value: gradient)
    result._node = register_one(result, scene.a._node, rule, (value,), 0)
    scene.f = result
    return scene


class Meets(deque):
    """A queue of arrivals; another thread, as it were, acts right after the next append."""

    action = None

    def append(self, node):
        super().append(node)
        action, self.action = self.action, None
        if action is not None:
            action()


def met_by(action, others=0):
    """A scene in which the recording of one operation meets another thread's ``action(scene)``.

    The graph of ``d`` has so many more nodes.
    """

    def prepare():
        scene = Scene()
        scene.more = [scene.d * 2.0 for _ in range(others)]
        graph = scene.a._node.graph
        graph.arrivals = Meets(graph.arrivals)
        graph.arrivals.action = lambda: action(scene)
        return scene

    return prepare


class Overtaken(deque):
    """A queue to which another thread appends an item each time its length has been asked."""

    def __init__(self, items, late):
        super().__init__(items)
        self.late = late

    def __len__(self):
        length = super().__len__()
        if self.late:
            self.append(self.late.pop())
        return length


def with_a_child_that_arrives_before_the_marks():
    """The walk of a claim of the whole graph begins, and then a child of ``c`` arrives."""
    scene = Scene()
    scene.late = scene.c * 2.0
    graph = scene.a._node.graph
    late = [graph.arrivals.pop()]
    graph.arrivals = Overtaken(graph.arrivals, late)
    return scene


def with_children_that_arrive_while_others_are_counted():
    """Below an unavailable node: one that has arrived, and two, each a child of the one before."""
    scene = with_a_backlog()
    scene.l = scene.f * 5.0
    scene.m = scene.l * 1.0
    scene.n = scene.m * 1.0
    graph = scene.a._node.graph
    late = [graph.arrivals.pop(), graph.arrivals.pop()]
    graph.arrivals = Overtaken(graph.arrivals, late)
    return scene


def join_d_and_c(scene):
    scene.joined = scene.d * scene.c


def counted():
    """All nodes counted, and then one that has just arrived."""
    scene = Scene()
    scene.runtime.graph_cleanup(full=True)
    scene.f = scene.a * 9.0
    return scene


def arrived_under_a_queued_drop():
    """A dead node is in the queue, and a child of it has arrived that is not counted."""
    scene = Scene()
    scene.runtime.graph_cleanup(full=True)
    scene.f = scene.a * 2.0
    scene.runtime.graph_cleanup(full=True)
    node = scene.f._node
    scene.g = scene.f * 3.0
    del scene.f
    node.graph.drops.append(node)
    return scene


def consumed_part():
    """A consumed node in the graph of ``a``, which is still whole."""
    scene = Scene()
    scene.f = scene.a * 4.0
    scene.g = scene.a * 6.0
    sg.grad(scene.f, [scene.a], [ONE])
    return scene


def with_a_queued_value_that_queues():
    """A drop is in the queue; when what it saved dies, another one is."""
    scene = with_a_value_that_queues()
    with scene.a._node.graph.lock:
        del scene.f
    return scene


def with_a_backlog():
    """A trunk is consumed that has four children; one of them has a child, one has gone since."""
    scene = Scene()
    trunk = scene.a * 4.0
    scene.f, scene.g, scene.h, scene.gone = (trunk * 2.0 for _ in range(4))
    scene.i = scene.f * scene.a
    scene.j, scene.k = scene.g * 2.0, scene.g * 3.0
    sg.grad(trunk, [scene.a], [ONE])
    del scene.gone, trunk
    return scene


def with_one_child_below():
    scene = Scene()
    scene.f = scene.a * 4.0
    scene.g = scene.f * 2.0
    return scene


def with_many_children():
    scene = Scene()
    scene.fan = [scene.a * 4.0 for _ in range(40)]
    scene.runtime.memory_report()
    return scene


def with_many_unavailable():
    """They are in the backlog, and outnumber the nodes that are left when they go."""
    scene = Scene()
    scene.f = scene.a * 4.0
    scene.fan = [scene.f * 2.0 for _ in range(40)]
    scene.tip = sg.concatenate([scene.f * 2.0 for _ in range(40)])
    sg.grad(scene.f, [scene.a], [ONE])
    return scene


def with_a_child_recorded_since_the_sweep_began():
    scene = with_a_backlog_in_both()
    scene.newest = next_id()
    scene.l = scene.f * 5.0
    scene.runtime.memory_report()
    return scene


def sweep_a_piece(scene):
    graph = scene.a._node.graph
    return section.enter(graph, "graph_cleanup", sweeper._sweep_piece, scene.newest)


def sweep_a_piece_of_nothing(scene):
    """As where a backward has swept since the sweep began."""
    return section.enter(scene.a._node.graph, "graph_cleanup", sweeper._sweep_piece, next_id())


class Late:
    """A lock; while its next holder waited for it, two sweeps have come to their end."""

    def __init__(self, sweeper, lock):
        self.sweeper, self.lock = sweeper, lock

    def __enter__(self):
        self.lock.acquire()
        self.sweeper.sweeps += 2

    def __exit__(self, *error):
        self.lock.release()

    def locked(self):
        return self.lock.locked()


def sweep_after_two_others(scene):
    own = scene.runtime.sweeper
    shipped, scene.runtime.sweeper.lock = own.lock, Late(own, own.lock)
    try:
        scene.runtime.graph_cleanup()
    finally:
        own.lock = shipped


def with_a_backlog_in_both():
    """As above, and another sweep has begun; the other graph has one as well."""
    scene = with_a_backlog()
    section.enter(scene.a._node.graph, "graph_cleanup", sweeper._begin, False)
    return scene


def refused_for_two_runtimes(scene):
    with contextlib.suppress(sg.RuntimeMismatchError):
        sg.concatenate([scene.x, scene.w, GraphRuntime().tensor([1.0], requires_grad=True)])


def retained():
    """An earlier walk has marked the nodes."""
    scene = Scene()
    scene.c.backward(ONE, retain_graph=True)
    return scene


def checkpointed():
    scene = Scene()
    scene.f = sg.checkpoint(lambda a: a * scene.x, scene.a)
    return scene


def consumed_trunk():
    scene = Scene()
    scene.trunk = scene.x * 7.0
    scene.trunk.backward(ONE)
    return scene


def swept_and_one_more():
    """A backward through d's part pays for a sweep that takes the lost node."""
    scene = Scene()
    scene.runtime.graph_cleanup()
    scene.other = scene.d * 2.0
    return scene
