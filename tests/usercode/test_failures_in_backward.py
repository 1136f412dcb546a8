"""An exception in a rule, hook or recomputation: all let go, all locks free, the next one right."""

import gc
import weakref

import numpy as np
import pytest
from custom_operations import Cube, ProductAndSum, leaf, ruled

import sweepgrad as sg
from support.interrupts import Interrupter, count_points, watched
from support.memory import resident_bytes
from support.threads import run_threads
from sweepgrad.autograd import calls, checkpointing, function, hooks
from sweepgrad.graph import DEFAULT, engine, watch

ERRORS = [ValueError, MemoryError, KeyboardInterrupt]


def chain_that_fails_in_a_rule(x, error):
    """Five operations; the third rule to run raises."""

    def fail(x, g):
        raise error("on purpose")

    return (ruled(fail).apply(x * 2.0 * 3.0) * 4.0 * 5.0).sum()


def chain_that_fails_in_a_hook(x, error):
    def fail(g):
        raise error("on purpose")

    h = x * 2.0 * 3.0
    h.register_hook(fail)
    return (h * 4.0 * 5.0).sum()


def chain_that_fails_in_a_leafs_hook(x, error):
    def fail(g):
        raise error("on purpose")

    y = leaf(np.ones_like(x.numpy()))
    y.register_hook(fail)
    loss = (x * 2.0 * y * 4.0 * y).sum()
    loss.register_hook(lambda g, keep=y: None)
    return loss


def chain_that_fails_after_accumulation(x, error):
    def fail(tensor, gradient):
        raise error("on purpose")

    y = leaf(np.ones_like(x.numpy()))
    y.register_post_accumulate(fail)
    loss = (x * 2.0 * y * 4.0 * y).sum()
    sg_hold = loss.register_hook(lambda g, keep=y: sg.after_backward(lambda: keep))
    assert sg_hold is not None
    return loss


def chain_that_fails_in_a_callback(x, error):
    def fail():
        raise error("on purpose")

    loss = (x * 2.0 * 3.0 * 4.0 * 5.0).sum()
    loss.register_hook(lambda g: sg.after_backward(fail))
    return loss


def chain_that_fails_in_a_recomputation(x, error):
    runs = []

    def region(h):
        runs.append(None)
        if len(runs) > 1:
            raise error("on purpose")
        return h * 3.0 * 4.0

    return (sg.checkpoint(region, x * 2.0) * 5.0).sum()


def chain_that_fails_in_a_nested_backward(x, error):
    def rule(x, g):
        y = leaf(x.numpy())
        return g * chain_that_fails_in_a_rule(y, error).backward()[y]

    return (ruled(rule).apply(x * 2.0 * 3.0) * 4.0 * 5.0).sum()


def chain_that_fails_in_one_of_several_results(x, error):
    class Fails(ProductAndSum):
        @staticmethod
        def backward(ctx, *gradients):
            raise error("on purpose")

    p, q = Fails.apply(x * 2.0, x * 3.0)
    return (p * 4.0 + q).sum()


CHAINS = [
    chain_that_fails_in_a_rule,
    chain_that_fails_in_a_hook,
    chain_that_fails_in_a_leafs_hook,
    chain_that_fails_after_accumulation,
    chain_that_fails_in_a_callback,
    chain_that_fails_in_a_recomputation,
    chain_that_fails_in_a_nested_backward,
    chain_that_fails_in_one_of_several_results,
]


def locks():
    """Every lock of the default runtime."""
    yield DEFAULT.sweeper.lock
    yield DEFAULT.locator.lock
    yield from DEFAULT.parameters.locks
    for graph in DEFAULT.locator.list_locked():
        yield graph.lock


def check_quiet():
    """No lock is held, no level or callback is left over, and a backward works anywhere."""
    assert not any(lock.locked() for lock in locks())
    assert watch._depth.get() == 0
    assert watch._waiting.get() == ()

    def backward():
        x = leaf(3.0)
        return float((x * x).backward()[x])

    assert backward() == 6.0
    assert run_threads([backward]) == [6.0]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("chain", CHAINS)
def test_a_failed_backward_leaves_nothing(chain, error, baseline):
    """C13: the exception dropped, counts at the baseline, no lock held, the next backward right."""
    x = leaf(np.ones(1000))
    loss = chain(x, error)
    seen = weakref.ref(loss._array)
    with pytest.raises(error, match="on purpose"):
        loss.backward()
    del x, loss
    gc.collect()
    sg.graph_cleanup()
    assert seen() is None
    check_quiet()


def back_propagate(loss, x, how):
    """By each of the engine's loops."""
    if how == "watched":
        loss.register_hook(lambda g: None)
    if how == "grad":
        return sg.grad(loss, [x])
    return loss.backward(retain_graph=how == "retained", create_graph=how == "create_graph")


@pytest.mark.parametrize("how", ["plain", "watched", "retained", "grad", "create_graph"])
def test_a_kept_exception_keeps_no_array_of_the_graph(how, baseline):
    """The traceback keeps the engine's frames; those hold neither gradients nor saved values.

    When the last rule fails, a gradient of ``x`` is waiting, and a saved value is unused.
    """
    arrays = []

    class Gives(sg.Function):
        """Its rule gives a large gradient to its second argument, long before the failure."""

        @staticmethod
        def forward(ctx, h, x):
            return h.numpy() + 0.0

        @staticmethod
        def backward(ctx, g):
            large = np.ones(1000)
            arrays.append(weakref.ref(large))
            return g, large

    def fail(x, g):
        raise ValueError("on purpose")

    x = leaf(np.ones(1000))
    early = ruled(fail).apply(x * 2.0)
    late = Gives.apply(early * early * 3.0, x)
    arrays.append(weakref.ref(early._array))
    loss = late.sum()
    del early, late
    kept = None
    try:
        back_propagate(loss, x, how)
    except ValueError as error:
        kept = error
    del loss
    assert kept is not None
    alive = ["saved", "gradient"]
    alive = [name for name, array in zip(alive, arrays, strict=True) if array() is not None]
    # The frames of backward() hold the loss, and so a graph that is to be retained.
    assert alive == (["saved"] if how in ("retained", "create_graph") else [])
    del kept, x


@pytest.mark.parametrize(
    ("chain", "error"),
    [
        *[(chain_that_fails_in_a_rule, error) for error in ERRORS],
        (chain_that_fails_in_a_hook, MemoryError),
        (chain_that_fails_in_a_recomputation, KeyboardInterrupt),
    ],
)
def test_two_hundred_failures_do_not_grow(chain, error, baseline):
    """C13: chains of 1 MB arrays, 200 repeats, growth below 10 MB."""

    def once():
        x = leaf(np.ones(2**17))
        with pytest.raises(error):
            chain(x, error).backward()

    for _ in range(10):
        once()
    gc.collect()
    before = resident_bytes()
    for _ in range(200):
        once()
    gc.collect()
    assert resident_bytes() - before < 10 * 2**20


def test_an_error_in_one_thread_disturbs_no_other(baseline, busy_switching):
    def fails():
        for _ in range(50):
            x = leaf(np.ones(10))
            with pytest.raises(ValueError, match="on purpose"):
                chain_that_fails_in_a_rule(x, ValueError).backward()

    def works():
        for _ in range(50):
            x = leaf(np.ones(10))
            assert Cube.apply(x).sum().backward()[x].tolist() == [3.0] * 10

    run_threads([fails, works, fails, works])
    check_quiet()


def test_a_forward_that_fails_records_nothing(baseline):
    class Fails(sg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            raise ValueError("on purpose")

    x = leaf([1.0])
    with pytest.raises(ValueError, match="on purpose"):
        Fails.apply(x)
    with pytest.raises(ValueError, match="on purpose"):
        sg.checkpoint(lambda h: Fails.apply(h * 2.0), x)
    assert sg.is_recording()
    del x


def test_a_retained_graph_survives_a_rule_that_failed_once():
    fails = [True]

    def rule(x, g):
        if fails.pop() if fails else False:
            raise ValueError("once")
        return g * 7.0

    x = leaf([1.0])
    loss = ruled(rule).apply(x).sum()
    with pytest.raises(ValueError, match="once"):
        loss.backward(retain_graph=True)
    assert loss.backward()[x].tolist() == [7.0]


MODULES = (watch, calls, function, hooks, checkpointing, engine)


def everything():
    """One forward and backward through all of it."""
    x, y = leaf([2.0]), leaf([5.0])
    h = x * 3.0
    h.register_hook(lambda g: sg.after_backward(lambda: None))
    h.retain_grad()
    p, q = ProductAndSum.apply(h, y)
    y.register_post_accumulate(lambda t, g: None)
    loss = sg.checkpoint(lambda p, q: (p * q).sum(), p, Cube.apply(q))
    return loss.backward()[x].tolist()


@pytest.mark.parametrize(
    "stride", [23, pytest.param(1, marks=pytest.mark.slow)], ids=["sample", "all"]
)
def test_an_interrupt_at_any_point_leaves_everything_right(stride, baseline):
    """C13's kind: KeyboardInterrupt wherever the interpreter looks for one in this code."""
    expected = everything()
    with watched(MODULES):
        for at in range(0, count_points(MODULES, everything), stride):
            Interrupter(MODULES, at, dense=False).run(everything)
            assert watch._depth.get() == 0
            assert watch._waiting.get() == ()
            assert sg.is_recording()
            assert not any(lock.locked() for lock in locks())
            if at % 10 == 0:
                assert everything() == expected
    check_quiet()
