"""Hooks on tensors, on leaves, at the end of a backward; gradients kept for results."""

import gc
import threading
import weakref

import numpy as np
import pytest
from custom_operations import ProductAndSum, leaf, ruled

import sweepgrad as sg
from support.child import run_child
from support.threads import repeat, run_threads
from sweepgrad.graph.watch import WATCH


def test_a_hook_sees_the_complete_gradient_once():
    """h is used twice: its gradient 3 + 5 is complete when the hook runs."""
    seen = []
    x = leaf([1.0])
    h = x * 2.0
    h.register_hook(lambda g: seen.append(g.tolist()))
    (h * 3.0 + h * 5.0).sum().backward()
    assert seen == [[8.0]]


def test_a_hook_on_a_leaf_sees_the_sum_of_all_contributions():
    seen = []
    x = leaf([1.0])
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 3.0 + x * 5.0).sum().backward()
    assert seen == [[8.0]]


def test_what_a_hook_returns_takes_the_gradients_place():
    x = leaf([1.0])
    h = x * 2.0
    h.register_hook(lambda g: g * 10.0)
    x.register_hook(lambda g: g + 1.0)
    assert (h * 3.0).sum().backward()[x].tolist() == [61.0]


def test_hooks_of_one_tensor_run_in_order_each_on_the_result_of_the_one_before():
    x = leaf([1.0])
    x.register_hook(lambda g: g + 1.0)
    x.register_hook(lambda g: None)
    x.register_hook(lambda g: g * 2.0)
    assert (x * 1.0).sum().backward()[x].tolist() == [4.0]


def test_the_documented_order_of_all_kinds():
    log = []
    x, y = leaf([1.0]), leaf([1.0])
    inner, outer = x * y, None
    outer = inner * 2.0
    for name, tensor in (("outer", outer), ("inner", inner), ("y", y), ("x", x)):
        tensor.register_hook(lambda g, name=name: log.append(name))
    for name, tensor in (("y", y), ("x", x)):
        tensor.register_post_accumulate(lambda t, g, name=name: log.append(f"after {name}"))
    inner.register_hook(lambda g: sg.after_backward(lambda: log.append("end 1")))
    x.register_post_accumulate(lambda t, g: sg.after_backward(lambda: log.append("end 2")))
    outer.sum().backward()
    log.append("returned")
    assert log == [
        *["outer", "inner", "x", "y", "after x", "after y", "end 1", "end 2", "returned"]
    ]


@pytest.mark.parametrize("kind", ["remove", "with"])
def test_a_removed_hook_runs_no_more(kind):
    runs = []
    x = leaf([1.0])
    handle = x.register_hook(runs.append)
    if kind == "remove":
        handle.remove()
        handle.remove()
    else:
        with handle:
            (x * 1.0).sum().backward()
        assert len(runs) == 1
        runs.clear()
    (x * 1.0).sum().backward()
    assert runs == []


@pytest.mark.parametrize(
    ("replacement", "words"),
    [
        (lambda g: g.sum(), ["shape ()", "shape (2,)"]),
        (lambda g: g.astype(np.float32), ["float32", "float64"]),
        (lambda g: 2.0, ["shape ()"]),
    ],
)
def test_a_replacement_that_does_not_fit_is_refused(replacement, words):
    x = leaf([1.0, 2.0])
    x.register_hook(replacement)
    with pytest.raises(sg.GradientError) as caught:
        (x * 1.0).sum().backward()
    for word in words:
        assert word in str(caught.value)


def test_a_hook_cannot_write_into_the_gradient():
    x = leaf([1.0])

    def write(g):
        g[...] = 0.0

    x.register_hook(write)
    with pytest.raises(ValueError, match="read-only"):
        (x * 1.0).sum().backward()


def test_a_gradient_that_a_hook_kept_does_not_change_when_the_caller_writes():
    kept = []
    x = leaf([1.0])
    h = x + 0.0
    h.register_hook(kept.append)
    x.register_hook(kept.append)
    grads = (h * 3.0).sum().backward()
    grads[x][...] = -1.0
    assert [k.tolist() for k in kept] == [[3.0], [3.0]]


def test_a_gradient_without_axes_is_an_array_to_a_hook():
    seen = []
    x = leaf(2.0)
    x.register_hook(lambda g: seen.append((type(g), g.shape)))
    (x * x).backward()
    assert seen == [(np.ndarray, ())]


def test_a_hook_under_create_graph_gets_and_gives_tensors():
    """g → g² by a hook: d/dx of (2x)² is 8x."""
    x = leaf(3.0)
    y = x * x
    x.register_hook(lambda g: g * g)
    (gx,) = sg.grad(y, x, create_graph=True)
    assert gx.item() == 36.0
    with x.register_hook(lambda g: None):
        assert float(sg.grad(gx, x, retain_graph=True)[0]) == 24.0**2


def test_hooks_run_for_grad_and_post_accumulate_does_not():
    log = []
    x = leaf([1.0])
    x.register_hook(lambda g: log.append("hook"))
    x.register_post_accumulate(lambda t, g: log.append("after"))
    sg.grad((x * 2.0).sum(), x)
    assert log == ["hook"]


def test_a_hook_on_the_root_sees_the_seed():
    seen = []
    x = leaf([1.0, 2.0])
    y = x * 2.0
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.backward([5.0, 7.0])
    assert seen == [[5.0, 7.0]]


def test_a_hook_on_a_result_that_leads_to_no_live_leaf_runs_all_the_same():
    seen = []
    h = leaf([1.0]) * 2.0  # the leaf's handle is gone
    other = leaf([1.0])
    h.register_hook(lambda g: seen.append(g.tolist()))
    grads = (h * other).sum().backward()
    assert seen == [[1.0]]
    assert len(grads) == 1


def test_retain_grad_keeps_the_gradient_of_a_result():
    x = leaf([1.0, 2.0])
    h = x * 2.0
    h.retain_grad()
    grads = (h * h).sum().backward()
    assert grads[h].tolist() == [4.0, 8.0]
    assert grads[x].tolist() == [8.0, 16.0]
    assert len(grads) == 2
    assert h in grads


def test_a_retained_gradient_shares_no_memory_with_another():
    x = leaf([1.0])
    h = x + 0.0
    h.retain_grad()
    grads = (h + 0.0).sum().backward()
    grads[h][...] = -1.0
    assert grads[x].tolist() == [1.0]


def test_retain_grad_works_where_no_live_leaf_lies_behind():
    h = leaf([1.0]) * 2.0
    h.retain_grad()
    assert (h * 3.0).sum().backward()[h].tolist() == [3.0]


def test_a_retained_gradient_is_what_the_hooks_made_of_it():
    x = leaf([1.0])
    h = x * 2.0
    h.retain_grad()
    h.register_hook(lambda g: g * 10.0)
    assert (h * 3.0).sum().backward()[h].tolist() == [30.0]


def test_asking_for_a_result_that_was_not_marked_names_retain_grad():
    x = leaf([1.0])
    h = x * 2.0
    grads = h.sum().backward()
    with pytest.raises(sg.NoGradientError, match="retain_grad"):
        grads[h]


@pytest.mark.parametrize("name", ["register_hook", "retain_grad", "register_post_accumulate"])
def test_an_untracked_tensor_takes_no_hook(name):
    arguments = () if name == "retain_grad" else (lambda *a: None,)
    with pytest.raises(sg.NotTrackedError, match=name):
        getattr(sg.tensor([1.0]), name)(*arguments)


def test_a_consumed_result_takes_no_hook_since_it_would_never_run():
    x = leaf([1.0])
    h = x * 2.0
    h.sum().backward()
    with pytest.raises(sg.GraphConsumedError):
        h.register_hook(lambda g: None)
    with pytest.raises(sg.GraphConsumedError):
        h.retain_grad()


def test_register_post_accumulate_is_for_leaves():
    with pytest.raises(sg.TensorTypeError, match="register_hook"):
        (leaf([1.0]) * 2.0).register_post_accumulate(lambda t, g: None)


def test_a_parameter_can_be_updated_after_its_gradient_is_final():
    w = leaf([1.0])
    w.register_post_accumulate(lambda t, g: t.update(lambda a: a - 0.5 * g))
    for _ in range(3):
        (w * 2.0).sum().backward()
    assert w.numpy().tolist() == [-2.0]


# --- callbacks ----------------------------------------------------------------------------


def test_a_callback_outside_of_a_backward_is_refused():
    with pytest.raises(sg.OutsideBackwardError):
        sg.after_backward(lambda: None)


def test_a_callback_belongs_to_the_innermost_backward():
    log = []

    def rule(x, g):
        sg.after_backward(lambda: log.append("outer end"))
        inner = leaf(2.0)
        inner.register_hook(lambda g: sg.after_backward(lambda: log.append("inner end")))
        (inner * inner).backward()
        log.append("inner returned")
        return g

    x = leaf(1.0)
    ruled(rule).apply(x).backward()
    assert log == ["inner end", "inner returned", "outer end"]


def test_a_callback_may_register_another_and_run_a_backward():
    log = []
    x = leaf(1.0)

    def first():
        y = leaf(3.0)
        log.append(float((y * y).backward()[y]))
        sg.after_backward(lambda: log.append("second"))

    x.register_hook(lambda g: sg.after_backward(first))
    (x * x).backward()
    assert log == [6.0, "second"]


@pytest.mark.parametrize("how", ["backward", "grad"])
def test_callbacks_of_a_failed_backward_do_not_run_then_nor_later(how):
    log = []
    x = leaf(1.0)

    def fail(x, g):
        raise ValueError("on purpose")

    loss = ruled(fail).apply(x) * 2.0
    loss.register_hook(lambda g: sg.after_backward(lambda: log.append("end")))
    with pytest.raises(ValueError, match="on purpose"):
        loss.backward() if how == "backward" else sg.grad(loss, x)
    (x * x).backward()
    assert log == []


def test_a_callback_that_fails_ends_the_backward_and_the_callbacks():
    log = []
    x = leaf(1.0)

    def fail():
        raise ValueError("on purpose")

    def hook(g):
        sg.after_backward(fail)
        sg.after_backward(lambda: log.append("never"))

    handle = x.register_hook(hook)
    with pytest.raises(ValueError, match="on purpose"):
        (x * x).backward()
    handle.remove()
    (x * x).backward()
    assert log == []


# --- life and threads -------------------------------------------------------------------------


def test_a_hook_that_closes_over_the_loss_is_collected(baseline):
    """C7's kind: nothing process-wide holds a hook, so the cycle is the collector's."""
    arrays = []
    for _ in range(3):
        x = leaf(np.ones(1000))
        h = x * 2.0
        loss = (h * h).sum()
        h.register_hook(lambda g, loss=loss: None)
        x.register_hook(lambda g, loss=loss: None)
        x.register_post_accumulate(lambda t, g, loss=loss: None)
        arrays.append(weakref.ref(h._array))
    del x, h, loss
    gc.collect()
    assert [array() for array in arrays] == [None] * 3


def test_a_hook_goes_with_the_rule_that_a_backward_consumed():
    class Closed:
        def __call__(self, g):
            return None

    x = leaf([1.0])
    h = x * 2.0
    hook = Closed()
    seen = weakref.ref(hook)
    h.register_hook(hook)
    del hook
    h.sum().backward()
    assert seen() is None


def test_a_handle_keeps_neither_hook_nor_tensor():
    x = leaf([1.0])
    handle = x.register_hook(lambda g, held=x: None)
    seen = weakref.ref(x)
    del x
    gc.collect()
    assert seen() is None
    handle.remove()


def test_nothing_is_watched_once_hooked_tensors_are_gone():
    gc.collect()
    before = len(WATCH)
    x = leaf([1.0])
    h = x * 1.0
    x.register_hook(lambda g: None)
    h.retain_grad()
    assert len(WATCH) == before + 2
    del x, h
    assert len(WATCH) == before


def test_two_threads_that_add_the_first_hook_at_once_lose_none(busy_switching):
    for _ in range(200):
        x = leaf([1.0])
        seen = []
        repeat(lambda index, x=x, seen=seen: x.register_hook(lambda g: seen.append(index)), 4)
        (x * 1.0).sum().backward()
        assert sorted(seen) == [0, 1, 2, 3]


def test_hooks_run_in_the_thread_that_runs_the_backward(busy_switching):
    """Each of 4 threads back-propagates through its own graph of one shared, hooked leaf."""
    x = leaf([1.0])
    seen = []
    x.register_hook(lambda g: seen.append((threading.get_ident(), g.tolist())))

    def worker(index):
        for _ in range(50):
            assert (x * float(index)).sum().backward()[x].tolist() == [index]
        return threading.get_ident()

    threads = repeat(worker, 4)
    for index, thread in enumerate(threads):
        assert seen.count((thread, [float(index)])) == 50


def test_hooks_are_added_and_removed_while_other_threads_run_them(busy_switching):
    x = leaf([1.0])
    counts = []

    def adds(index):
        for _ in range(200):
            with x.register_hook(lambda g: None):
                pass

    def runs():
        for _ in range(200):
            counts.append((x * 2.0).sum().backward()[x].tolist())

    run_threads([lambda: adds(0), lambda: adds(1), runs, runs])
    assert counts == [[2.0]] * 400


def test_a_backward_through_several_results_runs_each_results_hooks():
    seen = {}
    x, y = leaf(2.0), leaf(5.0)
    p, q = ProductAndSum.apply(x, y)
    p.register_hook(lambda g: seen.setdefault("p", float(g)))
    q.register_hook(lambda g: seen.setdefault("q", float(g)))
    (p * 3.0 + q * 4.0).backward()
    assert seen == {"p": 3.0, "q": 4.0}


def test_a_graph_without_hooks_is_run_by_the_short_loop():
    """The first-order path asks nothing when nobody watches.  In a process of its own."""
    run_child(
        """
        import sweepgrad as sg
        from sweepgrad.graph import engine, running

        def never(*args):
            raise AssertionError("the watched loop ran")

        running._run_watched = engine.hook_rest = never
        x = sg.tensor(2.0, requires_grad=True)
        assert float((x * x).backward()[x]) == 4.0

        x.register_hook(lambda g: None)
        try:
            (x * x).backward()
        except AssertionError:
            print("watched")
        """
    )
