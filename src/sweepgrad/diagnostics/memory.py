"""Resident memory of this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

_ROLLUP = "/proc/self/smaps_rollup"
_STATM = "/proc/self/statm"


def _from_rollup() -> int:
    with open(_ROLLUP, "rb") as file:
        for line in file:
            if line.startswith(b"Rss:"):
                return int(line.split()[1]) * 1024
    raise OSError(f"{_ROLLUP} has no line Rss:")


def _from_statm() -> int:
    import resource

    with open(_STATM, "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _from_getrusage() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _unknown() -> int:
    return 0


def _choose() -> tuple[str, Callable[[], int]]:
    # The roll-up first: it counts pages when asked.  The kernel may keep the figure in
    # statm per processor or per thread and be off by 256 kB for each of them, which is
    # more than the growth that the hot loop is allowed.
    sources: tuple[tuple[str, Callable[[], int]], ...] = (
        (_ROLLUP, _from_rollup),
        (_STATM, _from_statm),
        ("getrusage, the peak so far", _from_getrusage),
    )
    for name, read in sources:
        try:
            if read() > 0:
                return name, read
        except (OSError, ImportError, ValueError, IndexError):
            continue
    return "nothing: this system does not tell", _unknown


#: Where the figure comes from, for reports.
RESIDENT_SOURCE, _read = _choose()


def resident_bytes() -> int:
    """Bytes of this process that are in memory now; 0 where the system does not tell.

    Without ``/proc`` it is the peak so far, which never falls.  Thread safety: any thread.
    """
    return _read()
