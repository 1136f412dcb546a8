"""What every optimizer is made of: parameters, their state, and steps that may race.

Note [Step].  A step of one parameter has two parts, each safe against threads.

    S1  the state (velocity, moments, step count) is replaced by ``advance(state)``
    S2  the parameter ``a`` is replaced by ``a - change``, ``change`` from S1's result

Both are compare-and-swap: the new object is computed outside every lock and
stored only if the old one is still in place, else it is computed again.  So:

*A rerun corrupts nothing.*  ``advance`` and the function of S2 have no side
effects; states are tuples of arrays that nobody writes into.  All of a
parameter's state is one tuple, so a moment and its step count never disagree.

*No update is lost.*  Each gradient enters the state once, in S1, and each
change enters the parameter once, in S2.

*What many threads get* is what the same steps give one after the other in the
order in which their S1 came: the states are exactly those, and the parameter is
the start minus the same changes, whose sum does not depend on the order of the
S2 except for rounding.

The rejected alternative computes the state inside the function that
``p.update`` may run again: each rerun would count its gradient once more.
A lock over S1 and S2 would give the same result, with other threads waiting for
NumPy to finish.

An asynchronous exception (Ctrl-C raised in this very thread) between S1 and S2
leaves a gradient in the state whose own change was not made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.conversion import ONE
from sweepgrad.errors import GradientError, SettingError, TensorTypeError
from sweepgrad.gradients import Gradients
from sweepgrad.tensor import Tensor, node_of

ndarray = np.ndarray
Array = NDArray[Any]
#: The optimizer's state for one parameter: an immutable tuple of its own making.
State = tuple[Any, ...]


class StateCell:
    """One parameter's state; replaced by the parameter's own compare-and-swap."""

    __slots__ = ("_array", "_key", "_swap")

    def __init__(self, parameter: Tensor, state: State) -> None:
        node = node_of(parameter, "an optimizer")
        self._swap = node.runtime.parameters.replace
        self._key = node.id
        self._array = state

    @property
    def state(self) -> State:
        """The state now."""
        return self._array

    def advance(self, function: Callable[[State], State]) -> State:
        """Replace the state by ``function(state)`` and return what was stored (S1).

        ``function`` runs again when another thread was faster.
        """
        while True:
            old = self._array
            new = function(old)
            if self._swap(self, self._key, old, new):
                return new

    def subtract(self, parameter: Tensor, change: Array) -> None:
        """Replace the parameter by its value minus ``change`` (S2)."""
        while True:
            old = parameter._array
            new = old - change
            if type(new) is not ndarray or new.dtype is not old.dtype:
                new = np.asarray(new, old.dtype)  # see change
            if self._swap(parameter, self._key, old, new):
                return

    def change(self, parameter: Tensor, function: Callable[[Array], Any]) -> None:
        """Replace the parameter by ``function(value)`` (S2): ``Tensor.update`` for own formulas.

        They do not write into the value and give a new array of its shape, so the view
        and the copy that protect ``update`` from its caller's function are left out: half
        of the time of a small step.
        """
        while True:
            old = parameter._array
            new = function(old)
            if type(new) is not ndarray or new.dtype is not old.dtype:
                new = np.asarray(new, old.dtype)  # of an array without axes, or byte-swapped
            if self._swap(parameter, self._key, old, new):
                return


class Optimizer(ABC):
    """Changes parameters by their gradients; :class:`SGD` and :class:`Adam` say how.

    Args:
        parameters: leaves, each once.
        learning_rate: may be set anew at any time; a step that runs meanwhile
            uses the old one or the new one for each parameter.

    Thread safety: ``step`` from any number of threads at once, also with other
    optimizers on the same parameters; note [Step] says what they get.

    Raises:
        SettingError: if there is no parameter, one comes twice, or a setting is
            out of its range.
        NotTrackedError, TensorTypeError: if one is not a leaf.
    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate = at_least_zero("learning_rate", learning_rate)
        if not self.parameters:
            raise SettingError("an optimizer without parameters has nothing to do; pass some")
        if len({id(parameter) for parameter in self.parameters}) != len(self.parameters):
            raise SettingError(
                "a parameter comes twice and would be changed twice by each step; pass each once"
            )
        #: By dtype, the learning rate and its array.
        self._rates: dict[np.dtype[Any], tuple[float, Array]] = {}
        self._cells = []
        for parameter in self.parameters:
            node_of(parameter, "an optimizer")
            if not parameter.is_leaf:
                raise TensorTypeError(
                    f"an optimizer changes leaves; the tensor of shape {parameter.shape} is the "
                    "result of an operation: pass the leaves it was computed from"
                )
            self._cells.append(StateCell(parameter, self._initial(parameter)))

    def step(self, gradients: Mapping[Tensor, Any]) -> None:
        """Change every parameter that has a gradient here; the others stay as they are.

        Args:
            gradients: what ``backward`` returned, or any mapping from parameters
                to arrays of their shapes.

        Raises:
            GradientError: if a gradient has another shape than its parameter, or a dtype
                that does not convert; the parameters before it have been changed.
        """
        # What backward returns is looked into without the calls that a mapping takes.
        known = gradients._by_node if type(gradients) is Gradients else None
        for parameter, cell in zip(self.parameters, self._cells, strict=True):
            if known is not None:
                pair = known.get(parameter._node)  # type: ignore[arg-type]  # a leaf has one
                if pair is None:
                    continue
                gradient = pair[1]
            else:
                gradient = gradients.get(parameter)
                if gradient is None:
                    continue
            value = parameter._array
            if (
                type(gradient) is not ndarray
                or gradient.dtype is not value.dtype
                or gradient.shape != value.shape
            ):
                gradient = _fitting(gradient, value)
            self._step_one(parameter, cell, gradient)

    def _rate_in(self, dtype: np.dtype[Any]) -> Any:
        """The learning rate as an array of this dtype, where it is one of NumPy's usual ones.

        As an operand it costs a third less than a Python number, with the same bits.
        """
        rate = self.learning_rate
        made = self._rates.get(dtype)
        if made is None or made[0] is not rate:
            if dtype not in ONE:
                return rate
            made = (rate, np.array(rate, dtype))
            # A new dict: two threads that change one wait for each other.
            self._rates = {**self._rates, dtype: made}
        return made[1]

    @abstractmethod
    def _initial(self, parameter: Tensor) -> State:
        """The state of a parameter before its first step."""

    @abstractmethod
    def _step_one(self, parameter: Tensor, cell: StateCell, gradient: Array) -> None:
        """Change one parameter, in the two parts of note [Step]."""


def _fitting(gradient: Any, value: Array) -> Array:
    """The gradient as an array of the value's shape and dtype.

    Raises:
        GradientError: if it has another shape, or a dtype that does not convert.
    """
    values = gradient.numpy() if isinstance(gradient, Tensor) else np.asarray(gradient)
    if values.shape != value.shape:
        raise GradientError(
            f"step() got a gradient of shape {values.shape} for a parameter of shape "
            f"{value.shape}; they must be the same"
        )
    if not np.can_cast(values.dtype, value.dtype, "same_kind"):
        raise GradientError(
            f"step() got a gradient of dtype {values.dtype} for a parameter of dtype "
            f"{value.dtype}; convert it first"
        )
    return values.astype(value.dtype, copy=False)


def at_least_zero(name: str, value: float) -> float:
    """``value`` if it is finite and not negative.

    Raises:
        SettingError: otherwise.
    """
    if not 0.0 <= value < float("inf"):
        raise SettingError(f"{name} is {value}; it must be finite and at least 0")
    return float(value)


def below_one(name: str, value: float) -> float:
    """``value`` if it is at least 0 and below 1.

    Raises:
        SettingError: otherwise.
    """
    if not 0.0 <= value < 1.0:
        raise SettingError(f"{name} is {value}; it must be at least 0 and below 1")
    return float(value)
