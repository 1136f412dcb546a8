"""What a machine found, and how a run of it ends: at the first finding, or when its time is up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sweepgrad.graph import ORDER


@dataclass(frozen=True)
class Finding:
    """A failure.

    Attributes:
        kind: ``hang``, ``exception``, ``invariant``, ``lock order``, ``no overlap``, or what
            the explorer calls it: ``deadlock``, ``abandoned lock``, ``livelock`` ...
        message: what went wrong, and what was run.
        operations: operations run until then.
        schedules: rounds of real threads, or schedules of the explorer, run until then.
        seconds: since the start of the machine.
    """

    kind: str
    message: str
    operations: int
    schedules: int
    seconds: float


@dataclass
class Tally:
    """What a run of a machine did."""

    examples: int = 0
    schedules: int = 0
    operations: int = 0
    #: Pairs of operations of different threads of which neither ended before the other began.
    overlaps: int = 0


class Enough(KeyboardInterrupt):
    """Ends a run of Hypothesis, which lets this through and takes anything else for a failure."""


@dataclass
class Watch:
    """Counts what a machine does, and notes what it finds."""

    tally: Tally = field(default_factory=Tally)
    seconds: float = float("inf")
    #: Seconds after which threads that have not ended hang: a round takes milliseconds.
    hang: float = 20.0
    #: Go on after a finding, so that Hypothesis shrinks it.
    shrink: bool = False
    #: What the interpreter complained of: exceptions in finalizers and threads.
    complaints: list[str] = field(default_factory=list)
    first: Finding | None = None
    last: Finding | None = None
    begun: float = field(default_factory=time.monotonic)

    def end_when_time_is_up(self) -> None:
        if self.first is None and time.monotonic() - self.begun >= self.seconds:
            raise Enough

    def note(self, kind: str, message: str) -> None:
        tally, seconds = self.tally, time.monotonic() - self.begun
        self.last = Finding(kind, message, tally.operations, tally.schedules, seconds)
        self.first = self.first or self.last

    @contextmanager
    def noting(self, program: object) -> Iterator[None]:
        """What goes wrong inside is a finding about ``program``."""
        try:
            yield
            assert not self.complaints, "\n".join(self.complaints)
            assert not ORDER.violations, "\n".join(ORDER.violations)
        except Exception as error:
            kind = "lock order" if ORDER.violations else kind_of(error)
            self.note(kind, f"{type(error).__name__}: {error}\n\nwhile running\n{program}")
            if not self.shrink:
                raise Enough from error
            raise


def kind_of(error: Exception) -> str:
    """The kind that an exception says itself, or the usual two."""
    told: str | None = getattr(error, "kind", None)
    if told is not None:
        return told
    broken = isinstance(error, AssertionError) or "InvariantError" in type(error).__name__
    return "invariant" if broken else "exception"
