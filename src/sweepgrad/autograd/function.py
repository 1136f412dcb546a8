"""Function: a custom operation as a class with a forward and a rule of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np

from sweepgrad.autograd.calls import (
    CONSTANT,
    UNKNOWN,
    Call,
    Operation,
    Role,
    Shaped,
    record,
    refuse_tracked_inside,
    result_array,
    rule_for,
)
from sweepgrad.errors import TensorTypeError
from sweepgrad.graph import Node, is_recording, no_grad
from sweepgrad.tensor import Tensor, untracked

ndarray = np.ndarray
Backward = TypeVar("Backward", bound=Callable[..., Any])


class Context:
    """What a forward leaves for its rule.

    Any attribute may be set in forward and read in backward.  Tensors that the
    rule needs belong into :meth:`save_for_backward`: they are counted, freed as
    soon as the rule has run, and put back into the graph when the gradient is to
    be differentiated.  An attribute is a constant to such a gradient, unless it
    is an argument or a result.

    Thread safety: forward has it alone.  When two threads back-propagate through
    one graph with ``retain_graph``, each gets saved tensors of its own, and the
    attributes are shared: a rule should not change them.

    Attributes:
        needs_input_grad: for each argument of forward, whether it is tracked.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_kept",
        "_loose",
        "_materialize",
        "_own",
        "_saved",
        "needs_input_grad",
    )

    needs_input_grad: tuple[bool, ...]
    #: In forward, what was saved, each with its array at that moment; in backward, tensors.
    _saved: Sequence[Any]
    #: Results that have no gradient although their dtype could have one.
    _loose: tuple[Tensor, ...]
    #: Attributes that were a result: attribute name to position after the saved tensors.
    _own: dict[str, int]
    #: In backward, those results as tensors.
    _kept: Sequence[Any]
    _materialize: bool

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._saved = ()
        self._loose = ()
        self._own = {}
        self._kept = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors, arrays or None for the rule, in one call from forward.

        Arguments and results keep their place in the graph.  Arrays are
        constants.  A tensor computed in between is fine for a first-order
        backward; a gradient that is to be differentiated again refuses it.

        Raises:
            TensorTypeError: for other values, which belong into attributes.
        """
        saved = []
        for value in tensors:
            if value is not None and type(value) is not Tensor and type(value) is not ndarray:
                raise TensorTypeError(
                    f"save_for_backward got {type(value).__name__}; it takes tensors, arrays and "
                    "None. Set other values as attributes: ctx.name = value"
                )
            saved.append((value, value._array if type(value) is Tensor else value))
        self._saved = saved

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """In backward, what forward saved: tensors, and None where None was saved."""
        return tuple(self._saved)

    def mark_non_differentiable(self, *results: Tensor) -> None:
        """In forward, make these results untracked; integer and boolean ones always are."""
        self._loose = results

    def set_materialize_grads(self, value: bool) -> None:
        """In forward, choose None (False) over zeros (True) for results without a gradient."""
        self._materialize = bool(value)

    def __getattr__(self, name: str) -> Any:
        position = self._own.get(name) if name != "_own" else None
        if position is None or position >= len(self._kept):
            raise AttributeError(
                f"the context has no attribute {name!r}: forward has not set it, or saved it with "
                "save_for_backward, which gives it back in saved_tensors"
            )
        return self._kept[position]

    if TYPE_CHECKING:  # any attribute may be set

        def __setattr__(self, name: str, value: Any) -> None: ...

    def _for_rule(self, values: tuple[Any, ...]) -> Context:
        """The context as one run of the rule sees it: same attributes, tensors of its own."""
        context = Context(self.needs_input_grad)
        context.__dict__ = self.__dict__
        count = len(values) - len(self._own)
        context._saved, context._kept = values[:count], values[count:]
        context._own = self._own
        return context


#: One instance serves every thread: what it remembers is kept in the context.
_unrecorded = no_grad()


class Function:
    """Base of custom operations with a gradient rule of their own.

    Subclass it with two static methods and call ``apply``::

        class Cube(sg.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * 3 * x * x

        y = Cube.apply(x)

    ``forward(ctx, *args)`` gets the arguments as they are and runs unrecorded.  It
    returns a tensor, array or number, or a tuple of them; ``apply`` returns new
    tensors on those arrays, which nobody may write into afterwards.  Tracked
    tensors are passed as arguments of their own: what forward uses through a
    closure or an object is a constant to the operation.

    ``backward(ctx, *gradients)`` gets one gradient for each tracked result and
    returns one for each argument of forward, of the argument's shape and dtype,
    or None.  Gradients and saved tensors are untracked tensors, and in the graph
    under ``create_graph=True``, so a rule written in operations on tensors serves
    all orders.  It may run backwards of its own and is called with no lock held,
    recording on.

    Thread safety: ``apply`` may be called from any thread; a rule runs in the
    thread that calls backward.

    Raises:
        GradientError: from backward, if the rule returns a wrong number of
            gradients or one of a wrong shape or dtype.
        TensorTypeError: from ``apply``, if forward returns something else.
    """

    _operation: ClassVar[_ClassOperation]

    @staticmethod
    def forward(ctx: Context, *args: Any) -> Any:
        """Compute the results; to be overridden."""
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        """Compute the gradients of the arguments; to be overridden."""
        raise NotImplementedError("a Function needs a static method backward(ctx, *gradients)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward and record the call; returns one tensor, or a tuple as forward did."""
        operation = cls.__dict__.get("_operation")
        if operation is None:
            # Two threads may both make it; either will do.
            operation = cls._operation = _ClassOperation(cls)
        return apply(operation, args)


def once_differentiable(backward: Backward) -> Backward:
    """Mark a rule whose gradients must not be differentiated again.

    Under ``create_graph=True`` it gets untracked tensors, and differentiating
    its gradients raises HigherOrderError instead of giving a wrong answer.  Use
    it beneath ``@staticmethod``.
    """
    backward.once_differentiable = True  # type: ignore[attr-defined]
    return backward


class _ClassOperation:
    """A Function class as the calls see it."""

    __slots__ = ("cls", "name", "once", "rule")

    def __init__(self, cls: type[Function]) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.rule = rule_for(self.name)
        self.once = getattr(cls.backward, "once_differentiable", False)

    def argument(self, position: int) -> str:
        return name_argument(self.cls.forward, position, skip=1)

    def run(self, ctx: Context, args: tuple[Any, ...]) -> Any:
        return self.cls.forward(ctx, *args)

    def prepared(self, call: Call, values: tuple[Any, ...]) -> tuple[Callable[..., Any], Any]:
        return self.cls.backward, call.state._for_rule(values)


def name_argument(function: Callable[..., Any], position: int, skip: int) -> str:
    """How messages name an argument: its position, and its name if the signature tells."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):
        parameters = []
    if (
        position < len(parameters)
        and parameters[position].kind is not inspect.Parameter.VAR_KEYWORD
    ):
        parameter = parameters[position]
        if parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            return f"argument {position} ({parameter.name!r})"
    return f"argument {position}"


class Runnable(Operation, Protocol):
    """An operation whose forward fills a context."""

    def run(self, ctx: Context, args: tuple[Any, ...]) -> Any: ...


def apply(operation: Runnable, args: tuple[Any, ...]) -> Any:
    """Run an operation's forward on these arguments and record the call."""
    name = operation.name
    refuse_tracked_inside(args, name)
    recording = is_recording()
    nodes = [a._node if recording and type(a) is Tensor else None for a in args]
    ctx = Context(tuple([node is not None for node in nodes]))
    with _unrecorded:
        outcome = operation.run(ctx, args)
    raw = outcome if type(outcome) is tuple else (outcome,)
    results = tuple([untracked(result_array(value, name)) for value in raw])
    if True in ctx.needs_input_grad:
        _record_call(operation, ctx, args, nodes, raw, results)
    return results if type(outcome) is tuple else results[0]


def _record_call(
    operation: Runnable,
    ctx: Context,
    args: tuple[Any, ...],
    nodes: list[Node | None],
    raw: tuple[Any, ...],
    results: tuple[Tensor, ...],
) -> None:
    tracked, outputs = [], []
    for value, result in zip(raw, results, strict=True):
        if result._array.dtype.kind in "fc" and position_of(value, ctx._loose) is None:
            tracked.append(value)
            outputs.append(result)
    if not outputs:
        return
    parents = [node for node in nodes if node is not None]
    inputs = tuple([index for index, node in enumerate(nodes) if node is not None])
    tensors = [args[index] for index in inputs]
    places = tuple([Shaped(tensor._array) for tensor in tensors])
    roles, saved = _saved_values(ctx, tensors, args, tracked)
    call = Call(operation, ctx, len(args), inputs, places, tuple(roles), ctx._materialize)
    record(call, parents, outputs, tuple(saved))


def _saved_values(
    ctx: Context, tracked_args: list[Tensor], args: tuple[Any, ...], tracked_results: list[Any]
) -> tuple[list[Role], list[Any]]:
    """What goes into the node, with roles; the context lets go of it, and of its own results."""
    roles: list[Role] = []
    saved: list[Any] = []
    for value, array in ctx._saved:
        role = role_of(value, tracked_args, args, tracked_results)
        roles.append(role)
        # A tracked tensor that is neither argument nor result keeps its own place.
        own_place = role is CONSTANT and type(value) is Tensor and value._node is not None
        saved.append(value if own_place else array)
    ctx._saved = ()
    attributes = ctx.__dict__
    if not attributes:
        return roles, saved
    for name in [key for key, value in attributes.items() if type(value) is Tensor]:
        index = position_of(attributes[name], tracked_results)
        if index is not None and position_of(attributes[name], args) is None:
            ctx._own[name] = len(ctx._own)
            roles.append(("result", index))
            saved.append(attributes.pop(name)._array)
    return roles, saved


def position_of(value: Any, values: Sequence[Any]) -> int | None:
    """Where this very object is among the values."""
    for position, other in enumerate(values):
        if other is value:
            return position
    return None


def role_of(
    value: Any, tracked_args: Sequence[Any], args: Sequence[Any], tracked_results: Sequence[Any]
) -> Role:
    """Where a saved value sits in the graph."""
    if type(value) is not Tensor:
        return CONSTANT
    index = position_of(value, tracked_args)
    if index is not None:
        return ("argument", index)
    index = position_of(value, tracked_results)
    if index is not None:
        return ("result", index)
    if value._node is None and value.dtype.kind in "fc" and position_of(value, args) is None:
        return UNKNOWN
    return CONSTANT
