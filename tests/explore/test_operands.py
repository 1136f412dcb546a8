"""A tensor that is an operand twice is looked at once: an update falls before or after."""

import pytest

import sweepgrad as sg
from sweepgrad.explore import explore

OPERATIONS = {
    "multiply": lambda w: w * w,
    "matmul": lambda w: w @ w,
    "linear": lambda w: sg.linear(w, w, sg.tensor([0.0])),
    "hypot": lambda w: sg.hypot(w, w),
    "concatenate": lambda w: sg.concatenate([w, w]),
    "stack": lambda w: sg.stack([w, w]),
    "einsum": lambda w: sg.einsum("ij,jk->ik", w, w),
    "checkpoint": lambda w: sg.checkpoint(lambda x, y: x - y, w, w),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_update_never_falls_between_two_looks_at_one_operand(name):
    """3 in, and 5 from another thread: the value is that of 3 or of 5, and so is the gradient."""
    operation = OPERATIONS[name]

    def outcome(w):
        y = operation(w)
        return y.numpy().tobytes(), y.sum().backward()[w].tobytes()

    allowed = {outcome(sg.tensor([[value]], requires_grad=True)) for value in (3.0, 5.0)}
    met = set()

    def scenario(m):
        w = sg.tensor([[3.0]], requires_grad=True)
        found = []
        m.spawn(lambda: found.append(outcome(w)), name=name)
        m.spawn(lambda: w.assign([[5.0]]), name="assign")

        def check():
            met.update(found)
            assert set(found) <= allowed, f"{found} is none of {allowed}"

        m.check(check)

    assert explore(scenario).exhausted
    assert met == allowed
