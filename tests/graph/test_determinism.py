"""Gradients are bitwise the same however many threads built the forward, and in what order."""

from functools import reduce
from operator import add, attrgetter

import numpy as np
import pytest

import sweepgrad as sg
from support.threads import run_threads
from sweepgrad.graph import engine

#: Added in different orders, these give different sums: 1e16 swallows what is small.
LEFT = (1e16, 3.0, -7.0)
RIGHT = (-1e16, 0.1, 11.0)


def half(x, factors):
    """Three uses of ``x``, at one level each deeper than the one before."""
    y = None
    for factor in factors:
        term = x * factor
        y = term if y is None else y + term
    return y


def gradient(x, left, right):
    return (left * right + left).backward(np.ones(x.shape))[x]


def new_leaf():
    return sg.tensor([0.3, 1.7, -2.9], requires_grad=True)


def one_thread(first="left"):
    x = new_leaf()
    if first == "left":
        left = half(x, LEFT)
        right = half(x, RIGHT)
    else:
        right = half(x, RIGHT)
        left = half(x, LEFT)
    return gradient(x, left, right)


def test_the_order_of_these_contributions_matters():
    """Without this the tests below would prove nothing."""
    terms = [*LEFT, *RIGHT]
    # Not sum(): it compensates for rounding since Python 3.12.
    sums = [reduce(add, order) for order in (terms, terms[::-1], sorted(terms))]
    assert sums[0] != sums[1]
    assert sums[0] != sums[2]


def test_two_threads_give_the_gradient_of_one_thread(busy_switching):
    expected = one_thread().tobytes()
    rounds = 1_000
    leaves = [new_leaf() for _ in range(rounds)]
    workers = [
        lambda: [half(x, LEFT) for x in leaves],
        lambda: [half(x, RIGHT) for x in leaves],
    ]
    halves = run_threads(workers, timeout=50)
    found = {gradient(*parts).tobytes() for parts in zip(leaves, *halves, strict=True)}
    assert found == {expected}


def test_two_threads_on_one_leaf_and_one_graph(busy_switching):
    """As above, with all rounds in one graph whose lock both threads want."""
    for _ in range(5):
        x = new_leaf()
        stem = x * 1.0

        def build(factors, stem=stem):
            return [half(stem, factors) for _ in range(40)]

        halves = run_threads([lambda: build(LEFT), lambda: build(RIGHT)])
        found = {
            sg.grad(left * right + left, x, np.ones(3), retain_graph=True)[0].tobytes()
            for left, right in zip(*halves, strict=True)
        }
        assert len(found) == 1
        assert found == {one_thread_on_a_stem().tobytes()}


def one_thread_on_a_stem():
    x = new_leaf()
    stem = x * 1.0
    left, right = half(stem, LEFT), half(stem, RIGHT)
    return gradient(x, left, right)


def test_which_half_was_built_first_does_not_show():
    assert one_thread("left").tobytes() == one_thread("right").tobytes()


def test_order_by_id_would_show_which_half_was_built_first(monkeypatch):
    """The rejected alternative: a topological order too, and yet it differs from run to run."""
    monkeypatch.setattr(engine, "_by_level", attrgetter("id"))
    left, right = one_thread("left"), one_thread("right")
    assert left.tobytes() != right.tobytes()


@pytest.mark.parametrize("noise", range(3))
def test_graphs_of_other_threads_do_not_show(noise, busy_switching):
    """Merges, sweeps and backwards elsewhere change nothing here."""
    expected = one_thread().tobytes()

    def disturb():
        for _ in range(60):
            one, other = new_leaf() * 2.0, new_leaf() * 3.0
            joined = one * other
            if noise:
                joined.backward(np.ones(3))
            if noise == 2:
                sg.graph_cleanup()

    def measure():
        return {one_thread("left" if index % 2 else "right").tobytes() for index in range(60)}

    results = run_threads([disturb, measure, measure, disturb])
    assert results[1] == results[2] == {expected}


def test_a_pruned_backward_adds_in_the_same_order():
    """grad(outputs, inputs) and backward() agree bitwise, also when another leaf is gone."""
    x, other = new_leaf(), new_leaf()
    loss = half(x, LEFT) * half(x, RIGHT) * other
    whole = loss.backward(np.ones(3), retain_graph=True)[x].tobytes()
    assert sg.grad(loss, x, np.ones(3), retain_graph=True)[0].tobytes() == whole
    del other
    assert loss.backward(np.ones(3))[x].tobytes() == whole
