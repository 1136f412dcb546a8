"""The engines compared: one adapter each, so that a case is written once.

An adapter runs a case the way a user of that engine would write it for speed.
A method that the engine has no counterpart for raises :class:`UnsupportedError`.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec

from benchmarks.engines.base import Chain, Engine, Mlp, UnsupportedError

#: Name of the engine to the package that it needs; PyTorch is the one compared with.
NEEDS = {
    "sweepgrad": "sweepgrad",
    "torch": "torch",
    "autograd": "autograd",
    "mygrad": "mygrad",
    "jax": "jax",
    "numpy": "numpy",
}

__all__ = ["NEEDS", "Chain", "Engine", "Mlp", "UnsupportedError", "installed", "load"]


def installed() -> list[str]:
    """Names of the engines that can be imported here."""
    return [name for name, package in NEEDS.items() if find_spec(package) is not None]


def load(name: str) -> Engine:
    """The adapter of an engine; imports the engine."""
    engine: Engine = importlib.import_module(f"benchmarks.engines.{name}_engine").ENGINE
    return engine
