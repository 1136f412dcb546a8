"""What a finalizer finds that a collection calls: its own tensors look dropped, and say so."""

import gc
import subprocess
import sys

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


COLLECTED_INSIDE_AN_ERROR_STATE = """
import gc, random
import numpy as np
import sweepgrad as sg

class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        leaf = sg.tensor(np.array([3.0]), requires_grad=True)
        assert (leaf * leaf).backward(np.ones(1))[leaf].tolist() == [6.0]

chance = random.Random(1)
for turn in range(8_000):
    if turn % 20 == 0:
        gc.set_threshold(chance.randrange(5, 60), 1000, 1000)
    Cycle()
    with np.errstate(all="ignore"):
        with np.errstate(all="ignore"):
            pass
        some = [[] for _ in range(chance.randrange(8))]
print("done")
"""


def test_a_backward_in_a_finalizer_does_not_disturb_the_context_variable_that_is_being_set():
    """CPython 3.11 collects inside the C code that sets one, and reads on what it read before.

    1. NumPy's error state is set: C code reads the mapping of the context's variables
    2. it allocates, and a collection runs a finalizer that back-propagates
    3. the backward sets the error state and puts it back: the mapping is replaced and freed
    4. the C code of 1 goes on with the mapping that it read: segmentation fault
    """
    done = subprocess.run(
        [sys.executable, "-c", COLLECTED_INSIDE_AN_ERROR_STATE],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
