"""Jacobians, Hessians and products with them, of functions of arrays.

All of them are made of ``grad`` with ``create_graph``, so one rule per operation
serves them all.  ``jvp`` is a double backward: the gradient ``u -> uᵀJ`` is linear
in ``u``, and its own gradient along ``v`` is ``Jv``.  The rejected alternative,
forward mode, is one pass less, and would need a second rule for every operation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import DtypeError, GradientError, TensorTypeError
from sweepgrad.functional import grad, variable
from sweepgrad.graph import enable_grad
from sweepgrad.graph.inherited import shared
from sweepgrad.tensor import Tensor, node_of, runtime_of, tensor, untracked

Argnums = int | Sequence[int]


def jacobian(
    function: Callable[..., Tensor], argnums: Argnums = 0, create_graph: bool = False
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``function``.

    Args:
        function: takes arrays or tensors, returns a real tensor of any shape.
        argnums: which positional arguments to differentiate by: one, or several,
            which makes the result a tuple.
        create_graph: return tensors that can be differentiated again.

    Returns:
        An array of shape ``value.shape + argument.shape`` and of the argument's
        dtype.  It takes one backward for each element of the value.

    Thread safety: any thread; nothing is shared between calls.

    Raises:
        TensorTypeError: if the function returns no tensor.
        DtypeError: for complex values or arguments.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            value, wanted = _evaluated(function, args, kwargs, argnums, "jacobian")
            found = _rows(value, wanted, create_graph, last_use=True)
        return found[0] if isinstance(argnums, int) else found

    return shared(wrapper)


def hessian(
    function: Callable[..., Tensor], argnums: Argnums = 0, create_graph: bool = False
) -> Callable[..., Any]:
    """A function that returns the Hessian of a ``function`` with one value.

    Args:
        function: takes arrays or tensors, returns a real tensor with one element.
        argnums: which positional arguments to differentiate by: one, or several.
        create_graph: return tensors that can be differentiated again.

    Returns:
        For one argument, an array of shape ``argument.shape + argument.shape``.  For
        several, a tuple of rows, ``h[i][j]`` of shape ``arguments[i].shape +
        arguments[j].shape``.  It takes one backward for each element of the arguments:
        for small ones; see :func:`hessian_vector_product`.

    Thread safety and errors: as :func:`jacobian`.

    Raises:
        GradientError: if the value has more than one element.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            _, wanted, gradients = _gradients(function, args, kwargs, argnums, "hessian")
            rows = tuple(
                [
                    _rows(gradient, wanted, create_graph, last_use=gradient is gradients[-1])
                    for gradient in gradients
                ]
            )
        return rows[0][0] if isinstance(argnums, int) else rows

    return shared(wrapper)


def hessian_vector_product(
    function: Callable[..., Tensor], argnums: Argnums = 0, create_graph: bool = False
) -> Callable[..., Any]:
    """A function ``(*args, vector)`` that returns the Hessian of ``function`` times ``vector``.

    Two backwards, whatever the size of the arguments; the Hessian is not formed.

    Args:
        function: takes arrays or tensors, returns a real tensor with one element.
        argnums: which positional arguments: one, or several, which makes the
            vector and the result tuples.
        create_graph: return tensors that can be differentiated again.

    Returns:
        Arrays of the arguments' shapes and dtypes.

    Thread safety and errors: as :func:`hessian`.

    Raises:
        GradientError: if the vector has another shape than the argument.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        *arguments, vector = args
        single = isinstance(argnums, int)
        with enable_grad():
            _, wanted, gradients = _gradients(
                function, tuple(arguments), kwargs, argnums, "hessian_vector_product"
            )
            vectors = _matching([vector] if single else list(vector), wanted, "vector")
            products = _pulled(gradients, vectors, wanted, create_graph)
        return products[0] if single else tuple(products)

    return shared(wrapper)


def jvp(
    function: Callable[..., Tensor],
    primals: Any,
    tangents: Any,
    create_graph: bool = False,
) -> tuple[Any, Any]:
    """The value of ``function`` at ``primals``, and its derivative along ``tangents``.

    Args:
        function: takes arrays or tensors, returns a real tensor of any shape.
        primals: its arguments: a tuple or list, or one argument alone.
        tangents: for each argument, a direction of its shape; in the same form.
        create_graph: return tensors that can be differentiated again.

    Returns:
        The value and the Jacobian times the tangents, both of the value's shape.
        Two backwards, the first of them differentiable: rules marked
        ``once_differentiable`` are refused.

    Thread safety: any thread; nothing is shared between calls.

    Raises:
        TensorTypeError: if the function returns no tensor.
        GradientError: if a tangent has another shape than its argument.
        DtypeError: for complex values or arguments.
    """
    single = not isinstance(primals, (tuple, list))
    points = [primals] if single else list(primals)
    directions = [tangents] if single else list(tangents)
    with enable_grad():
        argnums = range(len(points))
        value, wanted = _evaluated(function, tuple(points), {}, argnums, "jvp")
        vectors = _matching(directions, wanted, "tangent")
        weights = tensor(
            np.zeros_like(value._array),
            requires_grad=True,
            runtime=runtime_of(node_of(wanted[0], "jvp")),
        )
        pulled = _pulled([value], [weights], wanted, create_graph=True)
        derivative = _pulled(pulled, vectors, [weights], create_graph)[0]
    return (value if create_graph else value._array.copy()), derivative


# --- parts --------------------------------------------------------------------------------


def _evaluated(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    argnums: Argnums,
    name: str,
) -> tuple[Tensor, list[Tensor]]:
    """The value at these arguments, and the variables that stand for the chosen ones."""
    positions = [argnums] if isinstance(argnums, int) else list(argnums)
    arguments = list(args)
    for position in positions:
        arguments[position] = variable(arguments[position])
    wanted = [arguments[position] for position in positions]
    value = function(*arguments, **kwargs)
    if type(value) is not Tensor:
        raise TensorTypeError(
            f"{name} needs a function that returns a Tensor, got {type(value).__name__}"
        )
    for one in (value, *wanted):
        if one.dtype.kind == "c":
            raise DtypeError(
                f"{name} is for real functions of real arguments, got dtype {one.dtype}; "
                "differentiate by real and imaginary parts"
            )
    return value, wanted


def _gradients(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    argnums: Argnums,
    name: str,
) -> tuple[Tensor, list[Tensor], list[Any]]:
    """The value, the variables and their differentiable gradients, zeros for an unused one."""
    value, wanted = _evaluated(function, args, kwargs, argnums, name)
    if value.size != 1:
        raise GradientError(
            f"{name} needs a function whose value has one element, got shape {value.shape}; "
            "use jacobian for others"
        )
    return value, wanted, _pulled([value], [None], wanted, create_graph=True)


def _matching(given: Sequence[Any], wanted: Sequence[Tensor], what: str) -> list[Any]:
    """Directions with the shapes and dtypes of the arguments."""
    if len(given) != len(wanted):
        raise GradientError(f"got {len(given)} {what}s for {len(wanted)} arguments; give one each")
    found: list[Any] = []
    for direction, argument in zip(given, wanted, strict=True):
        value = direction if type(direction) is Tensor else np.asarray(direction)
        if value.shape != argument.shape:
            raise GradientError(
                f"a {what} has shape {value.shape} but its argument has shape {argument.shape}; "
                "they must be the same"
            )
        found.append(value)
    return found


def _pulled(
    outputs: Sequence[Tensor], seeds: Sequence[Any], wanted: Sequence[Tensor], create_graph: bool
) -> list[Any]:
    """Gradients of the outputs that depend on something; zeros for what they do not depend on."""
    pairs = [
        (output, seed) for output, seed in zip(outputs, seeds, strict=True) if output.requires_grad
    ]
    found: Sequence[Any] = [None] * len(wanted)
    if pairs:
        found = grad(
            [output for output, _ in pairs],
            list(wanted),
            [seed for _, seed in pairs],
            create_graph=create_graph,
            allow_unused=True,
        )
    return [
        _zeros(argument.shape, argument, create_graph) if gradient is None else gradient
        for gradient, argument in zip(found, wanted, strict=True)
    ]


def _zeros(shape: tuple[int, ...], like: Tensor, create_graph: bool) -> Any:
    zeros = np.zeros(shape, like.dtype)
    return untracked(zeros) if create_graph else zeros


def _rows(
    value: Tensor, wanted: Sequence[Tensor], create_graph: bool, last_use: bool
) -> tuple[Any, ...]:
    """For each variable, the Jacobian of ``value``: one backward for each element of it."""
    if not value.requires_grad:
        return tuple([_zeros(value.shape + w.shape, w, create_graph) for w in wanted])
    rows: list[Sequence[Any]] = []
    for index in range(value.size):
        seed = np.zeros(value.size, value.dtype)
        seed[index] = 1
        retain = create_graph or not last_use or index < value.size - 1
        found = grad(value, list(wanted), seed.reshape(value.shape), retain, create_graph, True)
        rows.append(found)
    return tuple(
        [_stacked(rows, position, value, wanted, create_graph) for position in range(len(wanted))]
    )


def _stacked(
    rows: Sequence[Sequence[Any]],
    position: int,
    value: Tensor,
    wanted: Sequence[Tensor],
    create_graph: bool,
) -> Any:
    argument = wanted[position]
    shape = value.shape + argument.shape
    if create_graph and rows:
        parts = [
            row[position] if row[position] is not None else _zeros(argument.shape, argument, True)
            for row in rows
        ]
        return np.stack(parts).reshape(shape)
    found: NDArray[Any] = np.zeros((len(rows), *argument.shape), argument.dtype)
    for index, row in enumerate(rows):
        if row[position] is not None:
            found[index] = row[position]
    return found.reshape(shape) if not create_graph else untracked(found.reshape(shape))
