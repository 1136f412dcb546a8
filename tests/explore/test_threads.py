"""A trainer's own threads, conditions, queues and barriers run on the model as they are."""

import concurrent.futures.thread
import queue
import threading
import time

import sweepgrad as sg
from sweepgrad.explore import PCT, explore


def test_threads_started_and_joined_by_the_program_are_explored():
    totals = set()

    def scenario(m):
        cell = m.cell(0)

        def add():
            cell.set(cell.get() + 1)

        def trainer():
            threads = [threading.Thread(target=add) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            totals.add(cell.get())

        m.spawn(trainer)

    assert explore(scenario).exhausted
    assert totals == {1, 2}


def test_a_subclass_of_thread_runs_on_the_model():
    class Worker(threading.Thread):
        def __init__(self, out):
            super().__init__(name="worker")
            self.out = out

        def run(self):
            self.out.append((threading.current_thread() is self, self.is_alive()))

    results = []

    def scenario(m):
        def trainer():
            out = []
            worker = Worker(out)
            worker.start()
            worker.join()
            results.append((out, worker.is_alive()))

        m.spawn(trainer)

    explore(scenario)

    assert all(result == ([(True, True)], False) for result in results)


def test_a_queue_hands_every_item_over_once_and_in_order():
    seen = set()

    def scenario(m):
        items = queue.Queue(maxsize=1)
        got = []

        def produce():
            for item in range(3):
                items.put(item)
            items.put(None)

        def consume():
            while (item := items.get()) is not None:
                got.append(item)

        m.spawn(produce)
        m.spawn(consume)
        m.check(lambda: seen.add(tuple(got)))

    assert explore(scenario, preemptions=1).exhausted
    assert seen == {(0, 1, 2)}


def test_a_barrier_lets_all_through_together():
    def scenario(m):
        barrier = threading.Barrier(2)
        arrived = m.cell(0)
        lock = threading.Lock()

        def work():
            with lock:
                arrived.set(arrived.get() + 1)
            barrier.wait()
            assert arrived.get() == 2

        m.spawn(work)
        m.spawn(work)

    assert explore(scenario, preemptions=1).exhausted


def test_an_event_that_is_set_wakes_every_waiter():
    def scenario(m):
        event = threading.Event()
        m.spawn(event.wait, name="one")
        m.spawn(event.wait, name="two")
        m.spawn(event.set, name="set")

    assert explore(scenario, preemptions=1).exhausted


def test_a_semaphore_admits_as_many_as_it_has_places():
    def scenario(m):
        places = threading.Semaphore(1)
        inside = m.cell(0)

        def work():
            with places:
                assert inside.get() == 0
                inside.set(1)
                inside.set(0)

        m.spawn(work)
        m.spawn(work)

    assert explore(scenario, preemptions=1).exhausted


def test_a_reentrant_lock_is_taken_twice_by_its_thread_and_by_no_other():
    def scenario(m):
        lock, cell = threading.RLock(), m.cell(0)

        def add():
            with lock, lock:
                cell.set(cell.get() + 1)

        m.spawn(add)
        m.spawn(add)

        @m.check
        def both_counted():
            assert cell.get() == 2

    assert explore(scenario, preemptions=None).exhausted


def test_a_wait_with_a_time_limit_ends_when_nothing_else_can_run():
    results = set()

    def scenario(m):
        lock = threading.Lock()
        event = threading.Event()

        def waits():
            with lock:
                results.add(("event", event.wait(timeout=3600)))

        def tries():
            got = lock.acquire(timeout=1)
            results.add(("lock", got))
            if got:
                lock.release()

        m.spawn(waits)
        m.spawn(tries)

    explore(scenario)

    assert ("event", False) in results
    assert {value for kind, value in results if kind == "lock"} == {True, False}


def test_thread_local_storage_and_identity_belong_to_model_threads():
    results = []

    def scenario(m):
        storage = threading.local()
        cell = m.cell(0)
        out = []

        def work(value):
            storage.value = value
            ident = threading.get_ident()
            cell.set(value)
            out.append((storage.value == value, ident == threading.get_ident(), ident))

        m.spawn(work, 1)
        m.spawn(work, 2)
        m.check(lambda: results.append(out))

    explore(scenario)

    for out in results:
        assert [entry[:2] for entry in out] == [(True, True)] * 2
        assert len({entry[2] for entry in out}) == 2


def test_sleeping_takes_no_time_and_lets_others_go_on():
    orders = set()

    def scenario(m):
        order = []

        def slow():
            time.sleep(3600)
            order.append("slow")

        m.spawn(slow)
        m.spawn(lambda: (time.sleep(1), order.append("fast")), name="fast")
        m.check(lambda: orders.add(tuple(order)))

    explore(scenario, reduce=False)

    assert orders == {("slow", "fast"), ("fast", "slow")}


def test_a_thread_pool_runs_on_the_model():
    """``concurrent.futures`` with its module named, whose globals are swapped, too."""
    results = set()

    def scenario(m):
        def trainer():
            w = sg.tensor([2.0], requires_grad=True)

            def gradient(factor):
                return (w * factor).backward()[w][0]

            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                results.add(tuple(pool.map(gradient, [3.0, 5.0])))

        m.spawn(trainer)

    explore(
        scenario,
        policy=PCT(2, 40, seed=2),
        modules=[concurrent.futures.thread, concurrent.futures._base],
    )

    assert results == {(3.0, 5.0)}


def test_recording_mode_is_each_model_threads_own():
    """C-level context: a thread inside no_grad does not switch recording off in another."""
    seen = set()

    def scenario(m):
        w = sg.tensor([1.0], requires_grad=True)
        cell = m.cell(0)
        out = {}

        def without():
            with sg.no_grad():
                cell.set(1)
                out["without"] = (w * 2.0).requires_grad
                cell.set(2)

        def recorded():
            cell.set(3)
            out["with"] = (w * 2.0).requires_grad

        m.spawn(without)
        m.spawn(recorded)
        m.check(lambda: seen.add((out["without"], out["with"])))

    explore(scenario)

    assert seen == {(False, True)}
