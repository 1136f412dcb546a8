"""Report: what was covered, and a failure as a table to read and a token to replay."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sweepgrad.explore.notes import Note, Stack, Waiting

_HEADINGS = {
    "exception": "an exception",
    "invariant": "a broken invariant",
    "deadlock": "a deadlock",
    "lost wake-up": "a lost wake-up",
    "abandoned lock": "a lock that its holder never released",
    "livelock": "a livelock (or a run longer than the step bound)",
}


@dataclass(frozen=True)
class Failure:
    """A schedule under which the program fails.

    Attributes:
        kind: ``exception``, ``invariant``, ``deadlock``, ``lost wake-up``,
            ``abandoned lock`` or ``livelock``.
        message: what went wrong.
        thread: the thread in which it went wrong, or None.
        token: replays the schedule; see ``replay``.
        threads: names of threads and events, by index.
        steps: each step made, in order.
        waiting: who waits for what, where a run got stuck.
        details: the traceback, if there is one.
        cycle: the threads of a deadlock, each waiting for the next.
    """

    kind: str
    message: str
    thread: str | None
    token: str
    threads: list[str]
    steps: list[Note]
    waiting: list[Waiting]
    details: str
    cycle: list[str]
    scenario: str

    def table(self, full: bool = False) -> str:
        """The schedule, a column for each thread; ``full`` leaves no step out."""
        return schedule_table(self.threads, self.steps, full)

    def __str__(self) -> str:
        parts = [f"{_HEADINGS[self.kind]} after {len(self.steps)} steps: {self.message}", ""]
        parts += [self.table(), ""]
        for entry in self.waiting:
            parts += _waiting_lines(entry)
        if self.waiting:
            parts.append("")
        if self.details:
            parts += [self.details.rstrip(), ""]
        parts += [
            f"token: {self.token}",
            f'replay: sweepgrad.explore.replay({self.scenario.split(":")[-1]}, "{self.token}")',
            f"    or: python -m sweepgrad explore {self.scenario} --replay {self.token}",
        ]
        return "\n".join(parts)


@dataclass(frozen=True)
class Report:
    """What an exploration covered.

    Attributes:
        scenario: its name.
        policy: the policy's own description.
        threads: names of the threads and events met.
        schedules: complete runs, the failing one included.
        pruned: runs given up because an equal one had been made.
        steps: steps of the longest run.
        total_steps: steps of all runs.
        preemptions: the bound, or None.
        exhausted: True when every schedule within the bounds was run or was
            redundant: nothing is left to try.
        seconds: wall-clock time.
        failures: how many runs failed.
        failure: the first failure, or None.
    """

    scenario: str
    policy: str
    threads: list[str]
    schedules: int
    pruned: int
    steps: int
    total_steps: int
    preemptions: int | None
    exhausted: bool
    seconds: float
    failures: int
    failure: Failure | None

    @property
    def per_second(self) -> float:
        """Runs per second, pruned ones included."""
        return (self.schedules + self.pruned) / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        done = "exhausted" if self.exhausted else "not exhausted"
        lines = [
            f"{self.scenario}: {self.policy}",
            f"{len(self.threads)} threads and events ({', '.join(self.threads)}), "
            f"up to {self.steps} steps",
            f"{self.schedules} schedules run, {self.pruned} pruned, {done}; "
            f"{self.seconds:.2f} s, {self.per_second:,.0f} schedules a second",
            f"{self.failures} failing schedules" if self.failures else "no failing schedule",
        ]
        if self.failure is not None:
            lines += ["", str(self.failure)]
        return "\n".join(lines)


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

#: Steps that are shown whatever they are, and on each side of a switch in longer runs.
_KEEP = 60
_EDGE = 3


def schedule_table(threads: list[str], steps: list[Note], full: bool = False) -> str:
    """A row for each step, a column for each thread."""
    active = sorted({note.thread for note in steps})
    shown = range(len(steps)) if full or len(steps) <= _KEEP else _around_switches(steps)
    cells = {number: _cell(steps[number]) for number in shown}
    widths = {
        index: max(
            [len(threads[index])]
            + [len(text) for number, text in cells.items() if steps[number].thread == index]
        )
        for index in active
    }
    lines = [_row("step", active, widths, {index: threads[index] for index in active})]
    lines.append(_row("----", active, widths, {index: "-" * widths[index] for index in active}))
    before = -1
    for number in shown:
        if number != before + 1:
            lines.append(f"{'...':>5}  {number - before - 1} more steps of the same thread")
        lines.append(_row(str(number), active, widths, {steps[number].thread: cells[number]}))
        before = number
    return "\n".join(lines)


def _around_switches(steps: list[Note]) -> list[int]:
    """The steps next to a change of thread, and the first and last ones."""
    switches = [0, len(steps)] + [
        number
        for number in range(1, len(steps))
        if steps[number].thread != steps[number - 1].thread
    ]
    kept: set[int] = set()
    for switch in switches:
        kept.update(range(max(0, switch - _EDGE), min(len(steps), switch + _EDGE)))
    return sorted(kept)


def _row(first: str, active: list[int], widths: dict[int, int], cells: dict[int, str]) -> str:
    return "  ".join(
        [f"{first:>5}"] + [f"{cells.get(index, ''):<{widths[index]}}" for index in active]
    ).rstrip()


def _cell(note: Note) -> str:
    text = f"{note.kind} {note.what}".rstrip()
    places = _places(note.stack)
    return f"{text}  {' < '.join(places)}" if places else text


def _places(stack: Stack) -> list[str]:
    """The line of the step and, when that is sweepgrad's own, the program's line that led to it."""
    if not stack:
        return []
    found = stack[:1]
    if stack[0][0].startswith(_PACKAGE):
        found += [entry for entry in stack if not entry[0].startswith(_PACKAGE)][:1]
    return [f"{os.path.basename(file)}:{line}" for file, line, _ in found]


def _waiting_lines(entry: Waiting) -> list[str]:
    held = f", held by {entry.owner}" if entry.owner is not None else ""
    if entry.owner_ended:
        held += " (which has ended)"
    lines = [f"{entry.thread} waits for {entry.what}{held}"]
    lines += ["  waited for:", *_stack_lines(entry.waits_at)]
    if entry.taken_at:
        lines += ["  taken by its holder:", *_stack_lines(entry.taken_at)]
    return lines


def _stack_lines(stack: Stack) -> list[str]:
    return [f"    {file}:{line} in {function}" for file, line, function in stack[:6]]
