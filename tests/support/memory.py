"""Resident memory and live blocks of this process."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path


def resident_bytes() -> int:
    """Resident memory now; needs Linux's /proc."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def live_blocks() -> int:
    """Blocks that Python's allocator has given out, after a collection."""
    gc.collect()
    return sys.getallocatedblocks()
