"""Rounds: several threads run their jobs at the same time; then everything is compared."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import sweepgrad as sg
from stateful.claims import Attempt, describe, explain
from stateful.job import Job
from stateful.steps import Program
from support import reference
from support.beside import Beside
from support.reference import Ref


class Shared(Beside):
    """A runtime and a naive graph, and a parameter that everybody updates."""

    def __init__(self, runtime: Any) -> None:
        super().__init__(runtime)
        self.counter = runtime.tensor([0.0], requires_grad=True)
        self.updates = 0

    def check(self) -> None:
        super().check()
        assert self.counter.item() == self.updates, "an update was lost"

    def names(self) -> dict[Ref, str]:
        return {
            ref: f"{'leaf' if ref.is_leaf else 'node'} {node.id}"
            for ref, node in self.nodes.items()
        }


class Round:
    """What several threads do at the same time beside one graph."""

    def __init__(
        self, world: Shared, programs: Sequence[Program], stamp: Callable[[], int] = perf_counter_ns
    ) -> None:
        self.world = world
        self.stamp = stamp
        self.held = list(world.tensors)
        #: Leaves and nodes whose handle goes with a collection.
        self.lingering: set[Ref] = set()
        self.errors: list[str] = []
        #: What handles keep, or may: of the unavailable ones a sweep has taken some.
        unconsumed = {ref for ref in world.nodes if not (ref.is_leaf or ref.consumed)}
        self.nodes_before = len(reference.reachable(world.tensors, unconsumed))
        self.updates = 0
        self.jobs = [Job(self, program) for program in programs]
        for job in self.jobs:
            job.lend()
        for job in self.jobs:
            for ref in job.dropped:
                world.tensors.pop(ref, None)

    def most_nodes(self) -> int:
        """No moment of the round sees more nodes."""
        return self.nodes_before + sum(job.records for job in self.jobs)

    # --- called in the threads --------------------------------------------------------------

    def back_propagate(self, attempt: Attempt, root: Callable[[], Any], retain: bool) -> None:
        attempt.start = self.stamp()
        try:
            grads = root().backward([1.0], retain_graph=retain)
        except sg.GraphConsumedError:
            attempt.succeeded = False
        else:
            attempt.succeeded = True
            attempt.found = [(leaf._node, grads[leaf].tobytes()) for leaf in grads]
        # A rule that has begun to run says that its backward's claim was over by then.
        attempt.end = attempt.end or self.stamp()

    def differentiate(
        self, attempt: Attempt, outputs: list[Any], inputs: list[Any], retain: bool
    ) -> None:
        attempt.start = self.stamp()
        seeds = [[1.0]] * len(outputs)
        try:
            found = sg.grad(outputs, inputs, seeds, retain_graph=retain, allow_unused=True)
        except sg.GraphConsumedError:
            attempt.succeeded = False
        else:
            attempt.succeeded = True
            attempt.found = [
                (tensor._node, gradient.tobytes())
                for tensor, gradient in zip(inputs, found, strict=True)
                if gradient is not None
            ]
        attempt.end = self.stamp()

    # --- afterwards -------------------------------------------------------------------------

    def settle(self) -> None:
        """Compare with the reference, and make the reference follow.

        Raises:
            AssertionError: if no order of the steps gives what they gave.
        """
        world = self.world
        if self.lingering:
            gc.collect()
        assert not self.errors, "\n".join(self.errors)
        assert all(job.finished for job in self.jobs)
        for job in self.jobs:
            world.nodes.update(job.hands.nodes)
            for ref in job.dropped:
                ref.held = False
        for job in self.jobs:
            world.tensors.update(job.hands.tensors)
            job.hands.tensors.clear()
        self._check_claims()
        world.updates += self.updates

    def _check_claims(self) -> None:
        programs = [[a for a in job.attempts if a.succeeded is not None] for job in self.jobs]
        consumed = {ref for ref in self.world.nodes if ref.consumed}
        order = explain(programs, consumed)
        assert order is not None, "no order of the backward calls gives this outcome\n" + describe(
            programs, self.world.names()
        )
        optional = self.lingering.union(*(job.dropped for job in self.jobs))
        refs = {node: ref for ref, node in self.world.nodes.items()}
        for attempt in order:
            if not attempt.succeeded:
                continue
            found = {refs[node]: bits for node, bits in attempt.found}
            assert found.keys() <= attempt.expected.keys()
            missing = attempt.expected.keys() - found.keys() - optional
            assert not missing, f"no gradient for {[self.world.names()[ref] for ref in missing]}"
            for ref, bits in found.items():
                self.world.compare(bits, attempt.expected[ref])
            for ref in attempt.takes:
                ref.consumed = True
