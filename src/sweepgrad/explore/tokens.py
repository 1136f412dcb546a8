"""Tokens: a schedule as a short string.

``s1-12b.30a-9c1f02e1`` says: everybody takes default choices (the last thread
goes on, else the first that can), except that at step 12 thread b goes on and at
step 30 thread a.  The last part is a checksum of all steps made, so that a
replay that takes another way is noticed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from sweepgrad.errors import ExplorerError

_FORM = re.compile(r"s1-(none|\d+[a-zA-Z](?:\.\d+[a-zA-Z])*)-([0-9a-f]{8})")


def encode(deviations: Sequence[tuple[int, str]], trace: Sequence[tuple[int, str]]) -> str:
    """The token of a run."""
    body = ".".join(f"{step}{letter}" for step, letter in deviations) or "none"
    return f"s1-{body}-{checksum(trace)}"


def decode(token: str) -> tuple[list[tuple[int, str]], str]:
    """The deviations and the checksum that a token holds.

    Raises:
        ExplorerError: if it is no token.
    """
    found = _FORM.fullmatch(token.strip())
    if found is None:
        raise ExplorerError(
            f"{token!r} is not a schedule token; one looks like 's1-12b.30a-9c1f02e1' and is "
            "printed with each failure"
        )
    body, check = found.groups()
    if body == "none":
        return [], check
    return [(int(item[:-1]), item[-1]) for item in body.split(".")], check


def checksum(trace: Sequence[tuple[int, str]]) -> str:
    """Eight hexadecimal digits that stand for every step of a run."""
    text = ";".join(f"{index}:{kind}" for index, kind in trace)
    return f"{zlib.crc32(text.encode()):08x}"
