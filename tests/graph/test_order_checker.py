"""The order checker: a wrong order is reported on first sight, a right one never."""

import sys

import pytest

import sweepgrad as sg
from support.child import TESTS, run_child
from support.threads import Gate, ThreadsFailed, run_threads
from sweepgrad.graph import ORDER, GraphRuntime, Rank, check_locks, locator
from sweepgrad.graph.hierarchy import (
    HIERARCHY,
    RankedLock,
    acquire_rising,
    make_lock,
    release_all,
    under_pair,
)
from sweepgrad.sync import NATIVE, Barrier, NativePrimitives, get_ident


@pytest.fixture
def expect_violation():
    yield
    assert len(ORDER.violations) == 1
    ORDER.violations.clear()


def lock(rank, serial):
    return make_lock(NATIVE, rank, serial)


def take_the_first(first):
    first.acquire()


def take_the_second(second):
    second.acquire()


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        (Rank.GRAPH, Rank.LOCATOR),
        (Rank.GRAPH, Rank.SWEEP),
        (Rank.LOCATOR, Rank.SWEEP),
        (Rank.PARAM, Rank.GRAPH),
        (Rank.GRAPH, Rank.GRAPH),
        (Rank.PARAM, Rank.PARAM),
    ],
)
def test_a_wrong_order_is_reported_at_once_with_both_stacks(held, wanted, expect_violation):
    """Nobody else runs, nothing hangs: the order alone is the fault."""
    first, second = lock(held, 1), lock(wanted, 2)
    take_the_first(first)
    with pytest.raises(sg.LockOrderError) as caught:
        take_the_second(second)
    first.release()
    message = str(caught.value)
    assert f"{wanted.name} lock 2 taken while {held.name} lock 1 is held" in message
    held_part, _, new_part = message.partition("The new lock is taken here:")
    assert "take_the_first" in held_part
    assert "take_the_second" not in held_part
    assert "take_the_second" in new_part
    assert "outermost first" in new_part, "says how to fix it"
    assert not first.locked()
    assert not second.locked()


def test_every_pair_of_ranks_is_decided_as_the_hierarchy_says():
    ranks = [entry.rank for entry in HIERARCHY]
    assert ranks == sorted(ranks)
    for outer in ranks:
        for inner in ranks:
            with lock(outer, 1):
                new = lock(inner, 2)
                try:
                    with new:
                        allowed = True
                except sg.LockOrderError:
                    allowed = False
            assert allowed == (inner > outer), (outer, inner)
    assert len(ORDER.violations) == 10
    ORDER.violations.clear()


def test_taking_a_lock_again_is_refused_and_not_waited_for(expect_violation):
    mine = lock(Rank.GRAPH, 1)
    with mine, pytest.raises(sg.LockOrderError, match="its own thread already holds it"):
        mine.acquire()
    assert not mine.locked()


def test_two_locks_of_one_rank_are_taken_in_rising_serial_only(expect_violation):
    low, high = lock(Rank.GRAPH, 1), lock(Rank.GRAPH, 2)
    done = []
    under_pair(low, high, lambda: done.append(True))
    with pytest.raises(sg.LockOrderError):
        under_pair(high, low, lambda: done.append(False))
    assert done == [True]
    assert not low.locked()
    assert not high.locked()


def test_the_pair_helper_allows_its_two_locks_and_no_third(expect_violation):
    low, high, third = (lock(Rank.GRAPH, serial) for serial in (1, 2, 3))
    with pytest.raises(sg.LockOrderError):
        under_pair(low, high, third.acquire)
    assert [one.locked() for one in (low, high, third)] == [False] * 3


def test_a_refused_pair_does_not_loosen_the_rule_afterwards():
    low, high = lock(Rank.GRAPH, 1), lock(Rank.GRAPH, 2)
    with pytest.raises(sg.LockOrderError):
        under_pair(high, low, lambda: None)
    with low, pytest.raises(sg.LockOrderError):
        high.acquire()
    assert len(ORDER.violations) == 2
    ORDER.violations.clear()


def test_a_released_lock_no_longer_counts():
    """T1: A, B, release A, C.  T2: C, A.  No thread holds what another could want: no report.

    The checker judges what is held at the moment, by rank.  With ranks A=20, B=30, C=40
    T1 holds B and C together and never A with C; T2 takes A under C, which is against the
    hierarchy whatever T1 does, and is reported.
    """
    a, b, c = lock(Rank.LOCATOR, 1), lock(Rank.GRAPH, 1), lock(Rank.PARAM, 1)
    a.acquire()
    b.acquire()
    a.release()
    c.acquire()
    c.release()
    b.release()
    assert ORDER.violations == []
    with c, pytest.raises(sg.LockOrderError) as caught:
        a.acquire()
    assert "LOCATOR lock 1 taken while PARAM lock 1 is held" in str(caught.value)
    ORDER.violations.clear()


def test_in_two_threads_the_verdict_on_a_released_lock_is_the_same_with_both_stacks():
    """C26.  T1: A, B, release A, C: right.  T2: C, A: wrong, by the ranks alone."""
    a, b, c = lock(Rank.LOCATOR, 1), lock(Rank.GRAPH, 1), lock(Rank.PARAM, 1)
    first_is_done = Gate()

    def take_c():
        c.acquire()

    def first():
        a.acquire()
        b.acquire()
        a.release()
        c.acquire()
        c.release()
        b.release()
        first_is_done.open()

    def second():
        first_is_done.wait()
        take_c()
        try:
            a.acquire()
        except sg.LockOrderError as error:
            return str(error)
        finally:
            c.release()

    message = run_threads([first, second])[1]
    held, _, new = message.partition("The new lock is taken here:")
    assert "LOCATOR lock 1 taken while PARAM lock 1 is held" in held
    assert "in take_c" in held
    assert "in take_c" not in new
    assert "in second" in new
    assert ORDER.violations == [message]
    ORDER.violations.clear()


def test_a_try_is_allowed_and_what_comes_after_it_is_checked(expect_violation):
    """A try cannot hang; waiting for a lock of lower rank while holding it can."""
    graph, locator = lock(Rank.GRAPH, 1), lock(Rank.LOCATOR, 1)
    with lock(Rank.PARAM, 1):
        assert graph.acquire(blocking=False)
        graph.release()
    assert graph.acquire(blocking=False)
    with pytest.raises(sg.LockOrderError):
        locator.acquire()
    graph.release()


def test_a_timed_out_wait_holds_nothing():
    mine = lock(Rank.GRAPH, 1)
    taken, give_back = Gate(), Gate()

    def holder():
        with mine:
            taken.open()
            give_back.wait()

    def waiter():
        taken.wait()
        assert mine.acquire(timeout=0.01) is False
        with lock(Rank.LOCATOR, 1):
            give_back.open()

    run_threads([holder, waiter])


def test_who_waits_for_whom_is_told_while_they_wait():
    mine = lock(Rank.GRAPH, 7)
    taken, give_back = Gate(), Gate()
    seen = []

    def holder():
        with mine:
            taken.open()
            give_back.wait()

    def waiter():
        taken.wait()
        with mine:
            pass

    def observer():
        taken.wait()
        while not ORDER.waiting:
            pass
        seen.append(ORDER.wait_for_graph())
        give_back.open()

    run_threads([holder, waiter, observer])
    assert "waits for GRAPH lock 7" in seen[0]
    assert "in waiter" in seen[0]
    assert "in holder" in seen[0]
    assert ORDER.wait_for_graph() == "no thread waits for a lock of sweepgrad"


def test_a_wait_within_a_wait_leaves_the_outer_one_noted():
    """As of a finalizer that runs while its thread waits."""
    outer, inner = lock(Rank.GRAPH, 8), lock(Rank.PARAM, 9)
    book = ORDER.books.of(NATIVE.threads.state)
    seen = []
    book.wait = (get_ident(), outer, ())
    inner.acquire()
    try:
        taken = []
        inner._wait(taken, 0.01, book)
        seen.append(taken)
        assert [waited for waited, _ in ORDER.waiting.values()] == [outer]
    finally:
        book.wait = None
        inner.release()
    assert seen == [[False]]


def test_addresses_of_dead_locks_that_come_back_are_no_false_alarm():
    addresses = set()
    for _ in range(1_000):
        graph = lock(Rank.GRAPH, len(addresses))
        addresses.add(id(graph))
        with graph, lock(Rank.PARAM, 1):
            pass
    assert len(addresses) < 1_000, "addresses came back, so the test means something"
    assert ORDER.violations == []


def test_a_hundred_thousand_short_lived_graphs_are_no_false_alarm():
    """C26: each has a lock of its own, which is taken for the drop."""
    runtime = GraphRuntime()
    x = runtime.tensor([1.0], requires_grad=True)
    serials, addresses = set(), set()
    ORDER.reset()
    for _ in range(100_000):
        y = x * 2.0
        serials.add(y._node.graph.serial)
        addresses.add(id(y._node.graph.lock))
        del y
    assert ORDER.violations == []
    assert ORDER.taken[Rank.GRAPH] >= 100_000
    assert len(serials) == 100_000
    assert len(addresses) < 100_000, "so an address would not have told them apart"
    assert runtime.memory_report().graphs == 0


def test_short_lived_graphs_of_the_runtime_joined_in_every_order_are_no_false_alarm():
    runtime = GraphRuntime()
    for round_ in range(2_000):
        x = runtime.tensor([1.0], requires_grad=True)
        first, second, third = x * 2.0, x * 3.0, x * 5.0
        parts = [first, second, third]
        parts = parts[round_ % 3 :] + parts[: round_ % 3]
        if round_ % 2:
            parts.reverse()
        (parts[0] * parts[1] + parts[2]).backward([1.0])
        if round_ % 500 == 0:
            runtime.graph_cleanup()
    assert ORDER.violations == []


def test_rising_serials_and_three_graphs_in_a_row_are_no_false_alarm():
    locks = [lock(Rank.GRAPH, serial) for serial in range(1, 4)]
    for low, high in ((0, 1), (1, 2), (0, 2)):
        under_pair(locks[low], locks[high], lambda: None)
    assert ORDER.violations == []


def test_threads_note_what_they_take_without_losing_a_count(busy_switching):
    """Each in a book of its own; a table for all was a lock that every holder waited for."""
    ORDER.reset()
    times, books, over = 2_000, [], Barrier(4)

    def work():
        outer, inner = lock(Rank.GRAPH, get_ident()), lock(Rank.PARAM, get_ident())
        for _ in range(times):
            with outer, inner:
                pass
        books.append(NATIVE.threads.state.book)
        over.wait(20)  # one that had ended would leave its book to another

    run_threads([work] * 4)
    assert len(set(map(id, books))) == 4
    assert ORDER.taken == {Rank.GRAPH: 4 * times, Rank.PARAM: 4 * times}
    assert {pair: edge.times for pair, edge in ORDER.edges.items()} == {
        (Rank.GRAPH, Rank.PARAM): 4 * times
    }


def test_a_thread_that_ends_leaves_its_book_to_a_later_one():
    ORDER.reset()

    def work():
        with lock(Rank.PARAM, 1):
            pass
        return NATIVE.threads.state.book

    books = {id(run_threads([work])[0]) for _ in range(20)}
    assert len(books) == 1
    assert ORDER.taken == {Rank.PARAM: 20}, "what it has in it stays"


def test_what_was_seen_is_counted_with_the_first_stacks():
    ORDER.reset()
    assert ORDER.never_exercised() == list(Rank)
    runtime = GraphRuntime()
    x = runtime.tensor([1.0], requires_grad=True)
    y = (x * 2.0) * (x * 3.0)
    x.update(lambda a: a + 1.0)
    runtime.graph_cleanup(full=True)
    assert ORDER.never_exercised() == []
    assert set(ORDER.edges) == {
        (Rank.LOCATOR, Rank.GRAPH),
        (Rank.GRAPH, Rank.GRAPH),
        (Rank.SWEEP, Rank.LOCATOR),
        (Rank.SWEEP, Rank.GRAPH),
    }
    edge = ORDER.edges[Rank.GRAPH, Rank.GRAPH]
    assert edge.times == 1
    assert edge.outer_stack
    assert edge.inner_stack
    assert y.requires_grad


class Recording(NativePrimitives):
    """Primitives that note where each lock was asked for."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def lock(self):
        self.asked.append(sys._getframe(1).f_code.co_qualname)
        return NATIVE.lock()


def lock_everywhere(runtime):
    """Each operation that makes or takes a lock, and what takes part in a fork."""
    x = runtime.tensor([1.0], requires_grad=True)
    one, other = x * 2.0, x * 3.0
    joined = one * other
    joined.register_hook(lambda g: None)
    x.update(lambda a: a + 1.0)
    joined.backward([1.0])
    runtime.graph_cleanup()
    runtime.memory_report()
    return runtime


def test_every_lock_comes_from_the_factory_that_checks_it():
    """C25.  No module but sync may even import threading: tests/package."""
    primitives = Recording()
    lock_everywhere(GraphRuntime(primitives))
    assert len(primitives.asked) > 4
    assert set(primitives.asked) == {RankedLock.__init__.__qualname__}


def test_a_lock_made_beside_the_factory_is_seen(monkeypatch):
    primitives = Recording()
    monkeypatch.setattr(locator, "make_lock", lambda primitives, *_: primitives.lock())
    lock_everywhere(GraphRuntime(primitives))
    assert set(primitives.asked) != {RankedLock.__init__.__qualname__}


def test_without_the_checker_a_lock_is_the_plain_one():
    before = check_locks(False)
    try:
        plain = make_lock(NATIVE, Rank.GRAPH, 1)
    finally:
        check_locks(before)
    assert type(plain) is type(NATIVE.lock())
    assert before is True, "it is on in every test"


SWALLOWED = """
from sweepgrad.errors import LockOrderError
from sweepgrad.graph.hierarchy import Rank, make_lock
from sweepgrad.sync import NATIVE


def test_that_swallows():
    with make_lock(NATIVE, Rank.GRAPH, 1):
        try:
            make_lock(NATIVE, Rank.LOCATOR, 2).acquire()
        except LockOrderError:
            pass


def test_that_is_fine():
    with make_lock(NATIVE, Rank.LOCATOR, 1), make_lock(NATIVE, Rank.GRAPH, 2):
        pass
"""

RUN_PYTEST = """
import shutil, sys, pytest
shutil.copy(sys.argv[1], sys.argv[2])
sys.exit(0 if pytest.main(["-q", "-p", "no:cacheprovider", sys.argv[2] + "/test_inner.py"]) == 1
         else 9)
"""


def test_a_swallowed_violation_still_fails_its_test(tmp_path):
    (tmp_path / "test_inner.py").write_text(SWALLOWED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    out = run_child(RUN_PYTEST, str(TESTS / "conftest.py"), str(tmp_path))
    assert "2 passed, 1 error" in out
    assert "ERROR" in out
    assert "LOCATOR lock 2 taken while GRAPH lock 1 is held" in out


def test_a_deadlock_in_the_wrong_order_is_reported_and_does_not_hang():
    """Two threads that would wait for each other: the one in the wrong order is refused."""
    locator, graph = lock(Rank.LOCATOR, 1), lock(Rank.GRAPH, 1)
    both = [Gate(), Gate()]

    def right():
        with locator:
            both[0].open()
            both[1].wait()
            with graph:
                return "went on"

    def wrong():
        with graph:
            both[1].open()
            both[0].wait()
            locator.acquire()

    with pytest.raises(ThreadsFailed, match="LOCATOR lock 1 taken while GRAPH lock 1 is held"):
        run_threads([right, wrong])
    assert len(ORDER.violations) == 1
    ORDER.violations.clear()
    assert not locator.locked()
    assert not graph.locked()


def test_a_fork_of_many_graphs_compares_each_lock_once():
    """It compared each with each: with 64 threads that fork, a turn took minutes."""

    class Counting(list):
        looked_at = 0

        def __iter__(self):
            Counting.looked_at += len(self)
            return super().__iter__()

    locks = [RankedLock(NATIVE, Rank.GRAPH, 10**9 + number) for number in range(1_000)]
    state = NATIVE.threads.state
    before, state.held = state.held, Counting()
    taken = []
    try:
        acquire_rising(locks, taken)
        assert taken == locks
        assert Counting.looked_at <= len(locks)
    finally:
        release_all(taken)
        state.held = before
    assert not any(lock.locked() for lock in locks)
