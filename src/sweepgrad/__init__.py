"""sweepgrad: reverse-mode autodiff for NumPy that many threads may use at once.

See README.md for the promise, docs/ for the reasons.
"""

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

from sweepgrad import interpreter as _interpreter  # noqa: F401  # first, before NumPy  # isort: split
from sweepgrad import nn, optim
from sweepgrad.autograd import (
    Context,
    Function,
    HookHandle,
    after_backward,
    checkpoint,
    checkpoint_sequential,
    custom_vjp,
    detect_anomaly,
    gradcheck,
    gradgradcheck,
    hessian,
    hessian_vector_product,
    jacobian,
    jvp,
    once_differentiable,
)
from sweepgrad.errors import (
    AnomalyError,
    CheckpointError,
    DatasetError,
    DivergedError,
    DtypeError,
    ExplorerError,
    GradcheckError,
    GradientError,
    GraphConsumedError,
    HigherOrderError,
    InvariantError,
    LabelError,
    LockOrderError,
    NestingError,
    NoGradientError,
    NoGradientRuleError,
    NonDeterminismError,
    NotTrackedError,
    OutsideBackwardError,
    ReentrantCallError,
    RuntimeMismatchError,
    ScheduleFailure,
    SettingError,
    ShapeError,
    SubinterpreterError,
    SweepgradError,
    TensorTypeError,
)
from sweepgrad.functional import grad, value_and_grad
from sweepgrad.functions import *  # noqa: F403  # the stub beside it names each
from sweepgrad.gradients import Gradients
from sweepgrad.graph import DEFAULT as _DEFAULT
from sweepgrad.graph import (
    GraphRuntime,
    MemoryReport,
    SweepReport,
    enable_grad,
    is_recording,
    no_grad,
)
from sweepgrad.graph.inherited import note_modules as _note_modules
from sweepgrad.interchange import from_dlpack
from sweepgrad.ops.catalogue import operations
from sweepgrad.tensor import Tensor, from_numpy, tensor

__version__ = "0.1.0"

graph_cleanup = _DEFAULT.graph_cleanup
memory_report = _DEFAULT.memory_report


__all__ = [
    "AnomalyError",
    "CheckpointError",
    "Context",
    "DatasetError",
    "DivergedError",
    "DtypeError",
    "ExplorerError",
    "Function",
    "GradcheckError",
    "GradientError",
    "Gradients",
    "GraphConsumedError",
    "GraphRuntime",
    "HigherOrderError",
    "HookHandle",
    "InvariantError",
    "LabelError",
    "LockOrderError",
    "MemoryReport",
    "NestingError",
    "NoGradientError",
    "NoGradientRuleError",
    "NonDeterminismError",
    "NotTrackedError",
    "OutsideBackwardError",
    "ReentrantCallError",
    "RuntimeMismatchError",
    "ScheduleFailure",
    "SettingError",
    "ShapeError",
    "SubinterpreterError",
    "SweepReport",
    "SweepgradError",
    "Tensor",
    "TensorTypeError",
    "after_backward",
    "checkpoint",
    "checkpoint_sequential",
    "custom_vjp",
    "detect_anomaly",
    "enable_grad",
    "from_dlpack",
    "from_numpy",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph_cleanup",
    "hessian",
    "hessian_vector_product",
    "is_recording",
    "jacobian",
    "jvp",
    "memory_report",
    "nn",
    "no_grad",
    "once_differentiable",
    "operations",
    "optim",
    "tensor",
    "value_and_grad",
]
__all__.extend(operations())


def _lazy(name: str) -> _ModuleType:
    """These are imported when first used: they need an extra, or few programs need them."""
    if name in ("bridge", "explore", "numpy"):
        return _import_module(f"sweepgrad.{name}")
    raise AttributeError(f"module 'sweepgrad' has no attribute {name!r}")


if _TYPE_CHECKING:
    from sweepgrad import bridge as bridge
    from sweepgrad import explore as explore
    from sweepgrad import numpy as numpy
else:
    __getattr__ = _lazy  # a checker that saw it would take any misspelt name for a module

_note_modules()
