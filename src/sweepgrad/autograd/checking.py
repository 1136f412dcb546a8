"""gradcheck and gradgradcheck: gradient rules against differences of the function itself.

The oracle knows nothing of rules: it calls the function at points near the
given one.  Central differences, ``(f(x+h) - f(x-h)) / 2h``, are off by about
h² f'''/6 + 1e-16 f/h; with h = 1e-6 that is near 1e-10 for values near one.  The
complex step, ``Im f(x+ih) / h``, subtracts nothing and is exact to rounding even
with h = 1e-20, where it applies: f must be analytic and take complex arrays, so
no abs, no maximum, no comparisons, no conjugates.

For complex arguments z = x + iy the gradient is df/dx - i df/dy, the convention of
:mod:`sweepgrad.ops.arithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import DtypeError, GradcheckError, NotTrackedError, TensorTypeError
from sweepgrad.functional import grad, variable
from sweepgrad.graph import enable_grad
from sweepgrad.tensor import Tensor, tensor, untracked

Method = Literal["central", "complex"]

#: The step of the complex step: its square vanishes beside any value.
_TINY = 1e-20


def gradcheck(
    function: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    method: Method = "central",
    raise_exception: bool = True,
) -> bool:
    """Compare the gradients of ``function`` with differences of its values.

    Every entry of the Jacobian of every tracked result by every tracked input is
    compared: small inputs are enough.

    Args:
        function: takes the inputs, returns a tensor or a tuple of them; called
            about twice for each element of the inputs.
        inputs: one argument, or a tuple or list of them.  Tracked tensors are
            checked; anything else is passed on as it is.
        eps: step of the central differences.
        rtol, atol: an entry may differ by ``atol + rtol * abs(expected)``.
        method: ``"central"``, or ``"complex"`` for the complex step (real inputs and
            an analytic function; then tolerances of 1e-12 are reasonable).
        raise_exception: return False rather than raise when an entry disagrees.

    Returns:
        True when all agree.

    Thread safety: any thread; nothing is shared between calls.

    Raises:
        GradcheckError: naming the worst entry; or because the function gives
            different values when it is called twice.
        NotTrackedError: if no input, or no result, is tracked.
        DtypeError: for tracked inputs that are not float64 or complex128, in which
            differences are too coarse; or where the complex step does not apply.
    """
    arguments = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    check = _Check(function, arguments, eps, rtol, atol, method)
    with enable_grad():
        fault = check.run()
    if fault is not None and raise_exception:
        raise GradcheckError(fault)
    return fault is None


def gradgradcheck(
    function: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    method: Method = "central",
    raise_exception: bool = True,
) -> bool:
    """Compare second derivatives: :func:`gradcheck` of the gradients of ``function``.

    Args:
        grad_outputs: gradients of the tracked results; by default normal random
            numbers from a fixed seed.  They are checked as inputs, too.

    The other arguments, thread safety and errors are those of :func:`gradcheck`.

    Raises:
        HigherOrderError: if a rule does not allow it.
    """
    arguments = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    checked = [place for place, value in enumerate(arguments) if _is_tracked(value)]
    if grad_outputs is None:
        seeds = _random_like(_tracked_results(function(*arguments)))
    elif isinstance(grad_outputs, (tuple, list)):
        seeds = list(grad_outputs)
    else:
        seeds = [grad_outputs]
    leaves = [tensor(seed, requires_grad=True) for seed in seeds]

    def gradients(*values: Any) -> tuple[Any, ...]:
        points = list(values[: len(arguments)])
        for place in checked:
            points[place] = variable(points[place])
        outputs = _tracked_results(function(*points))
        wanted = [points[place] for place in checked]
        weights = list(values[len(arguments) :])
        found = grad(outputs, wanted, weights, create_graph=True, allow_unused=True)
        return tuple([value for value in found if value is not None])

    return gradcheck(
        gradients,
        [*arguments, *leaves],
        eps=eps,
        rtol=rtol,
        atol=atol,
        method=method,
        raise_exception=raise_exception,
    )


def _is_tracked(value: Any) -> bool:
    return type(value) is Tensor and value._node is not None


def _as_tuple(outcome: Any) -> tuple[Any, ...]:
    results = tuple(outcome) if isinstance(outcome, (tuple, list)) else (outcome,)
    for result in results:
        if type(result) is not Tensor:
            raise TensorTypeError(
                f"a function to be checked returns tensors, got {type(result).__name__}"
            )
    return results


def _tracked_results(outcome: Any) -> list[Tensor]:
    return [result for result in _as_tuple(outcome) if result.requires_grad]


def _random_like(results: Sequence[Tensor]) -> list[NDArray[Any]]:
    generator = np.random.default_rng(0)
    found: list[NDArray[Any]] = []
    for result in results:
        values = generator.normal(size=result.shape)
        if result.dtype.kind == "c":
            values = values + 1j * generator.normal(size=result.shape)
        found.append(values.astype(result.dtype))
    return found


@dataclass
class _Worst:
    """The entry that is furthest beyond what is allowed."""

    excess: float = 1.0
    text: str = ""
    wrong: int = 0
    entries: int = 0


class _Check:
    """One comparison of all entries."""

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: list[Any],
        eps: float,
        rtol: float,
        atol: float,
        method: Method,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.checked = [place for place, value in enumerate(arguments) if _is_tracked(value)]
        self.eps, self.rtol, self.atol, self.method = eps, rtol, atol, method
        self.arrays = [arguments[place]._array for place in self.checked]
        self._refuse_wrong_inputs()

    def _refuse_wrong_inputs(self) -> None:
        if not self.checked:
            raise NotTrackedError(
                "gradcheck checks the tracked tensors among the inputs, and there are none; make "
                "them with sg.tensor(array, requires_grad=True)"
            )
        allowed = "fc" if self.method == "central" else "f"
        for place, array in zip(self.checked, self.arrays, strict=True):
            if array.dtype not in (np.float64, np.complex128) or array.dtype.kind not in allowed:
                raise DtypeError(
                    f"gradcheck by method {self.method!r} needs float64 inputs (or complex128 by "
                    f"'central'), input {place} is {array.dtype}: differences of coarser values "
                    "tell nothing; convert it with dtype=np.float64"
                )

    def run(self) -> str | None:
        """What is wrong, or None."""
        leaves = [tensor(array, requires_grad=True) for array in self.arrays]
        results = _as_tuple(self._call(leaves))
        tracked = [place for place, result in enumerate(results) if result.requires_grad]
        if not tracked:
            raise NotTrackedError(
                "the function gave no tracked result from tracked inputs, so there is no gradient "
                "to check"
            )
        again = self._values(self.arrays)
        for place in tracked:
            if not np.array_equal(results[place]._array, again[place], equal_nan=True):
                return (
                    f"result {place} differs when the function is called twice with the same "
                    "inputs; differences of its values mean nothing (pass generators with a fixed "
                    "state, and draw inside from copies)"
                )
        slopes = self._slopes(tracked)
        worst = _Worst()
        for output, place in enumerate(tracked):
            self._compare(results[place], place, leaves, [s[output] for s in slopes], worst)
        if not worst.wrong:
            return None
        return f"{worst.text}; {worst.wrong} of {worst.entries} entries disagree"

    def _call(self, values: Sequence[Any]) -> Any:
        arguments = list(self.arguments)
        for place, value in zip(self.checked, values, strict=True):
            arguments[place] = value
        return self.function(*arguments)

    def _values(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        return [result._array for result in _as_tuple(self._call([untracked(a) for a in arrays]))]

    # --- the oracle -----------------------------------------------------------------------

    def _slopes(self, tracked: list[int]) -> list[list[NDArray[Any]]]:
        """For each input and each tracked result, d result / d input.

        Of shape (parts, elements of the input, *shape of the result), where the
        parts are the real and, of a complex input, the imaginary one.
        """
        found = []
        for position, array in enumerate(self.arrays):
            parts = (1.0, 1j) if array.dtype.kind == "c" else (1.0,)
            columns = [
                [self._slope(position, element, part) for element in range(array.size)]
                for part in parts
            ]
            shapes = [self._shape_of(columns, place) for place in tracked]
            found.append(
                [
                    np.array([[c[place] for c in row] for row in columns]).reshape(
                        len(parts), array.size, *shape
                    )
                    for place, shape in zip(tracked, shapes, strict=True)
                ]
            )
        return found

    def _shape_of(self, columns: list[list[list[NDArray[Any]]]], place: int) -> tuple[int, ...]:
        if columns[0]:
            return columns[0][0][place].shape
        return self._values(self.arrays)[place].shape

    def _slope(self, position: int, element: int, part: complex) -> list[NDArray[Any]]:
        if self.method == "complex":
            moved = self._moved(position, element, _TINY * 1j, np.complex128)
            return [self._imaginary(value) / _TINY for value in self._values(moved)]
        dtype = self.arrays[position].dtype
        above = self._values(self._moved(position, element, self.eps * part, dtype))
        below = self._values(self._moved(position, element, -self.eps * part, dtype))
        return [(up - down) / (2 * self.eps) for up, down in zip(above, below, strict=True)]

    def _moved(self, position: int, element: int, step: complex, dtype: Any) -> list[NDArray[Any]]:
        arrays = list(self.arrays)
        moved = arrays[position].astype(dtype)
        moved.reshape(-1)[element] += step if moved.dtype.kind == "c" else step.real
        arrays[position] = moved
        return arrays

    def _imaginary(self, value: NDArray[Any]) -> NDArray[Any]:
        if value.dtype.kind != "c":
            raise DtypeError(
                f"the complex step does not apply: the function gave {value.dtype} for complex "
                "inputs; use method='central'"
            )
        return value.imag

    # --- the comparison -------------------------------------------------------------------

    def _compare(
        self,
        result: Tensor,
        place: int,
        leaves: list[Tensor],
        slopes: list[NDArray[Any]],
        worst: _Worst,
    ) -> None:
        """Compare each row of the Jacobian of one result."""
        for flat, index, seed in _seeds(result):
            found = grad(result, leaves, seed, retain_graph=True, allow_unused=True)
            weight = seed[index]
            for position, gradient in enumerate(found):
                whole = slopes[position]
                slope = whole.reshape(*whole.shape[:2], result.size)[:, :, flat]
                expected = _pairing(slope, weight).reshape(leaves[position].shape)
                given = np.zeros_like(expected) if gradient is None else gradient
                self._note(given, expected, (place, index, self.checked[position]), worst)

    def _note(
        self,
        given: NDArray[Any],
        expected: NDArray[Any],
        where: tuple[int, tuple[int, ...], int],
        worst: _Worst,
    ) -> None:
        worst.entries += expected.size
        if not expected.size:
            return
        allowed = self.atol + self.rtol * np.abs(expected)
        with np.errstate(invalid="ignore"):
            excess = np.abs(given - expected) / allowed
        # The same infinity on both sides agrees; a NaN on one side never does.
        excess = np.where((given == expected) | (np.isnan(given) & np.isnan(expected)), 0.0, excess)
        excess = np.where(np.isnan(excess), np.inf, excess)
        worst.wrong += int((excess > 1).sum())
        at = np.unravel_index(int(np.argmax(excess)), expected.shape)
        if excess[at] > worst.excess:
            worst.excess = float(excess[at])
            output, index, argument = where
            entry = ", ".join(str(int(i)) for i in at)
            row = ", ".join(str(i) for i in index)
            difference = abs(given[at] - expected[at])
            worst.text = (
                f"the gradient of result {output}[{row}] by input {argument}[{entry}] is "
                f"{given[at]:.10g} by the rules and {expected[at]:.10g} by {self._oracle()}, a "
                f"difference of {difference:.3g} where {allowed[at]:.3g} is allowed"
            )

    def _oracle(self) -> str:
        return "central differences" if self.method == "central" else "the complex step"


def _seeds(result: Tensor) -> Iterator[tuple[int, tuple[int, ...], NDArray[Any]]]:
    """For each element of the result, a seed that picks it; two if it is complex."""
    weights = (1.0, 1j) if result.dtype.kind == "c" else (1.0,)
    for flat, index in enumerate(np.ndindex(*result.shape)):
        for weight in weights:
            seed = np.zeros(result.shape, result.dtype)
            seed[index] = weight
            yield flat, index, seed


def _pairing(slope: NDArray[Any], weight: Any) -> NDArray[Any]:
    """The gradient of Re(weight * result): d/dx, and d/dx - i d/dy for a complex input."""
    parts: NDArray[Any] = np.real(weight * slope)
    if len(parts) == 1:
        first: NDArray[Any] = parts[0]
        return first
    both: NDArray[Any] = parts[0] - 1j * parts[1]
    return both
