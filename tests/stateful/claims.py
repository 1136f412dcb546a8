"""Which outcomes of concurrent backward calls are allowed: those of some one-after-the-other order.

A backward needs its ancestors and takes some of them for itself.  It succeeds if nobody
has taken what it needs, else it is refused.  Given which calls succeeded, an order that
explains it is searched for; no order, no excuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from support.reference import Ref


@dataclass(eq=False)
class Attempt:
    """One backward call of a program: what it needs and takes, and what became of it."""

    needs: frozenset[Ref]
    takes: frozenset[Ref]
    #: Leaf or target: the gradient that it must have.
    expected: dict[Ref, int]
    #: Leaves that may have lost their last handle by then: with or without a gradient.
    optional: frozenset[Ref] = frozenset()
    #: None while it was not made (it stands in a rule whose own backward was refused).
    succeeded: bool | None = None
    start: int = 0
    end: int = 0
    #: (node, bytes) of each gradient got.
    found: list[tuple[object, bytes]] = field(default_factory=list)


def explain(programs: Sequence[Sequence[Attempt]], consumed: set[Ref]) -> list[Attempt] | None:
    """An order of the attempts that explains who succeeded, or None.

    Args:
        programs: for each thread its attempts in program order, all of them made.
        consumed: what was taken before.

    An attempt that ended before another began also comes before it.
    """
    start = (0,) * len(programs)
    seen = {start}
    #: Positions in each program, and the order that led there.
    waiting: list[tuple[tuple[int, ...], list[Attempt]]] = [(start, [])]
    while waiting:
        positions, order = waiting.pop()
        rest = [list(p[at:]) for p, at in zip(programs, positions, strict=True)]
        if not any(rest):
            return order
        taken = consumed.union(*(a.takes for a in order if a.succeeded))
        first_end = min(attempt.end for attempts in rest for attempt in attempts)
        for thread, attempts in enumerate(rest):
            if not attempts or attempts[0].start > first_end:
                continue
            attempt = attempts[0]
            after = (*positions[:thread], positions[thread] + 1, *positions[thread + 1 :])
            if attempt.succeeded == taken.isdisjoint(attempt.needs) and after not in seen:
                seen.add(after)
                waiting.append((after, [*order, attempt]))
    return None


def describe(programs: Sequence[Sequence[Attempt]], names: dict[Ref, str]) -> str:
    """The attempts as lines of text."""
    lines = []
    for thread, attempts in enumerate(programs):
        for attempt in attempts:
            verdict = "succeeded" if attempt.succeeded else "was refused"
            needs = sorted(names.get(ref, "?") for ref in attempt.needs)
            takes = sorted(names.get(ref, "?") for ref in attempt.takes)
            lines.append(
                f"thread {thread}, {attempt.start} to {attempt.end}: a backward that needs "
                f"{needs} and takes {takes} {verdict}"
            )
    return "\n".join(lines)
