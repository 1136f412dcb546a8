"""What operations there are: names, signatures, one line each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from sweepgrad.ops.install import public_operations
from sweepgrad.ops.numpy_protocol import FUNCTIONS, UFUNCS


def operations() -> dict[str, str]:
    """Every operation of the ``sweepgrad`` namespace, sorted: its name to what it is.

    The text is the signature and the first line of the docstring::

        >>> sweepgrad.operations()["softmax"]
        'softmax(x, axis=-1): exp(x) / sum of exp(x) over ``axis``; dx = y (g - sum of g y).'

    Thread safety: any thread; the mapping is the caller's own.
    """
    return {name: described(name, op) for name, op in sorted(public_operations().items())}


def described(name: str, operation: Callable[..., Any]) -> str:
    """Signature and first line of an operation."""
    first = (inspect.getdoc(operation) or "").partition("\n")[0]
    return f"{name}{bare_signature(operation)}: {first}"


def bare_signature(operation: Callable[..., Any]) -> str:
    """The signature without annotations, which say ``Any`` mostly; odd defaults as ``...``."""
    signature = inspect.signature(operation)
    plain = []
    for parameter in signature.parameters.values():
        default = parameter.default
        if default is not parameter.empty and not isinstance(
            default, (int, float, str, type(None))
        ):
            default = ...
        plain.append(parameter.replace(annotation=parameter.empty, default=default))
    shown = signature.replace(parameters=plain, return_annotation=signature.empty)
    return str(shown).replace("Ellipsis", "...")


def numpy_names() -> dict[Callable[..., Any], list[str]]:
    """For each operation the functions and ufuncs of NumPy that it stands for."""
    names: dict[Callable[..., Any], list[str]] = {}
    functions: dict[Any, Callable[..., Any]] = {**UFUNCS, **FUNCTIONS}
    for function, operation in functions.items():
        names.setdefault(operation, []).append(numpy_name(function))
    return {operation: sorted(set(found)) for operation, found in names.items()}


def numpy_name(function: Any) -> str:
    """``np.linalg.inv`` for that function; the modules that NumPy keeps to itself are left out."""
    module = getattr(function, "__module__", None) or "numpy"
    public = [part for part in module.split(".")[1:] if not part.startswith("_")]
    return ".".join(["np", *public, function.__name__])
