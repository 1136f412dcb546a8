"""Runtimes are islands: tensors of two do not mix, and each reports on itself alone."""

import gc
import weakref

import pytest

import sweepgrad as sg
from support.threads import repeat
from sweepgrad.graph import DEFAULT, GraphRuntime

ONE = [1.0]


def pair():
    return GraphRuntime(name="one"), GraphRuntime(name="two")


def test_each_runtime_counts_its_own():
    one, two = pair()
    default = DEFAULT.memory_report()
    x = one.tensor([2.0], requires_grad=True)
    y = x * x
    assert (one.memory_report().nodes, one.memory_report().leaves) == (1, 1)
    assert (two.memory_report().nodes, two.memory_report().leaves) == (0, 0)
    assert DEFAULT.memory_report() == default
    assert y.backward(ONE)[x].tolist() == [4.0]
    assert one.memory_report().nodes == 0


def test_a_sweep_touches_one_runtime_only():
    one, two = pair()
    kept = []
    for runtime in (one, two):
        trunk = runtime.tensor([1.0], requires_grad=True) * 2.0
        kept += [trunk * 3.0, trunk * 5.0]  # more than the claim of one node pays for
        trunk.backward(ONE)
    assert one.graph_cleanup().nodes_freed == 2
    assert (one.memory_report().nodes, two.memory_report().nodes) == (0, 2)
    assert two.graph_cleanup().nodes_freed == 2
    assert len(kept) == 4


MIXES = {
    "two leaves": lambda a, b: a * b,
    "a leaf and a result": lambda a, b: a * (b * 2.0),
    "a result and a leaf": lambda a, b: (a * 2.0) * b,
    "two results": lambda a, b: (a * 2.0) * (b * 2.0),
    "three operands": lambda a, b: sg.concatenate([a, a * 2.0, b]),
    "three results": lambda a, b: sg.concatenate([a * 1.0, b * 2.0, b * 3.0]),
    "roots of one backward": lambda a, b: sg.grad([a * 1.0, b * 1.0], [a]),
}


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("swapped", [False, True])
def test_mixing_is_refused_and_changes_nothing(mix, swapped):
    one, two = pair()
    a, b = (runtime.tensor([2.0], requires_grad=True) for runtime in (one, two))
    if swapped:
        a, b = b, a
    with pytest.raises(sg.RuntimeMismatchError) as caught:
        MIXES[mix](a, b)
    assert "'one'" in str(caught.value)
    assert "'two'" in str(caught.value)
    del caught
    gc.collect()
    for runtime, x in ((one, a), (two, b)):
        runtime.check_valid()
        assert runtime.memory_report().nodes == 0
        assert (x * x).backward(ONE)[x].tolist() == [4.0]


def test_constants_belong_to_no_runtime():
    one, two = pair()
    constant = one.tensor([3.0])
    x = two.tensor([2.0], requires_grad=True)
    assert (x * constant).backward(ONE)[x].tolist() == [3.0]
    y = one.tensor([5.0], requires_grad=True)
    assert (x * y.detach()).backward(ONE)[x].tolist() == [5.0]


def test_a_runtime_goes_with_its_last_tensor():
    runtime = GraphRuntime()
    x = runtime.tensor([1.0], requires_grad=True)
    y = x * 2.0
    reference = weakref.ref(runtime)
    del runtime
    assert y.backward(ONE)[x].tolist() == [2.0]
    del x, y
    gc.collect()
    assert reference() is None


def test_runtimes_at_once_in_threads(busy_switching):
    def work(index):
        runtime = GraphRuntime()
        x = runtime.tensor([float(index + 1)], requires_grad=True)
        for _ in range(50):
            joined = (x * 2.0) * (x * 3.0)
            assert joined.backward(ONE)[x].tolist() == [12.0 * (index + 1)]
            runtime.graph_cleanup()
        del joined
        runtime.check_valid()
        return runtime.memory_report().nodes

    assert repeat(work, 4) == [0] * 4
