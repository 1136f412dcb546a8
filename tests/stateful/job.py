"""A job: the steps of one thread, worked out beforehand on the reference alone.

So every step knows what it must give whatever the other threads do, and which backward
calls compete for nodes; what a thread runs is nothing but the steps themselves.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sweepgrad as sg
from stateful.claims import Attempt
from stateful.steps import Program, Step
from support import reference
from support.beside import OPERATIONS, combined, scaled
from support.reference import Ref
from support.ruled import with_rule

if TYPE_CHECKING:
    from stateful.rounds import Round


class Cycle:
    """Garbage that only a collection finds, with a handle in it and a finalizer that works."""

    def __init__(self, tensor: Any, action: Callable[[Any], None], errors: list[str]) -> None:
        self.tensor, self.action, self.errors = tensor, action, errors
        self.me = self

    def __del__(self) -> None:
        try:
            self.action(self.tensor)
        except sg.ReentrantCallError:
            pass  # the documented answer inside a critical section of its own thread
        except Exception:
            self.errors.append("in a finalizer: " + traceback.format_exc())


class Hands:
    """What one thread holds and notes while it runs."""

    def __init__(self) -> None:
        self.tensors: dict[Ref, Any] = {}
        self.nodes: dict[Ref, Any] = {}
        #: (start, end) of each step.
        self.spans: list[tuple[int, int]] = []
        self.errors: list[str] = []

    def keep(self, ref: Ref, tensor: Any) -> None:
        self.tensors[ref], self.nodes[ref] = tensor, tensor._node


class Job:
    """The steps of one thread, worked out."""

    def __init__(self, round_: Round, program: Program) -> None:
        self._round = round_
        self._world = round_.world
        self._usable = list(round_.held)
        #: Handles of the world that the program uses, and those that it drops there.
        self.borrowed: dict[Ref, None] = {}
        self.dropped: dict[Ref, None] = {}
        self.made: dict[Ref, None] = {}
        #: How many nodes it may register.
        self.records = 0
        self.attempts: list[Attempt] = []
        self.actions: list[Callable[[Hands], None]] = []
        self.hands = Hands()
        self.finished = False
        for step in program:
            if self._usable or step.kind in ("create", "cleanup", "report", "collect", "update"):
                _PLANS[step.kind](self, step)
            else:
                self._create(step)

    # --- planning, on the reference alone -------------------------------------------------

    def _pick(self, position: int) -> Ref:
        ref = self._usable[-1 - position % len(self._usable)]
        if ref not in self.made:
            self.borrowed[ref] = None
        return ref

    def _new(self, ref: Ref) -> Ref:
        self.made[ref] = None
        self.records += 1
        self._usable.append(ref)
        return ref

    def _do(self, action: Callable[[Hands], Any]) -> None:
        self.actions.append(action)

    def _create(self, step: Step) -> None:
        ref, tensor = self._new(Ref(step.number)), self._world.runtime.tensor
        self._do(lambda hands: hands.keep(ref, tensor([float(ref.value)], requires_grad=True)))

    def _scale(self, step: Step) -> None:
        a = self._pick(step.a)
        ref, run = scaled(a, step.number)
        self._new(ref)
        self._do(lambda hands: hands.keep(ref, run(hands.tensors[a])))

    def _scale_and_drop(self, step: Step) -> None:
        self._scale(step)
        self._drop_last()

    def _combine(self, step: Step) -> None:
        a, b = self._pick(step.a), self._pick(step.b)
        ref, run = combined(step.kind, a, b)
        self._new(ref)
        self._do(lambda hands: hands.keep(ref, run(hands.tensors[a], hands.tensors[b])))

    def _let_go(self, ref: Ref) -> None:
        self._usable.remove(ref)
        if ref in self.made:
            del self.made[ref]
            ref.held = False
        else:
            self.dropped[ref] = None

    def _drop_last(self) -> None:
        ref = self._usable[-1]
        self._let_go(ref)
        self._do(lambda hands: hands.tensors.pop(ref) and None)

    def _drop(self, step: Step) -> None:
        ref = self._pick(step.a)
        self._let_go(ref)
        self._do(lambda hands: hands.tensors.pop(ref) and None)

    def _cycle(self, step: Step) -> None:
        """A drop into a cycle: the handle goes with a collection, whoever's it is."""
        ref = self._pick(step.a)
        self._let_go(ref)
        self._round.lingering.add(ref)
        action, errors = self._free_action(step.inner), self._round.errors

        def run(hands: Hands) -> None:
            Cycle(hands.tensors.pop(ref), action, errors)

        self._do(run)

    def _free_action(self, inner: str) -> Callable[[Any], None]:
        """User code on one tensor that leaves nothing behind and competes with nobody."""
        runtime = self._world.runtime

        def private(_: Any) -> None:
            x = runtime.tensor([3.0], requires_grad=True)
            assert (x * x).backward([1.0])[x].tolist() == [6.0]

        return {
            "nothing": lambda tensor: None,
            "operate": lambda tensor: (tensor * 2.0) and None,
            "cleanup": lambda tensor: runtime.graph_cleanup() and None,
            "report": lambda tensor: runtime.memory_report() and None,
        }.get(inner, private)

    def _attempt(self, roots: list[Ref], targets: list[Ref] | None, retain: bool) -> Attempt:
        reached = reference.ancestors(roots)
        needs = frozenset(ref for ref in reached if not ref.is_leaf)
        takes = needs if targets is None else frozenset(reference.between(roots, set(targets)))
        if targets is None:
            lingering = self._round.lingering
            wanted = {ref for ref in reached if ref.is_leaf and (ref.held or ref in lingering)}
        else:
            wanted = {ref for ref in targets if ref in reached}
        expected = {ref: sum(reference.paths(root, ref) for root in roots) for ref in wanted}
        attempt = Attempt(needs, frozenset() if retain else takes, expected)
        self.attempts.append(attempt)
        return attempt

    def _backward(self, step: Step) -> None:
        root = self._pick(step.a)
        retain = step.kind == "retained"
        attempt = self._attempt([root], None, retain)
        self._do(
            lambda hands: self._round.back_propagate(attempt, lambda: hands.tensors[root], retain)
        )

    def _grad(self, step: Step) -> None:
        roots, targets = [self._pick(step.a)], [self._pick(step.b)]
        retain = step.number % 2 == 0
        attempt = self._attempt(roots, targets, retain)

        def run(hands: Hands) -> None:
            outputs, inputs = ([hands.tensors[r] for r in refs] for refs in (roots, targets))
            self._round.differentiate(attempt, outputs, inputs, retain)

        self._do(run)

    def _inner(self, step: Step) -> tuple[Ref, Callable[[Hands], Callable[[], None]]]:
        """User code inside a backward: what it works on, and itself once there are hands."""
        other = self._pick(step.b)
        if step.inner == "backward":
            attempt = self._attempt([other], None, step.number % 2 == 0)
            retain = step.number % 2 == 0
            return (
                other,
                lambda hands: (
                    lambda: self._round.back_propagate(
                        attempt, lambda: hands.tensors[other], retain
                    )
                ),
            )
        action = self._free_action(step.inner)
        return other, lambda hands: lambda: action(hands.tensors[other])

    def _nested(self, step: Step) -> None:
        """A backward whose rule, or hook, is user code of the runtime."""
        stem = self._pick(step.a)
        ref = Ref(stem.value, (stem,), (1,), held=False)
        self.records += 1
        outer = self._attempt([ref], None, False)
        _, inner = self._inner(step)
        hooked = step.kind == "hooked"

        def run(hands: Hands) -> None:
            code = inner(hands)

            def rule(g: Any) -> Any:
                outer.end = self._round.stamp()
                code()
                return g

            def prepare() -> Any:
                if hooked:
                    tensor = hands.tensors[stem] * 1.0
                    hands.nodes[ref] = tensor._node
                    tensor.register_hook(lambda g: rule(g) and None)  # refused if consumed
                    return tensor
                tensor = with_rule(hands.tensors[stem], rule)
                hands.nodes[ref] = tensor._node
                return tensor

            self._round.back_propagate(outer, prepare, False)

        self._do(run)

    def _cleanup(self, step: Step) -> None:
        runtime = self._world.runtime

        def run(hands: Hands) -> None:
            report = runtime.graph_cleanup()
            assert min(report.nodes_freed, report.nodes_left, report.graphs_left) >= 0

        self._do(run)

    def _report(self, step: Step) -> None:
        runtime, most = self._world.runtime, self._round.most_nodes

        def run(hands: Hands) -> None:
            report = runtime.memory_report()
            assert 0 <= report.nodes <= most(), f"{report}, but {most()} nodes were ever made"
            assert 0 <= report.tips <= most(), f"{report}, but {most()} nodes were ever made"

        self._do(run)

    def _collect(self, step: Step) -> None:
        self._do(lambda hands: gc.collect())

    def _update(self, step: Step) -> None:
        counter = self._world.counter
        self._round.updates += 1
        self._do(lambda hands: counter.update(lambda a: a + 1.0))

    # --- running, in the thread -----------------------------------------------------------

    def lend(self) -> None:
        """Put the handles that the steps use into the thread's hands."""
        for ref in self.borrowed:
            self.hands.tensors[ref] = self._world.tensors[ref]

    def run(self) -> None:
        """The steps, one after the other; afterwards the hands hold what was made and kept."""
        hands, stamp = self.hands, self._round.stamp
        for action in self.actions:
            start = stamp()
            action(hands)
            hands.spans.append((start, stamp()))
        for ref in self.borrowed:
            hands.tensors.pop(ref, None)
        self.actions = []
        self.finished = True


_PLANS: dict[str, Callable[[Job, Step], None]] = {
    "create": Job._create,
    "scale": Job._scale,
    "scale and drop": Job._scale_and_drop,
    **dict.fromkeys(OPERATIONS, Job._combine),
    "drop": Job._drop,
    "cycle": Job._cycle,
    "backward": Job._backward,
    "retained": Job._backward,
    "grad": Job._grad,
    "nested": Job._nested,
    "hooked": Job._nested,
    "cleanup": Job._cleanup,
    "report": Job._report,
    "collect": Job._collect,
    "update": Job._update,
}
