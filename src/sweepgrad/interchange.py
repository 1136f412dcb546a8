"""Taking memory from other libraries by DLPack, and giving it to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweepgrad.errors import TensorTypeError
from sweepgrad.tensor import Tensor, from_numpy


def from_dlpack(
    x: Any, /, *, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor on the memory of another library's array, by ``__dlpack__``.

    Shares memory unless ``copy=True``; then, as with :func:`from_numpy`, do not write
    into it while a graph that uses the tensor is alive.

    Args:
        x: anything with ``__dlpack__`` in the memory of the processor.
        device: "cpu" or None.
        copy: True for a copy, False to refuse one, None as the other library can.
        requires_grad: make it a leaf.

    Thread safety: any thread.

    Raises:
        TensorTypeError: for a tracked tensor, whose gradient would be lost.
        DtypeError: for dtypes that a tensor cannot have.
        BufferError: from NumPy, for memory that it cannot reach.
    """
    array = np.from_dlpack(x, device=device, copy=copy)
    return from_numpy(np.asarray(array), requires_grad)


def dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """``Tensor.__dlpack__``: a read-only view where the consumer knows of such, else a copy.

    Raises:
        TensorTypeError: for a tracked tensor.
    """
    if self._node is not None:
        raise TensorTypeError(
            "a tracked tensor is not handed to another library silently, because its gradient "
            "would be lost; pass t.detach(), and put the operation into a sweepgrad.Function if "
            "gradients should flow"
        )
    given = {"stream": stream, "dl_device": dl_device}
    if max_version is not None and max_version[0] >= 1:
        return self.numpy().__dlpack__(max_version=max_version, copy=copy, **given)
    if copy is False:
        raise BufferError(
            "a tensor's memory is read-only, which DLPack before version 1 cannot say; let it be "
            "copied (copy=None)"
        )
    return self._array.copy().__dlpack__(max_version=max_version, **given)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """``Tensor.__dlpack_device__``: the memory of the processor."""
    return self._array.__dlpack_device__()
