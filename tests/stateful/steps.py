"""Steps: what a thread may do, as Hypothesis draws it.

A step is drawn with plain numbers and means something only beside a graph: operand 3
is the fourth-newest handle that the program has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: What a step may be, simple ones first: Hypothesis shrinks towards the front.
KINDS = (
    "scale",
    "add",
    "drop",
    "multiply",
    "backward",
    "cleanup",
    "create",
    "subtract",
    "scale and drop",
    "retained",
    "report",
    "nested",
    "grad",
    "hooked",
    "cycle",
    "collect",
    "update",
)

#: How often each is drawn: what joins, drops and takes is where threads meet.
WEIGHTS = {"multiply": 3, "cleanup": 2, "drop": 3, "backward": 2, "scale": 2, "cycle": 2}

#: What user code in a rule, a hook or a finalizer does.
INNER = ("nothing", "operate", "backward", "cleanup", "report", "private")


@dataclass(frozen=True)
class Step:
    """One step: its kind, the positions of two operands, a number, and what its user code does."""

    kind: str
    a: int = 0
    b: int = 0
    number: int = 1
    inner: str = "nothing"

    def __repr__(self) -> str:
        return f"Step({self.kind!r}, {self.a}, {self.b}, {self.number}, {self.inner!r})"


Program = Sequence[Step]
