"""Gradient rules of HIPS/autograd for the long tail: SciPy's statistics and special functions.

Second to the operations of :mod:`sweepgrad`, which are the ones to use where both
exist: a lent rule has one order, and its corners are autograd's.  Needs the extra
``sweepgrad[autograd]``.

Only the rule of the one function is borrowed, and it runs on plain arrays.
Autograd's own tracing is left out, because its level is counted for the whole
process, so that two threads that trace at once get each other's.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from sweepgrad.autograd import Function, once_differentiable
from sweepgrad.errors import NoGradientRuleError
from sweepgrad.ops.declare import fit
from sweepgrad.tensor import Tensor


def lend(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as an operation on tensors, with autograd's gradient rule.

        i0 = lend(scipy.special.i0)
        i0(t).sum().backward()

    Args:
        function: a function of SciPy for which autograd has a rule, or autograd's
            own version of it, such as ``autograd.scipy.stats.norm.logpdf``.

    Returns:
        An operation that takes ``function``'s arguments, tensors among them.  Its
        gradient cannot be differentiated again: that raises HigherOrderError.  An
        argument for which autograd has no rule is refused when it is tracked.

    Dtypes: the value's is the function's own; a gradient has its operand's.

    Thread safety: any thread.

    Raises:
        NoGradientRuleError: if autograd has no rule for the function.
        ImportError: without the extra.
    """
    borrowed = _version_of(function)
    name = getattr(borrowed, "__name__", str(borrowed))
    makers = _rules().get(borrowed)
    if makers is None:
        raise NoGradientRuleError(
            f"autograd has no gradient rule for {name}; write one with sweepgrad.custom_vjp, or "
            "compose the function of those that sweepgrad.operations() lists"
        )
    return functools.wraps(borrowed)(_Lent(name, borrowed, makers))


class _Lent:
    """A function with a rule that was borrowed for it."""

    def __init__(self, name: str, function: Callable[..., Any], rule: Callable[..., Any]) -> None:
        self.name = name
        self.forward = function
        self.rule = rule

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        result: Tensor = _Call.apply(self, kwargs, *args)
        return result


class _Call(Function):
    """One call of a lent function."""

    @staticmethod
    def forward(ctx: Any, lent: Any, keywords: Any, *args: Any) -> Any:
        values = [a.numpy() if type(a) is Tensor else a for a in args]
        ctx.lent, ctx.keywords, ctx.values = lent, keywords, values
        ctx.answer = np.asarray(lent.forward(*values, **keywords))
        return ctx.answer

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        wanted = [place for place, needed in enumerate(ctx.needs_input_grad[2:]) if needed]
        try:
            rule = ctx.lent.rule(tuple(wanted), ctx.answer, tuple(ctx.values), ctx.keywords)
            found = rule(g.numpy() if type(g) is Tensor else g)
        except NotImplementedError as error:
            raise NoGradientRuleError(
                f"autograd has no gradient rule for {ctx.lent.name} with respect to one of its "
                f"arguments {wanted}: {error}; pass that one with .detach()"
            ) from error
        gradients: list[Any] = [None] * (len(ctx.values) + 2)
        for place, gradient in zip(wanted, found, strict=True):
            value = ctx.values[place]
            gradients[place + 2] = fit(np.asarray(gradient), value.shape, value.dtype)
        return tuple(gradients)


def _rules() -> Any:
    """Autograd's table of rules."""
    return importlib.import_module("autograd.core").primitive_vjps


def _version_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Autograd's version of a function of SciPy or NumPy; others as they are."""
    owner = getattr(function, "__self__", None)  # of scipy.stats.norm.pdf: the distribution
    name = getattr(function, "__name__", "")
    places = []
    if owner is not None and hasattr(owner, "name"):
        places.append(f"autograd.scipy.stats.{owner.name}")
    for part in ("special", "stats", "linalg", "signal", "integrate"):
        places.append(f"autograd.scipy.{part}")
    if inspect.ismodule(function) or function in _rules():
        return function
    for place in places:
        try:
            module = importlib.import_module(place)
        except ImportError:
            continue
        found: Any = getattr(module, name, None)
        if found is not None and (owner is not None or _same(found, function)):
            return found  # type: ignore[no-any-return]
    return function


def _same(found: Any, function: Any) -> bool:
    """Whether autograd's function wraps this very one."""
    return (
        getattr(found, "fun", None) is function or getattr(found, "__wrapped__", None) is function
    )
