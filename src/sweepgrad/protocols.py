"""What Python and NumPy ask of a tensor: text, numbers, length, conversion.

A base of ``Tensor`` without fields of its own, so that a tensor is made and its
fields are read as without it.
"""

from __future__ import annotations

import sys
from opcode import opmap
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweepgrad.errors import TensorTypeError

if TYPE_CHECKING:
    from sweepgrad.graph import Node


#: Python's instruction for ``a[i] = value``.
_STORE = opmap["STORE_SUBSCR"]

#: What a tensor has not that an ndarray has, and what to write instead.
_INSTEAD = {
    "sort": "it would sort in place; np.sort(t) gives a new tensor",
    "partition": "it would sort in place; np.partition(t, kth) gives a new tensor",
    "fill": "it would write into the tensor; np.full_like(t, value) gives a new one",
    "put": "it would write into the tensor; sweepgrad.put(t, indices, values) gives a new one",
    "resize": "it would change the tensor; np.resize(t, shape) gives a new one",
    "setflags": "a tensor is never written into; its .numpy() is read-only",
    "itemset": "a tensor is not written into; t.at[index].set(value) gives a new one",
    "choose": "np.choose(indices, [t, u]) is the function",
    "flat": "np.ravel(t) has all elements, with gradients",
    "view": "t.astype(dtype) converts, and t.numpy().view(dtype) reads the bytes anew",
    **dict.fromkeys(
        ("base", "ctypes", "data", "dump", "dumps", "flags", "itemsize", "strides", "tobytes",
         "tofile"),
        "it is about memory: t.numpy() is the read-only ndarray",
    ),
}  # fmt: skip


class _Missing:
    """An attribute that says what to write instead.

    Rejected: ``__getattr__``, which NumPy runs twice in each conversion of a tensor.
    """

    def __init__(self, name: str, instead: str) -> None:
        self._text = f"'Tensor' object has no attribute {name!r}: {instead}"

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(self._text)


def _refuse_storing(caller: Any) -> None:
    """Refuse ``a[i] = t``, for which NumPy asks for a float and the gradient would be lost.

    Rejected: refusing every ``float(t)``.  It says what it does, and a loss is printed so.
    NumPy's call cannot be told from it but by the instruction that the caller is at.

    Raises:
        TensorTypeError: if the caller is at an assignment to an element.
    """
    if caller.f_code.co_code[caller.f_lasti] == _STORE:
        raise TensorTypeError(
            "an element of an array is set to a tracked tensor, and the array would hold its "
            "number without its gradient; collect tensors in a list and join them with "
            "np.stack([...]), or store t.item() if no gradient should flow"
        )


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
        if self._node is not None:
            _refuse_storing(sys._getframe(1))
        return float(self.item())

    def __int__(self) -> int:
        if self._node is not None:
            _refuse_storing(sys._getframe(1))
        return int(self.item())

    def __complex__(self) -> complex:
        if self._node is not None:
            _refuse_storing(sys._getframe(1))
        return complex(self.item())

    def __index__(self) -> int:
        return int(self._array.__index__())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if self._node is not None:
            raise TensorTypeError(
                "a tracked tensor is not converted to an ndarray silently, because its gradient "
                "would be lost; join tensors with np.stack([...]) or np.concatenate([...]), use "
                ".numpy() for a read-only view, or .detach() for a constant"
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


for _name, _instead in _INSTEAD.items():
    setattr(Protocols, _name, _Missing(_name, _instead))
