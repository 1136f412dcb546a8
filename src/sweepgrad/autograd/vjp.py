"""custom_vjp: a function with a gradient rule of its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sweepgrad.autograd.calls import Call, rule_for
from sweepgrad.autograd.function import Context, apply, name_argument
from sweepgrad.errors import GradientError, TensorTypeError
from sweepgrad.tensor import Tensor

ndarray = np.ndarray


class custom_vjp:  # noqa: N801  # a decorator is named as a function, as in JAX
    """Give a function a gradient rule of its own.

    ::

        @sg.custom_vjp
        def softplus(x):
            return np.log1p(np.exp(x))

        def forward(x):
            return softplus(x), x          # the result, and what the rule needs

        def backward(x, g):
            return (g / (1 + np.exp(-x)),)  # one gradient for each argument

        softplus.defvjp(forward, backward)

    Where an argument is tracked, ``forward`` runs in place of the function, and
    ``backward`` gives the gradients.  All three run unrecorded in the forward
    pass; the rule gets untracked tensors, and tensors in the graph under
    ``create_graph=True``, so one rule serves all orders.  What the function uses
    through a closure is a constant to it.

    What the rule needs may be nested in tuples, lists and dicts; the rest of
    what holds for :class:`sweepgrad.Function` holds here.

    Args:
        function: the function.
        nondiff_argnums: positions of arguments without a gradient.  The rule
            gets them first, and returns no gradients for them.

    Thread safety: define it once, call it from any thread.
    """

    def __init__(self, function: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._nondiff = tuple(nondiff_argnums)
        self._operation: _VjpOperation | None = None

    def defvjp(
        self,
        forward: Callable[..., tuple[Any, Any]],
        backward: Callable[..., Sequence[Any]],
    ) -> None:
        """Give the rule.

        Args:
            forward: called as the function is; returns the result and what the
                rule needs.
            backward: ``backward(*nondiff, needs, g)`` gives a tuple with one gradient
                for each other argument; ``g`` is a tuple if the result is one.
        """
        self._operation = _VjpOperation(self._function, forward, backward, self._nondiff)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; keyword arguments are put in their places first.

        Raises:
            TensorTypeError: if no rule was given, or a tracked tensor is passed
                where ``nondiff_argnums`` says that there is no gradient.
        """
        operation = self._operation
        if operation is None:
            raise TensorTypeError(
                f"{self._function.__name__} has no gradient rule yet; give it one with "
                f"{self._function.__name__}.defvjp(forward, backward)"
            )
        if kwargs:
            args = _positional(self._function, args, kwargs)
        for position in self._nondiff:
            if position < len(args) and _is_tracked(args[position]):
                where = operation.argument(position)
                raise TensorTypeError(
                    f"{where} of {operation.name} is listed in nondiff_argnums but got a tracked "
                    "tensor; pass it detached"
                )
        return apply(operation, args)


def _is_tracked(value: Any) -> bool:
    return type(value) is Tensor and value._node is not None


def _positional(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TensorTypeError(
            f"{function.__name__} takes {sorted(bound.kwargs)} by keyword only; a function with a "
            "gradient rule of its own takes its arguments by position"
        )
    return bound.args


class _VjpOperation:
    """A function with its rule as the calls see it."""

    __slots__ = ("backward", "forward", "function", "name", "nondiff", "once", "rule")

    def __init__(
        self,
        function: Callable[..., Any],
        forward: Callable[..., tuple[Any, Any]],
        backward: Callable[..., Sequence[Any]],
        nondiff: tuple[int, ...],
    ) -> None:
        self.function = function
        self.forward = forward
        self.backward = backward
        self.nondiff = nondiff
        self.name = function.__name__
        self.rule = rule_for(self.name)
        self.once = getattr(backward, "once_differentiable", False)

    def argument(self, position: int) -> str:
        return name_argument(self.function, position, skip=0)

    def run(self, ctx: Context, args: tuple[Any, ...]) -> Any:
        if not any(ctx.needs_input_grad):
            return self.function(*args)
        outcome = self.forward(*args)
        if type(outcome) is not tuple or len(outcome) != 2:
            raise TensorTypeError(
                f"the forward of {self.name} returned {type(outcome).__name__}; it returns a pair: "
                "the result, and what the rule needs"
            )
        result, needs = outcome
        saved: list[Any] = []
        ctx.template = _taken_apart(needs, saved)
        ctx.save_for_backward(*saved)
        ctx.nondiff = tuple(args[position] for position in self.nondiff)
        ctx.arguments = len(args)
        ctx.several = type(result) is tuple
        return result

    def prepared(self, call: Call, values: tuple[Any, ...]) -> tuple[Callable[..., Any], Any]:
        return self._rule, call.state._for_rule(values)

    def _rule(self, ctx: Context, *gradients: Any) -> Any:
        needs = _put_together(ctx.template, ctx.saved_tensors)
        given = gradients if ctx.several else gradients[0]
        outcome = self.backward(*ctx.nondiff, needs, given)
        if not self.nondiff:
            return outcome
        returned = list(outcome) if isinstance(outcome, (tuple, list)) else [outcome]
        expected = ctx.arguments - len(self.nondiff)
        if len(returned) != expected:
            raise GradientError(
                f"the rule of {self.name} returned {len(returned)} gradients for {expected} "
                "arguments that are not in nondiff_argnums; return one for each"
            )
        for position in sorted(self.nondiff):
            returned.insert(position, None)
        return returned


class _Slot:
    """Stands in a template for a saved value."""

    __slots__ = ("plain", "position")

    def __init__(self, position: int, plain: bool) -> None:
        self.position = position
        #: The value was an ndarray and is given back as one.
        self.plain = plain


def _taken_apart(value: Any, saved: list[Any]) -> Any:
    """The structure of what a rule needs, its tensors and arrays moved to ``saved``."""
    if type(value) is Tensor or type(value) is ndarray:
        saved.append(value)
        return _Slot(len(saved) - 1, type(value) is ndarray)
    if type(value) in (tuple, list):
        return type(value)([_taken_apart(item, saved) for item in value])
    if type(value) is dict:
        return {key: _taken_apart(item, saved) for key, item in value.items()}
    return value


def _put_together(template: Any, saved: Sequence[Any]) -> Any:
    if type(template) is _Slot:
        value = saved[template.position]
        return value._array if template.plain else value
    if type(template) in (tuple, list):
        return type(template)([_put_together(item, saved) for item in template])
    if type(template) is dict:
        return {key: _put_together(item, saved) for key, item in template.items()}
    return template
