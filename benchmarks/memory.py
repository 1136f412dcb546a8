"""Resident memory of this process, in bytes."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_memory() -> int:
    """Bytes resident now; where /proc is missing, the peak so far."""
    return _status("VmRSS:")


def peak_memory() -> int:
    """Most bytes resident since the last ``reset_peak_memory``, or since the start."""
    return _status("VmHWM:")


def reset_peak_memory() -> None:
    """Start a new peak, where the system can (Linux); elsewhere the old one stays."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _status(field: str) -> int:
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
