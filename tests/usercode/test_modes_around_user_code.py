"""Recording modes of threads, and what rules, hooks and regions see of them."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

from custom_operations import Cube, leaf, ruled

import sweepgrad as sg
from support.threads import Gate, repeat, run_threads


def square_gradient():
    x = leaf(3.0)
    y = x * x
    return y.requires_grad and float(y.backward()[x]) == 6.0


def test_a_thread_that_turns_recording_off_and_on_disturbs_no_other(busy_switching):
    """C10: A enters and leaves no_grad() 50,000 times, some by exception; B stays tracked."""
    done = threading.Event()

    def toggles():
        try:
            for round_ in range(50_000):
                try:
                    with sg.no_grad():
                        if round_ % 7 == 0:
                            raise ValueError
                except ValueError:
                    pass
                assert sg.is_recording()
        finally:
            done.set()
        return True

    def computes():
        rounds = 0
        while not done.is_set():
            assert square_gradient()
            rounds += 1
        return rounds

    toggled, rounds, _ = run_threads([toggles, computes, computes], timeout=50.0)
    assert toggled
    assert rounds > 0


def test_a_pool_thread_started_inside_no_grad_records():
    """C10: recording is on in every new thread, whatever its starter is doing."""
    with sg.no_grad(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(sg.is_recording).result(20) is True
        assert pool.submit(square_gradient).result(20) is True
    assert sg.is_recording()


def test_custom_operations_run_their_forward_unrecorded_in_their_own_thread_alone(busy_switching):
    """While one thread stands in a forward, where recording is off, another records."""
    inside, seen = Gate(), Gate()

    class Stands(sg.Function):
        @staticmethod
        def forward(ctx, x):
            assert not sg.is_recording()
            inside.open()
            seen.wait()
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            return g * 2.0

    def stands():
        x = leaf(1.0)
        return float(Stands.apply(x).backward()[x])

    def watches():
        inside.wait()
        found = square_gradient()
        seen.open()
        return found

    assert run_threads([stands, watches]) == [2.0, True]


def test_a_forward_that_fails_restores_recording():
    class Fails(sg.Function):
        @staticmethod
        def forward(ctx, x):
            raise ValueError

    for mode, expected in ((sg.enable_grad, True), (sg.no_grad, False)):
        with mode():
            with contextlib.suppress(ValueError):
                Fails.apply(leaf(1.0))
            assert sg.is_recording() is expected


def test_hooks_and_regions_record_though_the_caller_of_backward_does_not():
    seen = []
    x = leaf(2.0)
    x.register_hook(lambda g: seen.append(sg.is_recording()))

    def region(h):
        seen.append(sg.is_recording())
        return h * h

    y = sg.checkpoint(region, ruled(lambda x, g: g).apply(x))
    with sg.no_grad():
        assert float(y.backward()[x]) == 4.0
        assert not sg.is_recording()
    assert seen == [True, True, True]


def test_a_region_in_no_grad_is_a_plain_call():
    runs = []
    x = leaf(2.0)
    with sg.no_grad():
        y = sg.checkpoint(lambda h: (runs.append(h), h * 2.0)[1], x)
    assert not y.requires_grad
    assert runs == [x]


def test_rules_of_many_threads_each_see_their_own_mode(busy_switching):
    """Half of the threads call backward inside no_grad; every rule records all the same."""
    operation = ruled(lambda x, g: g * (Cube.apply(leaf(x.item())).requires_grad * 2.0))

    def worker(index):
        for _ in range(50):
            x = leaf(1.0)
            y = operation.apply(x)
            with sg.no_grad() if index % 2 else sg.enable_grad():
                assert float(y.backward()[x]) == 2.0
        return sg.is_recording()

    assert repeat(worker, 4) == [True] * 4
