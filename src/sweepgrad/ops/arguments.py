"""Looking at arguments: shapes of tensors and arrays alike, and what is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweepgrad.errors import NoGradientRuleError
from sweepgrad.graph import is_recording
from sweepgrad.tensor import Tensor


def ndim_of(x: Any) -> int:
    """Number of axes of a tensor, or of what NumPy would make an array of."""
    return x._array.ndim if type(x) is Tensor else np.ndim(x)


def shape_of(x: Any) -> tuple[int, ...]:
    """Shape of a tensor, or of what NumPy would make an array of."""
    return x._array.shape if type(x) is Tensor else np.shape(x)


def refuse(function: str, argument: str, value: Any, fix: str, default: Any = None) -> None:
    """Raise unless ``value`` is the default, which asks for nothing.

    Raises:
        NoGradientRuleError: naming function, argument, value and ``fix``.
    """
    if value is default or (isinstance(default, str) and value == default):
        return
    raise NoGradientRuleError(f"{function}({argument}={value!r}) is not offered on tensors; {fix}")


def constant(function: str, argument: str, value: Any) -> Any:
    """The plain value of an argument that gets no gradient; refuses a tracked one.

    Raises:
        NoGradientRuleError: for a tracked tensor, while recording.
    """
    if type(value) is not Tensor:
        return value
    if value._node is not None and is_recording():
        raise NoGradientRuleError(
            f"{function} has no gradient for {argument}, and a tracked tensor does not leave the "
            f"graph silently; pass {argument}.detach() if no gradient should flow"
        )
    return value._array


def refuse_out(function: str, out: Any) -> None:
    """Refuse ``out=``, which would write into an array behind the graph's back.

    Raises:
        NoGradientRuleError: if ``out`` was given.
    """
    if out is not None:
        raise NoGradientRuleError(
            f"{function}(out=...) would write into an array behind the graph's back; "
            f"write result = {function}(...) instead"
        )


def refuse_order(function: str, order: Any) -> None:
    """Refuse an order that follows the memory, since tensors have no layout to ask for.

    Raises:
        NoGradientRuleError: if ``order`` is not "C".
    """
    refuse(
        function,
        "order",
        order,
        "elements are read and put in the order 'C' or 'F', whatever their place in memory",
        "C",
    )
