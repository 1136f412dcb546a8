"""An element picked several times gets the gradient of each (C14)."""

import numpy as np
import pytest

import sweepgrad as sg


def gradient(x, index, weights=None):
    picked = x[index]
    seed = np.ones(picked.shape) if weights is None else np.array(weights, float)
    return picked.backward(seed)[x].tolist()


def leaf(value):
    return sg.tensor(np.array(value, float), requires_grad=True)


def test_repeats_in_an_index_array_are_added():
    x = leaf([1, 2, 3])
    loss = (x[[2, 0, 2, 2]] * np.array([1.0, 10.0, 100.0, 1000.0])).sum()
    assert loss.backward()[x].tolist() == [10.0, 0.0, 1101.0]


def test_one_element_twice():
    x = leaf([1])
    assert x[[0, 0]].sum().backward()[x].tolist() == [2.0]


def test_one_place_of_a_matrix_twice():
    x = leaf(np.zeros((2, 2)))
    assert gradient(x, ([0, 0], [1, 1])) == [[0.0, 2.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    "index",
    [
        -1,
        slice(None, None, -1),
        slice(3, 0, -2),
        [-1, 0, -1],
        np.array([True, False, True, True]),
        np.array([False] * 4),
        (slice(None), None),
        Ellipsis,
        np.array([[0, 3], [3, 3]]),
    ],
    ids=str,
)
def test_every_kind_of_index_against_finite_differences(index):
    x = leaf([0.5, -1.5, 2.0, 3.0])
    weights = np.random.default_rng(3).normal(size=x.numpy()[index].shape)
    found = gradient(x, index, weights)
    step, expected = 1e-6, []
    for position in range(4):
        ends = []
        for sign in (1.0, -1.0):
            moved = x.numpy().copy()
            moved[position] += sign * step
            ends.append((moved[index] * weights).sum())
        expected.append((ends[0] - ends[1]) / (2 * step))
    assert np.allclose(found, expected, atol=1e-8)


def test_the_index_array_may_be_changed_after_the_forward():
    x, index = leaf([1, 2, 3]), np.array([2, 2])
    picked = x[index]
    index[:] = 0
    assert picked.backward([1.0, 1.0])[x].tolist() == [0.0, 0.0, 2.0]


def test_a_mask_may_be_changed_after_the_forward():
    x, mask = leaf([1, 2, 3]), np.array([True, False, True])
    picked = x[mask]
    mask[:] = True
    assert picked.backward([1.0, 1.0])[x].tolist() == [1.0, 0.0, 1.0]
