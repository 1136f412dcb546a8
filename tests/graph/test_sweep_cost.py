"""A full sweep costs what it frees, and holds no lock for long."""

import sys

import pytest

import sweepgrad as sg
from sweepgrad.graph import GraphRuntime, sweeper
from sweepgrad.graph.registry import NodeRegistry
from sweepgrad.graph.section import enter


def chain(leaf, length):
    """The tip of a chain; its handle keeps the nodes alive."""
    tip = leaf * 1.0
    for _ in range(length - 1):
        tip = tip * 1.0
    return tip


def garbage(leaf, count):
    """``count`` unavailable nodes with live handles: their trunk is consumed."""
    trunk = leaf * 2.0
    kept = [trunk * 3.0 for _ in range(count)]
    more = [trunk * 4.0 for _ in range(2 * count)]  # so that the backward does not pay for a sweep
    trunk.backward([1.0])
    return kept + more


def calls_of(function):
    """The result, and how many functions of Python and C it called."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        result = function()
    finally:
        sys.setprofile(None)
    return result, calls


def sweep_beside(live):
    """The report and the calls of a sweep of 30 nodes beside a graph with ``live`` others."""
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    beside = chain(leaf, live)
    runtime.memory_report()  # what arrived is counted once, by whoever comes first
    kept = garbage(leaf, 10)
    report, calls = calls_of(runtime.graph_cleanup)
    assert (beside.numpy(), len(kept)) == ([1.0], 30)
    return report, calls


def test_a_sweep_makes_the_same_calls_beside_few_and_beside_many_live_nodes():
    sweep_beside(5)  # the first in a process makes calls of its own
    few, calls_beside_few = sweep_beside(5)
    many, calls_beside_many = sweep_beside(5_000)

    assert (few.nodes_freed, few.nodes_left, few.graphs_left) == (30, 5, 1)
    assert (many.nodes_freed, many.nodes_left, many.graphs_left) == (30, 5_000, 1)
    assert calls_beside_few == calls_beside_many


def test_a_second_sweep_has_nothing_to_look_at():
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    kept = garbage(leaf, 100)
    first, calls_of_first = calls_of(runtime.graph_cleanup)
    second, calls_of_second = calls_of(runtime.graph_cleanup)

    assert (first.nodes_freed, second.nodes_freed, len(kept)) == (300, 0, 300)
    assert calls_of_second < calls_of_first / 10


@pytest.mark.parametrize("full", [False, True])
def test_a_sweep_lets_go_of_the_lock_after_each_piece(monkeypatch, full):
    """A thousand nodes at most are looked at in one critical section of the default sweep."""
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    kept = garbage(leaf, 1_000)
    pieces = []
    shipped = sweeper._sweep_piece

    def noted(graph, trash, piece, paid):
        pieces.append((len(piece), paid > 0))
        return shipped(graph, trash, piece, paid)

    monkeypatch.setattr(sweeper, "_sweep_piece", noted)
    report = runtime.graph_cleanup(full)

    assert (report.nodes_freed, report.nodes_left, len(kept)) == (3_000, 0, 3_000)
    assert pieces == [(1_000, False), (1_000, False), (1_000, True)]
    runtime.check_valid()


def test_what_dies_without_its_finalizer_is_found_by_a_full_sweep_alone():
    """As if an interrupt had come before the first step of the finalizer."""
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    trunk = leaf * 2.0
    lost = trunk * 3.0
    node = lost._node
    node.expecting = True  # makes its finalizer believe that a child keeps it
    del lost
    node.expecting = False

    assert runtime.graph_cleanup().nodes_freed == 0
    assert runtime.graph_cleanup(full=True).nodes_freed == 1
    assert trunk.backward([1.0])[leaf].tolist() == [2.0]


def test_the_default_cleanup_takes_full_as_well():
    assert sg.graph_cleanup(full=True).deferred is False


def test_a_child_that_comes_too_late_is_added_up_before_it_is_forgotten(monkeypatch):
    """Or a report from another thread, in between, would see one tip less than there is.

    The state machine on real threads found it on a build without a GIL: -1 tips.
    """
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    trunk = leaf * 2.0
    (trunk * 3.0).backward([1.0])
    seen = []
    shipped = NodeRegistry._forget_unavailable

    def looked_at(registry, *rest):
        seen.append((registry.tips, registry.saved_bytes))
        return shipped(registry, *rest)

    monkeypatch.setattr(NodeRegistry, "_forget_unavailable", looked_at)
    late = trunk * trunk

    assert seen == [(1, late._node.nbytes)]
    report = runtime.memory_report()
    assert (report.tips, report.saved_bytes, report.nodes) == (0, 0, 0)


def test_a_sweep_in_pieces_leaves_what_claims_pay_after_a_sweep_that_came_between():
    """1. A full sweep begins, paid by 5 claimed nodes.  2. A backward claims 2 and sweeps.
    3. Another claims 5.  4. The full sweep ends: the graph must be looked at again.
    """
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    tip = chain(leaf, 6)
    runtime.memory_report()
    graph = tip._node.graph

    def steps(graph, garbage):
        graph.credit = 5
        _, paid, _, _ = sweeper._begin(graph, garbage, False)
        sweeper.sweep_with_backward(graph, garbage, 2)
        assert graph.credit == graph.spent
        sweeper.sweep_with_backward(graph, garbage, 5)
        sweeper._sweep_piece(graph, garbage, [], paid)
        return graph.credit - graph.spent

    assert enter(graph, "a test", steps) == 5
