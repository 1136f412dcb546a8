"""The Array API standard (2024.12) on tensors: what ``t.__array_namespace__()`` gives.

Functions are NumPy's, called on tensors, so that gradients flow through those that
have one; every array they give is a tensor, also one of booleans or integers.
docs/array-api.md says where the standard and this namespace part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as _np

from sweepgrad import interchange as _interchange
from sweepgrad.numpy import creation as _creation
from sweepgrad.numpy import fft as fft
from sweepgrad.numpy import info as _info
from sweepgrad.numpy import linalg as linalg
from sweepgrad.numpy import search as _search
from sweepgrad.numpy.results import wrapped as _wrapped
from sweepgrad.ops.array_api import VERSION
from sweepgrad.ops.elementwise import clip as _clip
from sweepgrad.tensor import Tensor, tensor

__array_api_version__ = VERSION

_ELEMENTWISE = """abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil conj copysign cos cosh divide equal
exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal
log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum
multiply negative nextafter not_equal positive pow real reciprocal remainder round sign signbit sin
sinh square sqrt subtract tan tanh trunc""".split()

_OTHERS = """broadcast_to concat expand_dims flip matrix_transpose moveaxis
permute_dims repeat reshape roll squeeze stack tile unstack tensordot matmul vecdot tril
triu argmax argmin count_nonzero where all any diff cumulative_prod cumulative_sum max mean min
prod std sum var take take_along_axis""".split()

_LIKE = "empty_like ones_like zeros_like full_like".split()

_CONSTANTS = """complex64 complex128 e float32 float64 iinfo inf int8 int16 int32 int64 isdtype nan
newaxis pi uint8 uint16 uint32 uint64""".split()

#: Where the functions with arguments of their own are.
_ELSEWHERE = {
    _creation: "arange empty eye full linspace ones zeros".split(),
    _search: """argsort nonzero searchsorted sort unique_all unique_counts unique_inverse
    unique_values""".split(),
    _info: ["__array_namespace_info__", "finfo"],
    _interchange: ["from_dlpack"],
    _np: _CONSTANTS,
}

globals()["bool"] = _np.bool_
for _module, _names in _ELSEWHERE.items():
    globals().update({_name: getattr(_module, _name) for _name in _names})
for _name in (*_ELEMENTWISE, *_OTHERS, *_LIKE):
    globals()[_name] = _wrapped(getattr(_np, _name), _name)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Tensor:
    """A tensor of ``obj``; a tensor of the dtype asked for is given back as it is.

    A tracked tensor stays tracked, and a copy of it is the identity in the graph.
    """
    if type(obj) is Tensor:
        result = obj if dtype is None or obj.dtype == dtype else obj.astype(dtype)
        if copy is False and result is not obj:
            raise ValueError(f"no view of dtype {dtype} on a tensor of dtype {obj.dtype}")
        return result.copy() if copy and result is obj else result
    if copy is False:
        return _interchange.from_dlpack(_np.asarray(obj, dtype=dtype, device=device, copy=False))
    return tensor(_listed(obj), dtype)


def _listed(obj: Any) -> Any:
    """Tensors inside nested lists as arrays; a tracked one is refused by ``__array__``."""
    if isinstance(obj, (list, tuple)):
        return [_listed(item) for item in obj]
    return _np.asarray(obj)[()] if type(obj) is Tensor else obj


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The tensors stretched to one shape."""
    return list(_np.broadcast_arrays(*arrays))  # type: ignore[arg-type]


def meshgrid(*arrays: Tensor, indexing: Any = "xy") -> list[Tensor]:
    """Coordinate matrices of coordinate vectors."""
    return list(_np.meshgrid(*arrays, indexing=indexing))  # type: ignore[arg-type]


def astype(x: Tensor, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Tensor:
    """``x`` in another dtype; gradients are converted back."""
    if x.dtype == dtype and not copy:
        return x
    return x.astype(dtype)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """``x`` limited to [min, max]."""
    result = x if min is None and max is None else _clip(x, min, max)
    return result if result.dtype == x.dtype else result.astype(x.dtype)


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether a dtype, or a tensor's, converts to another by the standard's promotion."""
    return _np.can_cast(from_.dtype if type(from_) is Tensor else from_, to)


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype of an operation on these."""
    return _np.result_type(*[x.numpy() if type(x) is Tensor else x for x in arrays_and_dtypes])


__all__ = sorted(  # noqa: PLE0605  # a list, which the rule cannot see
    [
        *(*_ELEMENTWISE, *_OTHERS, *_LIKE),
        *(name for names in _ELSEWHERE.values() for name in names),
        *"asarray astype bool broadcast_arrays can_cast clip fft linalg meshgrid".split(),
        *["result_type", "__array_api_version__"],
    ]
)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The functions above are made in a loop, which type checkers cannot see."""
