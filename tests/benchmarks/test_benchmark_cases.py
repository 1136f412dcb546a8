"""Every case runs, measures what it says, and notices an engine that computes something else."""

import importlib.util
import sys

import numpy as np
import pytest
from benchmarks.cases import CASES, mlp, operations
from benchmarks.cases.sweeping import Scene
from benchmarks.counting import CountingPrimitives, count, kept_blocks
from benchmarks.machine import describe
from benchmarks.plan import FREE_THREADED_VARIABLE, Plan, find_free_threaded
from benchmarks.remote import Worker, WorkerError, run_once
from benchmarks.worker import in_threads

import sweepgrad as sg
from benchmarks import engines


class TinyPlan(Plan):
    """Sizes at which a case takes no time; its figures mean nothing."""

    seconds = 0.0

    def pick(self, quick, full):
        if isinstance(quick, tuple):
            return tuple(size if size < 10 else max(5, size // 1000) for size in quick)
        return min(quick, 40)


def tiny():
    return TinyPlan(quick=True, engines=["sweepgrad", "numpy"])


ROWS = {
    "counts": 11,
    "multiply": 0,
    "tanh": 0,
    "dispatch": 2,
    "leaf": 0,
    "leaf-operation": 0,
    "mlp": 1,
    "chain": 0,
    "sweep-garbage": 3,
    "sweep-live": 2,
    "sweep-wait": 4,
    "threads": 3,
    "hogwild": 1,
    "memory": 2,
    "explorer": 3 if all(map(importlib.util.find_spec, ("greenlet", "frontrun"))) else 0,
}


@pytest.mark.parametrize("name", list(CASES))
def test_a_case_runs_and_gives_its_rows(name, baseline):
    result = CASES[name](tiny())
    assert result.case == name
    measured = [row for row in result.rows if row.value is not None]
    assert len(measured) == ROWS[name], [row.label for row in result.rows]
    missing = [row for row in result.rows if row.value is None]
    assert all(row.note for row in missing)
    if name in ("multiply", "tanh", "leaf", "leaf-operation", "mlp", "chain"):
        timed = {timing.engine for timing in result.timings}
        assert timed >= {"sweepgrad"}
        assert all(0 < timing.minimum <= timing.median for timing in result.timings)


@pytest.mark.parametrize("name", [n for n in engines.installed() if n != "numpy"])
def test_every_installed_engine_trains_to_what_bare_numpy_gives(name):
    reference, other = engines.load("numpy").mlp(3), engines.load(name).mlp(3)
    start = [np.array(value) for value in reference.parameters()]
    for _ in range(10):
        reference.step()
        other.step()
    mlp.check_agreement(name, other.parameters(), reference.parameters())
    with pytest.raises(AssertionError, match=name):
        mlp.check_agreement(name, start, reference.parameters())


def test_networks_that_share_parameters_all_move_the_same_ones():
    one, other = engines.load("sweepgrad").shared_mlps(2, 3)
    before = [np.array(value) for value in other.parameters()]
    one.step()
    for old, new, same in zip(before, other.parameters(), one.parameters(), strict=True):
        assert not np.array_equal(old, new)
        np.testing.assert_array_equal(new, same)


def test_a_wrong_gradient_is_noticed():
    with pytest.raises(AssertionError, match="some engine gives the gradient"):
        operations._check_gradient("some engine", [[1.0]], [[1.1]])


def test_a_scene_has_the_garbage_and_the_live_nodes_it_was_asked_for():
    for together in (False, True):
        scene = Scene(garbage=5, live=7, together=together)
        report = scene.runtime.memory_report()
        assert report.nodes == 12
        assert report.graphs == (1 if together else 2)
        scene.sweep(expected=5)
        assert scene.runtime.memory_report().nodes == 7
        with pytest.raises(AssertionError, match="freed 0 nodes"):
            scene.sweep(expected=5)


def test_a_worker_measures_time_and_memory():
    found = run_once("sweepgrad", "chain", length=20_000)
    assert min(found["build"], found["backward"], found["drop"]) > 0
    assert 1e5 < found["peak"] < 1e8


def test_a_worker_that_fails_says_why():
    with pytest.raises(WorkerError, match="no_such_engine"):
        Worker("no_such_engine")
    with Worker("numpy") as worker, pytest.raises(WorkerError, match="no counterpart"):
        worker.ask("chain", length=5)
    with Worker("numpy") as worker, pytest.raises(WorkerError, match="no_such_task"):
        worker.ask("no_such_task")


def test_a_worker_that_hangs_is_ended():
    with Worker("numpy", timeout=20.0) as worker:
        worker._timeout = 0.5
        with pytest.raises(WorkerError, match="ended with code -9"):
            worker.ask("train", threads=1, steps=10_000_000)


def test_an_error_in_a_thread_reaches_the_caller():
    def fail():
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        in_threads([fail, lambda: None])


def test_threads_are_timed_from_the_common_start_to_the_last_end():
    seconds = in_threads([lambda: None, lambda: sum(range(2_000_000))])
    alone = in_threads([lambda: sum(range(2_000_000))])
    assert seconds > 0.3 * alone


def callee():
    return [].append(1)


def test_counting_finds_what_was_executed_and_nothing_else():
    found = count(lambda: (callee(), callee()))
    assert dict(found.calls) == {f"{__name__}.callee": 2}
    assert set(found.bytecodes) == {f"{__name__}.callee"}
    assert found.python_calls == 2
    assert found.all_calls == 2  # list.append, twice
    assert 8 <= found.total <= 20
    assert sys.gettrace() is None


def test_counts_repeat_exactly():
    leaf = sg.tensor([1.0], requires_grad=True)
    y = leaf * 2.0
    for _ in range(10):
        y * 2.0
    first, second = (count(lambda: y * 2.0) for _ in range(2))
    assert first.total == second.total > 50
    assert first.operations == second.operations


def test_locks_taken_are_counted():
    primitives = CountingPrimitives()
    runtime = sg.GraphRuntime(primitives)
    leaf = runtime.tensor([1.0], requires_grad=True)
    y = leaf * 2.0
    taken = primitives.taken["taken"]
    z = y * 2.0
    assert primitives.taken["taken"] == taken  # recording takes none
    del z
    assert primitives.taken["taken"] == taken + 1
    y.backward()
    assert primitives.taken["taken"] == taken + 2


def test_kept_blocks_are_those_of_the_result():
    assert kept_blocks(lambda: [object() for _ in range(1000)]) >= 1000
    assert abs(kept_blocks(lambda: None)) < 10


def test_the_free_threaded_interpreter_can_be_named(monkeypatch):
    monkeypatch.setenv(FREE_THREADED_VARIABLE, "/some/python")
    assert find_free_threaded() == "/some/python"
    monkeypatch.delenv(FREE_THREADED_VARIABLE)
    monkeypatch.setenv("PATH", "")
    assert find_free_threaded() is None


def test_the_machine_is_described():
    found = describe()
    assert found["python"]["version"] == sys.version.split()[0]
    assert found["versions"]["numpy"] == np.__version__
    assert isinstance(found["python"]["optimised with PGO"], bool)
