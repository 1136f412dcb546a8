"""Gradients as functions of functions: ``grad``, ``value_and_grad`` and their variables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

import numpy as np

from sweepgrad import dispatch
from sweepgrad.errors import GradientError, NoGradientError, TensorTypeError
from sweepgrad.gradients import differentiate, own, seed_of
from sweepgrad.graph import Node, Rule, is_recording, register_one
from sweepgrad.graph.inherited import shared
from sweepgrad.graph.watch import WATCH, drop_callbacks, run_callbacks
from sweepgrad.tensor import Tensor, node_of, tensor, untracked


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """Gradients of the sum of ``outputs`` with respect to ``inputs``, in their order.

    Args:
        outputs: tracked tensor, or several.
        inputs: tracked tensors, leaves or results of operations.
        grad_outputs: gradient of each output (one value for one output, else a
            sequence; None stands for 1 where the output has one element).
        retain_graph: keep the graph; by default as ``create_graph`` says.  What
            is consumed otherwise is the part between outputs and inputs only.
        create_graph: return tensors that can be differentiated again.
        allow_unused: give None for an input that the outputs do not depend on.

    Returns:
        One array (or Tensor, with ``create_graph``) for each input, of its
        shape and dtype.

    Thread safety: as ``Tensor.backward``.

    Raises:
        NoGradientError: for an unused input, unless ``allow_unused``.
        NotTrackedError, GradientError, GraphConsumedError: as ``Tensor.backward``.
    """
    out_list, in_list = _listed(outputs), _listed(inputs)
    seeds = _seeds(out_list, grad_outputs, isinstance(outputs, Tensor), create_graph)
    roots = [(node_of(output, "grad"), seed) for output, seed in zip(out_list, seeds, strict=True)]
    nodes = [node_of(wanted, "grad") for wanted in in_list]
    retain = create_graph if retain_graph is None else retain_graph
    arguments = roots, frozenset(nodes), retain, create_graph
    if dispatch.COLLECTS_ANYWHERE:
        found = copy_context().run(_found, *arguments)
    else:
        found = _found(*arguments)
    taken = {id(seed) for seed in seeds}
    results: list[Any] = []
    for node, handle in zip(nodes, in_list, strict=True):
        if node in found:
            results.append(own(found[node], handle, taken, create_graph))
        elif allow_unused:
            results.append(None)
        else:
            raise NoGradientError(
                f"the outputs do not depend on the input of shape {handle.shape}; "
                "pass allow_unused=True to get None for it"
            )
    return tuple(results)


def _found(
    roots: list[tuple[Node, Any]],
    targets: frozenset[Node],
    retain_graph: bool,
    create_graph: bool,
) -> dict[Node, Any]:
    """The gradients of the targets, once the callbacks at the end have run."""
    try:
        found = differentiate(roots, targets, retain_graph, create_graph)
        if WATCH:
            run_callbacks()
    except BaseException:
        drop_callbacks()
        raise
    return found


def _listed(tensors: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _seeds(outputs: list[Tensor], given: Any, single: bool, create_graph: bool) -> list[Any]:
    if given is None:
        values: list[Any] = [None] * len(outputs)
    elif single and not isinstance(given, (list, tuple)):
        values = [given]
    else:
        values = list(given)
    if len(values) != len(outputs):
        raise GradientError(
            f"grad_outputs has {len(values)} gradients for {len(outputs)} outputs; give one each"
        )
    return [seed_of(out, value, create_graph) for out, value in zip(outputs, values, strict=True)]


def value_and_grad(
    function: Callable[..., Tensor],
    argnums: int | Sequence[int] = 0,
    create_graph: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns ``(value, gradient)`` of ``function``.

    Args:
        function: takes arrays or tensors, returns a tensor with one element.
        argnums: which positional arguments to differentiate: one, or several,
            which makes the gradient a tuple.
        create_graph: make value and gradient tensors that can be differentiated
            again, with respect to these arguments (when they are tracked) and
            to any other tracked tensor that ``function`` uses.

    Returns:
        The value is an array without axes; the gradients have the arguments'
        shapes and dtypes.  With ``create_graph`` both are tensors.

    Thread safety: any thread; nothing is shared between calls.

    Raises:
        GradientError: if the value has more than one element.
        NoGradientError: if the value does not depend on an argument.
    """
    positions = [argnums] if isinstance(argnums, int) else list(argnums)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        arguments = list(args)
        for position in positions:
            arguments[position] = variable(arguments[position])
        value = function(*arguments, **kwargs)
        if type(value) is not Tensor:
            raise TensorTypeError(
                f"value_and_grad needs a function that returns a Tensor, got {type(value).__name__}"
            )
        wanted = [arguments[position] for position in positions]
        gradients = grad(value, wanted, create_graph=create_graph)
        result = value if create_graph else value._array.copy()
        return result, gradients[0] if isinstance(argnums, int) else gradients

    return shared(wrapper)


#: The result is the operand, on a node of its own.
_ALIAS = Rule("alias", lambda g: g)


def alias(value: Tensor) -> Tensor:
    """A variable with the value of a tracked tensor, through which gradients flow on to it.

    What is differentiated by the alias counts no other use of the tensor.
    """
    node = node_of(value, "alias")
    result = untracked(value._array)
    result._node = register_one(result, node, _ALIAS, (), 0)
    return result


def variable(value: Any) -> Tensor:
    """The variable to differentiate by: a new leaf or, for a tracked argument, an alias of it.

    The alias lets outer gradients flow and yet is not its argument: with the
    argument itself, ``value_and_grad(lambda z: z * x)(x)`` would count the ``x``
    that the function closes over as another use of ``z``.
    """
    if type(value) is Tensor:
        if value._node is None or not is_recording():
            return tensor(value, requires_grad=True)
        return alias(value)
    array = np.asarray(value)
    return tensor(array if array.dtype.kind in "fc" else array.astype(float), requires_grad=True)
