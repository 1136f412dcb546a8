"""One operation with operands, and what every operation promises of it.

A chapter's test file lists its cases and runs the checks over them; what is
special about an operation is tested beside the list, with literal values.
"""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from finite_differences import check_gradients

import sweepgrad as sg


class Case:
    """An operation, the operands to try it on, and NumPy's version of it.

    Attributes:
        function: takes tensors; on plain arrays it is NumPy's own, unless ``reference`` is given.
        arrays: float64 operands.
        reference: what the value must be, as a function of plain arrays.
        tolerances: of the comparison with finite differences.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        arrays: tuple[np.ndarray, ...],
        reference: Callable[..., Any] | None = None,
        **tolerances: float,
    ) -> None:
        self.name = name
        self.function = function
        self.arrays = arrays
        self.reference = reference if reference is not None else function
        self.tolerances = tolerances

    def __str__(self) -> str:
        return self.name


def case(
    name: str,
    function: Callable[..., Any],
    *operands: Any,
    reference: Callable[..., Any] | None = None,
    **tolerances: float,
) -> Case:
    """A case; a tuple among the operands is a shape, filled with normal numbers."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    arrays = tuple(
        rng.normal(size=given) if isinstance(given, tuple) else np.array(given, dtype=float)
        for given in operands
    )
    return Case(name, function, arrays, reference, **tolerances)


def check_differences(one: Case) -> None:
    """First and second order against central differences."""
    check_gradients(one.function, *one.arrays, **one.tolerances)


def check_value(one: Case) -> None:
    """The value is NumPy's, tracked or not, and operands are not written into."""
    expected = np.asarray(one.reference(*one.arrays))
    kept = [array.copy() for array in one.arrays]
    for requires_grad in (False, True):
        out = one.function(*[sg.from_numpy(array, requires_grad) for array in one.arrays])
        assert type(out) is sg.Tensor
        assert out.requires_grad is requires_grad
        assert out.shape == expected.shape
        assert out.dtype == expected.dtype
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-13, atol=1e-13)
    for array, before in zip(one.arrays, kept, strict=True):
        np.testing.assert_array_equal(array, before)


def check_float32(one: Case) -> None:
    """float32 operands give a float32 result and float32 gradients near the float64 ones."""
    narrow = [sg.tensor(array, np.float32, requires_grad=True) for array in one.arrays]
    wide = [sg.tensor(array, requires_grad=True) for array in one.arrays]
    out, precise = one.function(*narrow), one.function(*wide)
    assert out.dtype == np.float32
    seed = np.linspace(0.5, 1.5, precise.size).reshape(precise.shape)
    gradients, expected = out.backward(seed.astype(np.float32)), precise.backward(seed)
    for small, large in zip(narrow, wide, strict=True):
        if large not in expected:
            assert small not in gradients
            continue
        assert gradients[small].dtype == np.float32
        scale = max(1.0, np.abs(expected[large]).max(initial=0))
        np.testing.assert_allclose(gradients[small], expected[large], rtol=2e-2, atol=2e-3 * scale)


def _layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    """The same values in other memory layouts."""
    spaced = np.zeros((*array.shape[:-1], 2 * array.shape[-1])) if array.ndim else np.zeros(())
    backwards = array[..., ::-1].copy()[..., ::-1] if array.ndim else array.copy()
    if array.ndim:
        spaced[..., ::2] = array
        spaced = spaced[..., ::2]
    else:
        spaced = array.copy()
    constant = array.copy()
    constant.flags.writeable = False
    return {
        "Fortran order": np.array(array, order="F"),
        "every other element": spaced,
        "negative strides": backwards,
        "read-only": constant,
        "swapped bytes": array.astype(array.dtype.newbyteorder()),
    }


def check_layouts(one: Case) -> None:
    """Value and gradients do not depend on the operands' memory layout, nor can it be seen."""
    expected, wanted = _value_and_gradients(one, one.arrays)
    for layout in _layouts(one.arrays[0]):
        arrays = [_layouts(array)[layout] for array in one.arrays]
        value, gradients = _value_and_gradients(one, arrays)
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9, err_msg=layout)
        for got, want in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9, err_msg=layout)


def _value_and_gradients(one: Case, arrays: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    leaves = [sg.from_numpy(array, requires_grad=True) for array in arrays]
    out = one.function(*leaves)
    gradients = out.backward(np.linspace(0.5, 1.5, out.size).reshape(out.shape))
    results = []
    for leaf, array in zip(leaves, arrays, strict=True):
        gradient = gradients.get(leaf, np.zeros(array.shape, array.dtype))
        assert gradient.dtype == array.dtype
        assert gradient.flags.c_contiguous
        assert gradient.flags.writeable
        assert not np.may_share_memory(gradient, out._array)
        assert not any(np.shares_memory(gradient, other) for other in (*arrays, *results))
        results.append(gradient)
    return out.numpy(), results
