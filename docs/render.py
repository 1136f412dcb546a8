"""Render the parts of the documentation that are stated in the code, and the operations' stub.

``python docs/render.py`` writes ``locks.md``, ``notes.md`` and ``functions.pyi``; ``--check`` only says whether they
are up to date, and a test runs that.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

from render_stub import stub

from sweepgrad.graph import engine, hierarchy, locator, node, register, registry, section, sweeper

HERE = Path(__file__).parent

#: Where each named note stands, in reading order.
NOTED: tuple[ModuleType, ...] = (node, registry, register, section, locator, sweeper, engine)


def yes(flag: bool) -> str:
    return "yes" if flag else "no"


def locks() -> str:
    """The lock hierarchy: tree, classes, operations."""
    doc = (inspect.getdoc(hierarchy) or "").partition("\n")[2]
    classes = "\n".join(
        f"| {entry.rank.name} | {entry.rank.value} | {entry.protects} | {entry.taken_by} "
        f"| {entry.never_under_it} |"
        for entry in hierarchy.HIERARCHY
    )
    operations = "\n".join(
        f"| {op.name} | {op.locks} | {yes(op.waits)} | {yes(op.user_code_under_them)} |"
        for op in hierarchy.OPERATIONS
    )
    return f"""# Locks

Rendered from `src/sweepgrad/graph/hierarchy.py` by `python docs/render.py`; change it there.

## The hierarchy

{doc.split("``docs/locks.md``")[0].strip()}

## The classes

| lock | rank | protects | taken by | never under it |
|---|---|---|---|---|
{classes}

## Which operation takes what

| operation | locks, in order | may wait | user code under them |
|---|---|---|---|
{operations}

## Rules

1. No user code under a lock: no gradient rule, hook, `__del__`, weakref callback, foreign `__eq__`, \
logging, warning, and no destructor of a saved value. Freed nodes go to a list under the lock and \
are taken apart outside it (`section.discard`).
2. A finalizer appends to a queue and at most *tries* a lock. Inside one of its own thread's \
critical sections it only appends, and the graph is drained when that section ends.
3. A lock is taken only at a rank above all ranks that the thread holds; equal rank only through \
`under_pair` (a merge) and `acquire_rising` (a fork), in rising serial.
4. Who found a graph without its lock looks at `forward` again after taking the lock, and follows it.
5. Lock identity is a serial number, never an address.
6. The checker is on in every test. In production `SWEEPGRAD_CHECK_LOCKS=1`, set before the import, \
switches it on; off, a lock is the plain C lock.

## Why the locks are not reentrant

A collection can start inside a critical section and run a stranger's `__del__` there. With a \
reentrant lock its call would see a half-finished change. Instead each thread knows that it is \
inside a section (`ThreadState.section`): a call that would have to wait is refused with \
`ReentrantCallError`, a drop is queued, and `graph_cleanup()` is done when the section ends.
"""


def notes() -> str:
    """The module docstrings that carry the arguments, one heading each."""
    parts = [
        "# Notes from the code",
        "",
        "Rendered from the module docstrings by `python docs/render.py`; change them there.",
        "Other files cite a note by its name, such as note [Drop].",
    ]
    for module in NOTED:
        text = inspect.getdoc(module) or ""
        title, _, body = text.partition("\n")
        parts += ["", f"## {module.__name__.rpartition('.')[2]}: {title}", "", body.strip()]
    return "\n".join(parts) + "\n"


def markdown(text: str) -> str:
    """Docstring markup as Markdown: double backquotes, roles and literal-block colons."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    text = text.replace("``", "`")
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


PAGES = {"locks.md": locks, "notes.md": notes}
STUB = HERE.parent / "src" / "sweepgrad" / "functions.pyi"


def main() -> int:
    """Write the pages and the stub, or with ``--check`` compare them; 1 when one is out of date."""
    check = "--check" in sys.argv[1:]
    texts = {HERE / name: markdown(render()) for name, render in PAGES.items()} | {STUB: stub()}
    stale = []
    for page, text in texts.items():
        if not check:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            stale.append(page.name)
    if stale:
        print(f"out of date, run python docs/render.py: {', '.join(stale)}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
