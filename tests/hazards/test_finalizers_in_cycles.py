"""What a finalizer finds that a collection calls: its own tensors look dropped, and say so."""

import gc

import sweepgrad as sg
from sweepgrad.graph import DEFAULT

ONE = [1.0]


class Cycle:
    """Garbage for the collector; its finalizer calls a function on it."""

    def __init__(self, finalizer, **tensors):
        self.me = self
        self.finalizer = finalizer
        self.tensors = tensors

    def __del__(self):
        self.finalizer(**self.tensors)


def outcome_of(finalizer, **tensors):
    """What the finalizer returned or raised, run by a collection."""
    outcomes = []

    def noting(**tensors):
        try:
            outcomes.append(finalizer(**tensors))
        except sg.SweepgradError as error:
            outcomes.append(error)

    Cycle(noting, **tensors)
    tensors.clear()
    gc.collect()
    return outcomes[0]


def private():
    x = sg.tensor([3.0], requires_grad=True)
    return {"x": x, "y": x * x}


def test_a_graph_that_dies_with_its_cycle_can_be_differentiated_by_a_finalizer(baseline):
    found = outcome_of(lambda x, y: sg.grad(y, [x], [ONE])[0].tolist(), **private())

    assert found == [6.0]


def test_a_leaf_that_dies_with_its_cycle_gets_no_gradient_and_the_error_says_why(baseline):
    """The collector clears weak references to a cycle before it calls the cycle's finalizers."""
    found = outcome_of(lambda x, y: y.backward(ONE)[x].tolist(), **private())

    if found != [6.0]:  # the order differs between versions of Python
        assert type(found) is sg.NoGradientError
        assert "a finalizer of a cycle" in str(found)
        assert "sweepgrad.grad(output, [tensor])" in str(found)


def test_a_tip_of_a_living_graph_that_dies_with_a_cycle_is_gone_for_its_finalizer(baseline):
    """Its node was reclaimed with its handle; the error is named and nothing else suffers."""
    x = sg.tensor([3.0], requires_grad=True)
    trunk = x * 2.0

    found = outcome_of(lambda tip: (tip * 2.0).backward(ONE)[x].tolist(), tip=trunk * 5.0)

    if found != [20.0]:
        assert type(found) is sg.GraphConsumedError
    DEFAULT.check_valid()
    assert (trunk * 1.0).backward(ONE)[x].tolist() == [2.0]


def test_a_tensor_that_a_finalizer_revives_keeps_its_value(baseline):
    revived = []
    x = sg.tensor([3.0], requires_grad=True)
    trunk = x * 2.0

    outcome_of(lambda tip: revived.append(tip), tip=trunk * 5.0)

    assert revived[0].tolist() == [30.0]
    DEFAULT.graph_cleanup()
    DEFAULT.check_valid()
    revived.clear()
    assert trunk.backward(ONE)[x].tolist() == [2.0]
