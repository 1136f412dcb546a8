"""Several losses over common parts: what stays usable, what is refused, what a sweep takes."""

import weakref

import numpy as np
import pytest

import sweepgrad as sg
from sweepgrad.graph import DEFAULT, GraphRuntime

ONE = [1.0]


def leaf(*values):
    return sg.tensor(np.array(values, float), requires_grad=True)


def is_registered(t):
    node = t._node
    graph = node.graph
    while graph.forward is not None:
        graph = graph.forward
    return node.id in graph.nodes


def test_two_independent_trees_both_give_gradients(baseline):
    a, b = leaf(2.0), leaf(5.0)
    one, other = a * a, b * b * b
    assert one.backward(ONE)[a].tolist() == [4.0]
    assert other.backward(ONE)[b].tolist() == [75.0]


def test_two_trees_on_one_leaf_are_independent(baseline):
    x = leaf(3.0)
    one, other = x * x, x * 7.0
    assert other.backward(ONE)[x].tolist() == [7.0]
    assert one.backward(ONE)[x].tolist() == [6.0]
    assert DEFAULT.memory_report().nodes == baseline.nodes


TRUNKS = {
    "add": lambda t: t + 1.0,
    "multiply": lambda t: t * 2.0,
    "subtract": lambda t: 1.0 - t,
    "divide": lambda t: t / 2.0,
    "power": lambda t: t**2,
    "negative": lambda t: -t,
    "tanh": sg.tanh,
    "reshape": lambda t: t.reshape(1, 1).reshape(1),
    "sum": lambda t: t.sum(keepdims=True),
    "index": lambda t: t[:],
    "concatenate": lambda t: sg.concatenate([t, t])[:1],
}


@pytest.mark.parametrize("trunk", TRUNKS)
def test_the_second_backward_through_a_trunk_is_refused_whatever_made_it(trunk, baseline):
    """C5.  Also for rules that saved nothing: the same misuse is always refused."""
    t = leaf(1.0)
    k = TRUNKS[trunk](t)
    expected = sg.grad(TRUNKS[trunk](t) * 2.0, t, [ONE])[0]
    first, second = k * 2.0, k * 3.0
    assert first.backward(ONE)[t].tolist() == expected.tolist()
    before = DEFAULT.memory_report()
    with pytest.raises(sg.GraphConsumedError, match="retain_graph=True"):
        second.backward(ONE)
    assert DEFAULT.memory_report() == before, "refused before anything changed"
    assert (t * 5.0).backward(ONE)[t].tolist() == [5.0], "the leaf stays usable"


def test_what_a_refused_backward_would_have_given(baseline):
    """C5: k = 2t; the first loss gives 4; with the graph kept the second gives 6."""
    t = leaf(1.0)
    k = 2.0 * t
    first, second = 2.0 * k, 3.0 * k
    assert first.backward(ONE, retain_graph=True)[t].tolist() == [4.0]
    assert second.backward(ONE, retain_graph=True)[t].tolist() == [6.0]
    assert first.backward(ONE)[t].tolist() == [4.0]
    with pytest.raises(sg.GraphConsumedError):
        second.backward(ONE)


def test_the_losers_own_subtree_reached_by_a_kept_handle_is_fine(baseline):
    x, own = leaf(2.0), leaf(3.0)
    trunk = x * x
    subtree = own * own
    first, second = trunk * 5.0, trunk * subtree
    assert first.backward(ONE)[x].tolist() == [20.0]
    with pytest.raises(sg.GraphConsumedError):
        second.backward(ONE)
    assert subtree.backward(ONE)[own].tolist() == [6.0]


def test_the_losers_own_subtree_survives_the_sweep(baseline):
    x, own = leaf(2.0), leaf(3.0)
    trunk = x * x
    subtree = own * own
    first, second = trunk * 5.0, trunk * subtree
    first.backward(ONE)
    sg.graph_cleanup()
    assert not is_registered(second)
    assert is_registered(subtree)
    DEFAULT.check_valid()
    with pytest.raises(sg.GraphConsumedError, match="ancestors"):
        second.backward(ONE)
    assert subtree.backward(ONE)[own].tolist() == [6.0]


@pytest.mark.parametrize("sweep", [False, True])
def test_of_three_trees_in_a_row_the_middle_one_is_lost(sweep, baseline):
    """The outer two own their parts; the middle one shares with both."""
    a, b, c, d = leaf(2.0), leaf(3.0), leaf(5.0), leaf(7.0)
    left_shared, right_shared = a * b, c * d
    left = left_shared * 2.0
    middle = left_shared + right_shared
    right = right_shared * 3.0
    grads = left.backward(ONE)
    assert (grads[a].tolist(), grads[b].tolist()) == ([6.0], [4.0])
    if sweep:
        sg.graph_cleanup()
    with pytest.raises(sg.GraphConsumedError):
        middle.backward(ONE)
    grads = right.backward(ONE)
    assert (grads[c].tolist(), grads[d].tolist()) == ([21.0], [15.0])


def test_a_node_used_at_different_depths_passes_everything_on_once(baseline):
    """y = x^2 used directly and through three more operations: d(y + 2(3y)^2... by hand."""
    x = leaf(2.0)
    y = x * x  # 4
    deep = ((y * 3.0) * y) + 1.0  # 3y^2 + 1
    z = y + deep  # y + 3y^2 + 1, dz/dy = 1 + 6y = 25, dy/dx = 4
    assert z.backward(ONE)[x].tolist() == [100.0]


def test_a_leaf_used_at_different_depths():
    x = leaf(3.0)
    z = x + (x * x) * x * 2.0  # 1 + 6x^2
    assert z.backward(ONE)[x].tolist() == [55.0]


def test_a_detach_that_does_not_matter(baseline):
    """What is detached leads to no leaf but through a constant: nothing changes."""
    x, c = leaf(2.0), sg.tensor([5.0])
    assert (x * (c * c).detach()).backward(ONE)[x].tolist() == [25.0]
    assert (x * (c * c)).backward(ONE)[x].tolist() == [25.0]


def test_a_detach_that_matters(baseline):
    x = leaf(2.0)
    y = x * x
    assert (x * y.detach()).backward(ONE)[x].tolist() == [4.0], "y is a constant 4"
    assert (x * y).backward(ONE)[x].tolist() == [12.0], "y itself is as before"


def test_a_detached_part_outlives_the_backward_of_its_source(baseline):
    x = leaf(2.0)
    y = x * x
    constant = y.detach()
    y.backward(ONE)
    assert (x * constant).backward(ONE)[x].tolist() == [4.0]


def test_constants_beside_tracked_inputs_after_an_unrelated_backward(baseline):
    x, unrelated = leaf(2.0), leaf(9.0)
    constant = sg.tensor([3.0])
    (unrelated * constant).backward(ONE)
    y = constant * x + constant - 1.0
    (unrelated * unrelated).backward(ONE)
    grads = (y * constant).backward(ONE)
    assert grads[x].tolist() == [9.0]
    assert list(grads) == [x]
    with pytest.raises(sg.NoGradientError, match="untracked"):
        grads[constant]


def saved_array(t):
    return weakref.ref(t.numpy().base)


def test_a_backward_on_an_inner_node_makes_its_later_descendants_unavailable(baseline):
    """Both descendants have handles, and yet nothing can ever run from them: swept."""
    x = leaf(2.0)
    inner = x * x
    left, right = inner * 3.0, inner * 5.0
    left_square, right_square = left * left, right * right
    saved = [saved_array(left), saved_array(right)]
    tips = [left_square, right_square]
    del left, right
    assert inner.backward(ONE)[x].tolist() == [4.0]
    assert [reference() is not None for reference in saved] == [True, True]
    report = sg.graph_cleanup()
    assert report.nodes_freed == 4
    assert report.nodes_left == baseline.nodes
    assert report.bytes_freed == 2 * 2 * 8, "each square saved its operand twice"
    assert [reference() for reference in saved] == [None, None]
    for tip in tips:
        assert not is_registered(tip)
        with pytest.raises(sg.GraphConsumedError):
            tip.backward(ONE)
    assert [tip.item() for tip in tips] == [144.0, 400.0], "the values stay"


def test_an_unavailable_node_is_swept_with_later_backwards_and_no_call():
    """Claims pay for the look at what is left; nobody calls graph_cleanup()."""
    runtime = GraphRuntime()
    x = runtime.tensor([1.0], requires_grad=True)
    trunk = x * 2.0
    kept = [trunk * 3.0 for _ in range(50)]
    trunk.backward(ONE)
    assert runtime.memory_report().nodes == 50
    alive = runtime.tensor([1.0], requires_grad=True) * 1.0
    joined = kept[0] + alive  # unavailable from birth, in the same graph as `alive` now
    for _ in range(100):
        (alive * 2.0).backward(ONE, retain_graph=True)
        sg.grad(alive * 2.0, [alive], [ONE])
    assert runtime.memory_report().nodes == 1
    assert not is_registered(joined)


def test_an_operation_on_an_unavailable_node_saves_nothing(baseline):
    x = leaf(1.0, 2.0)
    y = x * x
    y.backward([1.0, 1.0])
    z = y * y
    assert z._node.saved == ()
    assert z._node.parents == ()
    assert DEFAULT.memory_report().nodes == baseline.nodes
    assert z.numpy().tolist() == [1.0, 16.0]
    with pytest.raises(sg.GraphConsumedError):
        z.backward([1.0, 1.0])
    with pytest.raises(sg.GraphConsumedError):
        (z + x).backward([1.0, 1.0])


@pytest.mark.parametrize("first", ["the tip for which it is useless", "the useful one"])
def test_a_node_useless_from_one_tip_and_useful_from_another(first, baseline):
    """The leaf behind `middle` is gone for one tip's sake, yet the other tip needs it."""
    kept, gone = leaf(2.0), leaf(3.0)
    middle = gone * 5.0  # leads to a leaf that will have no handle
    useless_tip = middle * 1.0
    useful_tip = middle * kept
    del gone
    tips = [useless_tip, useful_tip] if first.startswith("the tip") else [useful_tip, useless_tip]
    for tip in tips:
        grads = tip.backward(ONE, retain_graph=True)
        assert len(grads) == (tip is useful_tip)
    assert useful_tip.backward(ONE)[kept].tolist() == [15.0]


@pytest.mark.parametrize("sweeps", [0, 1, 3])
@pytest.mark.parametrize("first", [0, 1])
def test_the_order_of_sweeps_and_backwards_makes_no_difference(sweeps, first, baseline):
    x, w = leaf(2.0), leaf(3.0)
    shared = x * w
    losses = [shared * 2.0, (w * w) * 4.0]
    useless = shared * x
    for _ in range(sweeps):
        sg.graph_cleanup()
    answers = [[6.0, 4.0], [None, 24.0]]
    for index in (first, 1 - first):
        grads = losses[index].backward(ONE)
        found = [grads[t].item() if t in grads else None for t in (x, w)]
        assert found == answers[index]
        for _ in range(sweeps):
            sg.graph_cleanup()
    with pytest.raises(sg.GraphConsumedError):
        useless.backward(ONE)
    sg.graph_cleanup()
    assert DEFAULT.memory_report().nodes == baseline.nodes


def test_a_dropped_leaf_gets_no_gradient_and_its_work_is_left_out():
    calls = []

    def forward_rule(g):
        calls.append("dropped")
        return g

    from sweepgrad.graph import Rule, register_one

    kept, dropped = leaf(2.0), leaf(3.0)
    probe = sg.tensor([3.0])
    probe._node = register_one(probe, dropped._node, Rule("probe", forward_rule), (), 0)
    y = kept * probe
    del dropped, probe
    grads = y.backward(ONE)
    assert grads[kept].tolist() == [3.0]
    assert len(grads) == 1
    assert calls == []


def test_the_same_leaf_through_a_merge_of_two_graphs(baseline):
    x = leaf(2.0)
    one, other = x * 3.0, x * 5.0
    assert DEFAULT.memory_report().graphs == baseline.graphs + 2
    joined = one * other
    assert DEFAULT.memory_report().graphs == baseline.graphs + 1
    assert joined.backward(ONE)[x].tolist() == [60.0]


def test_the_gradient_of_a_backward_on_a_leaf_is_the_seed_in_an_array_of_its_own():
    x = leaf(1.0, 2.0)
    seed = np.array([3.0, 4.0])
    found = x.backward(seed)[x]
    assert found.tolist() == [3.0, 4.0]
    found[0] = 9.0
    assert seed.tolist() == [3.0, 4.0]


def test_every_gradient_is_the_callers_own_array():
    """Rules hand the same array to both operands of +; the caller must not see that."""
    a, b, c = leaf(1.0), leaf(2.0), leaf(3.0)
    seed = np.array([1.0])
    grads = (a + b + c.reshape(1, 1).reshape(1)).backward(seed)
    arrays = [grads[t] for t in (a, b, c)] + [seed, a.numpy(), b.numpy(), c.numpy()]
    for index, array in enumerate(arrays):
        for other in arrays[index + 1 :]:
            assert not np.shares_memory(array, other)
    for array in arrays[:3]:
        array += 1.0
        assert array.base is None
