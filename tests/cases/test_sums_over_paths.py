"""A value used on several paths passes its whole gradient on, once (C15)."""

import time

import pytest

import sweepgrad as sg


def leaf(value):
    return sg.tensor([float(value)], requires_grad=True)


def gradients(output, *inputs):
    grads = output.backward([1.0])
    return [grads[x].item() for x in inputs]


def test_two_leaves_through_a_sum_and_a_product(baseline):
    a, b = leaf(2), leaf(3)
    c, d = a + b, a * b
    e, f = c + d, c * d
    y = e + f
    assert y.item() == 41.0
    assert gradients(y, a, b) == [25.0, 19.0]


def test_doubling_by_adding_to_itself(baseline):
    a = leaf(1)
    b = a + a
    assert gradients(b + b, a) == [4.0]


def test_three_products_added(baseline):
    x = leaf(1)
    products = [x * x * 1.0 for _ in range(3)]
    assert gradients(products[0] + products[1] + products[2], x) == [6.0]


def test_a_square(baseline):
    x = leaf(3)
    assert gradients(x * x, x) == [6.0]


def test_sixty_doublings_are_exact_and_no_exponential_walk(baseline):
    x = leaf(1)
    start = time.perf_counter()
    y = x
    for _ in range(60):
        y = y + y
    assert gradients(y, x) == [2.0**60]
    assert time.perf_counter() - start < 1.0


@pytest.mark.parametrize("build", ["left first", "right first"])
def test_a_short_and_a_long_path_to_one_node(build, baseline):
    """The node's gradient is complete before it is passed on, whichever path was made first."""
    x = leaf(2)
    stem = x * x  # 4

    def long():
        y = stem
        for _ in range(10):
            y = y * 1.0
        return y

    if build == "left first":
        short, far = stem * 3.0, long()
    else:
        far, short = long(), stem * 3.0
    assert gradients(short * far, x) == [3 * 2 * 4 * 4.0]


def test_one_operand_of_many_operations_and_many_operands_of_one(baseline):
    x = leaf(2)
    pieces = [x * float(i) for i in range(10)]
    assert gradients(sg.concatenate([*pieces, *pieces, x]).sum(keepdims=True), x) == [91.0]
