"""Contexts that hold their own results, and chains of contexts that hold each other."""

import gc
import weakref
from typing import ClassVar

import numpy as np
import pytest
from custom_operations import leaf

import sweepgrad as sg
from support.child import run_child
from support.memory import resident_bytes
from support.threads import repeat


class Megabyte(sg.Function):
    """x + 0, with a large array on the context; ``keep`` decides what else it holds."""

    contexts: ClassVar[list[weakref.ref]] = []

    @staticmethod
    def forward(ctx, x, keep):
        ctx.array = np.ones(2**17)
        result = x + 0.0
        keep(ctx, result)
        Megabyte.contexts.append(weakref.ref(ctx))
        return result

    @staticmethod
    def backward(ctx, g):
        return g, None


class Model:
    """Holds the result of an operation whose context holds a method of the model."""

    def method(self):
        return self

    def run(self, x):
        def keep(ctx, result):
            ctx.method = self.method

        self.result = Megabyte.apply(x, keep)
        return self.result


def own_attribute(x):
    return Megabyte.apply(x, lambda ctx, result: setattr(ctx, "result", result))


def own_saved(x):
    return Megabyte.apply(x, lambda ctx, result: ctx.save_for_backward(result, ctx.array))


def own_in_a_list(x):
    return Megabyte.apply(x, lambda ctx, result: setattr(ctx, "results", [result]))


def own_handle(x):
    """A true cycle: the tensor that apply returned, on the context that made it."""
    contexts = []
    result = Megabyte.apply(x, lambda ctx, result: contexts.append(ctx))
    contexts[0].result = result
    return result


def model(x):
    return Model().run(x)


CYCLES = [own_attribute, own_saved, own_in_a_list, own_handle, model]


@pytest.mark.parametrize("make", CYCLES)
def test_a_context_that_holds_its_own_result_is_collected(make, baseline):
    """C7: dropped without a backward, context, result and arrays die."""
    Megabyte.contexts.clear()
    result = make(leaf(np.ones(3)))
    context = Megabyte.contexts[0]
    seen = [context, weakref.ref(result), weakref.ref(context().array), weakref.ref(result._array)]
    assert all(reference() is not None for reference in seen)
    del result
    gc.collect()
    sg.graph_cleanup()
    assert [reference() for reference in seen] == [None] * 4


@pytest.mark.parametrize("make", [own_attribute, own_saved, own_in_a_list])
def test_a_result_named_by_its_own_context_needs_no_collection(make, baseline):
    """The context holds the array, not the handle, so there is no cycle at all."""
    Megabyte.contexts.clear()
    gc.disable()
    try:
        result = make(leaf(np.ones(3)))
        context = Megabyte.contexts[0]
        del result
        assert context() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("make", CYCLES)
def test_a_cycle_is_gone_after_its_backward_too(make, baseline):
    Megabyte.contexts.clear()
    x = leaf(np.ones(3))
    result = make(x)
    assert result.sum().backward()[x].tolist() == [1.0, 1.0, 1.0]
    del result
    gc.collect()
    assert Megabyte.contexts[0]() is None
    del x


@pytest.mark.parametrize("make", [own_handle, model])
def test_a_thousand_megabytes_of_cycles_do_not_stay(make, baseline):
    """C7: 1,000 repeats with 1 MB arrays; growth below 20 MB."""
    gc.collect()
    gc.freeze()  # collections look at what this test makes, not at all that a long run has left
    for _ in range(30):
        make(leaf(np.ones(3)))
        gc.collect()
    before = resident_bytes()
    for round_ in range(1000):
        make(leaf(np.ones(3)))
        if round_ % 5 == 4:
            gc.collect()
    gc.unfreeze()
    assert resident_bytes() - before < 20 * 2**20
    Megabyte.contexts.clear()


def test_cycles_in_four_threads_are_collected(baseline, busy_switching):
    Megabyte.contexts.clear()

    def worker(index):
        for _ in range(25):
            for make in (own_handle, model, own_attribute):
                make(leaf(np.ones(3)))

    repeat(worker, 4)
    gc.collect()
    assert [reference() for reference in Megabyte.contexts] == [None] * 300
    Megabyte.contexts.clear()


CHAIN = """
import gc, sys
sys.setrecursionlimit(200)
import numpy as np
import sweepgrad as sg

class Keeps(sg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.argument = x
        return x.numpy() + 1.0

    @staticmethod
    def backward(ctx, g):
        return g

how, count = sys.argv[1], int(sys.argv[2])

def run():
    x = y = sg.tensor(1.0, requires_grad=True)
    cycle = []
    for _ in range(count):
        y = Keeps.apply(y)
    if how == "backward":
        assert float(y.backward()[x]) == 1.0
    if how == "collected":
        cycle.append((cycle, y))
    del y, cycle
    gc.collect()
    report = sg.memory_report()
    assert (report.nodes, report.graphs) == (0, 0), report

if len(sys.argv) > 3:
    import threading
    # See docs/hazards.md: CPython 3.13 with a GIL overflows a small stack by itself.
    deep = (3, 13) <= sys.version_info < (3, 14) and getattr(sys, "_is_gil_enabled", bool)()
    threading.stack_size((16 * 1024 if deep else 256) * 1024)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(100)
    assert not thread.is_alive()
else:
    run()
print("done")
"""


@pytest.mark.parametrize("where", [(), ("thread",)], ids=["main", "small stack"])
@pytest.mark.parametrize("how", ["dropped", "backward", "collected"])
@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_long_chain_of_contexts_that_hold_their_arguments_goes_without_recursion(
    count, how, where
):
    """C7 and C9: 100,000 contexts, recursion limit 200, also in a thread of 256 KiB of stack."""
    printed = run_child(CHAIN, how, str(count), *where, limit=50, check_locks=False)
    assert printed == "done\n"


def test_saving_the_same_result_for_two_contexts_leaks_neither(baseline):
    """Two operations that hold each other's results: a cycle through two contexts."""
    contexts = []

    def note(ctx, result):
        contexts.append(ctx)

    one = Megabyte.apply(leaf(np.ones(3)), note)
    two = Megabyte.apply(leaf(np.ones(3)), note)
    contexts[0].other, contexts[1].other = two, one
    seen = [weakref.ref(context) for context in contexts]
    contexts.clear()
    Megabyte.contexts.clear()
    del one, two
    gc.collect()
    assert [reference() for reference in seen] == [None, None]
