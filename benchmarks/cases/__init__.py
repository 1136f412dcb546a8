"""The cases, by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.cases import (
    chain,
    counts,
    dispatch,
    explorer,
    memory,
    mlp,
    operations,
    sweeping,
    threads,
)
from benchmarks.plan import Plan
from benchmarks.results import CaseResult

Case = Callable[[Plan], CaseResult]

CASES: dict[str, Case] = {
    "counts": counts.executed,
    "multiply": operations.multiply_chain,
    "tanh": operations.tanh_chain,
    "dispatch": dispatch.through_numpy,
    "leaf": operations.leaf,
    "leaf-operation": operations.leaf_operation,
    "mlp": mlp.step,
    "chain": chain.million,
    "sweep-garbage": sweeping.against_garbage,
    "sweep-live": sweeping.against_live,
    "sweep-wait": sweeping.longest_wait,
    "threads": threads.two_over_one,
    "hogwild": threads.hogwild,
    "memory": memory.create_and_drop,
    "explorer": explorer.beside_frontrun,
}
