"""checkpoint: free a region's saved values and recompute them in backward.

The region runs once in the forward pass, recorded, on stand-ins of its tracked
arguments.  What it recorded is walked once, to find the parameters it used
through closures and objects, and then dropped, with all it had saved.  One node
takes its place, whose parents are the tracked arguments and those parameters.
Its rule runs the region again and back-propagates through it.

Recording the first run costs what it costs anyway, and it is what makes the
parameters known.  The rejected alternative, running it unrecorded, would lose
the gradients of everything that is not an argument, without a word.
"""

from __future__ import annotations

import copy
import itertools
import math
import random
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.autograd.calls import Call, Shaped, record, rule_for
from sweepgrad.errors import CheckpointError
from sweepgrad.functional import alias
from sweepgrad.gradients import differentiate_region
from sweepgrad.graph import DEFAULT, GraphRuntime, Node, is_recording
from sweepgrad.graph.node import next_id, parents_of
from sweepgrad.graph.watch import hooked
from sweepgrad.randomness import Noting, Replaying, inside
from sweepgrad.tensor import Tensor, from_numpy, runtime_of, untracked

#: Arguments with a state that drawing advances; each run gets a copy of its own.
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)

#: Where an argument is: its position or its name.
Key = int | str


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``function(*args, **kwargs)``, keep only its arguments, and recompute in backward.

    Saved bytes fall to those of the tracked arguments; time grows by one more
    forward of the region.  Regions may contain regions.  Gradients are those of
    the plain call, of any order: under ``create_graph=True`` the region is
    recomputed into the graph.

    Args:
        function: computes the same from the same: it is called again in
            backward.  Returns a tensor or a tuple; what is not a tracked tensor
            in it is passed on as it is.
        args, kwargs: tracked tensors are arguments of their own, not inside a
            list or dict.  Parameters (leaves) may also come through closures and
            objects, such as layers.

    Random state: NumPy generators among the arguments, those that sweepgrad's
    operations draw from (``dropout``), and the global states of ``np.random`` and
    ``random`` are the same in both runs; the caller's generators advance once.  A
    generator that the function reaches otherwise and draws from itself is not
    restored: pass it as an argument.

    Thread safety: any thread.  The recomputation runs in the thread that calls
    backward, with no lock held.  A generator that other threads draw from while
    the region runs is not restored rightly, and the global random states are the
    process's: give each thread a generator of its own.  A parameter that
    another thread replaces between forward and backward must be an argument,
    whose array is kept; through a closure it is refused in backward.

    Raises:
        CheckpointError: if the function uses a tracked result of an operation that
            is not an argument; and from backward, if the function computes
            something else than before, or a parameter was replaced.
    """
    if not is_recording():
        return function(*args, **kwargs)
    return _Region(function, args, kwargs).run()


def checkpoint_sequential(
    layers: Sequence[Callable[[Any], Any]], x: Any, segments: int | None = None
) -> Any:
    """Apply ``layers`` one after the other, checkpointed in ``segments`` pieces.

    Of n layers of one size, saved bytes at the peak are those of about
    ``segments + n / segments`` layers.  The last piece is not checkpointed: its
    values are needed at once.

    Args:
        layers: callables of one argument.
        x: the first layer's argument.
        segments: number of pieces; by default the square root of n, which makes
            the sum smallest.

    Thread safety and errors: as :func:`checkpoint`.

    Raises:
        CheckpointError: if ``segments`` is not between 1 and the number of layers.
    """
    count = len(layers)
    pieces = max(1, round(math.sqrt(count))) if segments is None else segments
    if count and not 1 <= pieces <= count:
        raise CheckpointError(
            f"checkpoint_sequential got segments={segments} for {count} layers; choose between 1 "
            "and the number of layers, about its square root"
        )
    bounds = [count * piece // pieces for piece in range(pieces + 1)]
    for start, end in itertools.pairwise(bounds[:-1]):
        x = checkpoint(_in_turn, layers[start:end], x)
    return _in_turn(layers[bounds[-2] :], x)


def _in_turn(layers: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    for layer in layers:
        x = layer(x)
    return x


class _Ran:
    """What one run of a region gave."""

    __slots__ = ("captured", "outcome", "tracked")

    def __init__(self, outcome: Any, tracked: list[Tensor], captured: list[Node]) -> None:
        self.outcome = outcome
        #: The tracked tensors among the results, in order.
        self.tracked = tracked
        #: The leaves it used that are not its arguments.
        self.captured = captured


class _Region:
    """A function with its arguments, to be run twice.  Also the operation that a call names.

    It must hold no handle of a tracked argument or result, only arrays and nodes.
    """

    once = False

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.function = function
        self.name = f"checkpoint({getattr(function, '__qualname__', type(function).__name__)})"
        self.rule = rule_for(self.name)
        self.arguments: dict[Key, Any] = dict(enumerate(args))
        self.arguments.update(kwargs)
        self.noting = Noting()
        self.legacy = _GlobalRandom()
        #: Of each captured leaf, its array in the first run; weak, since it is not saved.
        self.arrays: list[weakref.ref[NDArray[Any]]] = []
        self.captured: list[Node] = []
        self.runtime: GraphRuntime = DEFAULT

    # --- the first run ------------------------------------------------------------------

    def run(self) -> Any:
        """Run the function and record one node for what it recorded."""
        given = self.arguments
        keys = [key for key, value in given.items() if _is_tracked(value)]
        values: list[Tensor] = [given[key] for key in keys]
        nodes: list[Node] = [value._node for value in values if value._node is not None]
        looked = {id(value): value._array for value in values}  # one look: see declare.binary
        arrays = [looked[id(value)] for value in values]
        self.arguments = {
            key: copy.deepcopy(value) if isinstance(value, _GENERATORS) else value
            for key, value in given.items()
        }
        for key in keys:
            self.arguments[key] = _Variable(keys.index(key))
        if nodes:
            self.runtime = runtime_of(nodes[0])
        leaves = self._leaves(arrays)
        self.legacy.note()
        with inside(self.noting):
            ran = self._ran(leaves, {key: given[key] for key in given if key not in keys})
        self.legacy.compare()
        self._remember(ran.captured)
        return self._record(ran, nodes, arrays)

    def _leaves(self, arrays: Sequence[NDArray[Any]]) -> list[Tensor]:
        return [from_numpy(array, requires_grad=True, runtime=self.runtime) for array in arrays]

    def _ran(self, leaves: Sequence[Tensor], others: dict[Key, Any]) -> _Ran:
        """Run the function on these tensors in place of the tracked arguments."""
        arguments = {
            key: leaves[value.index] if type(value) is _Variable else others[key]
            for key, value in self.arguments.items()
        }
        args = [value for key, value in arguments.items() if type(key) is int]
        kwargs = {key: value for key, value in arguments.items() if type(key) is str}
        start = next_id()
        outcome = self.function(*args, **kwargs)
        results = outcome if type(outcome) is tuple else (outcome,)
        tracked = [value for value in results if _is_tracked(value)]
        own = {leaf._node for leaf in leaves}
        return _Ran(outcome, tracked, self._captured(tracked, own, start))

    def _captured(self, results: list[Tensor], own: set[Node | None], start: int) -> list[Node]:
        """The leaves behind the results that are not arguments, in the order of a walk."""
        captured: dict[Node, None] = {}
        seen: set[Node] = set()
        stack = [result._node for result in reversed(results) if result._node is not None]
        while stack:
            node = stack.pop()
            if node in seen or node in own:
                continue
            seen.add(node)
            if node.graph is None:
                if node() is not None:  # a leaf that the function made and dropped is its own
                    captured[node] = None
                continue
            if node.id < start or (node.claim is not None and node.claim.committed):
                raise CheckpointError(
                    f"the function of {self.name} uses {node!r}, the tracked result of an "
                    "operation outside of it, which is not one of its arguments (or is inside a "
                    "list or dict), so recomputing could not reach it; pass it as an argument, or "
                    "detached"
                )
            stack.extend(reversed(parents_of(node)))
        return list(captured)

    def _remember(self, captured: list[Node]) -> None:
        self.captured = captured
        self.arrays = [weakref.ref(_array_of(leaf)) for leaf in captured]

    def _record(self, ran: _Ran, nodes: list[Node], arrays: list[NDArray[Any]]) -> Any:
        if not ran.tracked:
            return ran.outcome
        parents = [*nodes, *ran.captured]
        bounds = [*arrays, *[_array_of(leaf) for leaf in ran.captured]]
        places = tuple([Shaped(array) for array in bounds])
        roles = tuple([("argument", index) for index in range(len(arrays))])
        count = len(parents)
        call = Call(self, None, count, tuple(range(count)), places, roles, materialize=False)
        results = [untracked(result._array) for result in ran.tracked]
        record(call, parents, results, tuple(arrays))
        if type(ran.outcome) is not tuple:
            return results[0]
        replacing = iter(results)
        return tuple([next(replacing) if _is_tracked(v) else v for v in ran.outcome])

    # --- the second run -----------------------------------------------------------------

    def argument(self, position: int) -> str:
        return f"argument {position}"

    def prepared(self, call: Call, values: tuple[Any, ...]) -> tuple[Callable[..., Any], Any]:
        return self.recompute, (call, values)

    def recompute(self, first: tuple[Call, tuple[Tensor, ...]], *gradients: Any) -> list[Any]:
        """The rule: run the function again and back-propagate through it."""
        call, values = first
        self._refuse_replaced()
        if call.again:
            variables = [alias(value) for value in values]
        else:
            variables = self._leaves([value._array for value in values])
        ran = self._again(variables)
        self._refuse_changed(ran, call)
        roots = [
            (result._node, gradient if call.again else gradient._array)
            for result, gradient in zip(ran.tracked, gradients, strict=True)
            if gradient is not None and result._node is not None
        ]
        targets = [v._node for v in variables if v._node is not None] + self.captured
        found = differentiate_region(roots, frozenset(targets), call.again)
        # Hooks that the function put on its arguments; those of parameters run when
        # the outer backward knows their final gradients.
        for variable in variables:
            node = variable._node
            if node in found:
                found[node] = hooked(node, found[node])
        return [found.get(node) for node in targets]

    def _again(self, variables: list[Tensor]) -> _Ran:
        others = {
            key: copy.deepcopy(value) if isinstance(value, _GENERATORS) else value
            for key, value in self.arguments.items()
        }
        before = self.legacy.rewind()
        try:
            with inside(Replaying(self.noting)):
                return self._ran(variables, others)
        finally:
            self.legacy.put_back(before)

    def _refuse_replaced(self) -> None:
        for leaf, array in zip(self.captured, self.arrays, strict=True):
            # The array of an assignment is always a new one, so an array that is the same
            # now was never replaced meanwhile.
            if _array_of(leaf) is not array():
                raise CheckpointError(
                    f"a parameter that the function of {self.name} uses, of shape "
                    f"{_array_of(leaf).shape}, was replaced between forward and backward, so the "
                    "recomputed values would not be those of the forward; update parameters after "
                    "backward, or pass them as arguments, whose values are kept"
                )

    def _refuse_changed(self, ran: _Ran, call: Call) -> None:
        self._refuse_replaced()
        same = len(ran.tracked) == len(call.results) and all(
            result.shape == place.shape and result.dtype == place.dtype
            for result, place in zip(ran.tracked, call.results, strict=True)
        )
        if not same or set(ran.captured) != set(self.captured):
            raise CheckpointError(
                f"the function of {self.name} computed something else when it was called again: "
                f"{len(ran.tracked)} tracked results and {len(ran.captured)} parameters, at first "
                f"{len(call.results)} and {len(self.captured)}, or other ones; it must depend on "
                "its arguments alone, and make its parameters outside"
            )


class _Variable:
    """Stands in a region's arguments for a tracked one."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class _GlobalRandom:
    """The global states of ``np.random`` and ``random``, if a region draws from them."""

    __slots__ = ("numpy", "python", "used")

    def __init__(self) -> None:
        self.numpy: Any = None
        self.python: Any = None
        self.used = False

    def note(self) -> None:
        """Before the first run."""
        self.numpy, self.python = np.random.get_state(), random.getstate()

    def compare(self) -> None:
        """After the first run: forget the states if nothing was drawn."""
        self.used = not (
            _same(self.numpy, np.random.get_state()) and self.python == random.getstate()
        )
        if not self.used:
            self.numpy = self.python = None

    def rewind(self) -> tuple[Any, Any]:
        """Before the second run; returns the states to put back."""
        if not self.used:
            return None, None
        before = np.random.get_state(), random.getstate()
        np.random.set_state(self.numpy)
        random.setstate(self.python)
        return before

    def put_back(self, before: tuple[Any, Any]) -> None:
        """After the second run."""
        if self.used:
            np.random.set_state(before[0])
            random.setstate(before[1])


def _same(one: Any, other: Any) -> bool:
    return one[0] == other[0] and one[2:] == other[2:] and bool(np.array_equal(one[1], other[1]))


def _is_tracked(value: Any) -> bool:
    return type(value) is Tensor and value._node is not None


def _array_of(leaf: Node) -> NDArray[Any]:
    handle = leaf()
    if handle is None:
        raise CheckpointError(
            "a parameter that a checkpointed function used in forward is gone in backward; keep "
            "the function's parameters, or pass them as arguments"
        )
    data: NDArray[Any] = handle._array
    return data
