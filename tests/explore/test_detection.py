"""Each kind of failure is found, named and explained on a toy that has it."""

import pytest

import sweepgrad as sg
from sweepgrad.explore import (
    ExplorerError,
    NonDeterminismError,
    ScheduleFailure,
    explore,
)


def failure(scenario, **options):
    report = explore(scenario, raises=False, **options)
    assert report.failure is not None, f"nothing found:\n{report}"
    return report.failure


def crossed(m):
    a, b = m.lock("A"), m.lock("B")

    def one():
        with a, b:
            pass

    def two():
        with b, a:
            pass

    m.spawn(one)
    m.spawn(two)


def test_a_deadlock_names_threads_locks_and_both_places():
    found = failure(crossed)

    assert found.kind == "deadlock"
    assert found.cycle == ["one", "two"]
    waits = {entry.thread: (entry.what, entry.owner) for entry in found.waiting}
    assert waits == {"one": ("B", "two"), "two": ("A", "one")}
    text = str(found)
    assert "one waits for B, held by two" in text
    assert "two waits for A, held by one" in text
    assert text.count("test_detection.py") >= 4  # each wait and each taking, with its place


def test_a_deadlock_in_the_runtime_names_the_lock_classes():
    """A thread that asks for SWEEP while it holds a graph's lock, against a sweep."""

    def scenario(m):
        w = sg.tensor([1.0], requires_grad=True)
        kept = w * 2.0
        graph = kept._node.graph

        def wrong_order():
            with graph.lock, m.runtime.sweeper.lock:
                pass

        m.spawn(wrong_order)
        m.spawn(lambda: sg.graph_cleanup(full=True), name="cleanup")

    found = failure(scenario)

    assert found.kind == "deadlock"
    assert {entry.what for entry in found.waiting} == {"SWEEP lock", "GRAPH lock 1"}


def test_a_lock_taken_twice_by_its_thread_is_a_deadlock_of_one():
    def scenario(m):
        lock = m.lock("L")

        def again():
            with lock, lock:
                pass

        m.spawn(again)

    found = failure(scenario)

    assert (found.kind, found.cycle) == ("deadlock", ["again"])


def test_a_lock_that_is_never_released_is_told_from_a_deadlock():
    def scenario(m):
        lock = m.lock("L")
        m.spawn(lock.acquire, name="keeper")
        m.spawn(lock.acquire, name="waiter")

    found = failure(scenario)

    assert found.kind == "abandoned lock"
    assert "which keeper took and kept" in found.message
    assert "(which has ended)" in str(found)


def test_an_exception_is_a_failure_of_its_thread_with_its_traceback():
    def scenario(m):
        cell = m.cell(0)

        def divide():
            1 // cell.get()

        m.spawn(cell.set, 1, name="set")
        m.spawn(divide)

    found = failure(scenario)

    assert (found.kind, found.thread) == ("exception", "divide")
    assert found.message.startswith("ZeroDivisionError")
    assert "1 // cell.get()" in found.details


def test_an_exception_in_a_finalizer_is_a_failure():
    class Bad:
        def __del__(self):
            raise ValueError("from a finalizer")

    def scenario(m):
        cell = m.cell()

        def drop():
            Bad()
            cell.set(1)

        m.spawn(drop)

    found = failure(scenario)

    assert (found.kind, found.message) == ("exception", "ValueError: from a finalizer in drop")


def test_a_lost_update_breaks_the_invariant_checked_at_the_end():
    def scenario(m):
        cell = m.cell(0)

        def add():
            cell.set(cell.get() + 1)

        m.spawn(add)
        m.spawn(add)

        @m.check
        def both_counted():
            assert cell.get() == 2

    found = failure(scenario)

    assert found.kind == "invariant"
    assert [(note.thread, note.kind) for note in found.steps] == [
        (0, "read"),
        (1, "read"),
        (1, "write"),
        (0, "write"),
    ]


def test_an_invariant_can_be_checked_before_each_step():
    """x + y = 0 is broken for one step only, which no check at the end sees."""

    def scenario(m):
        x, y = m.cell(0), m.cell(0)

        def move():
            x.set(1)
            y.set(-1)

        m.spawn(move)

        @m.check_each_step
        def balanced():
            assert x.get() + y.get() == 0

    found = failure(scenario)

    assert found.kind == "invariant"
    assert len(found.steps) == 1


def test_a_wake_up_before_the_wait_is_lost():
    """The flag is looked at outside the condition's lock: notify may come in between."""
    import threading

    def scenario(m):
        condition = threading.Condition()
        flag = m.cell(False)

        def wait():
            if not flag.get():
                with condition:
                    condition.wait()

        def wake():
            flag.set(True)
            with condition:
                condition.notify()

        m.spawn(wait)
        m.spawn(wake)

    found = failure(scenario)

    assert found.kind == "lost wake-up"
    assert "wait for a notification" in found.message


def test_a_wake_up_under_the_condition_is_never_lost():
    import threading

    def scenario(m):
        condition = threading.Condition()
        flag = m.cell(False)

        def wait():
            with condition:
                while not flag.get():
                    condition.wait()

        def wake():
            with condition:
                flag.set(True)
                condition.notify()

        m.spawn(wait)
        m.spawn(wake)

    assert explore(scenario, preemptions=None).exhausted


def test_a_loop_without_progress_meets_the_step_bound():
    def scenario(m):
        flag = m.cell(False)

        def spin():
            while not flag.get():
                pass

        m.spawn(spin)

    found = failure(scenario, limit=500)

    assert (found.kind, len(found.steps)) == ("livelock", 500)


def test_a_scenario_that_does_not_repeat_itself_is_not_the_programs_failure():
    state = {"runs": 0}

    def scenario(m):
        state["runs"] += 1
        cell = m.cell(0)
        reads = state["runs"] == 3

        def work():
            cell.get() if reads else cell.set(1)
            cell.set(2)

        m.spawn(work)
        m.spawn(work)

    with pytest.raises(NonDeterminismError, match="after the same choices"):
        explore(scenario, reduce=False)


def test_a_failure_that_does_not_repeat_is_not_reported_as_one():
    """The third run fails (the first is made twice); the one to describe it does not."""
    state = {"runs": 0}

    def scenario(m):
        state["runs"] += 1
        cell = m.cell(0)
        fails = state["runs"] == 3

        def work():
            cell.set(1)
            assert not fails

        m.spawn(work)
        m.spawn(work)

    with pytest.raises(NonDeterminismError, match="a run failed"):
        explore(scenario)


def test_state_that_a_run_leaves_behind_is_noticed():
    kept = []

    def scenario(m):
        cell = m.cell(0)
        kept.append(cell)

        def work():
            for left in kept:
                left.set(1)

        m.spawn(work)

    with pytest.raises(NonDeterminismError, match="made twice"):
        explore(scenario)


def test_waiting_in_the_set_up_is_a_wrong_use_of_the_tool():
    def scenario(m):
        lock = m.lock("L")
        lock.acquire()
        lock.acquire()

    with pytest.raises(ExplorerError, match="set-up"):
        explore(scenario)


def test_an_exploration_inside_another_is_refused():
    def scenario(m):
        explore(crossed)

    with pytest.raises(ExplorerError, match="one runs at a time"):
        explore(scenario)


def test_a_fault_of_a_policy_is_the_tools():
    class Broken:
        preemptions = None

        def begin(self):
            return True

        def choose(self, enabled, last):
            raise KeyError("a fault of the policy")

        def stopped(self, live):
            pass

        def end(self, steps):
            pass

        def exhausted(self):
            return False

        def describe(self):
            return "broken"

    with pytest.raises(ExplorerError, match="the policy or the notes failed"):
        explore(crossed, policy=Broken())


def test_a_failure_is_raised_unless_asked_otherwise():
    with pytest.raises(ScheduleFailure, match="a deadlock") as caught:
        explore(crossed)

    assert caught.value.report.failures == 1


def test_an_error_in_the_set_up_comes_out_as_it_is():
    def scenario(m):
        raise LookupError("in the set-up")

    with pytest.raises(LookupError, match="in the set-up"):
        explore(scenario)


def test_the_report_says_what_was_covered():
    report = explore(crossed, preemptions=None, stop=False, raises=False)

    assert report.threads == ["one", "two"]
    assert report.steps == 8
    assert report.preemptions is None
    assert "3 schedules run" in str(report)
    assert ", exhausted" in str(report)
    assert "no bound" in str(report)


def test_ctrl_c_ends_the_exploration_and_is_no_failure_of_the_program():
    def scenario(m):
        def stopped():
            raise KeyboardInterrupt

        m.spawn(stopped)

    with pytest.raises(KeyboardInterrupt):
        explore(scenario)


def test_a_thread_that_swallows_everything_is_unwound_all_the_same():
    """Nothing of a run that got stuck may go on in the next one."""

    def scenario(m):
        lock = m.lock("L")

        def stubborn():
            for _ in range(3):
                try:
                    with lock, lock:
                        pass
                except BaseException:
                    continue

        m.spawn(stubborn)

    assert failure(scenario).kind == "deadlock"
    assert failure(scenario).kind == "deadlock"
