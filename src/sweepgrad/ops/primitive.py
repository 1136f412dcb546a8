"""Declaring operations that take constants (axes, indices, …) or any number of operands."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import ShapeError
from sweepgrad.graph import (
    ANSWER,
    Node,
    Rule,
    is_recording,
    register_many,
    register_one,
    register_two,
)
from sweepgrad.ops.declare import Backward, combine, operand, wants
from sweepgrad.tensor import Tensor, new_tensor

ndarray = np.ndarray


class _Need:
    """One saved value: which argument (or the answer) it comes from, and what of it."""

    __slots__ = ("argument", "of", "role")

    def __init__(self, name: str, parameters: Sequence[str], tracked: Sequence[str]) -> None:
        self.of = "value"
        for suffix in ("_shape", "_dtype"):
            if name.endswith(suffix) and name not in parameters:
                self.of, name = suffix[1:], name.removesuffix(suffix)
        self.argument = -1 if name == "ans" else parameters.index(name)
        self.role: int | None = None
        if self.of == "value":
            if name == "ans":
                self.role = ANSWER
            elif name in tracked:
                self.role = tracked.index(name)

    def take(self, out: Any, arguments: Sequence[Any]) -> Any:
        value = out if self.argument < 0 else arguments[self.argument]
        return value if self.of == "value" else getattr(value, self.of)


class _Variant:
    """The rule and the saved values for one choice of tracked operands."""

    __slots__ = ("needs", "rule")

    def __init__(
        self,
        name: str,
        parameters: Sequence[str],
        rules: dict[str, Backward],
        tracked: Sequence[str],
        together: Backward | None = None,
    ) -> None:
        joint = together if together is not None and len(tracked) == len(rules) else None
        asking = [rules[t] for t in tracked] + ([joint] if joint is not None else [])
        names = list(dict.fromkeys(need for rule in asking for need in wants(rule)))
        self.needs = [_Need(need, parameters, tracked) for need in names]
        parts = tuple(
            (rules[t], tuple(names.index(need) for need in wants(rules[t]))) for t in tracked
        )
        roles = tuple(need.role for need in self.needs)
        whole = parts
        if joint is not None:
            whole = ((joint, tuple(names.index(need) for need in wants(joint))),)
        self.rule = Rule(name, combine(whole, len(names)), roles, parts)


def primitive(
    name: str,
    forward: Callable[..., Any],
    *,
    together: Backward | None = None,
    **rules: Backward,
) -> Callable[..., Tensor]:
    """Declare an operation on a fixed number of operands and constants.

    Args:
        forward: takes arrays and constants, all positionally, and returns an array.
        together: gives the gradients of all operands as a tuple, where they share
            work; used instead of ``rules`` when every operand is tracked.
        rules: for each differentiable parameter of ``forward``, by name, its
            rule.  A rule gives a gradient of the operand's own shape and dtype.

    Returns:
        The operation; it takes its arguments positionally, operands as tensors
        or whatever :func:`~sweepgrad.ops.declare.operand` accepts.
    """
    parameters = tuple(inspect.signature(forward).parameters)
    if len(rules) == 1 and parameters[0] in rules:
        return _of_one_operand(name, forward, parameters, rules[parameters[0]])
    operands = tuple((parameters.index(key), key) for key in rules)
    variants: dict[tuple[str, ...], _Variant] = {}

    def apply(*arguments: Any) -> Tensor:
        values = list(arguments)
        parents: list[Node] = []
        tracked: list[str] = []
        for position, key in operands:
            value = values[position]
            if type(value) is Tensor:
                values[position] = _looked_at(value, position, arguments, values)
                if value._node is not None:
                    parents.append(value._node)
                    tracked.append(key)
            elif value is not None:
                values[position] = operand(value)
        try:
            out = forward(*values)
        except ValueError as error:
            raise described(error, name, [values[position] for position, _ in operands]) from error
        if type(out) is not ndarray:
            out = np.asarray(out)
        result = new_tensor(Tensor)
        result._array = out
        result._node = None
        if parents and is_recording():
            choice = tuple(tracked)
            variant = variants.get(choice)
            if variant is None:
                # Two threads may both make it; the variants are equal and either will do.
                variant = variants[choice] = _Variant(name, parameters, rules, choice, together)
            saved = tuple([need.take(out, values) for need in variant.needs])
            register(result, parents, variant.rule, saved)
        return result

    apply.__name__ = apply.__qualname__ = name
    return apply


def _looked_at(
    tensor: Tensor, position: int, arguments: Sequence[Any], values: Sequence[Any]
) -> NDArray[Any]:
    """The tensor's array; the one of an earlier argument if that is the same tensor.

    One look at each tensor, or another thread's update could come between two.
    """
    for earlier in range(position):
        if arguments[earlier] is tensor:
            same: NDArray[Any] = values[earlier]
            return same
    return tensor._array


def described(error: ValueError, name: str, operands: Sequence[Any]) -> ValueError:
    """NumPy's complaint about shapes as ours, naming operation and shapes.

    Subclasses (AxisError, LinAlgError) say what they mean and stay what they are.
    """
    if type(error) is not ValueError:
        return error
    shapes = ", ".join(str(value.shape) for value in operands if value is not None)
    return ShapeError(f"{name} of shape {shapes}: {error}")


def _of_one_operand(
    name: str, forward: Callable[..., Any], parameters: tuple[str, ...], rule: Backward
) -> Callable[..., Tensor]:
    """A primitive whose first argument is its only operand: the shortest path for views.

    Nothing is looked up at run time, because there is one choice of tracked operands.
    """
    variant = _Variant(name, parameters, {parameters[0]: rule}, parameters[:1])
    declared, pick = variant.rule, _picker(variant.needs)
    measured = tuple(place for place, need in enumerate(variant.needs) if need.of == "value")

    def apply(x: Any, *constants: Any) -> Tensor:
        if type(x) is Tensor:
            data, parent = x._array, x._node
        else:
            data, parent = operand(x), None
        try:
            out = forward(data, *constants)
        except ValueError as error:
            raise described(error, name, [data]) from error
        if type(out) is not ndarray:
            out = np.asarray(out)
        result = new_tensor(Tensor)
        result._array = out
        if parent is None or not is_recording():
            result._node = None
            return result
        saved = pick((out, data.shape, data.dtype, data, *constants))
        nbytes = 0
        for place in measured:
            value = saved[place]
            if type(value) is ndarray:
                nbytes += value.nbytes
            elif type(value) is tuple or type(value) is list:
                nbytes += saved_bytes(value)
        result._node = register_one(result, parent, declared, saved, nbytes)
        return result

    apply.__name__ = apply.__qualname__ = name
    return apply


def _picker(needs: Sequence[_Need]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What picks the saved values out of (answer, shape, dtype, operand, constants …).

    One C call; a loop over the needs would take as long as registering.
    """
    assert all(need.of == "value" or need.argument == 0 for need in needs)
    places = [
        {"value": need.argument + 3 if need.argument >= 0 else 0, "shape": 1, "dtype": 2}[need.of]
        for need in needs
    ]
    if not places:
        return lambda values: ()
    if len(places) == 1:
        only = places[0]
        return lambda values: (values[only],)
    return operator.itemgetter(*places)


def rule_operation(name: str, forward: Callable[..., Any], **rules: Backward) -> Callable[..., Any]:
    """A primitive for use inside rules, which run on arrays and on tensors alike.

    On arrays it is ``forward`` itself and gives an array; with a tensor among
    the operands it is the declared operation.
    """
    operation = primitive(name, forward, **rules)
    parameters = tuple(inspect.signature(forward).parameters)
    positions = tuple(parameters.index(key) for key in rules)

    def run(*arguments: Any) -> Any:
        for position in positions:
            if type(arguments[position]) is Tensor:
                return operation(*arguments)
        return forward(*arguments)

    run.__name__ = run.__qualname__ = name
    return run


def register(
    result: Tensor,
    parents: Sequence[Node],
    rule: Rule,
    saved: tuple[Any, ...],
    nbytes: int | None = None,
) -> None:
    """Register an operation with any number of tracked operands for ``result``.

    Args:
        nbytes: bytes of the arrays in ``saved``, where the caller knows them.
    """
    if nbytes is None:
        nbytes = saved_bytes(saved)
    if len(parents) == 1:
        result._node = register_one(result, parents[0], rule, saved, nbytes)
    elif len(parents) == 2:
        result._node = register_two(result, parents[0], parents[1], rule, saved, nbytes)
    else:
        result._node = register_many(result, parents, rule, saved, nbytes)


def saved_bytes(saved: Sequence[Any]) -> int:
    """Bytes of the arrays among saved values, also inside tuples and lists."""
    total = 0
    for value in saved:
        kind = type(value)
        if kind is ndarray:
            total += value.nbytes
        elif kind is tuple or kind is list:
            total += saved_bytes(value)
    return total


def variadic(
    name: str,
    forward: Callable[..., NDArray[Any]],
    backward: Callable[..., Sequence[Any]],
    save: Callable[..., tuple[Any, ...]],
) -> Callable[..., Tensor]:
    """Declare an operation on any number of operands (concatenate, stack, …).

    Args:
        forward: ``forward(arrays, *constants)`` gives the result.
        backward: ``backward(g, which, *saved)`` gives the gradients of the
            operands whose indices are in ``which``, in that order.
        save: ``save(arrays, *constants)`` gives what backward needs: shapes,
            dtypes and the like.  No values, since their place in the graph and
            their bytes are not kept.
    """

    def run(g: Any, which: Sequence[int], *saved: Any) -> Any:
        gradients = backward(g, which, *saved)
        return gradients[0] if len(which) == 1 else gradients

    def apply(tensors: Sequence[Any], *constants: Any) -> Tensor:
        arrays: list[NDArray[Any]] = []
        parents: list[Node] = []
        which: list[int] = []
        looked: dict[int, NDArray[Any]] = {}
        for index, t in enumerate(tensors):
            if type(t) is Tensor:
                arrays.append(looked.setdefault(id(t), t._array))  # one counts: see declare.binary
                if t._node is not None:
                    parents.append(t._node)
                    which.append(index)
            else:
                arrays.append(operand(t))
        try:
            out = forward(arrays, *constants)
        except ValueError as error:
            raise described(error, name, arrays) from error
        result = new_tensor(Tensor)
        result._array = out if type(out) is ndarray else np.asarray(out)
        result._node = None
        if parents and is_recording():
            register(result, parents, rule, (which, *save(arrays, *constants)), 0)
        return result

    rule = Rule(name, run)
    apply.__name__ = apply.__qualname__ = name
    return apply
