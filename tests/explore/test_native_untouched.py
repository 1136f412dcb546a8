"""After an exploration, and after one that failed, everything native is as it was."""

import gc
import sys
import threading
import time

import pytest

import sweepgrad as sg
from sweepgrad import sync
from sweepgrad.explore import ScheduleFailure, explore
from sweepgrad.explore.primitives import ModelLock, ModelQueue
from sweepgrad.explore.watching import hidden_locks
from sweepgrad.graph import DEFAULT, Node
from sweepgrad.graph.hierarchy import checking_locks
from sweepgrad.graph.locator import Graph
from sweepgrad.tensor import Tensor


def fingerprint():
    names = ("Lock", "RLock", "Condition", "local", "get_ident", "current_thread", "Thread")
    return {
        "node": [id(Node.__dict__.get(name)) for name in ("children", "graph", "__call__")],
        "graph": id(Graph.__dict__["forward"]),
        "tensor": [id(Tensor.__dict__.get(name)) for name in ("_array", "__del__")],
        "runtime": [id(value) for value in DEFAULT.__dict__.values()],
        "threading": [id(getattr(threading, name)) for name in names],
        "methods": [id(vars(threading.Thread)[name]) for name in ("start", "join", "is_alive")],
        "sync": [id(vars(sync)[name]) for name in ("Thread", "get_ident", "current_thread")],
        "sleep": id(time.sleep),
        "gc": gc.isenabled(),
        "frozen": gc.get_freeze_count(),
        "hook": id(sys.unraisablehook),
        "checked": checking_locks(),
    }


def deadlock(m):
    a, b = m.lock("A"), m.lock("B")
    w = sg.tensor([1.0], requires_grad=True)

    def cross(first, second):
        with first:
            w * 2.0
            with second:
                pass

    m.spawn(cross, a, b)
    m.spawn(cross, b, a)


def test_everything_native_is_put_back():
    w = sg.tensor([3.0], requires_grad=True)
    kept = w * w
    before = fingerprint()

    with pytest.raises(ScheduleFailure, match="a deadlock"):
        explore(deadlock)

    assert fingerprint() == before
    assert kept.backward()[w][0] == 6.0


def test_the_default_runtime_of_the_program_is_another_one():
    w = sg.tensor([3.0], requires_grad=True)
    kept = w * w
    before = sg.memory_report()
    inside = []

    def scenario(m):
        m.spawn(lambda: inside.append(sg.memory_report()))

    explore(scenario)

    assert {(report.graphs, report.nodes, report.leaves) for report in inside} == {(0, 0, 0)}
    assert sg.memory_report() == before
    assert kept.requires_grad


def test_every_lock_and_queue_of_the_runtime_is_the_models():
    """C25: a primitive hidden from the explorer would bring missed and impossible schedules."""
    made, hidden = [], []

    def scenario(m):
        w = sg.tensor([1.0], requires_grad=True)
        kept = [w * 2.0, w * 3.0]
        m.check(lambda: hidden.append(hidden_locks()))
        runtime = m.runtime
        graph = kept[0]._node.graph
        locks = [runtime.sweeper.lock, runtime.locator.lock, graph.lock, *runtime.parameters.locks]
        made.append(({type(lock) for lock in locks}, type(graph.drops)))
        m.spawn(lambda: kept[0] * kept[1])

    explore(scenario)

    assert all(entry == ({ModelLock}, ModelQueue) for entry in made)
    assert hidden == [[]]


def test_steps_of_a_runtime_operation_name_every_kind_of_primitive():
    """One join, one drop, one parameter swap: locks, queue, fields, handle, value, directory."""

    def scenario(m):
        w = sg.tensor([1.0], requires_grad=True)
        held = [w * 2.0, w * 3.0]

        def work():
            held.append(held[0] * held[1])
            held.clear()
            w.assign([2.0])
            sg.graph_cleanup()
            raise LookupError("shows the schedule")

        m.spawn(work)

    report = explore(scenario, raises=False)

    kinds = {note.kind for note in report.failure.steps}
    assert kinds >= {
        "acquire",
        "try",
        "release",
        "popleft of",
        "truth of",
        "copy of",
        "look at children of",
        "store children of",
        "look at graph of",
        "look at forward of",
        "store forward of",
        "look at handle of",
        "drop handle of",
        "look at the value of",
        "store the value of",
    }


def test_importing_the_library_needs_no_greenlet():
    assert "greenlet" not in run_fresh("import sweepgrad, sys; print(*sorted(sys.modules))")


def test_the_explorer_is_an_attribute_of_the_library_when_asked_for():
    text = run_fresh("import sweepgrad as sg; print(sg.explore.explore.__name__)")

    assert text.strip() == "explore"


def test_a_missing_greenlet_is_explained():
    text = run_fresh(
        "import sys; sys.modules['greenlet'] = None\n"
        "try:\n    import sweepgrad.explore\nexcept ImportError as error:\n    print(error)"
    )

    assert "pip install 'sweepgrad[explore]'" in text


def run_fresh(code):
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    return done.stdout


def test_a_hook_that_one_run_leaves_in_a_cycle_is_none_of_the_next_run():
    """While any node is hooked, every backward makes other steps."""
    kept = []

    def scenario(m):
        w = sg.tensor([2.0], requires_grad=True)

        def work():
            (w * 3.0).backward()
            hooked = w * 5.0
            hooked.register_hook(lambda gradient: None)
            kept.append(hooked)

        m.spawn(work)
        m.spawn(work)

    report = explore(scenario, schedules=50)

    assert report.failures == 0


def test_hooks_from_before_an_exploration_run_after_it():
    w = sg.tensor([2.0], requires_grad=True)
    seen = []
    w.register_hook(lambda gradient: seen.append(gradient.tolist()))

    explore(lambda m: m.spawn(lambda: sg.tensor([1.0], requires_grad=True) * 2.0))
    (w * 3.0).backward()

    assert seen == [[3.0]]
