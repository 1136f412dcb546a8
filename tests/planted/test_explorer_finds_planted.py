"""The explorer finds each planted fault, says what kind it is, and finds nothing in its absence."""

import pytest
from faults import FAULTS

import sweepgrad as sg
from support import worlds
from sweepgrad.explore import PCT, explore, replay


class Cycle:
    """Garbage that only a collection finds, with a tensor in it."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.me = self


def pair(*actions):
    return worlds.scenario_of(actions, worlds.sequential(actions))


def collected():
    """A collection that drops a tensor at any step of an operation of the same thread."""

    def scenario(m):
        world = worlds.World()

        def work():
            Cycle(world.trunk * 2.0)
            world.trunk * 3.0

        m.collect(m.spawn(work))

    return scenario


def parent_and_child_dropped():
    def scenario(m):
        world = worlds.World()
        world.middle = world.tips[0]
        world.top = world.middle * 2.0
        world.tips = []

        def drop_middle():
            world.middle = None

        def drop_top():
            world.top = None

        m.spawn(drop_middle)
        m.spawn(drop_top)

    return scenario


def forked():
    def scenario(m):
        world = worlds.World()

        def child():
            worlds.backward(world)
            sg.graph_cleanup()

        m.fork(m.spawn(worlds.drop_tip, world, name="forks"), child)
        m.spawn(worlds.operate, world)

    return scenario


#: Fault: the scenario that shows it, the kind of failure, and a word of its message.
SHOWN_BY = {
    "directory_under_graph": (
        lambda: pair(worlds.cleanup, worlds.join),
        "deadlock",
        "cleanup -> join",
    ),
    "locks_in_order_of_arrival": (
        lambda: pair(worlds.join, worlds.join_back),
        "deadlock",
        "join -> join_back",
    ),
    "rules_under_the_lock": (
        lambda: pair(worlds.backward_nested, worlds.operate),
        "exception",
        "ReentrantCallError",
    ),
    "finalizer_waits_for_the_lock": (collected, "deadlock", "work -> work"),
    "drop_tries_before_it_appends": (
        lambda: pair(worlds.drop_tip, worlds.operate),
        "invariant",
        "1 pending drops",
    ),
    "holder_looks_before_it_counts": (parent_and_child_dropped, "invariant", "dead nodes"),
    "drops_move_before_the_forwarding": (
        lambda: pair(worlds.join, worlds.drop_side_loss),
        "invariant",
        "dead nodes",
    ),
    "claim_in_two_steps": (
        lambda: pair(worlds.backward, worlds.backward),
        "exception",
        "has no attribute 'backward'",
    ),
    "rule_looked_at_twice": (
        lambda: pair(worlds.backward_of_loss, worlds.backward_of_other_loss),
        "exception",
        "has no attribute 'name'",
    ),
    "count_outside_the_lock": (
        lambda: pair(worlds.operate, worlds.operate),
        "invariant",
        "children of",
    ),
    "registered_in_a_merged_graph": (
        lambda: pair(worlds.operate, worlds.join),
        "invariant",
        "pending drops",
    ),
    "locks_kept_in_a_forked_child": (forked, "exception", "in the forked process"),
}


def test_every_planted_fault_has_a_scenario():
    assert SHOWN_BY.keys() == FAULTS.keys()


@pytest.mark.parametrize("name", SHOWN_BY)
def test_the_fault_is_found_and_its_token_replays(name):
    make, kind, words = SHOWN_BY[name]
    scenario = make()

    with FAULTS[name]():
        report = explore(scenario, raises=False)

        assert report.failure is not None, f"missed:\n{report}"
        assert (report.failure.kind, words in report.failure.message) == (kind, True), report
        again = replay(scenario, report.failure.token, raises=False)
    assert again.steps == report.failure.steps


@pytest.mark.parametrize("name", SHOWN_BY)
def test_the_shipped_code_passes_where_the_fault_is_found(name):
    scenario = SHOWN_BY[name][0]()

    # A fork costs as much as a hundred schedules.
    report = explore(scenario, schedules=40 if name == "locks_kept_in_a_forked_child" else None)

    assert report.schedules >= 2


@pytest.mark.parametrize("name", SHOWN_BY)
def test_the_fault_is_found_by_chance_as_well(name):
    """PCT with depth 3 and at most 3,000 runs, whatever the seed (checked for one)."""
    scenario = SHOWN_BY[name][0]()

    with FAULTS[name]():
        report = explore(scenario, policy=PCT(3, 3000, seed=1), raises=False)

    assert report.failure is not None, f"missed:\n{report}"
