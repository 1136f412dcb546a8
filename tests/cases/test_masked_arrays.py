"""NumPy's masked arrays look for attributes of their own on other objects; none is ours."""

import numpy as np
import pytest

import sweepgrad as sg

MASKED = np.ma.masked_array([1.0, 2.0], [True, False])


def tracked():
    return sg.tensor([3.0, 4.0], requires_grad=True)


@pytest.mark.parametrize(
    "use",
    [
        lambda t: MASKED * t,
        lambda t: t * MASKED,
        lambda t: MASKED + t,
        lambda t: np.ma.multiply(MASKED, t),
        lambda t: np.ma.masked_array(t, [True, False]),
        lambda t: np.ma.asarray(t),
        lambda t: np.ma.getdata(t),
    ],
    ids=["left", "right", "add", "function", "made", "asarray", "getdata"],
)
def test_a_tracked_tensor_does_not_leave_the_graph_through_a_masked_array(use):
    """C19: neither a result without a graph nor a view of the tensor's memory comes out."""
    t = tracked()

    with pytest.raises(sg.SweepgradError):
        use(t)

    assert (t * t).backward([1.0, 1.0])[t].tolist() == [6.0, 8.0]


def test_what_masked_arrays_take_of_an_untracked_tensor_cannot_be_written_to():
    t = sg.tensor([3.0, 4.0])

    taken = np.ma.getdata(t)

    with pytest.raises(ValueError, match="read-only"):
        taken[0] = 9.0
    assert t.tolist() == [3.0, 4.0]


def test_no_attribute_of_a_tensor_is_one_that_masked_arrays_look_for():
    looked_for = {"_data", "_mask", "mask", "_baseclass", "_fill_value", "_sharedmask", "_hardmask"}

    assert not [name for name in looked_for if hasattr(sg.tensor([1.0]), name)]
