"""Generators, asyncio tasks, pools, thread-locals, and threads that end in the middle."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import sweepgrad as sg
from support.threads import Gate, join_all, repeat, run_threads
from sweepgrad.graph import DEFAULT, Rule, register_one

ONE = [1.0]

pytestmark = pytest.mark.usefixtures("busy_switching")


def leaf(value=2.0):
    return sg.tensor([value], requires_grad=True)


def ruled(x, rule):
    """``x`` through an operation with this gradient rule."""
    result = sg.tensor(x.numpy())
    result._node = register_one(result, x._node, Rule("ruled", rule), (), 0)
    return result


# --- generators and tasks -------------------------------------------------------------------


def test_a_generator_that_is_dropped_in_the_middle_gives_its_graph_back(baseline):
    def steps():
        x = leaf()
        y = x * 3.0
        while True:
            y = y * x
            yield y

    running = [steps() for _ in range(50)]
    tips = [next(generator) for generator in running for _ in range(3)]
    assert DEFAULT.memory_report().graphs - baseline.graphs == 50
    running.clear()  # closes them, each inside its loop
    del tips


def test_a_generator_goes_on_in_other_threads(baseline):
    """Started in one thread, advanced in others, one after the other."""

    def steps():
        x = leaf()
        y = x * 1.0
        for _ in range(8):
            y = y * x
            yield
        yield y.backward(ONE)[x].item()

    generator = steps()
    results = [run_threads([lambda: next(generator)])[0] for _ in range(9)]
    assert results[-1] == 9 * 2.0**8


def test_tasks_that_are_cancelled_anywhere_leave_nothing(baseline):
    """Each task is cancelled after another number of steps; the rest are right."""

    async def train(x, steps):
        y = x * 1.0
        for _ in range(steps):
            y = y * x
            await asyncio.sleep(0)
        return y.backward(ONE)[x].item()

    async def main():
        x = leaf()
        tasks = [asyncio.ensure_future(train(x, 6)) for _ in range(24)]
        for number in range(6):
            await asyncio.sleep(0)
            for task in tasks[number::8]:
                task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        cancelled = [result for result in found if isinstance(result, asyncio.CancelledError)]
        assert len(cancelled) == 18
        assert {result for result in found if isinstance(result, float)} == {7 * 2.0**6}

    asyncio.run(main())
    gc.collect()


def test_tasks_hand_their_work_to_threads(baseline):
    """``asyncio.to_thread`` copies the task's context, and with it the recording mode."""

    def square(x):
        return x * x

    async def train(mode):
        x = leaf(3.0)
        with mode():
            y = await asyncio.to_thread(square, x)
        return y.requires_grad and (await asyncio.to_thread(y.backward, ONE))[x].item()

    async def main():
        return await asyncio.gather(*[train(mode) for mode in [sg.no_grad, sg.enable_grad] * 10])

    assert asyncio.run(main()) == [False, 6.0] * 10


def test_futures_pass_tensors_and_errors_between_threads(baseline):
    with ThreadPoolExecutor(4) as pool:
        x = leaf()
        y = x * 3.0
        for _ in range(30):
            tips = [pool.submit(lambda k: y * k, float(k)) for k in range(1, 5)]
            total = pool.submit(lambda tips: sum(tip.result(20) for tip in tips), tips).result(20)
            found = pool.submit(sg.grad, total, [y], [ONE]).result(20)
            assert found[0].tolist() == [10.0]
            with pytest.raises(sg.GraphConsumedError):
                pool.submit(total.backward, ONE).result(20)
        x = y = tips = total = found = None


# --- threads that end -----------------------------------------------------------------------


def test_thread_locals_outlive_no_thread_and_harm_no_other(baseline):
    """A thread's locals die with it, in no order; what others keep of their graphs lives on."""
    local = threading.local()
    x = leaf()
    trunk = x * 3.0
    kept = []

    def work(index):
        local.mine = leaf(float(index))
        local.tip = trunk * local.mine
        local.cycle = [local.tip]
        local.cycle.append(local.cycle)
        kept.append(local.tip * 5.0)

    for _ in range(5):
        repeat(work, 4)
    gc.collect()
    assert len(kept) == 20
    assert kept.pop().requires_grad
    for tip in kept:
        assert sg.grad(tip, [trunk], [ONE], retain_graph=True)[0].shape == (1,)
    DEFAULT.check_valid()
    kept.clear()
    tip = None
    assert trunk.backward(ONE)[x].tolist() == [3.0]


class Killed(Exception):  # noqa: N818  # what happened to the thread
    """Ends a thread in the middle of an operation."""


@pytest.mark.parametrize("where", ["rule", "hook", "update", "forward", "second rule"])
def test_a_thread_killed_in_the_middle_of_an_operation_harms_no_other(where, baseline, monkeypatch):
    """Its exception reaches the top of the thread; nobody else waits or finds half a change."""
    ended = []
    monkeypatch.setattr(threading, "excepthook", lambda args: ended.append(args.exc_type))
    x, w = leaf(), leaf(5.0)
    trunk = x * 3.0

    def fail(*_):
        raise Killed

    def die():
        y = trunk * 2.0
        if where == "rule":
            ruled(y, fail).backward(ONE)
        elif where == "second rule":
            ((ruled(y * 1.0, fail) * 2.0) + y).backward(ONE)
        elif where == "hook":
            y.register_hook(fail)
            (y * 1.0).backward(ONE)
        elif where == "update":
            w.update(fail)
        else:
            np.tanh(y) @ sg.tensor(np.ones((7, 7)))  # an error of NumPy, before it is recorded

    threads = [threading.Thread(target=die) for _ in range(3)]
    for thread in threads:
        thread.start()
    join_all(threads)
    assert len(ended) == 3
    assert w.tolist() == [5.0]
    w.update(lambda a: a + 1.0)
    assert w.tolist() == [6.0]
    if where in ("update", "forward"):
        assert sg.grad(trunk * 2.0, [x], [ONE])[0].tolist() == [6.0]
    else:
        with pytest.raises(sg.GraphConsumedError):
            sg.grad(trunk * 2.0, [x], [ONE])
    assert (x * 4.0).backward(ONE)[x].tolist() == [4.0]
    trunk = x = w = threads = thread = None
    gc.collect()


def test_a_thread_that_ends_while_its_graph_is_in_use_elsewhere(baseline):
    """The maker ends, and drops its handles, while another thread's backward runs on the graph."""
    inside, ended = Gate(), Gate()
    made = []

    def rule(g):
        inside.open()
        ended.wait()
        return g * 3.0

    def make():
        x = leaf()
        made.append((x, ruled(x * 5.0, rule) * 1.0))

    def use():
        x, y = made.pop()
        return y.backward(ONE)[x].item()

    run_threads([make])

    def end():
        inside.wait()
        run_threads([lambda: sg.graph_cleanup()])
        ended.open()

    assert run_threads([use, end])[0] == 15.0
