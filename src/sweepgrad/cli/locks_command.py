"""``sweepgrad locks``: the lock hierarchy, and it in use."""

from __future__ import annotations

import argparse
from typing import Any

from sweepgrad.cli.output import verdict
from sweepgrad.diagnostics import locks


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser's commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "locks",
        help="print the lock hierarchy and what a short exercise takes",
        description="The lock hierarchy, which operation takes what, and the orders that the "
        "checker sees in a short exercise.",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the tree, the table and the observation."""
    print("The lock hierarchy, outermost first; a lock is taken only below all locks held:\n")
    print(locks.tree())
    print("\nWhich operation takes what:\n")
    print(locks.table())
    print("\nA short exercise with the order checker on:\n")
    observation = locks.observe()
    print(locks.report(observation))
    count = len(observation.violations)
    return verdict([f"{count} locks were taken in a wrong order"] if count else [])
