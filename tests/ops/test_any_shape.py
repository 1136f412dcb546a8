"""Every operation on shapes that Hypothesis draws, both orders beside differences.

Operands have no axes, empty ones, several; they broadcast where the operation does, and lie
in memory in any order.  ``drawn_cases`` has the tables.
"""

import numpy as np
import pytest
from along_directions import check_along
from drawing import LAYOUTS, Draw
from drawn_cases import DRAWN
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize("one", DRAWN.values(), ids=DRAWN)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_both_orders_agree_with_differences_on_any_shape_and_layout(one, data):
    d = Draw(data.draw)
    function, arrays = one(d)
    check_along(function, arrays, LAYOUTS[d.layout])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x * x.detach(),
        lambda x: x * x * 0.5 + x.detach() * (x - 0.5 * x.detach()),
    ],
    ids=["first order", "second order"],
)
def test_a_wrong_gradient_of_either_order_is_found(wrong):
    with pytest.raises(AssertionError, match="differences give"):
        check_along(wrong, [np.array([[0.3, 1.2], [-0.7, 0.4]])])


def test_a_gradient_that_depends_on_the_layout_is_found():
    def wrong(x):
        return x if x.numpy().flags.c_contiguous else x + x - x.detach()

    check_along(wrong, [np.ones((2, 3))])
    with pytest.raises(AssertionError, match="differences give"):
        check_along(wrong, [np.ones((2, 3))], LAYOUTS["spread"])
