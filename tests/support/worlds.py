"""The operations that are run against each other, on a small world that every thread shares.

Outcomes are compared with sequential execution: whatever order of threads the
explorer chooses, each thread must get what some one-after-the-other order gives
it, and the graphs left behind must be those of that same order.
"""

import gc
import itertools

import numpy as np

import sweepgrad as sg
from support.ruled import with_rule
from sweepgrad.explore import yield_point
from sweepgrad.graph.locator import find


class World:
    """w = 2 is a leaf; trunk = w w and side = 3 w are in two graphs, third = 7 w in another.

    Tips and losses hang on the trunk and on side; each handle is held here alone.
    """

    def __init__(self):
        self.w = sg.tensor([2.0], requires_grad=True)
        self.trunk = self.w * self.w
        self.side = self.w * 3.0
        self.third = self.w * 7.0
        self.tips = [self.trunk * 5.0, self.trunk * 6.0]
        self.losses = [self.trunk * 11.0, self.side * 13.0, self.trunk * 12.0]


def gradient(tensor, world, **options):
    """d tensor / d w as bytes, so that comparisons are bitwise; or the error's name."""
    try:
        return tensor.backward(**options)[world.w].tobytes()
    except sg.GraphConsumedError:
        return "consumed"


def create(world):
    return gradient(world.w * 17.0, world)


def operate(world):
    kept = world.trunk * 2.0
    world.tips.append(kept)
    return kept.numpy().tobytes()


def operate_on_side_loss(world):
    """On a node that has arrived and is not counted yet."""
    loss = world.losses[1]
    if loss is None:
        return "gone"
    kept = loss * 2.0
    world.tips.append(kept)
    return kept.numpy().tobytes()


def operate_and_drop(world):
    return (world.trunk * 2.0).numpy().tobytes()


def product(one, other):
    """The product, which joins the graphs of both; ``gone`` if one was dropped already."""
    return "gone" if one is None or other is None else (one * other).numpy().tobytes()


def join(world):
    return product(world.trunk, world.side)


def join_side_loss(world):
    """As :func:`join`, by a node that has arrived and is not counted yet."""
    return product(world.trunk, world.losses[1])


def join_back(world):
    return product(world.side, world.trunk)


def join_side_third(world):
    return product(world.side, world.third)


def join_third_trunk(world):
    return product(world.third, world.trunk)


def join_and_keep(world):
    world.tips.append(world.third * world.trunk)


def drop_tip(world):
    world.tips.pop(0)


def drop_loss(world):
    world.losses[0] = None


def drop_side_loss(world):
    world.losses[1] = None


def drop_all_of_side(world):
    world.losses[1] = None
    yield_point(world)
    world.side = None


def backward(world):
    return gradient(world.trunk * 19.0, world)


def backward_of_loss(world):
    """As two threads do that share a trunk and have computed their losses already."""
    loss = world.losses[0]
    return "gone" if loss is None else gradient(loss, world)


def backward_of_other_loss(world):
    return gradient(world.losses[2], world)


def backward_of_side(world):
    side = world.side
    return "gone" if side is None else gradient(side * 19.0, world)


def backward_retained(world):
    return gradient(world.trunk * 23.0, world, retain_graph=True)


def backward_joined(world):
    return gradient(world.trunk * world.third, world)


def backward_nested(world):
    """A rule that back-propagates through another graph, which it shares with other threads."""

    def rule(g):
        inner = gradient(world.trunk * 29.0, world)
        return g * (np.frombuffer(inner)[0] if inner != "consumed" else 0.0)

    return gradient(with_rule(world.third, rule), world)


def cleanup(world):
    sg.graph_cleanup()


def cleanup_full(world):
    """Looks at every graph, also at those that no backward has visited."""
    sg.graph_cleanup(full=True)


def report(world):
    found = sg.memory_report()
    assert found.nodes >= 0
    assert found.leaves >= 1


def assign(world):
    world.w.assign([3.0])


def update(world):
    world.w.update(lambda a: a + 1.0)


OPERATIONS = {
    action.__name__: action
    for action in (
        create,
        operate,
        operate_on_side_loss,
        operate_and_drop,
        join,
        join_side_loss,
        join_back,
        join_side_third,
        join_third_trunk,
        join_and_keep,
        drop_tip,
        drop_loss,
        drop_side_loss,
        drop_all_of_side,
        backward,
        backward_of_loss,
        backward_of_other_loss,
        backward_of_side,
        backward_retained,
        backward_joined,
        backward_nested,
        cleanup,
        cleanup_full,
        report,
        update,
    )
}


def state(world):
    """What is left: which tensors are tracked where, what a sweep leaves, and the parameter."""
    sg.graph_cleanup()
    report = sg.memory_report()
    kept = [world.trunk, world.side, world.third, *world.tips, *world.losses]
    graphs = [find(t._node) if t is not None else None for t in kept]
    together = tuple(tuple(i for i, g in enumerate(graphs) if g is graph) for graph in graphs)
    assert report.pending_drops == 0
    return left_of(report), together, world.w.numpy().tobytes()


def left_of(report):
    return report.graphs, report.nodes, report.leaves, report.tips, report.saved_bytes


def sequential(actions):
    """The outcomes of every one-after-the-other order, on the native runtime."""
    outcomes = set()
    for order in itertools.permutations(range(len(actions))):
        # What other tests' modules keep alive is no part of this world.
        gc.collect()
        sg.graph_cleanup()
        before = left_of(sg.memory_report())
        world = World()
        results = [None] * len(actions)
        for index in order:
            results[index] = actions[index](world)
        after, *rest = state(world)
        left = tuple(now - earlier for now, earlier in zip(after, before, strict=True))
        outcomes.add((tuple(results), (left, *rest)))
        del world
    return outcomes


def scenario_of(actions, allowed):
    """Each action in a thread of its own; the outcome must be a sequential one."""

    def scenario(m):
        world = World()
        results = [None] * len(actions)

        def run(index):
            yield_point(world)  # what an action does with the world's handles first
            results[index] = actions[index](world)

        for index, action in enumerate(actions):
            m.spawn(run, index, name=action.__name__)

        def check():
            found = (tuple(results), state(world))
            assert found in allowed, f"{found} is none of the sequential outcomes {allowed}"

        m.check(check)

    scenario.__qualname__ = " | ".join(action.__name__ for action in actions)
    return scenario
