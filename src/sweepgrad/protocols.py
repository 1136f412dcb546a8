"""What Python and NumPy ask of a tensor: text, numbers, length, conversion.

A base of ``Tensor`` without fields of its own, so that a tensor is made and its
fields are read as without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweepgrad.errors import TensorTypeError

if TYPE_CHECKING:
    from sweepgrad.graph import Node


class Protocols:
    """Special methods that look at a tensor's value alone."""

    __slots__ = ()

    if TYPE_CHECKING:
        _array: NDArray[Any]
        _node: Node | None

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> np.dtype[Any]: ...
        def item(self) -> Any: ...
        def numpy(self) -> NDArray[Any]: ...

    def __repr__(self) -> str:
        text = np.array2string(self._array, separator=", ", prefix="tensor(", threshold=200)
        parts = [text, f"dtype={self.dtype}"]
        if self._node is not None:
            rule = self._node.rule
            if self._node.graph is None:
                parts.append("requires_grad=True")
            else:
                parts.append(f"from={rule.name if rule is not None else 'a consumed graph'}")
        return f"tensor({', '.join(parts)})"

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        return format(self.item(), spec)

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TensorTypeError("len() of a tensor without axes; it holds one value: use item()")
        return len(self._array)

    def __bool__(self) -> bool:
        if self._array.size != 1:
            raise TensorTypeError(
                f"the truth value of a tensor of shape {self.shape} is ambiguous; "
                "use .numpy().any() or .numpy().all()"
            )
        return bool(self._array.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        return int(self._array.__index__())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if self._node is not None:
            raise TensorTypeError(
                "a tracked tensor is not converted to an ndarray silently, because its gradient "
                "would be lost; use .numpy() for a read-only view, or .detach() for a constant"
            )
        if copy or (dtype is not None and np.dtype(dtype) != self._array.dtype):
            if copy is False:
                raise ValueError(
                    f"no view of dtype {dtype} on a tensor of dtype {self.dtype}; use copy=True"
                )
            return np.array(self._array, dtype=dtype)
        return self.numpy()

    def __setitem__(self, index: object, value: object) -> NoReturn:
        raise TensorTypeError(
            "a tensor is not written into, because its value may be saved for a backward; "
            "use t.at[index].set(new), sweepgrad.where(mask, new, t) or, for a parameter, "
            "t.assign(new)"
        )
