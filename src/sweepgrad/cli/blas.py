"""One BLAS thread per training thread.

``train`` brings its own threads.  NumPy's BLAS would start as many again inside
each matrix product, and they would fight for the same cores.  BLAS libraries read
how many threads they may have from the environment, once, when NumPy is
imported, which has happened by the time any code of this package runs; so the
program starts itself again with the variables set.  The rejected alternatives:
setting them in ``sweepgrad/__init__.py`` (a library does not decide that for its
host program), and calling into the loaded BLAS (each has its own entry points;
that is a dependency, threadpoolctl).

Whoever sets one of the variables has decided and is left alone.
"""

from __future__ import annotations

import os
import sys

VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def blas_threads() -> str:
    """What the environment says, for reports."""
    found = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    return ", ".join(found) or "the library's default"


def restart_with_one_blas_thread() -> None:
    """Start the program again with one BLAS thread, unless the environment says how many.

    POSIX only: elsewhere ``exec`` makes a second process and the shell does not
    wait for it; there the variables are the user's to set.
    """
    if os.name != "posix" or any(name in os.environ for name in VARIABLES):
        return
    if not sys.executable or not sys.orig_argv:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    environment = {**os.environ, **dict.fromkeys(VARIABLES, "1")}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
