"""Backward inside backward: in rules, hooks and recomputation, many levels deep, in threads."""

import sys
import threading

import numpy as np
import pytest
from custom_operations import leaf, ruled

import sweepgrad as sg
from support.threads import join_all, repeat, run_threads
from sweepgrad.graph.watch import MAX_NESTING


def inner_cube_rule(x, g):
    """3x² by a backward through x³ on a small graph of its own."""
    inner = leaf(x.numpy())
    return g * (inner * inner * inner).sum().backward()[inner]


def test_a_rule_may_back_propagate_through_a_graph_of_its_own(baseline):
    """C3: f(x) = x³, loss 5 f(x) at 2: 60."""
    x = leaf([2.0])
    assert (ruled(inner_cube_rule).apply(x) * 5.0).sum().backward()[x].tolist() == [60.0]
    del x


def test_rules_back_propagate_while_another_thread_sweeps(baseline, busy_switching):
    """C3 in 4 threads, a fifth looping graph_cleanup()."""
    operation = ruled(inner_cube_rule)
    stop = threading.Event()

    def sweep():
        while not stop.is_set():
            sg.graph_cleanup()

    def train(index):
        for _ in range(50):
            x = leaf([2.0])
            loss = (operation.apply(x) * 5.0).sum()
            assert loss.backward()[x].tolist() == [60.0]

    sweeper = threading.Thread(target=sweep, daemon=True)
    sweeper.start()
    try:
        repeat(train, 4, timeout=10.0)
    finally:
        stop.set()
        join_all([sweeper], 10.0)


def square_at_level(level):
    """x², whose rule gets 2x by a backward through the operation one level down."""
    below = (lambda x: x * x) if level == 0 else square_at_level(level - 1).apply

    def rule(x, g):
        inner = leaf(x.numpy())
        return g * below(inner).sum().backward()[inner]

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.numpy() * x.numpy()

    def backward(ctx, g):
        return rule(ctx.saved_tensors[0], g)

    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(f"Square{level}", (sg.Function,), body)


@pytest.mark.parametrize("level", [1, 2, 50])
def test_a_rule_nests_backwards_many_levels_deep(level, baseline):
    """C8: 6 at 3 every time."""
    x = leaf([3.0])
    assert square_at_level(level).apply(x).sum().backward()[x].tolist() == [6.0]
    del x


def test_four_threads_nest_fifty_levels_at_once_with_a_lock_of_their_own_around_it(
    baseline, busy_switching
):
    """C8: the user's lock is held over whole backwards, and rules take it again elsewhere."""
    operation = square_at_level(50)
    lock = threading.Lock()

    def worker(index):
        for _ in range(3):
            x = leaf([3.0])
            with lock:
                assert operation.apply(x).sum().backward()[x].tolist() == [6.0]
        return True

    assert repeat(worker, 4, timeout=50.0) == [True] * 4


def test_a_users_lock_inside_a_rule_is_no_trouble(baseline, busy_switching):
    """Rules of 4 threads take one lock of the user's and back-propagate under it."""
    lock = threading.Lock()

    def rule(x, g):
        with lock:
            return inner_cube_rule(x, g)

    operation = ruled(rule)

    def worker(index):
        for _ in range(50):
            x = leaf([2.0])
            assert operation.apply(x).sum().backward()[x].tolist() == [12.0]

    repeat(worker, 4)


def endless(x, g):
    inner = leaf(x.numpy())
    return ruled(endless).apply(inner).sum().backward()[inner]


def test_endless_nesting_ends_with_a_named_error_before_pythons_own(baseline):
    x = leaf([3.0])
    with pytest.raises(sg.NestingError, match=f"limit is {MAX_NESTING}"):
        ruled(endless).apply(x).sum().backward()
    assert (x * x).sum().backward()[x].tolist() == [6.0]
    del x


def test_the_limit_leaves_room_in_pythons_default_recursion_limit():
    """MAX_NESTING levels fit though the caller's own frames are many."""

    def deep(frames):
        if frames:
            return deep(frames - 1)
        x = leaf([3.0])
        with pytest.raises(sg.NestingError):
            ruled(endless).apply(x).sum().backward()
        return True

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        assert deep(150)
    finally:
        sys.setrecursionlimit(before)


def test_the_limit_counts_hooks_and_recomputation_too():
    def forever(g):
        y = leaf([1.0])
        y.register_hook(forever)
        (y * y).sum().backward()

    x = leaf([1.0])
    x.register_hook(forever)
    with pytest.raises(sg.NestingError, match="a hook"):
        (x * x).sum().backward()

    recomputing = []

    def region(z):
        if recomputing:
            y = leaf([1.0])
            recomputing.clear()
            loss = sg.checkpoint(region, y).sum()
            recomputing.append(True)
            loss.backward()
        return z * 2.0

    loss = sg.checkpoint(region, x).sum()
    recomputing.append(True)
    with pytest.raises(sg.NestingError, match="checkpoint"):
        loss.backward()


def test_the_limit_is_the_same_again_after_an_error():
    """Levels that ended by an exception do not count for ever."""
    x = leaf([3.0])
    for _ in range(3):
        with pytest.raises(sg.NestingError):
            ruled(endless).apply(x).sum().backward()
    assert square_at_level(50).apply(x).sum().backward()[x].tolist() == [6.0]


def stack_depth():
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def test_the_stack_in_a_rule_does_not_grow_with_width_or_depth_of_the_graph():
    depths = []

    def rule(x, g):
        depths.append(stack_depth())
        return g

    operation = ruled(rule)
    for width, depth in ((1, 1), (500, 1), (1, 500)):
        x = leaf([1.0])
        total = None
        for _ in range(width):
            y = x
            for _ in range(depth):
                y = operation.apply(y)
            total = y if total is None else total + y
        total.sum().backward()
    assert set(depths) == {depths[0]}
    assert len(depths) == 1 + 500 + 500


def test_backward_in_a_hook_through_the_graph_that_is_being_run():
    """A retained trunk may be back-propagated again from inside its own backward."""
    x = leaf([3.0])
    trunk = x * x
    seen = []
    trunk.register_hook(lambda g: seen.append(trunk.sum().backward(retain_graph=True)[x].tolist()))
    handle = trunk.register_hook(lambda g: None)
    handle.remove()

    other = leaf([2.0])
    other.register_hook(lambda g: seen.append((x * x).sum().backward()[x].tolist()))
    (other * 2.0).sum().backward()
    assert seen == [[6.0]]


def test_a_backward_inside_meets_a_consumed_graph_as_anywhere_else():
    """The outer backward has claimed the trunk, so an inner one through it is refused."""
    x = leaf([3.0])
    trunk = x * x
    errors = []

    def hook(g):
        try:
            trunk.sum().backward()
        except sg.GraphConsumedError as error:
            errors.append(str(error))

    loss = (trunk * 2.0).sum()
    loss.register_hook(hook)
    assert loss.backward()[x].tolist() == [12.0]
    assert len(errors) == 1


def test_backward_in_a_recomputation_and_the_recomputation_in_a_rule(baseline):
    """A region whose function differentiates, recomputed inside another operation's rule."""

    def region(z):
        inner = leaf(z.numpy())
        slope = (inner * inner).sum().backward()[inner]
        return z * slope  # slope is a constant: 2 z, so d/dz = 2 z

    def rule(x, g):
        y = leaf(x.numpy())
        return g * sg.checkpoint(region, y).sum().backward()[y]

    x = leaf([5.0])
    assert sg.checkpoint(region, x).sum().backward()[x].tolist() == [10.0]
    assert ruled(rule).apply(x).sum().backward()[x].tolist() == [10.0]
    del x


def test_nested_backwards_differ_by_thread_not_by_process(busy_switching):
    """Levels are counted for each thread: many threads nest without adding up."""
    operation = square_at_level(40)

    def worker():
        x = leaf([3.0])
        return operation.apply(x).sum().backward()[x].tolist()

    assert run_threads([worker] * 4) == [[6.0]] * 4


def test_a_thread_started_in_a_rule_back_propagates_on_its_own():
    def rule(x, g):
        return g * run_threads([lambda: inner_cube_rule(x, np.ones(1)).item()])[0]

    x = leaf([2.0])
    assert ruled(rule).apply(x).sum().backward()[x].tolist() == [12.0]
