"""The graph runtime: nodes, graphs, sweeps and backward.  The only package that takes locks.

Knows nothing of tensors or NumPy: a *handle* is any object that can be weakly
referenced, a gradient anything that can be added.
"""

from sweepgrad.graph.engine import backward
from sweepgrad.graph.hierarchy import HIERARCHY, OPERATIONS, ORDER, Rank, check_locks
from sweepgrad.graph.node import ANSWER, Node, Rule
from sweepgrad.graph.recording import enable_grad, is_recording, no_grad
from sweepgrad.graph.register import register_many, register_one, register_two
from sweepgrad.graph.running import RegionRequest, Request
from sweepgrad.graph.runtime import DEFAULT, GraphRuntime, MemoryReport
from sweepgrad.graph.sweeper import SweepReport

__all__ = [
    "ANSWER",
    "DEFAULT",
    "HIERARCHY",
    "OPERATIONS",
    "ORDER",
    "GraphRuntime",
    "MemoryReport",
    "Node",
    "Rank",
    "RegionRequest",
    "Request",
    "Rule",
    "SweepReport",
    "backward",
    "check_locks",
    "enable_grad",
    "is_recording",
    "no_grad",
    "register_many",
    "register_one",
    "register_two",
]
