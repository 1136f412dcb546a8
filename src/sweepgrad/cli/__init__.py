"""The command line: ``sweepgrad train``, ``sweepgrad hotloop``, ``sweepgrad locks``."""

from sweepgrad.cli.main import main

__all__ = ["main"]
