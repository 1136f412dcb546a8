"""Collections, interrupts, signals and forks happen where a policy lets them."""

import contextlib
import gc
import os
import threading

import pytest

import sweepgrad as sg
from support import worlds
from sweepgrad.explore import PCT, explore


class Cycle:
    """Garbage that only a collection finds, with a tensor in it."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.me = self


class Calls(Cycle):
    """Such garbage whose destructor uses the runtime."""

    def __init__(self, tensor, call):
        super().__init__(tensor)
        self.call = call

    def __del__(self):
        self.call(self.tensor)


def refused(call):
    """``call``, which is refused inside a critical section, or when the graph is consumed."""

    def wrapped(tensor):
        with contextlib.suppress(sg.ReentrantCallError, sg.GraphConsumedError):
            call(tensor)

    return wrapped


FROM_A_FINALIZER = {
    "drop": lambda tensor: None,
    "operate": refused(lambda tensor: tensor * 2.0),
    "backward": refused(lambda tensor: (tensor * 3.0).backward(retain_graph=True)),
    "cleanup": lambda tensor: sg.graph_cleanup(),
    "report": refused(lambda tensor: sg.memory_report()),
}


@pytest.mark.parametrize("call", FROM_A_FINALIZER)
@pytest.mark.parametrize(
    "action", [worlds.operate, worlds.backward, worlds.join, worlds.cleanup_full, worlds.drop_tip]
)
def test_a_collection_at_any_step_hangs_nothing_and_changes_nothing_half(call, action):
    """C20, C21: garbage with a tensor is collected at every step of the operation in turn."""
    function = FROM_A_FINALIZER[call]

    def scenario(m):
        world = worlds.World()

        def work():
            Calls(world.trunk * 31.0, function)
            action(world)

        m.collect(m.spawn(work))

    report = explore(scenario)

    assert report.exhausted
    assert report.schedules > 5


def test_a_collection_in_one_thread_meets_another_thread_at_work():
    """The collecting thread drops a tip of a graph that another thread has locked."""

    def scenario(m):
        trunk = sg.tensor([2.0], requires_grad=True) * 3.0
        kept = []

        def collects():
            Cycle(trunk * 31.0)
            kept.append(trunk * 2.0)

        m.collect(m.spawn(collects))
        m.spawn(lambda: kept.append(trunk * 5.0), name="operate")

    report = explore(scenario, preemptions=1)

    assert report.exhausted


def test_a_collection_is_seen_to_happen_inside_a_critical_section():
    """Without the deferral of drops this would hang: the event really arrives there."""
    sections = set()

    def scenario(m):
        world = worlds.World()

        def look(tensor):
            sections.add(type(threading_state(m).section).__name__)

        def work():
            Calls(world.trunk * 31.0, look)
            world.trunk * 2.0

        m.collect(m.spawn(work))

    explore(scenario)

    assert sections == {"NoneType", "Graph"}


def threading_state(m):
    return m.runtime.primitives.threads.state


@pytest.mark.parametrize(
    "name", ["operate", "join", "backward", "cleanup_full", "drop_tip", "update"]
)
def test_an_interrupt_at_any_step_leaves_everything_whole(name):
    """C23: after the interrupt another thread does everything there is to do."""
    action = worlds.OPERATIONS[name]

    def scenario(m):
        world = worlds.World()
        thread = m.spawn(action, world, name=name)
        m.interrupt(thread)

        def afterwards():
            thread_is_over(thread)
            worlds.backward(world)
            worlds.join_back(world)
            worlds.update(world)
            sg.graph_cleanup()

        m.spawn(afterwards)

    report = explore(scenario, preemptions=0, check_runtime=False)

    assert report.exhausted
    assert report.schedules > 5


def thread_is_over(thread):
    from sweepgrad.explore.threads import wait_for_gate

    wait_for_gate("join", thread.end, None)


def test_after_an_interrupt_the_next_holder_repairs_the_counts():
    """At rest, after one more operation on each graph and a sweep, counts equal the truth."""

    def scenario(m):
        world = worlds.World()
        thread = m.spawn(worlds.operate, world)
        m.interrupt(thread)

        def afterwards():
            thread_is_over(thread)
            sg.graph_cleanup()

        m.spawn(afterwards)

    assert explore(scenario, preemptions=1).exhausted


def test_an_interrupt_does_not_hit_between_a_lock_and_its_with_block():
    """CPython enters the block of a C lock and leaves it without a gap; so does the model."""

    def scenario(m):
        lock, cell = m.lock("L"), m.cell(0)

        def guarded():
            with lock:
                cell.set(1)

        m.interrupt(m.spawn(guarded))

        @m.check
        def released():
            assert lock.owner is None

    assert explore(scenario).exhausted


def test_an_interrupt_hits_between_acquire_and_try():
    """The classical fault: acquire(), then try; Ctrl-C in between keeps the lock."""

    def scenario(m):
        lock, cell = m.lock("L"), m.cell(0)

        def guarded():
            lock.acquire()
            cell.get()
            try:
                cell.set(1)
            finally:
                lock.release()

        m.interrupt(m.spawn(guarded))

        @m.check
        def released():
            assert lock.owner is None

    report = explore(scenario, raises=False)

    assert report.failure is not None
    assert report.failure.kind == "invariant"


def test_a_signal_handler_runs_between_any_two_steps():
    """A handler that uses the runtime is refused inside a section and served outside of one."""
    results = set()

    def scenario(m):
        world = worlds.World()

        def handler():
            try:
                world.trunk * 37.0
            except sg.ReentrantCallError:
                results.add("refused")
            else:
                results.add("served")

        m.signal(m.spawn(worlds.join, world), handler)

    assert explore(scenario).exhausted
    assert results == {"refused", "served"}


@pytest.mark.parametrize("other", [worlds.operate, worlds.cleanup, worlds.join])
def test_a_child_forked_at_any_step_works(other, monkeypatch):
    """C22: another thread is anywhere in its operation when a thread forks."""

    forked = []
    real_fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: forked.append(1) or real_fork())

    def scenario(m):
        world = worlds.World()

        def child():
            worlds.operate(world)
            worlds.join_back(world)
            worlds.backward(world)
            sg.graph_cleanup()

        m.fork(m.spawn(worlds.drop_tip, world, name="forks"), child)
        m.spawn(other, world)

    # Forks cost as much as a hundred schedules each; chance spreads them over the steps.
    report = explore(scenario, policy=PCT(3, 40, seed=9))

    assert report.schedules == 40
    assert len(forked) > 10


def test_a_collection_event_finds_the_garbage_of_its_own_run_only():
    found = []

    def scenario(m):
        cell = m.cell()

        def work():
            Cycle(None)
            cell.set(1)
            cell.set(2)

        thread = m.spawn(work)
        m.signal(thread, lambda: found.append(gc.collect()), "counted collection")
        m.collects = True

    explore(scenario, policy=PCT(2, 50, seed=1), stop=False)

    assert len(set(found)) == 1


def test_threads_are_not_swapped_in_other_threads_of_the_process():
    """A watchdog of the test runner keeps its own locks while an exploration runs."""
    made = []

    def scenario(m):
        native = threading.Thread  # the class itself is not replaced
        m.spawn(lambda: made.append((native, type(threading.Lock()).__name__)))

    explore(scenario)

    assert {name for _, name in made} == {"ModelLock"}
    assert type(threading.Lock()).__name__ == "lock"
