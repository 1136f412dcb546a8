"""check_valid() finds every kind of contradiction: each derived field is broken on purpose."""

import pytest

import sweepgrad as sg
from sweepgrad.graph import GraphRuntime
from sweepgrad.graph.locator import Graph
from sweepgrad.graph.node import Claim


class Scene:
    """x -> a -> (b, c), one graph; the handles of a, b and c live."""

    def __init__(self):
        self.runtime = GraphRuntime()
        self.x = self.runtime.tensor([1.0], requires_grad=True)
        self.a = self.x * self.x
        self.b = self.a * self.a
        self.c = self.a * 3.0
        self.graph = self.a._node.graph
        self.runtime.check_valid()


@pytest.fixture
def scene():
    return Scene()


def one_child_too_many(s):
    s.a._node.children += 1


def one_child_too_few(s):
    s.a._node.children -= 1


def a_child_of_a_tip(s):
    s.b._node.children = 1


def a_child_not_below(s):
    s.a._node.below = [s.b._node.id]


def a_child_below_the_wrong_node(s):
    s.a._node.below.append(s.a._node.id)


def an_unavailable_node_not_in_the_backlog(s):
    s.more = [s.a * 5.0, s.a * 7.0]  # so that the backward does not pay for a sweep
    s.runtime.check_valid()
    s.b.backward([1.0])
    assert len(s.graph.nodes) == 3
    s.runtime.check_valid()
    s.graph.backlog = None


def one_tip_too_many(s):
    s.graph.tips += 1


def one_tip_too_few(s):
    s.graph.tips -= 1


def bytes_too_many(s):
    s.graph.saved_bytes += 1


def bytes_too_few(s):
    s.graph.saved_bytes -= 8


def bytes_of_a_node(s):
    s.b._node.nbytes += 8


def left_dirty(s):
    s.graph.dirty = True


def left_absorbing(s):
    s.graph.absorbing = Graph(s.runtime)


def under_another_key(s):
    s.graph.nodes[10**9] = s.graph.nodes.pop(s.b._node.id)


def a_record_of_another_graph(s):
    s.b._node.graph = Graph(s.runtime)


def a_record_lost(s):
    s.graph.nodes.pop(s.a._node.id)


def a_tip_lost(s):
    node = s.graph.nodes.pop(s.c._node.id)
    s.graph.saved_bytes -= node.nbytes


def a_consumed_node_still_recorded(s):
    s.b._node.claim = Claim("test", committed=True)


def a_dead_node_still_recorded(s):
    """As if the finalizer had lost the drop."""
    s.graph.lock.acquire()
    del s.c
    s.graph.drops.clear()
    s.graph.lock.release()


CORRUPTIONS = [
    (one_child_too_many, "children of"),
    (one_child_too_few, "children of"),
    (a_child_of_a_tip, "children of"),
    (a_child_not_below, "what is below"),
    (a_child_below_the_wrong_node, "what is below"),
    (an_unavailable_node_not_in_the_backlog, "in the backlog"),
    (one_tip_too_many, "tips"),
    (one_tip_too_few, "tips"),
    (bytes_too_many, "saved bytes"),
    (bytes_too_few, "saved bytes"),
    (bytes_of_a_node, "saved bytes"),
    (left_dirty, "dirty"),
    (left_absorbing, "absorbing"),
    (under_another_key, "key of"),
    (a_record_of_another_graph, "graph of"),
    (a_record_lost, "left the registry consumed"),
    (a_tip_lost, "children of"),
    (a_consumed_node_still_recorded, "is consumed"),
    (a_dead_node_still_recorded, "dead nodes"),
]


@pytest.mark.parametrize(
    ("corrupt", "what"), CORRUPTIONS, ids=[corrupt.__name__ for corrupt, _ in CORRUPTIONS]
)
def test_a_corruption_is_found_and_named(corrupt, what, scene):
    corrupt(scene)
    with pytest.raises(sg.InvariantError, match=what):
        scene.runtime.check_valid()


def test_the_corruptions_cover_every_derived_field():
    """A field added to a graph or registry must be corrupted above or be named here."""
    from sweepgrad.graph.registry import NodeRegistry

    corrupted = {"nodes", "tips", "saved_bytes", "dirty", "absorbing", "backlog"}
    # Not derived: identity, wiring, the queues (checked through dead nodes), the forwarding
    # (a graph that has one is not listed) and the credit, which counts what has been.
    others = {
        "serial",
        "lock",
        "runtime",
        "threads",
        "drops",
        "arrivals",
        "forward",
        "credit",
        "__weakref__",
    }
    assert corrupted | others == {*Graph.__slots__, *NodeRegistry.__slots__}


@pytest.mark.parametrize(
    "corrupt",
    [
        one_child_too_many,
        one_child_too_few,
        a_child_of_a_tip,
        one_tip_too_many,
        bytes_too_few,
        a_dead_node_still_recorded,
    ],
)
def test_a_full_sweep_repairs_what_is_derived(corrupt, scene):
    corrupt(scene)
    scene.runtime.graph_cleanup(full=True)
    scene.runtime.check_valid()
    kept = [t for t in ("a", "b", "c") if hasattr(scene, t)]
    assert scene.runtime.memory_report().nodes == len(kept)
    assert scene.b.backward([1.0])[scene.x].tolist() == [4.0]


@pytest.mark.parametrize(
    "corrupt", [one_child_too_many, one_child_too_few, one_tip_too_many, bytes_too_few]
)
def test_a_dirty_graph_is_repaired_at_the_next_touch(corrupt, scene):
    corrupt(scene)
    scene.graph.dirty = True
    d = scene.a * 7.0
    assert scene.graph.dirty, "recording takes no lock"
    scene.runtime.memory_report()
    scene.runtime.check_valid()
    assert d.backward([1.0])[scene.x].tolist() == [14.0]


def test_the_two_answers_to_what_is_alive_are_independent(scene):
    """Marking reads no count: breaking the counts does not change its answer."""
    assert scene.graph.dead() == []
    for node in scene.graph.nodes.values():
        node.children = 5
    scene.graph.tips = -1
    assert scene.graph.dead() == []


def test_queued_drops_are_no_contradiction(scene):
    """Between a drop and its drain a dead node is expected."""
    node = scene.c._node
    scene.graph.lock.acquire()
    del scene.c
    assert list(scene.graph.drops) == [node]
    scene.graph.lock.release()
    scene.runtime.check_valid()
    assert scene.runtime.memory_report().pending_drops == 1
    del node
    scene.x * 1.0  # an unrelated graph does not touch it
    assert scene.runtime.memory_report().pending_drops == 1
    scene.a * 1.0
    assert scene.runtime.memory_report().pending_drops == 0
    assert scene.runtime.memory_report().nodes == 2
