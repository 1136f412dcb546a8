"""A full sweep costs what it frees, and holds no lock for long."""

import random
import sys
import threading

import numpy as np
import pytest

import sweepgrad as sg
from support.threads import Gate, run_threads
from sweepgrad.graph import GraphRuntime, sweeper
from sweepgrad.graph.locator import find
from sweepgrad.graph.node import UNAVAILABLE
from sweepgrad.graph.registry import NodeRegistry


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


@pytest.mark.parametrize("live", [5, 5_000])
def test_a_sweep_makes_the_same_calls_beside_live_nodes_of_the_same_graph(live):
    """Beside live nodes that were recorded before, between and after what is freed."""

    def calls_beside(live):
        runtime = GraphRuntime()
        leaf = runtime.tensor([1.0], requires_grad=True)
        before = chain(leaf, live)
        trunk = leaf * 2.0
        kept = [trunk * 3.0 for _ in range(10)]
        joined = before * kept[0]  # unavailable like the rest, once the trunk is consumed
        after = chain(before, live)
        more = [trunk * 4.0 for _ in range(20)]
        runtime.memory_report()
        trunk.backward([1.0])
        report, calls = calls_of(runtime.graph_cleanup)
        assert (len(kept), len(more), joined.item(), after.item()) == (10, 20, 6.0, 1.0)
        assert (report.nodes_freed, report.nodes_left) == (31, 2 * live)
        runtime.check_valid()
        return calls

    calls_beside(40)  # the first in a process makes calls of its own
    assert calls_beside(live + 40) == calls_beside(40)


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

    def noted(graph, trash, newest):
        more, nodes, saved = shipped(graph, trash, newest)
        pieces.append((more, nodes))
        return more, nodes, saved

    monkeypatch.setattr(sweeper, "_sweep_piece", noted)
    report = runtime.graph_cleanup(full)

    assert (report.nodes_freed, report.nodes_left, len(kept)) == (3_000, 0, 3_000)
    assert pieces == [(True, 1_000), (True, 1_000), (False, 1_000)]
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


def heads_of(trunks):
    """Three tips for each trunk; all of them and their trunks in one graph."""
    heads = [trunk * 3.0 for trunk in trunks for _ in range(3)]
    _ = sg.concatenate(trunks)  # joins the graphs; its own node goes with its handle
    return heads


def test_a_sweep_ends_though_claims_go_on_to_make_nodes_unavailable(monkeypatch):
    """What is claimed between two pieces is left to the next sweep."""
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    trunks = [leaf * float(number) for number in range(20)]
    heads = heads_of(trunks)
    shipped, pieces = sweeper.enter, []

    def claim_before_each_piece(graph, operation, action, *args):
        if action is sweeper._sweep_piece:
            pieces.append(operation)
            trunks.pop().backward([1.0])
        return shipped(graph, operation, action, *args)

    trunks.pop().backward([1.0])
    monkeypatch.setattr(sweeper, "enter", claim_before_each_piece)
    monkeypatch.setattr(sweeper, "_PIECE", 1)
    report = runtime.graph_cleanup()

    assert (report.nodes_freed, len(pieces)) == (3, 4)  # one for the node that joined them
    assert runtime.graph_cleanup(full=True).nodes_freed >= 9
    runtime.check_valid()
    assert len(heads) == 60


def test_a_sweep_ends_though_threads_go_on_to_record_below_what_it_frees(monkeypatch):
    """Before each piece every head gets three children more, faster than a sweep frees them."""
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    heads = garbage(leaf, 10)
    shipped, pieces = sweeper.enter, []

    def record_before_each_piece(graph, operation, action, *args):
        if action is sweeper._sweep_piece:
            pieces.append(len(heads))
            assert len(pieces) < 1_000, "it does not end"
            heads.extend([heads[-1] * 2.0 for _ in range(3)])
            heads.extend([heads[number] * 3.0 for number in range(3)])
        return shipped(graph, operation, action, *args)

    monkeypatch.setattr(sweeper, "enter", record_before_each_piece)
    monkeypatch.setattr(sweeper, "_PIECE", 1)
    runtime.graph_cleanup()

    assert len(pieces) < 200
    assert {head._node.claim for head in heads[:30]} == {UNAVAILABLE}
    runtime.check_valid()


def test_a_sweep_that_was_interrupted_between_two_pieces_is_finished_by_the_next(monkeypatch):
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    kept = garbage(leaf, 10)
    shipped, pieces = sweeper.enter, []

    def interrupted(graph, operation, action, *args):
        if action is sweeper._sweep_piece:
            pieces.append(operation)
            if len(pieces) == 5:
                raise KeyboardInterrupt
        return shipped(graph, operation, action, *args)

    with monkeypatch.context() as patch:
        patch.setattr(sweeper, "enter", interrupted)
        patch.setattr(sweeper, "_PIECE", 1)
        with pytest.raises(KeyboardInterrupt):
            runtime.graph_cleanup()
    runtime.check_valid()

    report = runtime.graph_cleanup()
    assert (report.nodes_freed, report.nodes_left, len(kept)) == (26, 0, 30)


def test_a_merge_brings_along_what_is_to_be_swept():
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    kept = heads_of([leaf * 2.0, trunk := leaf * 3.0])
    trunk.backward([1.0])
    large = chain(leaf, 50)
    runtime.memory_report()
    both = large * kept[0]

    report = runtime.graph_cleanup()
    assert (report.nodes_freed, report.nodes_left) == (3, 50 + 1 + 3 + 1)
    runtime.check_valid()
    assert both.item() == 6.0


def ids_below(tensor):
    below = tensor._node.below
    return len(below) if type(below) is list else 1


def test_a_parent_that_lives_keeps_no_list_of_children_that_have_gone():
    """20,000 children of a trunk one after another, each counted; and 5,000 at once."""
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    trunk = leaf * 2.0
    kept = [trunk * 3.0 for _ in range(5)]
    for number in range(20_000):
        kept[number % 5] = trunk * 4.0
        runtime.memory_report()
    assert ids_below(trunk) < 40
    runtime.check_valid()

    many = [trunk * 4.0 for _ in range(5_000)]
    runtime.memory_report()
    assert ids_below(trunk) > 5_000
    del many
    assert ids_below(trunk) < 40
    runtime.check_valid()
    del kept
    assert ids_below(trunk) == 1


@pytest.mark.parametrize("order", ["first", "last", "any"])
def test_a_fan_of_many_children_is_dropped_in_linear_time_whatever_the_order(order):
    """Lists looked through again and again would be quadratic: counted, not timed."""
    looked = []
    for count in (1_000, 4_000):
        runtime = GraphRuntime()
        leaf = runtime.tensor([1.0], requires_grad=True)
        trunk = leaf * 2.0
        fan = [trunk * 3.0 for _ in range(count)]
        runtime.memory_report()
        if order == "first":
            fan.reverse()
        elif order == "any":
            random.Random(1).shuffle(fan)
        graph = trunk._node.graph
        graph.nodes = Counted(graph.nodes)
        while fan:
            fan.pop()
        looked.append(graph.nodes.looks)
    assert looked[1] < 5 * looked[0]


class Counted(dict):
    """A dictionary that counts how often it is asked whether it has a key."""

    looks = 0

    def __contains__(self, key):
        self.looks += 1
        return super().__contains__(key)


def backlog_size(graph):
    return 0 if graph.backlog is None else graph.backlog.size


def test_a_backlog_whose_nodes_have_gone_does_not_grow_for_ever():
    """Beside 500 live nodes: a part of their graph is claimed, what it leaves behind is dropped."""
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    live = chain(leaf, 500)
    runtime.memory_report()
    for _ in range(2_000):
        trunk = live * 2.0
        left = [trunk * 3.0 for _ in range(50)]
        sg.grad(trunk, [live], [[1.0]])
        del left
    assert backlog_size(live._node.graph) <= 2 * 501 + 8
    runtime.check_valid()
    assert live.backward([1.0])[leaf].tolist() == [1.0]


def test_a_backlog_that_merges_bring_does_not_grow_for_ever():
    """Into a graph from which nothing is ever claimed; all that comes is dropped again."""
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    live = [leaf * 1.0]
    live.extend([live[0] * 1.0 for _ in range(100)])
    runtime.memory_report()
    for _ in range(500):
        trunk = leaf * 2.0
        heads = [trunk * 3.0 for _ in range(50)]
        trunk.backward([1.0])
        both = live[0] * heads[0]
        del trunk, heads, both
    assert backlog_size(find(live[0]._node)) <= 2 * 101 + 8
    runtime.check_valid()


def test_what_is_unavailable_and_dropped_leaves_no_backlog():
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    live = leaf * 1.0
    trunk = live * 2.0
    heads = [trunk * 3.0 for _ in range(1_000)]
    sg.grad(trunk, [live], [[1.0]])
    graph = live._node.graph
    assert backlog_size(graph) >= 1_000
    del heads
    assert backlog_size(graph) <= 2 * 1 + 8


@pytest.mark.parametrize("edges", [1, 3])
def test_a_claim_of_few_nodes_frees_no_more_than_a_piece_under_the_lock(edges, monkeypatch):
    """However many it made unavailable, and by however many edges; a sweep takes the rest."""
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    trunk = leaf * 2.0
    kept = [sg.concatenate([trunk] * edges) for _ in range(5_000)]
    graph = trunk._node.graph
    runtime.memory_report()
    graph.credit = 10_000  # as after many claims that left nothing behind
    trunk.backward([1.0])
    assert 4_000 <= len(graph.nodes) < 5_000

    report = runtime.graph_cleanup()
    assert (report.nodes_left, len(kept)) == (0, 5_000)
    runtime.check_valid()


def test_the_report_counts_what_was_merged_into_a_graph_that_started_meanwhile():
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    trunk = leaf * 2.0
    heads = [trunk * 3.0 for _ in range(4)]
    runtime.memory_report()
    trunk.backward([1.0])
    shipped, kept = sweeper._has_work, []

    def joined_to_a_new_graph(graph):
        if not kept:
            kept.append(leaf * 1.0)
            kept.extend([kept[0] * 1.0 for _ in range(9)])
            kept.extend(run_threads([lambda: kept[0] * heads[0]]))
        return shipped(graph)

    sweeper._has_work = joined_to_a_new_graph
    try:
        report = runtime.graph_cleanup()
    finally:
        sweeper._has_work = shipped
    assert (report.nodes_freed, report.graphs_freed) == (4 + 1, 0)
    assert (report.nodes_left, report.graphs_left) == (10, 1)


@pytest.mark.parametrize("partly", [False, True])
def test_a_consumed_node_whose_handle_lives_keeps_no_list_of_its_children(partly):
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    base = leaf * 2.0
    trunk = base * 3.0
    fan = [trunk * 4.0 for _ in range(100)]
    total = sg.concatenate(fan)
    runtime.memory_report()
    assert ids_below(trunk) == 100
    sg.grad(total, [base if partly else leaf], [np.ones(100)])
    assert trunk._node.below == 0
    assert len(fan) == 100


@pytest.mark.parametrize("swept", [False, True])
def test_an_unavailable_node_whose_handle_lives_keeps_no_list_of_its_children(swept):
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    trunk = leaf * 2.0
    head = trunk * 3.0
    fan = [head * 4.0 for _ in range(100)]
    runtime.memory_report()
    trunk.backward([1.0])
    runtime.graph_cleanup(full=not swept)
    assert (head._node.claim, head._node.below, len(fan)) == (UNAVAILABLE, 0, 100)


def test_what_arrived_while_arrivals_were_counted_gives_the_next_sweep_something_to_look_at(
    monkeypatch,
):
    """1. A sweep has begun; a child of a head is recorded.  2. The head goes, then the child is
    counted, and found unavailable.  3. A child of that arrives before it is marked, after the
    count began.
    """
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    heads = garbage(leaf, 1)
    graph = heads[0]._node.graph
    late = []
    shipped_piece, shipped_forget = sweeper._sweep_piece, NodeRegistry._forget_unavailable

    def child_before_the_piece(graph, trash, newest):
        if not late:
            late.extend(run_threads([lambda: heads[0] * 5.0]))
        return shipped_piece(graph, trash, newest)

    def grandchild_before_the_mark(registry, node, *rest):
        if len(late) == 1 and node is late[0]._node:
            late.extend(run_threads([lambda: late[0] * 7.0]))
        return shipped_forget(registry, node, *rest)

    monkeypatch.setattr(sweeper, "_sweep_piece", child_before_the_piece)
    monkeypatch.setattr(NodeRegistry, "_forget_unavailable", grandchild_before_the_mark)
    runtime.graph_cleanup()
    assert [one._node.claim for one in late] == [UNAVAILABLE, None]

    runtime.graph_cleanup()
    assert late[1]._node.claim is UNAVAILABLE
    assert graph.size() == 0


def test_a_graph_that_is_merged_into_one_that_a_sweep_has_passed_is_swept_all_the_same():
    """1. The sweep has looked at A.  2. B, which has a backlog, is merged into A.
    3. The sweep comes to B, which is empty by now.
    """
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    first = [leaf * 1.0]
    first.extend([first[0] * 1.0 for _ in range(20)])
    trunk = leaf * 2.0
    heads = [trunk * 3.0 for _ in range(4)]
    runtime.memory_report()
    trunk.backward([1.0])
    passed = find(first[0]._node)
    shipped, joined = sweeper._has_work, []

    def merged_behind_it(graph):
        found = shipped(graph)
        if graph is passed and not joined:
            [join] = run_threads([lambda: first[0] * heads[0]])
            joined.append(join)
        return found

    sweeper._has_work = merged_behind_it
    try:
        report = runtime.graph_cleanup()
    finally:
        sweeper._has_work = shipped
    assert find(heads[0]._node) is passed
    assert (report.nodes_freed, report.nodes_left) == (4 + 1, 21)


@pytest.mark.parametrize("full", [False, True])
def test_threads_that_ask_during_a_sweep_share_the_next(monkeypatch, full):
    """1. A sweep has passed every graph.  2. Nodes become unavailable, and 8 threads ask.
    3. It ends: one more is made for all 8, and nobody returns before it.
    """
    runtime = GraphRuntime()
    leaf = runtime.tensor([1.0], requires_grad=True)
    passed, asked = Gate(), threading.Semaphore(0)
    shipped_listed, shipped_lock = sweeper.list_graphs, runtime.sweeper.lock
    kept, listed = [], []

    def list_graphs(*arguments):
        graphs = shipped_listed(*arguments)
        listed.append(len(graphs))
        if len(listed) == 1:
            passed.open()
            for _ in range(8):
                assert asked.acquire(timeout=20)
        return graphs

    class Lock:
        """The lock, saying that somebody is about to wait for it."""

        def __enter__(self):
            asked.release()
            return shipped_lock.__enter__()

        def __exit__(self, *error):
            return shipped_lock.__exit__(*error)

    def first():
        runtime.graph_cleanup(full)

    def ask():
        passed.wait()
        report = runtime.graph_cleanup(full)
        return report, {one._node.claim for one in kept} == {UNAVAILABLE}

    def make_and_ask():
        passed.wait()
        kept.extend(garbage(leaf, 3))
        runtime.sweeper.lock = Lock()
        gate.open()
        return ask()

    def wait_and_ask():
        gate.wait()
        return ask()

    gate = Gate()
    monkeypatch.setattr(sweeper, "list_graphs", list_graphs)
    _, *found = run_threads([first, make_and_ask, *[wait_and_ask] * 7])

    assert len(listed) == 2
    assert sum(report.nodes_freed for report, _ in found) == 9
    assert all(free for _, free in found)
    assert {report.nodes_left for report, _ in found} == {0}
