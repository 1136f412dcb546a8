"""Many threads train one parameter: no crash, no lost update, no spurious error, nothing stuck."""

import threading

import numpy as np
import pytest

import sweepgrad as sg
from support.threads import Gate, repeat, run_threads
from sweepgrad.graph import GraphRuntime

pytestmark = pytest.mark.usefixtures("busy_switching")


@pytest.mark.parametrize("threads", [2, 4, 8])
def test_a_shared_parameter_ends_at_the_sum_of_all_updates(threads):
    """The seven-line loop that kills other processes: 2,000 steps in each thread."""
    w = sg.tensor(np.zeros(10), requires_grad=True)

    def work(_):
        for _ in range(2_000):
            grads = (w * 1.0).sum().backward()
            w.update(lambda a, g=grads[w]: a - g)

    repeat(work, threads, timeout=55)
    assert w.numpy().tolist() == [-2_000.0 * threads] * 10
    assert w.numpy().flags.writeable is False


def test_a_learner_beside_threads_that_run_backward():
    """Four actors differentiate what the learner keeps replacing."""
    w = sg.tensor(np.ones(1_000), requires_grad=True)
    done = threading.Event()

    def actor():
        for _ in range(150):
            y = w * w
            seen = y.numpy()
            assert (seen == seen[0]).all(), "half of an old array and half of a new one"
            gradient = y.backward(np.ones(1_000))[w]
            assert (gradient == gradient[0]).all()
            assert gradient[0] == 2 * np.sqrt(seen[0]), "the array that the forward saw"
        return True

    def learner():
        value = 1.0
        while not done.is_set():
            value = value % 7 + 1
            w.assign(np.full(1_000, value))
        return True

    def actors():
        try:
            return repeat(lambda _: actor(), 4, timeout=50)
        finally:
            done.set()

    assert run_threads([learner, actors], timeout=55) == [True, [True] * 4]


def test_updates_and_assigns_at_once_lose_nothing():
    """An assign restarts the count; every update after it is in the result."""
    w = sg.tensor([0.0], requires_grad=True)
    rounds = 300

    def add(_):
        for _ in range(rounds):
            w.update(lambda a: a + 1.0)

    repeat(add, 4)
    assert w.item() == 4.0 * rounds
    w.assign([1e6])
    repeat(add, 4)
    assert w.item() == 1e6 + 4.0 * rounds


def test_an_assign_between_look_and_swap_is_not_lost():
    """The update saw the array before the assign, so it runs again on the assigned one."""
    w = sg.tensor([1.0], requires_grad=True)
    seen = []

    def function(a):
        seen.append(a.item())
        if len(seen) == 1:
            w.assign([100.0])
        return a + 1.0

    w.update(function)
    assert seen == [1.0, 100.0]
    assert w.item() == 101.0


def test_retries_are_counted():
    runtime = GraphRuntime()
    w = runtime.tensor([0.0], requires_grad=True)
    inside, go_on = Gate(), Gate()

    def slow():
        def function(a):
            if a.item() == 0.0:
                inside.open()
                go_on.wait()
            return a + 1.0

        w.update(function)

    def fast():
        inside.wait()
        w.update(lambda a: a + 10.0)
        go_on.open()

    run_threads([slow, fast])
    assert w.item() == 11.0
    assert runtime.memory_report().update_retries == 1


def test_an_update_that_fails_changes_nothing():
    w = sg.tensor([1.0, 2.0], requires_grad=True)
    before = w.numpy()

    def fail(a):
        raise ValueError("the user's own")

    with pytest.raises(ValueError, match="the user's own"):
        w.update(fail)
    with pytest.raises(sg.ShapeError, match="update"):
        w.update(lambda a: a[:1])
    with pytest.raises(ValueError, match="read-only"):
        w.update(lambda a: a.__iadd__(1.0))
    assert w.numpy().base is before.base


def test_a_parameters_update_may_use_tensors_and_other_parameters():
    a, b = sg.tensor([1.0], requires_grad=True), sg.tensor([10.0], requires_grad=True)

    def work(_):
        for _ in range(100):
            a.update(lambda v: v + (b * 0.0 + 1.0).numpy())
            b.update(lambda v: v + (a * 0.0 + 1.0).numpy())

    repeat(work, 4)
    assert (a.item(), b.item()) == (401.0, 410.0)


def test_what_was_saved_never_changes_under_a_waiting_backward():
    w, x = sg.tensor([3.0], requires_grad=True), sg.tensor([2.0], requires_grad=True)
    y = w * x
    view = w.numpy()
    w.assign([10.0])
    grads = y.backward([1.0])
    assert grads[x].tolist() == [3.0]
    assert grads[w].tolist() == [2.0]
    assert view.tolist() == [3.0]
    assert w.tolist() == [10.0]


def test_arrays_used_by_many_threads_are_left_writable():
    """MyGrad's guard counts locks without a lock: a shared batch stays read-only for ever."""
    batch = np.ones((4, 3))
    shared = sg.from_numpy(batch)
    weights = [sg.tensor(np.ones((3, 2)), requires_grad=True) for _ in range(4)]

    def work(index):
        w = weights[index]
        for _ in range(100):
            grads = (shared @ w).backward(np.ones((4, 2)))
            w.update(lambda a, g=grads[w]: a - 0.001 * g)
            (batch @ w).backward(np.ones((4, 2)))

    repeat(work, 4)
    assert batch.flags.writeable
    batch += 1.0
    assert shared.numpy()[0, 0] == 2.0
    for w in weights:
        grads = (batch @ w).backward(np.ones((4, 2)))
        assert grads[w].flags.writeable


def test_every_step_of_hogwild_succeeds():
    w = sg.tensor(np.full(3, 5.0), requires_grad=True)

    def work(index):
        rng = np.random.default_rng(index)
        for _ in range(100):
            target = sg.tensor(rng.normal(size=3))
            error = w - target
            grads = (error * error).sum().backward()
            w.update(lambda a, g=grads[w]: a - 0.01 * g)
        return True

    assert repeat(work, 8, timeout=50) == [True] * 8
    assert np.abs(w.numpy()).max() < 1.0


def test_parameters_of_one_stripe_do_not_hinder_each_other():
    """Locks are striped by id: many parameters on one lock still update independently."""
    runtime = GraphRuntime()
    parameters = [runtime.tensor([0.0], requires_grad=True) for _ in range(100)]

    def work(index):
        for parameter in parameters[index % 2 :: 2]:
            for _ in range(10):
                parameter.update(lambda a: a + 1.0)

    repeat(work, 4)
    assert {parameter.item() for parameter in parameters} == {20.0}
