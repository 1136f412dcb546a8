"""A small training loop whose every result is checked; for child processes that are disturbed.

No tests.  Values are small integers, so that every gradient and every parameter is exact.
"""

import random
import threading

import numpy as np

import sweepgrad as sg
from sweepgrad.graph import DEFAULT, ORDER
from sweepgrad.sync import NATIVE


class Training:
    """Steps with every kind of operation; some tensors live on from step to step."""

    def __init__(self, runtime=DEFAULT, seed=0):
        self.runtime = runtime
        self.w = runtime.tensor([3.0, 1.0], requires_grad=True)
        #: Written by interrupted steps too: one more or less than ``steps`` counts.
        self.kept = []
        self.rng = random.Random(seed)
        self.steps = 0

    def step(self):
        """Make, record, join, back-propagate, drop, update and now and then sweep."""
        x = self.runtime.tensor([2.0, 5.0], requires_grad=True)
        one, other = x * self.w.detach(), x * x
        joined = (one * other).sum()  # w x^3
        grads = joined.backward()
        expected = 3.0 * self.w.numpy() * np.array([4.0, 25.0])
        assert (grads[x] == expected).all(), (grads[x], expected)
        y = x * 2.0
        self.kept.append((x, y * x))
        if self.kept[0][1] is not self.kept[-1][1]:
            self.kept[-1] = (x, self.kept[-1][1] + self.kept[0][1])  # joins graphs
        del self.kept[:-4]
        self.w.update(lambda a: a + 1.0)
        self.w.update(lambda a: a - 1.0)
        if self.rng.random() < 0.1:
            self.runtime.graph_cleanup()
        self.steps += 1

    def restart(self):
        """After a step that was interrupted somewhere."""
        self.w.assign([3.0, 1.0])
        self.kept.clear()


def complete_use(runtime=DEFAULT, shared=None):
    """Make, join, back-propagate and sweep; checked."""
    x = runtime.tensor([3.0], requires_grad=True)
    one, other = x * x, x * 2.0
    assert (one * other).backward([1.0])[x].tolist() == [54.0]
    if shared is not None:
        mine = x * 5.0
        assert sg.grad(mine * shared, [x], [[1.0] * shared.size])[0].shape == (1,)
    runtime.graph_cleanup()


def use_in_another_thread(limit=2.0, runtime=DEFAULT, shared=None):
    """``complete_use`` in another thread, which must be done within the limit."""
    errors = []

    def use():
        try:
            complete_use(runtime, shared)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(limit)
    assert not thread.is_alive(), f"another thread hangs\n{ORDER.wait_for_graph()}"
    assert errors == [], errors


def at_rest(runtime=DEFAULT):
    """No lock held, this thread in no section, every count as the truth says."""
    locks = [runtime.sweeper.lock, runtime.locator.lock, *runtime.parameters.locks]
    locks += [graph.lock for graph in runtime.locator.list_graphs()]
    assert not any(lock.locked() for lock in locks), [lock for lock in locks if lock.locked()]
    state = NATIVE.threads.state
    assert (state.section, state.sweeping, state.discarding) == (None, False, False)
    assert ORDER.violations == []


def ids_agree(runtime=DEFAULT):
    """After a sweep: every structure valid, the directory's ids those of the records."""
    runtime.graph_cleanup()
    runtime.check_valid()
    graphs = runtime.locator.list_graphs()
    for graph in graphs:
        for number, node in graph.nodes.items():
            assert (node.id, node.graph) == (number, graph)
    report = runtime.memory_report()
    assert report.nodes == sum(len(graph.nodes) for graph in graphs)
    assert report.pending_drops == 0
