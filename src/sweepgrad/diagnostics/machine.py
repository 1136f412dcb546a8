"""The machine and the versions a figure was measured on."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

import numpy as np


def cores() -> int:
    """How many cores this process may use."""
    count = getattr(os, "process_cpu_count", None)
    if count is not None:
        return int(count() or 1)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gil_enabled() -> bool:
    """False on a free-threaded build that runs without the GIL."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    return True if enabled is None else bool(enabled())


def describe_machine() -> dict[str, Any]:
    """Versions, platform and cores, for a report."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "gil": gil_enabled(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores(),
    }
