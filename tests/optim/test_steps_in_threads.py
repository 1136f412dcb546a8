"""Steps that race: no update is lost, none counts twice, states stay whole."""

import numpy as np
import pytest

import sweepgrad as sg
from support.threads import repeat
from sweepgrad.graph.parameters import ParameterSwap
from sweepgrad.optim import SGD, Adam

THREADS, STEPS = 8, 5


def zero():
    return sg.tensor(np.zeros(1), requires_grad=True)


def race(optimizer, p):
    gradient = np.ones(1)

    def worker(index):
        for _ in range(STEPS):
            optimizer.step({p: gradient})

    repeat(worker, THREADS)


@pytest.mark.usefixtures("busy_switching")
def test_plain_steps_of_many_threads_all_arrive():
    """Each of 2 x 500 steps takes exactly 1; every partial sum is exact."""
    p = zero()
    optimizer = SGD([p], 1.0)

    def worker(index):
        for _ in range(500):
            optimizer.step({p: np.ones(1)})

    repeat(worker, 2)

    assert p.tolist() == [-1000.0]


@pytest.mark.usefixtures("busy_switching")
def test_momentum_of_many_threads_is_that_of_the_same_steps_in_a_row():
    """The k-th velocity is 2 - 2^(1-k) for whichever thread; 40 of them sum to 78 + 2^-39, exactly.

    Every partial sum has at most 7 bits before the point and 39 after it, so no
    order of the additions rounds.
    """
    for _ in range(25):
        p = zero()

        race(SGD([p], 1.0, momentum=0.5), p)

        assert p.tolist() == [-(78.0 + 2.0**-39)]


@pytest.mark.usefixtures("busy_switching")
def test_adam_of_many_threads_counts_each_gradient_once():
    """A constant gradient makes every bias-corrected step 1: a lost or doubled one shows as 1."""
    for _ in range(25):
        p = zero()
        optimizer = Adam([p], 1.0, epsilon=1e-300)

        race(optimizer, p)

        assert p.tolist() == pytest.approx([-40.0], abs=1e-6)
        steps, first, second = optimizer._cells[0].state
        assert steps == THREADS * STEPS
        assert first == pytest.approx([1 - 0.9**40])
        assert second == pytest.approx([1 - 0.999**40])


@pytest.fixture
def step_in_between(monkeypatch):
    """Runs a whole step of a competitor between a swap's computation and the swap, once each."""
    swap = ParameterSwap.replace
    waiting = []

    def replace(self, cell, key, expected, new):
        if waiting:
            waiting.pop()()
        return swap(self, cell, key, expected, new)

    monkeypatch.setattr(ParameterSwap, "replace", replace)
    return waiting.append


@pytest.mark.parametrize("swaps_before", [0, 1])
def test_a_step_computed_again_enters_its_gradient_once(step_in_between, swaps_before):
    """Thread A has computed its new velocity (or its new value) when B makes a whole step.

    Gradients A = 1, B = 4, momentum 1/2, rate 1.  B before A's velocity: v = 4, then 3.
    B after it: v = 1, then 4.5.  The parameter loses both velocities in either case.
    """
    p = zero()
    optimizer = SGD([p], 1.0, momentum=0.5)

    def b_steps():
        optimizer.step({p: np.array([4.0])})

    if swaps_before:
        step_in_between(b_steps)
        step_in_between(lambda: None)  # the last one put in is the first one taken
    else:
        step_in_between(b_steps)
    optimizer.step({p: np.array([1.0])})

    velocity, total = ([4.5], [-5.5]) if swaps_before else ([3.0], [-7.0])
    assert optimizer._cells[0].state[0].tolist() == velocity
    assert p.tolist() == total


def test_adam_computed_again_keeps_moments_and_count_together(step_in_between):
    """B's whole step comes after A computed its moments: A's are computed again from B's."""
    p = zero()
    optimizer = Adam([p], 1.0)
    step_in_between(lambda: optimizer.step({p: np.array([4.0])}))

    optimizer.step({p: np.array([1.0])})

    steps, first, second = optimizer._cells[0].state
    assert steps == 2
    assert first == pytest.approx([0.9 * 0.4 + 0.1])
    assert second == pytest.approx([0.999 * 0.016 + 0.001])


@pytest.mark.usefixtures("busy_switching")
def test_two_optimizers_on_one_parameter_lose_no_update():
    p = zero()
    optimizers = [SGD([p], 1.0), SGD([p], 2.0)]

    def worker(index):
        for _ in range(500):
            optimizers[index].step({p: np.ones(1)})

    repeat(worker, 2)

    assert p.tolist() == [-1500.0]
