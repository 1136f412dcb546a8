"""How an operation is declared: one line, with its gradient rule beside it.

A rule is a function whose first parameter is the gradient of the result and
whose other parameters *name what it needs*, which is what gets saved::

    multiply = binary("multiply", np.multiply, x=lambda g, y: g * y, y=lambda g, x: g * x)
    tanh = unary("tanh", np.tanh, lambda g, ans: g * (1 - ans * ans))

Names that can be asked for: ``ans`` (the result), an operand, an operand with
``_shape`` or ``_dtype`` appended (which saves no array), and any constant
argument of the operation.

Rules are written in NumPy functions and operators.  On arrays they run as NumPy;
on tensors (``create_graph=True``) the same rule records itself, because NumPy
dispatches on tensors, so higher order needs no second rule.  A rule returns a
new array, ``g`` itself, or a view of ``g``; it never writes into anything.

The operations made here are the recording path: one Python call for the
operation, one to register it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.conversion import converted
from sweepgrad.errors import DtypeError, ShapeError, TensorTypeError
from sweepgrad.graph import (
    ANSWER,
    Node,
    Rule,
    is_recording,
    register_one,
    register_two,
)
from sweepgrad.ops.rules import weak
from sweepgrad.tensor import Tensor, new_tensor

ndarray = np.ndarray
_asarray = np.asarray

#: The declared operations by name; filled by this module alone.
OPERATIONS: dict[str, Callable[..., Any]] = {}

#: A gradient rule.
Backward = Callable[..., Any]


def operand(value: Any) -> NDArray[Any]:
    """The array of an operand that is not a tensor.

    Raises:
        TensorTypeError: for ndarray subclasses.
        DtypeError: for what is not numeric.
        ShapeError: for nested sequences of unequal lengths.
    """
    if isinstance(value, ndarray) and type(value) is not ndarray:
        raise TensorTypeError(
            f"operands of tensors are plain ndarrays, got {type(value).__name__}; "
            "pass np.asarray(value) if dropping what the subclass adds is right"
        )
    data: NDArray[Any]
    if isinstance(value, (list, tuple)):
        if any(type(item) is Tensor for item in value):
            raise TensorTypeError(
                "an operand is a list that contains tensors; make one tensor of it with "
                "sweepgrad.stack([...])"
            )
        data = converted(value, None, "asarray")
    else:
        data = _asarray(value)
    if data.dtype.kind not in "fciub":
        raise DtypeError(f"operands are numbers or booleans, got {value!r} of dtype {data.dtype}")
    return data


def wants(rule: Backward) -> tuple[str, ...]:
    """The names of what a rule needs besides the gradient."""
    return tuple(inspect.signature(rule).parameters)[1:]


def fit(gradient: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Undo broadcasting and promotion: sum over stretched axes, convert back.

    The gradient of broadcasting is the sum over the axes it added or stretched.
    """
    have = gradient.shape
    if shape and have[1:] == shape and type(gradient) is ndarray:
        # One axis in front, as where a bias was added to a batch: the most frequent case.
        gradient = np.add.reduce(gradient, axis=0)
    elif have != shape:
        extra = len(have) - len(shape)
        axes = tuple(range(extra)) + tuple(
            axis + extra
            for axis, length in enumerate(shape)
            if length == 1 and have[axis + extra] != 1
        )
        if axes:
            gradient = gradient.sum(axis=axes)
        gradient = gradient.reshape(shape)
    if gradient.dtype is not dtype and gradient.dtype != dtype:
        if dtype.kind != "c" and gradient.dtype.kind == "c":
            gradient = gradient.real
        gradient = gradient.astype(dtype)
    return gradient


def _register(operation: Callable[..., Any], name: str, doc: str | None) -> None:
    operation.__name__ = operation.__qualname__ = name
    # The module that declares it, not this one: a model that holds relu is pickled by name.
    operation.__module__ = sys._getframe(2).f_globals["__name__"]
    operation.__doc__ = doc
    OPERATIONS[name] = operation


def unary(name: str, forward: Callable[..., Any], rule: Backward, doc: str | None = None) -> Any:
    """Declare an elementwise operation of one operand, with a result of its shape.

    Args:
        forward: the NumPy function.
        rule: gradient of the operand; may ask for ``x`` and ``ans``.
        doc: docstring of the operation, stating its equation.
    """
    needs = wants(rule)
    roles = {"x": 0, "ans": ANSWER}
    declared = Rule(
        name, rule, tuple(roles[need] for need in needs), ((rule, (0, 1)[: len(needs)]),)
    )
    needs_x, needs_ans = "x" in needs, "ans" in needs
    both = needs_x and needs_ans
    x_first = needs[:1] == ("x",)

    def apply(x: Any) -> Tensor:
        if type(x) is Tensor:
            data, parent = x._array, x._node
        else:
            data, parent = operand(x), None
        out = forward(data)
        if type(out) is not ndarray:
            out = _asarray(out)
        result = new_tensor(Tensor)
        result._array = out
        if parent is None or not is_recording():
            result._node = None
            return result
        if both:
            saved = (data, out) if x_first else (out, data)
            result._node = register_one(result, parent, declared, saved, 2 * out.nbytes)
        elif needs_ans:
            result._node = register_one(result, parent, declared, out, out.nbytes)
        elif needs_x:
            result._node = register_one(result, parent, declared, data, data.nbytes)
        else:
            result._node = register_one(result, parent, declared, (), 0)
        return result

    _register(apply, name, doc)
    return apply


#: What to save, by the names wanted: a lambda each, since this runs with every operation.
_PICKS: dict[tuple[str, ...], Callable[[Any, Any, Any], tuple[Any, ...]]] = {
    (): lambda ans, x, y: (),
    ("ans",): lambda ans, x, y: (ans,),
    ("x",): lambda ans, x, y: (x,),
    ("y",): lambda ans, x, y: (y,),
    ("ans", "x"): lambda ans, x, y: (ans, x),
    ("ans", "y"): lambda ans, x, y: (ans, y),
    ("x", "y"): lambda ans, x, y: (x, y),
    ("ans", "x", "y"): lambda ans, x, y: (ans, x, y),
}


#: Which operands' gradients are to be fitted, added up.
_CODES = {"x": 1, "y": 2}


class _Variant:
    """The rules for one choice of tracked operands of a binary operation."""

    __slots__ = ("beside_scalar", "count", "only", "pick", "plain", "rules")

    def __init__(self, name: str, rules: dict[str, Backward], tracked: tuple[str, ...]) -> None:
        names = [
            name_ for name_ in ("ans", "x", "y") if any(name_ in wants(rules[t]) for t in tracked)
        ]
        self.pick = _PICKS[tuple(names)]
        #: The one operand that is saved, or None where more is, or less.
        self.only = names[0] if names in (["x"], ["y"]) else None
        #: How many arrays are saved, and how many where the other operand is a Python scalar.
        self.count = len(names)
        self.beside_scalar = len({"ans", *tracked}.intersection(names))
        #: The rule, by which of the tracked operands are fitted (see _CODES).
        most = sum(_CODES[operand_name] for operand_name in tracked)
        self.rules = {
            code: _fitted_rule(name, rules, tracked, names, code)
            for code in range(4)
            if code | most == most
        }
        self.plain = self.rules[0]


def _fitted_rule(
    name: str, rules: dict[str, Backward], tracked: tuple[str, ...], names: list[str], code: int
) -> Rule:
    """The rule where the operands in ``code`` are fitted, shape and dtype of each saved last."""
    roles = [_role(need, tracked) for need in names]
    parts = []
    for operand_name in tracked:
        rule = rules[operand_name]
        positions = tuple(names.index(need) for need in wants(rule))
        if code & _CODES[operand_name]:
            spec = len(roles)
            roles += [None, None]
            parts.append((_fitting(rule), (spec, spec + 1, *positions)))
        else:
            parts.append((rule, positions))
    return Rule(name, combine(tuple(parts), len(roles)), tuple(roles), tuple(parts))


def _role(need: str, tracked: Sequence[str]) -> int | None:
    if need == "ans":
        return ANSWER
    return tracked.index(need) if need in tracked else None


def _fitting(rule: Backward) -> Backward:
    def fitted(g: Any, shape: tuple[int, ...], dtype: np.dtype[Any], *saved: Any) -> Any:
        return fit(rule(g, *saved), shape, dtype)

    return fitted


def combine(parts: tuple[tuple[Backward, tuple[int, ...]], ...], count: int) -> Backward:
    """One function for the parents' rules: the rule itself, or one that returns a tuple.

    Compiled from text, as ``dataclasses`` makes ``__init__``: it runs with every step of a
    backward, and picking arguments out of ``*saved`` costs as much as NumPy's addition.
    """
    if len(parts) == 1 and parts[0][1] == tuple(range(count)):
        return parts[0][0]
    arguments = ["g", *[f"s{position}" for position in range(count)]]
    calls = [
        f"rule{index}({', '.join(['g', *[f's{position}' for position in positions]])})"
        for index, (_, positions) in enumerate(parts)
    ]
    body = calls[0] if len(calls) == 1 else f"({', '.join(calls)})"
    known = {f"rule{index}": rule for index, (rule, _) in enumerate(parts)}
    combined: Backward = eval(f"lambda {', '.join(arguments)}: {body}", known)
    return combined


def binary(  # noqa: PLR0915  # the recording path in one piece: a call costs as much as a statement of NumPy
    name: str, forward: Callable[..., Any], x: Backward, y: Backward, doc: str | None = None
) -> Any:
    """Declare an elementwise operation of two operands, with NumPy's broadcasting and promotion.

    The rules are written as if the operands had one shape and dtype; where they
    have not, their results are summed and converted to the operand's own.

    Args:
        forward: the NumPy function.
        x: gradient of the first operand; may ask for ``x``, ``y`` and ``ans``.
        y: gradient of the second operand.
        doc: docstring of the operation, stating its equation.
    """
    rules = {"x": x, "y": y}
    of_x = _Variant(name, rules, ("x",))
    of_y = _Variant(name, rules, ("y",))
    of_both = _Variant(name, rules, ("x", "y"))

    def apply(x: Any, y: Any) -> Tensor:
        scalar = False
        if type(x) is Tensor:
            a, one = x._array, x._node
        else:
            one = None
            kind = type(x)
            if kind is float or kind is int:
                a = x
                scalar = True
            else:
                a = operand(x) if kind is not complex else weak(x, y)
        if y is x:
            b, other = a, one  # one look, or another thread's update could come between two
        elif type(y) is Tensor:
            b, other = y._array, y._node
        else:
            other = None
            kind = type(y)
            if kind is float or kind is int:
                b = y
                scalar = True
            else:
                b = operand(y) if kind is not complex else weak(y, x)
        try:
            out = forward(a, b)
        except ValueError as error:
            raise _shape_error(name, a, b) or error from error
        if type(out) is not ndarray:
            out = _asarray(out)
        result = new_tensor(Tensor)
        result._array = out
        if (one is None and other is None) or not is_recording():
            result._node = None
            return result
        variant = of_y if one is None else of_x if other is None else of_both
        only = variant.only
        # A call less where one operand of a product is tracked.
        saved = variant.pick(out, a, b) if only is None else b if only == "y" else a
        if scalar:
            rule, nbytes = variant.plain, variant.beside_scalar * out.nbytes
        elif (size := out.nbytes) and a.nbytes == size == b.nbytes and a.ndim == b.ndim:
            # One shape and no promotion.  The result has at least as many elements as either
            # operand, and as large ones; if it has as many bytes, it has both the same, and
            # with as many axes no axis was stretched.  Asking for bytes makes no tuples.
            rule, nbytes = variant.plain, variant.count * size
        else:
            picked = variant.pick(out, a, b)
            rule, saved, nbytes = _fitted(variant, picked, one, other, a, b, out)
        if other is None:
            result._node = register_one(result, one, rule, saved, nbytes)  # type: ignore[arg-type]
        elif one is None:
            result._node = register_one(result, other, rule, saved, nbytes)
        else:
            result._node = register_two(result, one, other, rule, saved, nbytes)
        return result

    _register(apply, name, doc)
    return apply


def _shape_error(name: str, a: Any, b: Any) -> ShapeError | None:
    """The error for operands that do not broadcast; None if that is not what is wrong."""
    shapes = np.shape(a), np.shape(b)
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return ShapeError(
            f"{name} got shapes {shapes[0]} and {shapes[1]}, which do not broadcast: axes are "
            "aligned at the end and must be equal or 1; reshape one operand"
        )
    return None


def reflected(operation: Callable[..., Any]) -> Callable[..., Any]:
    """The operation with its two operands exchanged, for ``__rsub__`` and the like."""

    def exchanged(x: Any, y: Any) -> Any:
        return operation(y, x)

    return exchanged


def _fitted(
    variant: _Variant,
    saved: tuple[Any, ...],
    one: Node | None,
    other: Node | None,
    a: Any,
    b: Any,
    out: NDArray[Any],
) -> tuple[Rule, tuple[Any, ...], int]:
    """Rule, saved values and bytes where shapes or dtypes differ.

    Shape and dtype are saved of those tracked operands alone that are not like the result.
    """
    nbytes = sum([value.nbytes for value in saved])
    code = 0
    if one is not None and (a.shape != out.shape or a.dtype is not out.dtype):
        saved = (*saved, a.shape, a.dtype)
        code = 1
    if other is not None and (b.shape != out.shape or b.dtype is not out.dtype):
        saved = (*saved, b.shape, b.dtype)
        code += 2
    return variant.rules[code], saved, nbytes
