"""How a call of a user's operation becomes a node, and how its rule is run.

Custom operations and checkpointed regions share this: a call has arguments,
some of them tracked, one or several results, values saved for its rule, and a
rule that gives one gradient for each argument.

A call with one tracked result is one node.  A call with several is one hidden
node that each result's node has as its only parent: its gradient is a
:class:`Bundle` of the results' gradients, which levels make complete before the
rule runs, once for all of them.  The engine asks of a gradient only that two can
be added, so claiming and running know nothing of bundles.

The handle of a result is never saved, only its array and its role.  A context
that keeps its own result is therefore no cycle at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import DtypeError, GradientError, HigherOrderError, TensorTypeError
from sweepgrad.gradients import on_node
from sweepgrad.graph import Node, Rule, register_many, register_one
from sweepgrad.graph.watch import run_user_code
from sweepgrad.ops.primitive import register
from sweepgrad.tensor import Tensor, untracked

ndarray = np.ndarray

#: Where a saved value sits in the graph: ("argument", index of the parent),
#: ("result", index among the tracked results), ("constant", 0), or ("unknown", 0)
#: for an intermediate value, whose dependence on the arguments was not recorded.
Role = tuple[str, int]

CONSTANT: Role = ("constant", 0)
UNKNOWN: Role = ("unknown", 0)


class Bundle:
    """Gradients of some of the results of a call, by index.  Never changed once made."""

    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    def __add__(self, other: Bundle) -> Bundle:
        parts = dict(self.parts)
        for index, part in other.parts.items():
            parts[index] = parts[index] + part if index in parts else part
        return Bundle(parts)


class Place(Protocol):
    """An argument or result as a gradient must match it."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...


class Operation(Protocol):
    """What a kind of user's operation tells about itself."""

    name: str
    #: The rule of every call of it; what differs from call to call is saved.
    rule: Rule
    #: Its rule gives gradients that cannot be differentiated again.
    once: bool

    def argument(self, position: int) -> str:
        """How messages name the argument at this position of the returned gradients."""
        ...

    def prepared(self, call: Call, values: tuple[Any, ...]) -> tuple[Callable[..., Any], Any]:
        """The rule and its first argument; it gets the results' gradients after that.

        ``values`` are the saved values as tensors, in the graph or not.
        """
        ...


class Call:
    """One recorded call.  The first of its node's saved values; never changed once recorded.

    Attributes:
        operation: what was called.
        state: what the operation keeps of the call, for its rule.
        count: how many gradients the rule returns.
        inputs: for each parent, the position of its gradient among these.
        places: for each parent, the shape and dtype of its gradient.
        roles: for each saved value after this one, where it sits in the graph.
        results: shape and dtype of each tracked result.
        materialize: results without a gradient get zeros, not None.
    """

    __slots__ = (
        "count",
        "inputs",
        "materialize",
        "operation",
        "places",
        "results",
        "roles",
        "state",
    )

    #: True in the copy that a backward gets whose gradients are differentiated again.
    again = False
    #: In that copy, the nodes of the arguments.
    parents: tuple[Node, ...] = ()

    def __init__(
        self,
        operation: Operation,
        state: Any,
        count: int,
        inputs: tuple[int, ...],
        places: tuple[Shaped, ...],
        roles: tuple[Role, ...],
        materialize: bool = True,
    ) -> None:
        self.operation = operation
        self.state = state
        self.count = count
        self.inputs = inputs
        self.places = places
        self.roles = roles
        self.results: tuple[Shaped, ...] = ()
        self.materialize = materialize


class _AgainCall(Call):
    """A call in a backward whose gradients are differentiated again."""

    __slots__ = ("parents",)

    again = True

    def __init__(self, call: Call, parents: tuple[Node, ...]) -> None:
        super().__init__(
            call.operation,
            call.state,
            call.count,
            call.inputs,
            call.places,
            call.roles,
            call.materialize,
        )
        self.results = call.results
        self.parents = parents


class Shaped:
    """Shape and dtype of an array that is not kept."""

    __slots__ = ("dtype", "shape")

    def __init__(self, array: Place) -> None:
        self.shape = array.shape
        self.dtype = array.dtype


# --- recording ----------------------------------------------------------------------------


class _Hidden:
    """The handle of a hidden node while its results are being recorded."""

    __slots__ = ("__weakref__", "_node")

    _node: Node


def _select(g: Any, index: int) -> Bundle:
    return Bundle({index: g})


_SELECT = Rule("one of several results", _select)


def rule_for(name: str) -> Rule:
    """The rule of an operation's calls."""
    return Rule(name, _run_call, lift=_lift_call)


def record(
    call: Call,
    parents: Sequence[Node],
    results: Sequence[Tensor],
    saved: tuple[Any, ...],
) -> None:
    """Record the call for its untracked results, which become tracked.

    Raises:
        ReentrantCallError: inside a critical section of this thread.
        RuntimeMismatchError: if the arguments belong to two runtimes.
    """
    rule = call.operation.rule
    call.results = tuple([Shaped(result._array) for result in results])
    if len(results) == 1:
        register(results[0], parents, rule, (call, *saved))
        return
    hidden: Any = _Hidden()
    register(hidden, parents, rule, (call, *saved))
    for index, result in enumerate(results):
        result._node = register_one(result, hidden._node, _SELECT, (index,), 0)


def result_array(value: Any, name: str) -> NDArray[Any]:
    """The array of a value that a user's forward returned.

    Raises:
        TensorTypeError: if it is no tensor, array or number.
        DtypeError: if it is not numeric.
    """
    if type(value) is Tensor:
        return value._array
    if type(value) is not ndarray and not isinstance(value, (np.generic, int, float, complex)):
        raise TensorTypeError(
            f"{name} returned {type(value).__name__}; the results of an operation are "
            "tensors, arrays or numbers, one or a tuple of them"
        )
    data: NDArray[Any] = np.asarray(value)
    if data.dtype.kind not in "fciub":
        raise DtypeError(f"{name} returned dtype {data.dtype}; results are numbers or booleans")
    return data


_CONTAINERS = frozenset({list, tuple, dict})


def refuse_tracked_inside(arguments: Sequence[Any], name: str) -> None:
    """Refuse a tracked tensor inside a list, tuple or dict: its gradient would be lost.

    Raises:
        TensorTypeError: naming the operation and the position.
    """
    for position, argument in enumerate(arguments):
        if type(argument) not in _CONTAINERS:
            continue
        stack = [argument]
        seen: set[int] = set()  # a list may contain itself
        while stack:
            value = stack.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if type(value) is Tensor and value._node is not None:
                raise TensorTypeError(
                    f"argument {position} of {name} is a {type(argument).__name__} that contains a "
                    "tracked tensor, whose gradient would be lost; pass tensors as arguments of "
                    "their own (*tensors), or detached"
                )
            if type(value) in (list, tuple):
                stack.extend(value)
            elif type(value) is dict:
                stack.extend(value.values())


# --- running ------------------------------------------------------------------------------


def _run_call(gradient: Any, call: Call, *saved: Any) -> Any:
    """The rule of a call: the user's rule between two checks."""
    operation, again = call.operation, call.again and not call.operation.once
    values = saved if again else tuple([_constant(value) for value in saved])
    gradients = _of_results(gradient, call, again)
    function, first = operation.prepared(call, values)
    outcome = run_user_code(f"the rule of {operation.name}", function, first, *gradients)
    parts = _checked(outcome, call)
    if call.again and operation.once:
        parts = [_barrier(part, gradient, call) for part in parts]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _constant(value: Any) -> Any:
    """A saved value as an untracked tensor: in a first-order backward everything is a constant."""
    if type(value) is ndarray:
        return untracked(value)
    if type(value) is Tensor:
        return value if value._node is None else untracked(value._array)
    return value


def _of_results(gradient: Any, call: Call, again: bool) -> list[Any]:
    """The gradient of each tracked result as a tensor."""
    parts = gradient.parts if type(gradient) is Bundle else {0: gradient}
    gradients: list[Any] = []
    for index, result in enumerate(call.results):
        part = parts.get(index)
        if part is None:
            zeros = np.zeros(result.shape, result.dtype) if call.materialize else None
            gradients.append(None if zeros is None else untracked(zeros))
        elif type(part) is Tensor:
            gradients.append(part if again else untracked(part._array))
        else:
            gradients.append(untracked(np.asarray(part)))
    return gradients


def _checked(outcome: Any, call: Call) -> list[Any]:
    """The gradients of the tracked arguments, once their number, shapes and dtypes are right."""
    name = call.operation.name
    returned = outcome if isinstance(outcome, (tuple, list)) else (outcome,)
    if len(returned) != call.count:
        raise GradientError(
            f"the rule of {name} returned {len(returned)} gradients for {call.count} arguments; "
            "return one for each argument, None for those that have none"
        )
    return [
        _matching(returned[position], place, call, position)
        for position, place in zip(call.inputs, call.places, strict=True)
    ]


def _matching(value: Any, place: Place, call: Call, position: int) -> Any:
    if value is None:
        return None
    data = value._array if type(value) is Tensor else np.asarray(value)
    if data.shape != place.shape or data.dtype != place.dtype:
        raise GradientError(
            f"the rule of {call.operation.name} returned a gradient of shape {data.shape} and "
            f"dtype {data.dtype} for {call.operation.argument(position)}, which has shape "
            f"{place.shape} and dtype {place.dtype}; they must be the same (sum over broadcast "
            "axes, convert with .astype)"
        )
    if call.again:
        return value if type(value) is Tensor else untracked(data)
    # A view, because the rule may keep the array or return a saved one: whoever gives
    # gradients out copies what is a view, and hands a plain array over as it is.
    return data.view()


# --- differentiating again ------------------------------------------------------------------


def _lift_call(node: Node, saved: tuple[Any, ...], parents: tuple[Node, ...]) -> tuple[Any, ...]:
    """The saved values put back into the graph; see ``Rule.lift``."""
    call: Call = saved[0]
    again = _AgainCall(call, parents)
    if call.operation.once:
        return (again, *saved[1:])
    values = zip(saved[1:], call.roles, strict=True)
    return (again, *[_lifted(value, role, node, again) for value, role in values])


def _lifted(value: Any, role: Role, node: Node, call: Call) -> Any:
    kind, index = role
    if kind == "unknown":
        raise HigherOrderError(
            f"{call.operation.name} saved an intermediate value of shape {value.shape} for its "
            "rule, and how it depends on the arguments was not recorded, so the gradient of the "
            "gradient would be wrong; save arguments and results and compute the value from them "
            "in the rule, keep a constant as an attribute or an ndarray, or mark the rule "
            "once_differentiable"
        )
    if type(value) is not ndarray:
        return value
    if kind == "argument":
        return on_node(value, call.parents[index])
    if kind == "result":
        if len(call.results) == 1:
            return on_node(value, node)
        # The result's own node may be gone; a new one beside it does as well.
        result = untracked(value)
        result._node = register_one(result, node, _SELECT, (index,), 0)
        return result
    return untracked(value)


def _barrier(part: Any, gradient: Any, call: Call) -> Any:
    """A gradient that can be used but not differentiated again."""
    if part is None:
        return None
    result = untracked(part._array)
    tensors = gradient.parts.values() if type(gradient) is Bundle else (gradient,)
    nodes = [t._node for t in tensors if type(t) is Tensor and t._node is not None]
    nodes.extend(call.parents)
    result._node = register_many(result, nodes, _ONCE, (call.operation.name,), 0)
    return result


def _refuse_again(gradient: Any, name: str) -> Any:
    raise HigherOrderError(
        f"the gradient of {name} is differentiated again, but its rule is marked "
        "once_differentiable; write the rule in operations on tensors and drop the mark"
    )


_ONCE = Rule("once_differentiable", _refuse_again)
