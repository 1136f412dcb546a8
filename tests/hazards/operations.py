"""One operation of each kind on a small scene, together reaching every line of the runtime.

No tests.  ``OPERATIONS`` maps a name to the scene that the operation needs and what it does
there.  An operation may be stopped anywhere; ``left_as_it_was`` says what must hold then.
"""

import numpy as np

import sweepgrad as sg
from graph.test_interrupts import ONE, Scene, gradient
from hazards.scenes import (
    arrived_in_a_merged_graph,
    arrived_under_a_queued_drop,
    checkpointed,
    consumed_in_a_merged_graph,
    consumed_part,
    consumed_trunk,
    counted,
    dirty_both,
    half_claimed,
    half_merged,
    hooked_leaf,
    hooked_with_a_dead_leaf,
    join_d_and_c,
    larger_right,
    met_by,
    refused_for_two_runtimes,
    retained,
    sweep_a_piece,
    sweep_a_piece_of_nothing,
    sweep_after_two_others,
    swept_and_one_more,
    two_tips,
    with_a_backlog,
    with_a_backlog_in_both,
    with_a_chain,
    with_a_child_recorded_since_the_sweep_began,
    with_a_child_that_arrives_before_the_marks,
    with_a_dirty_graph,
    with_a_queued_value_that_queues,
    with_a_rule_that_gives_none,
    with_a_third_graph,
    with_a_value_that_queues,
    with_children_that_arrive_while_others_are_counted,
    with_deferred_work,
    with_many_children,
    with_many_unavailable,
    with_one_child_below,
    with_queued_drops,
)
from sweepgrad.graph import (
    RegionRequest,
    engine,
    section,
)
from sweepgrad.sync import NATIVE


def drop(scene, *names):
    for name in names:
        delattr(scene, name)


def under_the_lock(scene, *names):
    """Drop while another thread holds the lock, or so it looks from here."""
    with scene.a._node.graph.lock:
        drop(scene, *names)


def inside_a_section(scene, action):
    """As a finalizer does that a collection runs inside a critical section of this thread."""
    state = NATIVE.threads.state
    try:
        state.section = scene
        return action()
    finally:
        state.section = None


def update_that_meets_another(scene):
    """Another thread's assignment comes between the look and the swap, the first time."""
    calls = []

    def function(array):
        if not calls:
            scene.w.assign([3.0])
        calls.append(1)
        return array + 0.0

    scene.w.update(function)


def join_what_is_joined(scene):
    """As for the later of two threads that join the same two graphs."""
    return section.join(scene.runtime.locator, NATIVE.threads.state, scene.a._node, scene.c._node)


#: Operation to the scene it needs and what it does there.
OPERATIONS = {
    "one operand": (Scene, lambda s: s.a * 3.0),
    "two operands of one graph": (Scene, lambda s: s.a * s.c),
    "two operands, one of them a leaf": (Scene, lambda s: s.a * s.x),
    "two operands, a leaf first": (Scene, lambda s: s.x * s.a),
    "start a graph": (Scene, lambda s: s.x * s.w),
    "start a graph of many leaves": (Scene, lambda s: sg.concatenate([s.x, s.w, s.x])),
    "many operands": (with_a_third_graph, lambda s: sg.concatenate([s.x, s.c, s.e, s.third])),
    "join into the left": (Scene, lambda s: s.c * s.e),
    "join into the right": (larger_right, lambda s: s.c * s.e),
    "join in falling serial": (Scene, lambda s: s.e * s.c),
    "join what is joined": (Scene, join_what_is_joined),
    "join dirty graphs": (dirty_both, lambda s: s.c * s.e),
    "on a dirty graph": (with_a_dirty_graph, lambda s: s.a * 3.0),
    "two operands of a dirty graph": (with_a_dirty_graph, lambda s: s.a * s.c),
    "two tips": (two_tips, lambda s: s.c * s.f),
    "on a consumed operand": (consumed_trunk, lambda s: s.trunk * 2.0),
    "settle queued drops": (with_queued_drops, lambda s: s.a * 2.0),
    "settle queued drops with two operands": (with_queued_drops, lambda s: s.a * s.c),
    "settle by a drop": (with_queued_drops, lambda s: drop(s, "c")),
    "do deferred work": (with_deferred_work, lambda s: s.a * 2.0),
    "do deferred work after a drop": (with_deferred_work, lambda s: drop(s, "e")),
    "complete a merge": (half_merged, lambda s: s.c.backward(ONE, retain_graph=True)),
    "complete a merge from the other side": (
        half_merged,
        lambda s: s.e.backward(ONE, retain_graph=True),
    ),
    "meet a claim": (met_by(lambda s: s.c.backward(ONE, retain_graph=True)), lambda s: s.a * 3.0),
    "meet a claim with two operands": (
        met_by(lambda s: s.c.backward(ONE, retain_graph=True)),
        lambda s: s.a * s.c,
    ),
    "meet a merge": (met_by(join_d_and_c), lambda s: s.a * 3.0),
    "meet a merge into the other": (met_by(join_d_and_c, others=8), lambda s: s.a * 3.0),
    "two operands after a retaining backward": (retained, lambda s: s.a * s.c),
    "a consumed operand and another": (consumed_part, lambda s: s.f * s.g),
    "operands of two runtimes": (Scene, refused_for_two_runtimes),
    "complete a merge by a drop": (half_merged, lambda s: drop(s, "e")),
    "drop a tip": (Scene, lambda s: drop(s, "c")),
    "drop what has just arrived": (counted, lambda s: drop(s, "f")),
    "settle a drop with an arrival under it": (
        arrived_under_a_queued_drop,
        lambda s: section.settle(NATIVE.threads.state, s.a._node.graph),
    ),
    "drop with an arrival under another": (arrived_under_a_queued_drop, lambda s: drop(s, "c")),
    "drop a chain": (with_a_chain, lambda s: drop(s, "chain")),
    "drop a trunk": (Scene, lambda s: drop(s, "a", "c")),
    "drop in a dirty graph": (with_a_dirty_graph, lambda s: drop(s, "c")),
    "drop while the lock is held": (Scene, lambda s: under_the_lock(s, "c")),
    "drop inside a section": (Scene, lambda s: inside_a_section(s, lambda: drop(s, "c"))),
    "drop a consumed handle": (consumed_in_a_merged_graph, lambda s: drop(s, "gone")),
    "drop what arrived in a merged graph": (arrived_in_a_merged_graph, lambda s: drop(s, "late")),
    "drop before there is a graph": (Scene, lambda s: section.on_drop(s.leaf(1.0)._node)),
    "drop beside another": (with_a_value_that_queues, lambda s: drop(s, "f")),
    "drop a leaf": (with_a_third_graph, lambda s: drop(s, "third", "z")),
    "backward": (Scene, lambda s: s.c.backward(ONE)),
    "backward after a claim was interrupted": (half_claimed, lambda s: s.a * 2.0),
    "backward after a retaining one": (retained, lambda s: s.c.backward(ONE)),
    "backward with hooks": (hooked_with_a_dead_leaf, lambda s: s.f.backward(ONE)),
    "backward of a hooked leaf": (hooked_leaf, lambda s: s.x.backward(ONE)),
    "backward through a rule that gives none": (
        with_a_rule_that_gives_none,
        lambda s: s.f.backward(ONE),
    ),
    "backward through a checkpoint": (checkpointed, lambda s: s.f.backward(ONE)),
    "backward through a region with bounds inside the graph": (
        Scene,
        lambda s: engine.backward(
            RegionRequest([(s.c._node, np.ones(1))], frozenset([s.a._node, s.d._node]))
        ),
    ),
    "backward that drains": (
        with_queued_drops,
        lambda s: s.c.backward(ONE, retain_graph=True),
    ),
    "on a consumed operand of a merged graph": (
        consumed_in_a_merged_graph,
        lambda s: (s.gone * 2.0, s.gone * s.c),
    ),
    "backward that drains what queues another": (
        with_a_queued_value_that_queues,
        lambda s: s.c.backward(ONE, retain_graph=True),
    ),
    "backward through a part": (swept_and_one_more, lambda s: s.e.backward(ONE)),
    "retaining backward": (Scene, lambda s: s.c.backward(ONE, retain_graph=True)),
    "gradient of an inner node": (Scene, lambda s: sg.grad(s.c, [s.a], [ONE])),
    "gradient of two roots": (Scene, lambda s: sg.grad([s.c, s.e], [s.x], [ONE, ONE])),
    "backward of a leaf": (Scene, lambda s: s.x.backward(ONE)),
    "sweep": (Scene, lambda s: s.runtime.graph_cleanup()),
    "full sweep": (Scene, lambda s: s.runtime.graph_cleanup(full=True)),
    "sweep what is below a part": (with_a_backlog, lambda s: s.runtime.graph_cleanup()),
    "full sweep in the middle of a sweep": (
        with_a_backlog_in_both,
        lambda s: s.runtime.graph_cleanup(full=True),
    ),
    "drop most of many children": (with_many_children, lambda s: s.fan.clear()),
    "drop what is unavailable": (with_many_unavailable, lambda s: s.fan.clear()),
    "drop all that is unavailable": (with_many_unavailable, lambda s: drop(s, "fan", "tip")),
    "sweep after two others": (Scene, sweep_after_two_others),
    "sweep what others overtake": (
        with_children_that_arrive_while_others_are_counted,
        lambda s: s.runtime.graph_cleanup(),
    ),
    "sweep a piece": (with_a_child_recorded_since_the_sweep_began, sweep_a_piece),
    "sweep a piece of nothing": (Scene, sweep_a_piece_of_nothing),
    "consume what has one child": (with_one_child_below, lambda s: sg.grad(s.f, [s.a], [ONE])),
    "backward that a child overtakes": (
        with_a_child_that_arrives_before_the_marks,
        lambda s: s.c.backward(ONE),
    ),
    "join graphs with backlogs": (with_a_backlog_in_both, lambda s: s.a * s.d),
    "consume a part": (with_a_backlog, lambda s: sg.grad([s.c, s.a * 9.0], [s.a], [ONE, ONE])),
    "sweep inside a section": (
        Scene,
        lambda s: inside_a_section(s, s.runtime.graph_cleanup),
    ),
    "report": (Scene, lambda s: s.runtime.memory_report()),
    "make a leaf": (Scene, lambda s: s.leaf(1.0)),
    "update": (Scene, lambda s: s.w.update(lambda a: a + 0.0)),
    "update that meets another": (Scene, update_that_meets_another),
    "update that does deferred work": (
        with_deferred_work,
        lambda s: s.w.update(lambda a: a + 0.0),
    ),
    "assign": (Scene, lambda s: s.w.assign([3.0])),
}


def left_as_it_was(scene, _=None):
    """The tips that were not dropped give the right gradients, or have been consumed whole."""
    expected = {"c": [72.0, 48.0], "e": [1.0, 5.0]}
    for name, values in expected.items():
        tip = getattr(scene, name, None)
        if tip is None:
            continue
        try:
            assert gradient(tip, scene.x, scene.w) == values
        except sg.GraphConsumedError:
            assert tip._node.saved == ()
