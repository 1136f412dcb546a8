"""A forward split over a pool of threads, joined, and differentiated by one of them."""

import contextvars
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import sweepgrad as sg
from sweepgrad.graph import DEFAULT

pytestmark = pytest.mark.usefixtures("busy_switching")


@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(4) as executor:
        yield executor


def shard_loss(w, shard):
    error = shard @ w - 1.0
    return (error * error).sum()


def total(losses):
    result = losses[0]
    for loss in losses[1:]:
        result = result + loss
    return result


def test_shards_mapped_over_a_pool_and_differentiated_once(pool):
    """JAX refuses this; HIPS/autograd with a thread-local level would break it."""
    rng = np.random.default_rng(0)
    data, w = rng.normal(size=(16, 5, 3)), sg.tensor(rng.normal(size=3), requires_grad=True)
    serial = total([shard_loss(w, shard) for shard in data]).backward()[w]
    expected = sum(2 * shard.T @ (shard @ w.numpy() - 1.0) for shard in data)
    assert np.allclose(serial, expected)
    for _ in range(20):
        losses = list(pool.map(lambda shard: shard_loss(w, shard), data, timeout=30))
        assert total(losses).backward()[w].tobytes() == serial.tobytes()


def test_a_trunk_of_the_main_thread_with_heads_in_a_pool(pool):
    x = sg.tensor([2.0], requires_grad=True)
    before = DEFAULT.memory_report().nodes
    for _ in range(50):
        trunk = x * x
        heads = list(pool.map(lambda factor, trunk=trunk: trunk * factor, range(1, 9), timeout=30))
        assert total(heads).backward([1.0])[x].tolist() == [144.0]
        del trunk, heads
    assert DEFAULT.memory_report().nodes == before


def test_threads_inside_a_differentiated_function(pool):
    def f(x):
        parts = list(pool.map(lambda factor: x * x * factor, [1.0, 2.0, 3.0], timeout=30))
        return total(parts)

    value, gradient = sg.value_and_grad(f)(3.0)
    assert (value, gradient) == (54.0, 36.0)
    outer = sg.value_and_grad(lambda x: sg.value_and_grad(f, create_graph=True)(x)[1])
    assert outer(3.0)[1] == 12.0


def test_backwards_of_many_tasks_at_once(pool):
    w = sg.tensor(np.arange(3.0), requires_grad=True)

    def task(index):
        return (w * w * float(index)).backward(np.ones(3))[w]

    for index, gradient in enumerate(pool.map(task, range(100), timeout=30)):
        assert gradient.tolist() == [0.0, 2.0 * index, 4.0 * index]


def test_the_mode_is_the_tasks_own_unless_its_context_is_copied(pool):
    x = sg.tensor([2.0], requires_grad=True)
    with sg.no_grad():
        context = contextvars.copy_context()
        assert not pool.submit(context.run, lambda: (x * x).requires_grad).result(30)
    assert pool.submit(lambda: (x * x).requires_grad).result(30)


def test_leaves_made_in_the_pool_get_gradients_in_the_main_thread(pool):
    leaves = list(pool.map(lambda v: sg.tensor([v], requires_grad=True), [1.0, 2.0, 3.0]))
    product = leaves[0] * leaves[1] * leaves[2]
    grads = product.backward([1.0])
    assert [grads[x].item() for x in leaves] == [6.0, 3.0, 2.0]
