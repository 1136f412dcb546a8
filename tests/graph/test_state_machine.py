"""Random programs on the runtime beside a naive graph; everything is compared after each step."""

import gc

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import sweepgrad as sg
from support import reference
from support.beside import LIMIT, NUMBERS, OPERATIONS, Beside
from sweepgrad.graph import GraphRuntime

VALUES = st.sampled_from(NUMBERS)


class GraphMachine(Beside, RuleBasedStateMachine):
    """Creates, operates, joins, drops, differentiates and sweeps, one thread."""

    def __init__(self):
        RuleBasedStateMachine.__init__(self)
        Beside.__init__(self, GraphRuntime())

    def pick(self, data, label="operand"):
        return data.draw(st.sampled_from(list(self.tensors)), label=label)

    @initialize(values=st.lists(VALUES, min_size=2, max_size=3))
    def start(self, values):
        for value in values:
            self.create(value)

    @rule(value=VALUES)
    def create_one_more(self, value):
        self.create(value)

    @precondition(lambda self: self.tensors)
    @rule(data=st.data(), count=st.integers(1, 4))
    def operate(self, data, count):
        """Some operations at once, so that programs are more than a few nodes deep.

        They also join: the operands may sit in two graphs, or be one and the same.
        """
        for _ in range(count):
            name = data.draw(st.sampled_from([*OPERATIONS, "scale"]), label="operation")
            if name == "scale":
                self.scale(self.pick(data), data.draw(VALUES, label="factor"))
            else:
                self.combine(name, self.pick(data), self.pick(data))

    @precondition(lambda self: self.tensors)
    @rule(data=st.data(), factors=st.lists(VALUES, min_size=2, max_size=3), hold=st.booleans())
    def fan_out_and_join(self, data, factors, hold):
        """One value used on paths of different lengths that meet again."""
        stem = self.pick(data, "stem")
        if abs(stem.value) > LIMIT:
            return
        total = self.scale(stem, factors[0])
        for length, factor in enumerate(factors[1:], start=data.draw(st.integers(1, 3))):
            part = self.scale(stem, factor)
            for _ in range(length - 1):
                longer = self.scale(part, 1)
                if not hold:
                    self.let_go(part)
                part = longer
            # Either may come first: the walk from the root must not matter.
            operands = (total, part) if data.draw(st.booleans()) else (part, total)
            joined = self.combine("add", *operands)
            if not hold:
                self.let_go(part)
                self.let_go(total)
            total = joined

    @precondition(lambda self: self.tensors)
    @rule(data=st.data())
    def drop(self, data):
        self.let_go(self.pick(data))

    @precondition(lambda self: self.tensors)
    @rule(data=st.data(), retain=st.booleans())
    def backward(self, data, retain):
        root = self.pick(data, "root")
        if not reference.is_available(root):
            before = self.runtime.memory_report()
            with pytest.raises(sg.GraphConsumedError):
                self.tensors[root].backward([1.0], retain_graph=retain)
            assert self.runtime.memory_report() == before
            return
        grads = self.tensors[root].backward([1.0], retain_graph=retain)
        leaves = {r for r in reference.ancestors([root]) if r.is_leaf and r.held}
        assert len(grads) == len(leaves)
        for leaf in leaves:
            self.compare(grads[self.tensors[leaf]], reference.paths(root, leaf))
        if not retain:
            for ref in reference.ancestors([root]):
                ref.consumed = ref.consumed or not ref.is_leaf

    @precondition(lambda self: self.tensors)
    @rule(data=st.data(), retain=st.booleans())
    def grad(self, data, retain):
        roots = [self.pick(data, "output") for _ in range(data.draw(st.integers(1, 2)))]
        inputs = [self.pick(data, "input") for _ in range(data.draw(st.integers(1, 2)))]
        outputs = [self.tensors[ref] for ref in roots]
        wanted = [self.tensors[ref] for ref in inputs]
        call = lambda: sg.grad(
            outputs, wanted, [[1.0]] * len(roots), retain_graph=retain, allow_unused=True
        )
        if not all(reference.is_available(ref) for ref in roots):
            with pytest.raises(sg.GraphConsumedError):
                call()
            return
        reached = reference.ancestors(roots)
        for ref, found in zip(inputs, call(), strict=True):
            if ref in reached:
                self.compare(found, sum(reference.paths(root, ref) for root in roots))
            else:
                assert found is None
        if not retain:
            for ref in reference.between(roots, set(inputs)):
                ref.consumed = True

    @rule()
    def sweep(self):
        gc.collect(0)
        before = self.runtime.memory_report().nodes
        report = self.runtime.graph_cleanup()
        after = self.runtime.memory_report()
        assert report.nodes_freed == before - after.nodes
        assert (report.nodes_left, report.graphs_left) == (after.nodes, after.graphs)
        held = [ref for ref in self.tensors if not ref.is_leaf and reference.is_available(ref)]
        expected = {ref for ref in reference.ancestors(held) if not ref.is_leaf}
        assert self.registered() == expected, "a sweep leaves what is alive and available"

    @invariant()
    def everything_agrees(self):
        self.check()

    def teardown(self):
        self.check_empty()


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}

TestGraphMachine = GraphMachine.TestCase
TestGraphMachine.settings = settings(max_examples=60, stateful_step_count=25, **COMMON)


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestLongGraphMachine(GraphMachine.TestCase):
    settings = settings(max_examples=1_000, stateful_step_count=60, **COMMON)
