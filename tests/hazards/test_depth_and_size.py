"""Sizes at which recursion, quadratic work or a table per thread would show."""

import pytest

import sweepgrad as sg
from graph.test_reclaiming import CHAIN
from support.child import run_child
from sweepgrad.graph import DEFAULT, check_locks

WAYS = ["drop_unused", "back", "back_and_keep", "collected", "swept", "joined_and_dropped"]


#: Every way in turn, once, instead of one of them timed.
ALL_WAYS = f"""
def all_ways(length):
    for name in {WAYS!r}:
        globals()[name](length)
        assert DEFAULT.memory_report().nodes == 0

work = all_ways
length = int(sys.argv[2])

"""


@pytest.mark.parametrize("where", ["main", "thread"])
def test_a_long_chain_goes_without_recursion_in_every_way(where):
    """C9 under recursion limit 200, in main and in a stack of 256 KiB; one process for all."""
    start = CHAIN.index("work = globals()")
    untimed = "def all_of_it():\n    work(length)\n    print('done')\n\n"
    program = CHAIN[:start] + ALL_WAYS + untimed + CHAIN[CHAIN.index("if sys.argv[3]") :]
    assert run_child(program, "all", "10000", where, limit=55, check_locks=False) == "done\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.parametrize("work", WAYS)
def test_a_chain_of_a_million_operations_goes_without_recursion(work, where):
    """In time that grows with the length, as the program itself asserts."""
    assert run_child(CHAIN, work, "1000000", where, limit=850, check_locks=False) == "done\n"


@pytest.fixture
def plain_locks():
    """Production's locks: a checked one takes ten times as long to make."""
    before = check_locks(False)
    yield
    check_locks(before)


@pytest.mark.parametrize("fate", ["dropped", "back-propagated"])
@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_leaf_with_very_many_children(count, fate, baseline, plain_locks):
    """Each child is a graph of its own on the one leaf; then one sum over all of them."""
    x = sg.tensor([2.0], requires_grad=True)
    children = [x * 1.0 for _ in range(count)]
    assert DEFAULT.memory_report().graphs - baseline.graphs == count
    assert x._node.children == 0, "a leaf counts no children: no lock protects it"
    if fate == "back-propagated":
        found = sg.grad(children, [x], [[1.0]] * len(children))[0]
        assert found.tolist() == [float(count)]
    children.clear()
    assert DEFAULT.memory_report().graphs == baseline.graphs


def test_ten_thousand_live_graphs_are_swept_reported_and_joined(baseline, plain_locks):
    graphs = 10_000
    leaves = [sg.tensor([1.0], requires_grad=True) for _ in range(graphs)]
    tips = [x * 2.0 for x in leaves]
    report = DEFAULT.memory_report()
    assert (report.graphs - baseline.graphs, report.nodes - baseline.nodes) == (graphs, graphs)
    swept = sg.graph_cleanup()
    assert swept.nodes_freed == 0
    assert swept.graphs_left - baseline.graphs == graphs
    while len(tips) > 1:  # as a tournament, so that no join is with a large graph twice
        pairs = zip(tips[::2], tips[1::2], strict=False)
        rest = tips[-1:] if len(tips) % 2 else []
        tips = [one + other for one, other in pairs] + rest
    assert DEFAULT.memory_report().graphs - baseline.graphs == 1
    grads = tips[0].backward([1.0])
    assert len(grads) == graphs
    assert {grads[x].item() for x in leaves} == {2.0}
