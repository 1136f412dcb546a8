"""What the commands print and write with."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from sweepgrad.errors import SettingError


def count(text: str) -> int:
    """An argparse type: a whole number of at least 1; underscores are allowed.

    Raises:
        argparse.ArgumentTypeError: otherwise.
    """
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return value


def takes_unicode() -> bool:
    """True when standard output can show block characters."""
    try:
        "█▁".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def check_writable(path: str | None) -> None:
    """Refuse an output file now rather than after the work is done.

    Raises:
        SettingError: if the file's directory does not exist or is not writable.
    """
    if path is None:
        return
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory) or not os.access(directory, os.W_OK) or os.path.isdir(path):
        raise SettingError(f"{path} cannot be written; give a file in a directory that exists")


def write_json(path: str | None, figures: dict[str, Any]) -> None:
    """Write figures as JSON, if a file was asked for."""
    if path is None:
        return
    with open(path, "w", encoding="utf-8") as file:
        json.dump(figures, file, indent=2)
        file.write("\n")
    print(f"figures written to {path}")


def verdict(failures: list[str]) -> int:
    """Print whether every promise held; the exit code."""
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    if not failures:
        print("ok: every promise held")
    return 1 if failures else 0
