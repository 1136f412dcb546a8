"""User code in the backward pass: custom operations, hooks, recomputation, higher order.

Importing this package installs the hook methods of ``Tensor``.
"""

from sweepgrad.autograd.anomaly import detect_anomaly
from sweepgrad.autograd.checking import gradcheck, gradgradcheck
from sweepgrad.autograd.checkpointing import checkpoint, checkpoint_sequential
from sweepgrad.autograd.function import Context, Function, once_differentiable
from sweepgrad.autograd.higher_order import hessian, hessian_vector_product, jacobian, jvp
from sweepgrad.autograd.hooks import HookHandle
from sweepgrad.autograd.vjp import custom_vjp
from sweepgrad.graph.watch import after_backward

__all__ = [
    "Context",
    "Function",
    "HookHandle",
    "after_backward",
    "checkpoint",
    "checkpoint_sequential",
    "custom_vjp",
    "detect_anomaly",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "hessian_vector_product",
    "jacobian",
    "jvp",
    "once_differentiable",
]
