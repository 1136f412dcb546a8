"""The parser, and what all commands share: errors, Ctrl-C, exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import sweepgrad
from sweepgrad.cli import explore_command, hotloop_command, locks_command, train_command
from sweepgrad.cli.blas import restart_with_one_blas_thread
from sweepgrad.errors import SweepgradError

#: The command did what it promises; a promise did not hold; wrong usage; Ctrl-C.
OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

_EXAMPLES = """\
examples:
  sweepgrad train                                   train on the digits, one thread per core
  sweepgrad train --mode hogwild --threads 4        four threads, one model, no waiting
  sweepgrad train --json figures.json               keep the figures
  sweepgrad hotloop --rounds 1_000_000              create, drop, watch the memory
  sweepgrad hotloop --op --threads 4 --plot m.png   with operations, in threads, as a picture
  sweepgrad hotloop --rounds 100_000 --hold         what only a sweep can free
  sweepgrad locks                                   the lock hierarchy, and it in use

exit codes: 0 all promises held, 1 one did not or an error stopped the command,
2 wrong usage, 130 stopped with Ctrl-C
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="sweepgrad",
        description="Reverse-mode autodiff for NumPy that many threads may use at once.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sweepgrad {sweepgrad.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (train_command, hotloop_command, locks_command, explore_command):
        command = module.add_parser(commands)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: the arguments; by default the program's own.  Only then may
            ``train`` start the program again with other settings for NumPy's
            BLAS (see :mod:`sweepgrad.cli.blas`).
    """
    options = build_parser().parse_args(argv)
    if argv is None and options.command == "train":
        restart_with_one_blas_thread()
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        print("stopped with Ctrl-C", file=sys.stderr)
        return INTERRUPTED
    except (SweepgradError, OSError) as error:
        print(f"sweepgrad {options.command}: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            print(f"  {note}", file=sys.stderr)
        return FAILED
