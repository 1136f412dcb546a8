"""Bridges to other libraries; each needs its extra, and is imported by its own name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["autograd"]


def __getattr__(name: str) -> Any:
    """Import a bridge when it is first used."""
    if name == "autograd":
        return import_module("sweepgrad.bridge.autograd")
    raise AttributeError(f"module 'sweepgrad.bridge' has no attribute {name!r}")
