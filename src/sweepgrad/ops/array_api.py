"""What the Array API standard asks of the array object besides NumPy's methods.

The namespace itself is :mod:`sweepgrad.numpy`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from sweepgrad.errors import SettingError
from sweepgrad.interchange import dlpack, dlpack_device
from sweepgrad.tensor import Tensor, untracked

#: The version of the standard that the namespace follows.
VERSION = "2024.12"


def namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """``Tensor.__array_namespace__``: :mod:`sweepgrad.numpy`.

    Raises:
        SettingError: for a version of the standard other than those it follows.
    """
    known = ("2021.12", "2022.12", "2023.12", VERSION)
    if api_version is not None and api_version not in known:
        raise SettingError(
            f"sweepgrad.numpy follows the versions {', '.join(known)} of the Array API standard, "
            f"got {api_version!r}"
        )
    return importlib.import_module("sweepgrad.numpy")


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor itself: there is one device, "cpu".

    Raises:
        SettingError: for another.
    """
    if device != "cpu" or stream is not None:
        raise SettingError(f'tensors live in NumPy\'s memory, device "cpu"; got {device!r}')
    return self


def _bits(name: str, function: np.ufunc, reflected: bool = False) -> Callable[..., Any]:
    """An operator on integers or booleans, which have no gradient."""

    def operator(self: Tensor, other: Any) -> Tensor:
        value = other._array if type(other) is Tensor else other
        pair = (value, self._array) if reflected else (self._array, value)
        return untracked(np.asarray(function(*pair)))

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"``numpy.{function.__name__}`` of integers or booleans."
    return operator


def _invert(self: Tensor) -> Tensor:
    """``numpy.invert`` of integers or booleans."""
    return untracked(np.asarray(np.invert(self._array)))


METHODS: dict[str, Any] = {
    "__array_namespace__": namespace,
    "__dlpack__": dlpack,
    "__dlpack_device__": dlpack_device,
    "__invert__": _invert,
    "device": property(lambda self: "cpu", doc='Where the value lives: "cpu".'),
    "to_device": to_device,
}
for _name, _function in (
    ("and", np.bitwise_and),
    ("or", np.bitwise_or),
    ("xor", np.bitwise_xor),
    ("lshift", np.left_shift),
    ("rshift", np.right_shift),
):
    METHODS[f"__{_name}__"] = _bits(f"__{_name}__", _function)
    METHODS[f"__r{_name}__"] = _bits(f"__r{_name}__", _function, True)

NUMPY: dict[Any, Any] = {}

PUBLIC: dict[str, Any] = {}
