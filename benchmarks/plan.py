"""How much a run measures, and with what."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks import engines

Size = TypeVar("Size", int, tuple[int, ...])

#: Names under which a free-threaded interpreter is looked for on PATH.
FREE_THREADED_NAMES = ("python3.14t", "python3.13t")
#: Environment variable that names it instead.
FREE_THREADED_VARIABLE = "SWEEPGRAD_FREE_THREADED"


@dataclass
class Plan:
    """What the command line asked for.

    Attributes:
        quick: small sizes and few rounds, the whole run in under a minute.
        collector: leave the garbage collector on in timed rounds.
        cpu_time: time with the process's own clock where one thread is timed.
        engines: names of the engines to compare.
        free_threaded: a free-threaded interpreter, or None.
    """

    quick: bool = False
    collector: bool = False
    cpu_time: bool = False
    engines: list[str] = field(default_factory=engines.installed)
    free_threaded: str | None = None

    @property
    def seconds(self) -> float:
        """Time for one interleaved measurement."""
        return 0.7 if self.quick else 6.0

    def timing(self) -> dict[str, bool]:
        """What a case hands on to ``timing.measure``."""
        return {"collector": self.collector, "cpu_time": self.cpu_time}

    def pick(self, quick: Size, full: Size) -> Size:
        """A size, or several, that depend on how much time there is."""
        return quick if self.quick else full


def find_free_threaded() -> str | None:
    """The free-threaded interpreter to use, if one is named or on PATH."""
    named = os.environ.get(FREE_THREADED_VARIABLE)
    if named:
        return named
    for name in FREE_THREADED_NAMES:
        found = shutil.which(name)
        if found:
            return found
    return None
