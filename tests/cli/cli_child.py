"""Runs the command line in a child process, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import sweepgrad

_BLAS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def environment(**extra: str) -> dict[str, str]:
    """The environment of a user's shell: no order checker, no word about BLAS threads."""
    unset = (*_BLAS, "SWEEPGRAD_CHECK_LOCKS")
    found = {key: value for key, value in os.environ.items() if key not in unset}
    found["PYTHONPATH"] = str(Path(sweepgrad.__file__).parent.parent)
    found["PYTHONUNBUFFERED"] = "1"
    return found | extra


def command(*arguments: str) -> list[str]:
    """The command line of the child."""
    return [sys.executable, "-m", "sweepgrad", *arguments]


def sweepgrad_command(
    *arguments: str, limit: float = 50.0, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run ``sweepgrad ARGUMENTS`` and return its exit code and output."""
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
        env=environment(**extra),
    )
