"""The state of the machine and the versions of everything measured."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = {
    "numpy": "numpy",
    "torch": "torch",
    "autograd": "autograd",
    "mygrad": "mygrad",
    "jax": "jax",
}


def describe() -> dict[str, Any]:
    """Everything a reader needs to judge or repeat the figures."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "cores allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "frequency governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load before": load_average(),
        "system": platform.platform(),
        "python": python_build(),
        "blas": _blas(),
        "arithmetic threads": 1,
        "versions": {"sweepgrad": _sweepgrad_version(), **versions()},
    }


def load_average() -> list[float] | None:
    """Mean number of running threads over 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None


def python_build() -> dict[str, Any]:
    """Version and build flags of this interpreter; without PGO and LTO it is markedly slower."""
    arguments = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    flags = str(sysconfig.get_config_var("PY_CFLAGS") or "")
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "compiler": platform.python_compiler(),
        "optimised with PGO": "--enable-optimizations" in arguments or "-fprofile-use" in flags,
        "LTO": "--with-lto" in arguments or "-flto" in flags,
        "shared library": "--enable-shared" in arguments,
        "free-threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "GIL enabled": gil_enabled(),
    }


def gil_enabled() -> bool:
    """True when the interpreter runs with the GIL just now."""
    ask = getattr(sys, "_is_gil_enabled", None)
    return True if ask is None else bool(ask())


def versions() -> dict[str, str | None]:
    """Version of each package by name; None when it is not installed."""
    found: dict[str, str | None] = {}
    for name, package in PACKAGES.items():
        try:
            found[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _sweepgrad_version() -> str:
    import sweepgrad

    revision = ""
    root = Path(__file__).resolve().parents[1]
    if (root / ".git").exists():
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        revision = f" ({asked.stdout.strip()})" if asked.returncode == 0 else ""
    return f"{sweepgrad.__version__}{revision}"


def _cpu() -> str:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _blas() -> str:
    import numpy as np

    found: Any = np.show_config(mode="dicts")
    blas = found.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
