"""Threads that differentiate shared things at once get right answers or the one named error."""

import threading

import numpy as np
import pytest

import sweepgrad as sg
from support.threads import Gate, ThreadsFailed, repeat, run_threads
from sweepgrad.graph import DEFAULT, GraphRuntime
from sweepgrad.ops import primitive

pytestmark = pytest.mark.usefixtures("busy_switching")

ONE = [1.0]


def leaf(*values):
    return sg.tensor(np.array(values, float), requires_grad=True)


def test_a_leaf_of_the_main_thread_used_by_eight_threads(baseline):
    """C6."""
    x = leaf(1.0, 2.0, 3.0)

    def gradient():
        return sg.sqrt((x * x).sum()).backward()[x]

    serial = gradient()
    assert np.allclose(serial, [0.2672612, 0.5345225, 0.8017837], atol=1e-7)

    def work(_):
        return {gradient().tobytes() for _ in range(200)}

    for found in repeat(work, 8, timeout=50):
        assert found == {serial.tobytes()}
    x.update(lambda a: a - serial)
    assert np.allclose(gradient(), x.numpy() / np.linalg.norm(x.numpy()), atol=1e-12)


def test_returned_gradients_are_exact_and_nobody_elses(baseline):
    """C12."""
    x = leaf(1.0)

    def work(_):
        return [(x * 1.0).sum().backward()[x] for _ in range(500)]

    results = [array for part in repeat(work, 8, timeout=50) for array in part]
    assert {array.tobytes() for array in results} == {np.array(ONE).tobytes()}
    assert len({id(array) for array in results}) == 8 * 500
    slots = {array.__array_interface__["data"][0] for array in results}
    assert len(slots) == 8 * 500, "no two share memory"


class BrokenError(Exception):
    pass


def test_values_private_to_a_thread_with_failures_in_every_third_round(baseline):
    """C17: a trace counter that an exception leaves wrong would be seen by everybody."""
    rounds = 300
    values = np.linspace(-2.0, 2.0, 8 * rounds).reshape(8, rounds, 1)

    def cube(x, fail):
        y = x * x
        if fail:
            raise BrokenError
        return (y * x).sum()

    def work(index):
        found = []
        for round_ in range(rounds):
            fail = round_ % 3 == 0 and (index + round_) % 2 == 0
            try:
                x = sg.tensor(values[index, round_], requires_grad=True)
                found.append(cube(x, fail).backward()[x].item())
            except BrokenError:
                found.append(None)
        return found

    serial = [work(index) for index in range(8)]
    assert repeat(work, 8, timeout=50) == serial
    for index, found in enumerate(serial):
        for value, gradient in zip(values[index, :, 0], found, strict=True):
            assert gradient is None or abs(gradient - 3 * value**2) < 1e-12


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_eight_thousand_rounds_of_private_values():
    """C17 at the size of the report, through the functional form too."""

    def work(index):
        f = sg.value_and_grad(lambda x: (x * x * x).sum())
        for round_ in range(1_000):
            x = float(index + round_ % 7)
            value, gradient = f(np.array([x]))
            assert (value, gradient[0]) == (x**3, 3 * x**2)

    repeat(work, 8, timeout=250)


def test_four_threads_times_25_backwards_of_one_shared_tensor(baseline):
    """Elsewhere: a dictionary that changes size, and 99 where 100 is right."""
    x = leaf(1.0)
    y = x * 1.0

    def work(_):
        return sum(y.backward(ONE, retain_graph=True)[x].item() for _ in range(25))

    assert sum(repeat(work, 4)) == 100.0
    assert y.backward(ONE)[x].tolist() == ONE


@pytest.mark.parametrize("retain", [False, True])
def test_two_losses_of_one_trunk_at_once(retain, baseline):
    """C5: one right answer and one named error; with the graph kept, two right answers."""
    x = leaf(3.0)
    for _ in range(150):
        trunk = x * x
        losses = [trunk * 5.0, trunk * 7.0]

        def work(index, losses=losses):
            try:
                return losses[index].backward(ONE, retain_graph=retain)[x].item()
            except sg.GraphConsumedError:
                return None

        found = repeat(work, 2)
        if retain:
            assert found == [30.0, 42.0]
        else:
            assert found in ([30.0, None], [None, 42.0])
        del trunk, losses, work


def test_one_loss_differentiated_by_many_threads_is_consumed_once(baseline):
    x = leaf(3.0)
    for _ in range(50):
        loss = (x * x) * x

        def work(_, loss=loss):
            try:
                return loss.backward(ONE)[x].item()
            except sg.GraphConsumedError:
                return None

        found = repeat(work, 4)
        assert sorted(found, key=str) == [27.0, None, None, None]
        del loss, work


def test_a_retaining_backward_beside_a_consuming_one(baseline):
    """What the retaining one needs was copied under the lock: nothing is pulled from under it."""
    x = leaf(2.0)
    for _ in range(100):
        trunk = x * x
        for _ in range(5):
            trunk = trunk * 1.0 + trunk * 0.0
        losses = [trunk * 3.0, trunk * 5.0]

        def keep(losses=losses):
            try:
                return losses[0].backward(ONE, retain_graph=True)[x].item()
            except sg.GraphConsumedError:
                return None

        def consume(losses=losses):
            return losses[1].backward(ONE)[x].item()

        kept, consumed = run_threads([keep, consume])
        assert consumed == 20.0
        assert kept in (12.0, None)
        del trunk, losses, keep, consume


def victims_and_sweepers(side, rounds, threads):
    ones = np.ones((2 * side, side))

    def victim():
        a, b = (sg.tensor(np.ones((side, side)), requires_grad=True) for _ in range(2))
        a.sum().backward()  # the leaf has been through a backward
        for _ in range(rounds):
            loss = (2.0 * sg.concatenate([a * 1.0, b * 1.0])).sum()
            grads = loss.backward()
            assert (grads[a] == 2.0).all()
            assert (grads[b] == 2.0).all()
        return True

    done = threading.Event()

    def sweeper():
        while not done.is_set():
            x = leaf(1.0)
            (x * x).backward(ONE)
            sg.graph_cleanup()
        return True

    def all_victims():
        try:
            return repeat(lambda _: victim(), threads, timeout=250)
        finally:
            done.set()

    found = run_threads([all_victims] + [sweeper] * threads, timeout=280)
    assert found == [[True] * threads] + [True] * threads
    assert ones.all()


def test_temporaries_are_not_swept_before_their_child_is_recorded(baseline):
    """C4, with small arrays."""
    victims_and_sweepers(side=4, rounds=40, threads=3)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_large_temporaries_are_not_swept_before_their_child_is_recorded(baseline):
    """C4 at the size of the report."""
    victims_and_sweepers(side=256, rounds=300, threads=6)


@pytest.mark.parametrize("count", [2, 3])
def test_a_full_sweep_between_computing_and_recording_takes_nothing(count, monkeypatch, baseline):
    """C4, deterministically: the sweep runs in another thread right before the recording."""
    name = "register_two" if count == 2 else "register_many"
    record = getattr(primitive, name)
    swept = []

    def sweep_then_record(*args):
        def other_thread():
            x = leaf(1.0)
            (x * x).backward(ONE)
            swept.append(sg.graph_cleanup())

        run_threads([other_thread])
        return record(*args)

    monkeypatch.setattr(primitive, name, sweep_then_record)
    leaves = [leaf(1.0) for _ in range(count)]
    for x in leaves:
        (x * 1.0).backward(ONE)
    y = 2.0 * sg.concatenate([x * 1.0 for x in leaves])
    grads = y.backward(np.ones(count))
    assert [grads[x].tolist() for x in leaves] == [[2.0]] * count
    assert len(swept) == 1


def test_graphs_are_merged_while_they_are_differentiated():
    """Burn hangs here: one thread merges, the other cleans up after its backward."""
    runtime = GraphRuntime()
    x = runtime.tensor([2.0], requires_grad=True)
    rounds = 200
    roots = [(x * 3.0, x * 5.0) for _ in range(rounds)]

    def differentiate():
        for a, _ in roots:
            assert (a * x).backward(ONE, retain_graph=True)[x].tolist() == [12.0]
        return True

    def merge():
        for a, b in roots:
            joined = a * b
            fresh = runtime.tensor([7.0], requires_grad=True)
            grads = (joined * (b * fresh)).backward(ONE, retain_graph=True)
            assert grads[fresh].tolist() == [600.0]
        return True

    def sweep():
        for _ in range(30):
            runtime.graph_cleanup()
            runtime.memory_report()
        return True

    assert run_threads([differentiate, merge, differentiate, sweep], timeout=50) == [True] * 4
    runtime.check_valid()
    roots.clear()
    assert runtime.memory_report().nodes == 0


def test_an_operation_is_never_recorded_in_a_graph_that_was_merged_away():
    """Burn loses the step and gives a wrong gradient: w1*w2 beside a chain on w2."""
    runtime = GraphRuntime()
    for _ in range(150):
        w1 = runtime.tensor([2.0], requires_grad=True)
        w2 = runtime.tensor([3.0], requires_grad=True)
        one, two = w1 * 1.0, w2 * 1.0

        def join(one=one, two=two):
            return one * two

        def extend(two=two):
            y = two
            for _ in range(5):
                y = y * 2.0
            return y

        joined, chain = run_threads([join, extend])
        grads = (joined + chain).backward(ONE)
        assert grads[w1].tolist() == [3.0]
        assert grads[w2].tolist() == [34.0]
        del one, two, joined, chain, join, extend
    runtime.check_valid()
    assert runtime.memory_report().nodes == 0


def test_chains_of_merges_from_both_ends():
    """Eight graphs joined by four threads in different orders end as one, with every node."""
    runtime = GraphRuntime()
    for _ in range(30):
        leaves = [runtime.tensor([float(i + 1)], requires_grad=True) for i in range(8)]
        roots = [x * 1.0 for x in leaves]

        def work(index, roots=roots):
            order = range(7) if index % 2 else range(6, -1, -1)
            return [roots[i] + roots[i + 1] for i in order]

        sums = [y for part in repeat(work, 4) for y in part]
        assert runtime.memory_report().graphs == 1
        total = sums[0]
        for y in sums[1:]:
            total = total + y
        runtime.check_valid()
        grads = total.backward(ONE)
        assert [grads[x].item() for x in leaves] == [4.0] + [8.0] * 6 + [4.0]
        del leaves, roots, sums, total, y, grads, work
        assert runtime.memory_report().nodes == 0


def test_a_failure_in_a_rule_in_one_thread_leaves_the_others_right(baseline):
    from sweepgrad.graph import Rule, register_one

    def fail(g):
        raise BrokenError

    def work(index):
        x = leaf(3.0)
        for _ in range(60):
            trunk = x * x
            if index % 2:
                y = sg.tensor(trunk.numpy())
                y._node = register_one(y, trunk._node, Rule("failing", fail), (), 0)
                with pytest.raises(BrokenError):
                    y.backward(ONE)
                del y
            else:
                assert trunk.backward(ONE)[x].tolist() == [6.0]
        return True

    assert repeat(work, 4) == [True] * 4


def test_sweeps_at_once_agree_with_what_is_there():
    runtime = GraphRuntime()
    x = runtime.tensor([1.0], requires_grad=True)
    trunks = [x * 2.0 for _ in range(40)]
    kept = [[trunk * 3.0 for _ in range(5)] for trunk in trunks]
    for trunk in trunks:
        trunk.backward(ONE)
    reports = repeat(lambda _: [runtime.graph_cleanup() for _ in range(5)], 4)
    freed = sum(report.nodes_freed for part in reports for report in part)
    graphs = sum(report.graphs_freed for part in reports for report in part)
    assert (freed, graphs) == (200, 40)
    assert runtime.memory_report().nodes == 0
    assert len(kept) == 40


def test_the_thread_runner_finds_a_hang_and_a_failure():
    """The harness of these tests can fail."""
    gate = Gate()

    def hang():
        gate.wait(5)

    with pytest.raises(ThreadsFailed, match="did not end within"):
        run_threads([hang, lambda: None], timeout=0.2)
    gate.open()

    def fail():
        raise BrokenError("here")

    with pytest.raises(ThreadsFailed, match="BrokenError: here"):
        run_threads([fail, lambda: None])
    assert DEFAULT.memory_report().pending_drops == 0
