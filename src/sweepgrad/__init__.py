"""sweepgrad: reverse-mode autodiff for NumPy that many threads may use at once.

See README.md for the promise, docs/ for the reasons.
"""

from sweepgrad.errors import (
    DatasetError,
    DtypeError,
    GradientError,
    GraphConsumedError,
    InvariantError,
    LockOrderError,
    NoGradientError,
    NoGradientRuleError,
    NotTrackedError,
    ReentrantCallError,
    RuntimeMismatchError,
    SettingError,
    ShapeError,
    SweepgradError,
    TensorTypeError,
)
from sweepgrad.gradients import Gradients, grad, value_and_grad
from sweepgrad.graph import (
    DEFAULT,
    GraphRuntime,
    MemoryReport,
    SweepReport,
    enable_grad,
    is_recording,
    no_grad,
)
from sweepgrad.ops.install import public_operations
from sweepgrad.tensor import Tensor, from_numpy, tensor

__version__ = "0.1.0"

graph_cleanup = DEFAULT.graph_cleanup
memory_report = DEFAULT.memory_report


def operations() -> list[str]:
    """The names of the operations in this namespace, sorted."""
    return sorted(public_operations())


globals().update(public_operations())

__all__ = [
    "DatasetError",
    "DtypeError",
    "GradientError",
    "Gradients",
    "GraphConsumedError",
    "GraphRuntime",
    "InvariantError",
    "LockOrderError",
    "MemoryReport",
    "NoGradientError",
    "NoGradientRuleError",
    "NotTrackedError",
    "ReentrantCallError",
    "RuntimeMismatchError",
    "SettingError",
    "ShapeError",
    "SweepReport",
    "SweepgradError",
    "Tensor",
    "TensorTypeError",
    "enable_grad",
    "from_numpy",
    "grad",
    "graph_cleanup",
    "is_recording",
    "memory_report",
    "no_grad",
    "operations",
    "tensor",
    "value_and_grad",
]
__all__.extend(operations())
