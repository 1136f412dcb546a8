"""A full sweep frees what was unavailable when it began, on every schedule, also beside interrupts.

Each scenario refuted that once.
"""

import functools

import pytest

import sweepgrad as sg
from sweepgrad.explore import PCT, explore
from sweepgrad.graph import sweeper
from sweepgrad.graph.node import UNAVAILABLE

SHIPPED_PIECE = sweeper._PIECE


class Scene:
    """``heads`` are unavailable, their trunk consumed; ``large`` is a graph with more nodes."""

    def __init__(self):
        self.w = sg.tensor([1.0], requires_grad=True)
        self.large = [self.w * 1.0]
        self.large.extend([self.large[0] * 1.0 for _ in range(4)])
        self.trunk = self.w * 2.0
        self.heads = [self.trunk * 3.0 for _ in range(2)]
        self.made = []

    def consume(self):
        self.trunk.backward([1.0])

    def join(self):
        self.made.append(self.large[0] * self.heads[1])

    def sweep(self):
        """A node a piece; then every head must have been found."""
        sweeper._PIECE = 1
        try:
            sg.graph_cleanup()
        finally:  # also in a run that is given up
            sweeper._PIECE = SHIPPED_PIECE
        left = [head for head in self.heads if head._node.claim is not UNAVAILABLE]
        assert not left, f"a sweep returned and left {len(left)} nodes"


def joined_beside(m):
    scene = Scene()
    scene.consume()
    m.spawn(scene.sweep, name="sweep")
    m.spawn(scene.join, name="join")


def joined_to_a_graph_that_starts(m):
    scene = Scene()
    scene.consume()

    def join():
        scene.large = [scene.w * 1.0]
        scene.large.extend([scene.large[0] * 1.0 for _ in range(4)])
        scene.join()

    m.spawn(scene.sweep, name="sweep")
    m.spawn(join, name="join")


def join_interrupted_beside(m):
    scene = Scene()
    scene.consume()
    m.spawn(scene.sweep, name="sweep")
    m.interrupt(m.spawn(scene.join, name="join"))


def join_of_two_with_work_interrupted_beside(m):
    scene = Scene()
    scene.consume()
    other = scene.large[0] * 5.0
    scene.more = [other * 7.0 for _ in range(2)]

    def work():
        sg.grad(other, [scene.large[0]], [[1.0]])
        scene.join()

    m.spawn(scene.sweep, name="sweep")
    m.interrupt(m.spawn(work, name="join"))


def repaired_beside(m):
    """The graph is as an interrupted holder leaves it; somebody repairs it as the sweep looks."""
    scene = Scene()
    scene.consume()
    scene.trunk._node.graph.dirty = True
    m.spawn(scene.sweep, name="sweep")
    m.spawn(sg.memory_report, name="report")


def operation_interrupted_beside_a_claim(m):
    """Its exception, and with it the frames that hold the new tensor, is kept."""
    scene = Scene()
    scene.heads.clear()  # nothing else gives a sweep a reason to look at the graph
    caught = []

    def operate():
        try:
            scene.made.append(scene.trunk * scene.trunk)
        except KeyboardInterrupt as error:
            caught.append(error)
            raise

    m.interrupt(m.spawn(operate))
    m.spawn(scene.consume, name="backward")

    def check():
        sg.graph_cleanup()
        graph = scene.trunk._node.graph
        assert graph.size() == 0, f"{graph.size()} nodes left: {graph.arrivals} {caught}"

    m.check(check)


def chain_recorded_beside_a_claim(m):
    """Arrivals that come while others are counted; nobody counts them later but a sweep."""
    scene = Scene()
    scene.heads.clear()
    sg.memory_report()

    def record():
        tip = scene.trunk
        for _ in range(4):
            tip = tip * 1.0
            scene.made.append(tip)

    m.spawn(record)
    m.spawn(scene.consume, name="backward")

    def check():
        sg.graph_cleanup()
        graph = scene.trunk._node.graph
        assert graph.size() == 0, f"{graph.size()} nodes left: {graph.arrivals}"

    m.check(check)


SCENARIOS = [
    chain_recorded_beside_a_claim,
    joined_beside,
    joined_to_a_graph_that_starts,
    join_interrupted_beside,
    join_of_two_with_work_interrupted_beside,
    repaired_beside,
    operation_interrupted_beside_a_claim,
]

#: Two threads without a merge are exhausted at two in a second.
MORE = {
    chain_recorded_beside_a_claim: 3,
    operation_interrupted_beside_a_claim: 2,
    repaired_beside: 2,
}

#: A finalizer that is interrupted leaves its drop to the next holder, so nobody is at rest.
explored = functools.partial(explore, check_runtime=False)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_nothing_is_left_at_few_preemptions(scenario):
    report = explored(scenario, preemptions=MORE.get(scenario, 1))

    assert report.exhausted


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_nothing_is_left_in_three_hundred_pct_schedules_with_all_fields_watched(scenario):
    assert explored(scenario, policy=PCT(depth=3, schedules=300, seed=5), deep=True)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_nothing_is_left_at_two_preemptions(scenario):
    report = explored(scenario, preemptions=2, seconds=600)

    assert report.exhausted


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_nothing_is_left_in_fifty_thousand_pct_schedules_with_all_fields_watched(scenario):
    assert explored(scenario, policy=PCT(depth=3, schedules=50_000, seed=6), deep=True)
