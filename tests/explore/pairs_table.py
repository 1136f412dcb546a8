"""Writes docs/verification-pairs.md: what the explorer covered of every pair of operations.

``python tests/explore/pairs_table.py`` takes some minutes.  A test compares the
rows with the operations there are.
"""

import itertools
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "verification-pairs.md"
sys.path.insert(0, str(HERE.parent))

from support import worlds  # noqa: E402  # the tests' helpers are no package that is installed
from sweepgrad.explore import explore  # noqa: E402

HEAD = """# Every pair of operations, explored

Written by `python tests/explore/pairs_table.py`; the operations are those of
`tests/support/worlds.py`.
Each pair runs in two threads on a small world that both share: three graphs, two tips, two losses,
one parameter.
Every schedule with at most two preemptions was run, or is equal to one that was.
In each run the gradients, bit by bit, and the graphs left behind were those of one operation after
the other; nothing was half-done, no drop pending and no dead node kept.

| pair | schedules | given up as equal | longest run, steps | exhausted |
|---|---:|---:|---:|---|
"""


def row(pair):
    scenario = worlds.scenario_of(pair, worlds.sequential(pair))
    report = explore(scenario, preemptions=2)
    name = " ∥ ".join(action.__name__ for action in pair)
    done = "yes" if report.exhausted else "no"
    return name, report.schedules, report.pruned, report.steps, done


def main():
    pairs = itertools.combinations_with_replacement(worlds.OPERATIONS.values(), 2)
    rows = [row(pair) for pair in pairs]
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in rows]
    schedules, equal = sum(cells[1] for cells in rows), sum(cells[2] for cells in rows)
    total = f"\n{len(rows)} pairs, {schedules:,} schedules, {equal:,} given up as equal.\n"
    PAGE.write_text(HEAD + "\n".join(lines) + "\n" + total)


if __name__ == "__main__":
    main()
