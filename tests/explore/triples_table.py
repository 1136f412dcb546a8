"""Writes docs/verification-triples.md: what PCT covered of each triple of operations.

``python tests/explore/triples_table.py`` runs every triple of ``test_pairs.py`` under 100,000
schedules (some minutes each) and notes each figure in ``triples.json`` as it comes, so that it
can be stopped and called again; ``--again`` runs all of them anew, ``--render`` writes the page
from the figures there are.  A test compares the page with the figures and the triples.
"""

import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "verification-triples.md"
FIGURES = HERE / "triples.json"
sys.path[:0] = [str(HERE), str(HERE.parent)]

from test_pairs import TRIPLES  # noqa: E402

from support import worlds  # noqa: E402  # the tests' helpers are no package that is installed
from sweepgrad.explore import PCT, explore  # noqa: E402

SCHEDULES, DEPTH, SEED = 100_000, 3, 12

HEAD = """# Triples of operations, by chance

Written by `python tests/explore/triples_table.py`; the operations are those of
`tests/support/worlds.py`.
Each triple runs in three threads on the small world that [the pairs](verification-pairs.md) share,
under PCT schedules of depth 3.
In each run the gradients, bit by bit, and the graphs left behind were those of some
one-after-the-other order; nothing was half-done, no drop pending and no dead node kept.
Seconds are of one thread's processor time.

| triple | schedules | longest run, steps | failing | seconds | a run meets a fault of depth 3 \
with probability at least |
|---|---:|---:|---:|---:|---:|
"""


def name_of(triple):
    return " ∥ ".join(action.__name__ for action in triple)


def measured(triple, schedules=SCHEDULES):
    policy = PCT(DEPTH, schedules, SEED)
    begun = time.process_time()
    scenario = worlds.scenario_of(triple, worlds.sequential(triple))
    report = explore(scenario, policy=policy, raises=False, stop=False)
    return {
        "schedules": report.schedules,
        "steps": report.steps,
        "failing": report.failures,
        "token": report.failure.token if report.failure is not None else None,
        "seconds": round(time.process_time() - begun, 1),
        "chance": policy.chance(),
    }


def rendered(figures):
    rows = []
    for triple in TRIPLES:
        entry = figures.get(name_of(triple))
        if entry is None:
            rows.append(f"| {name_of(triple)} | not run yet |  |  |  |  |\n")
            continue
        name = name_of(triple) + (f" (before {entry['before']})" if "before" in entry else "")
        cells = [name, f"{entry['schedules']:,}", entry["steps"], entry["failing"]]
        cells += [f"{entry['seconds']:,.0f}", f"1/{1 / entry['chance']:,.0f}"]
        rows.append(f"| {' | '.join(map(str, cells))} |\n")
    return HEAD + "".join(rows)


def main():
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    if "--again" in sys.argv:
        figures = {}
    for triple in [] if "--render" in sys.argv else TRIPLES:
        if name_of(triple) not in figures:
            figures[name_of(triple)] = measured(triple)
            FIGURES.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
            print(name_of(triple), figures[name_of(triple)], flush=True)
    PAGE.write_text(rendered(figures))


if __name__ == "__main__":
    main()
