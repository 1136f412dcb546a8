"""Layers: functions of tensors that own parameters.

A layer is called with a tensor and lists its parameters in ``parameters()``.
Parameters are leaves, replaced and never written into, so that any number of
threads may call one layer while others train it.
"""

from sweepgrad.nn.layers import Layer, Linear, Sequential, mlp

__all__ = ["Layer", "Linear", "Sequential", "mlp"]
