"""Which level catches which planted fault: runs them, and writes docs/detection.md.

``python tests/planted/detection.py --runs 100`` runs what ``detection.json`` has no figures of,
cell by cell, so that it may be stopped and called again; ``--levels``, ``--faults`` and
``--again`` choose, ``--render`` only writes the page.  Every fault of ``catalogue.FAULTS`` is
taken, and ``shipped``, which no level may flag.
"""

import argparse
import collections
import gc
import json
import os
import pathlib
import statistics
import sys
import time
from dataclasses import dataclass

os.environ.setdefault("SWEEPGRAD_CHECK_LOCKS", "1")
HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE.parent)]

from planted import (  # noqa: E402
    level_checker,
    level_explorer,
    level_handlers,
    level_programs,
    level_stress,
)
from planted.catalogue import FAULTS, SHIPPED, planted  # noqa: E402
from planted.detection_page import CANNOT, rendered  # noqa: E402
from planted.scenarios import workload  # noqa: E402

FIGURES = HERE / "detection.json"
PAGE = ROOT / "docs" / "detection.md"


@dataclass(frozen=True)
class Level:
    """A way to look, that knows no fault: ``run(seed)`` gives (what it saw or None, work done)."""

    run: object
    unit: str
    #: How many seeds say it all: one for a search without chance, few for what takes long.
    most: int = 1000
    #: Plants the fault in a process of its own.
    apart: bool = False


LEVELS = {
    "order checker": Level(level_checker.run, f"{level_checker.OPERATIONS} operations"),
    "handlers": Level(level_handlers.run, f"{sum(level_handlers.ACTIONS.values())} operations"),
    "explorer, exhaustive": Level(
        level_explorer.run_exhaustively,
        f"{level_explorer.AT_MOST} schedules of each scenario",
        most=1,
    ),
    "explorer, random": Level(
        level_explorer.run,
        f"{level_explorer.AT_ONCE * level_explorer.ROUNDS} schedules of each scenario",
    ),
    "state machine": Level(
        level_programs.run,
        f"{level_programs.PROGRAMS} programs, {2 * level_programs.AT_ONCE} schedules of each",
    ),
    "stress": Level(
        level_stress.run,
        f"{level_stress.SECONDS:.0f} s, {level_stress.THREADS} threads",
        most=5,
        apart=True,
    ),
}

#: Runs after which a level that has caught nothing is left alone.
ENOUGH = 10


def once(level, fault, seed):
    """One run: (what it saw or None, work, seconds)."""
    gc.collect()  # what another level left, such as a hook, would make every backward another one
    clock = time.perf_counter if level.apart else time.process_time
    begun = clock()
    name = None if fault == SHIPPED else fault
    if level.apart:
        seen, work = level.run(seed, name)
    else:
        workload()  # what is right is worked out by the shipped code
        with planted(name):
            seen, work = level.run(seed)
    return seen, work, clock() - begun


def measured(level, fault, runs):
    """The figures of a cell."""
    found = []
    for seed in range(min(runs, level.most)):
        found.append(once(level, fault, seed))
        caught = [entry for entry in found if entry[0] is not None]
        if fault != SHIPPED and len(found) == ENOUGH and len(caught) < ENOUGH - 2:
            break
    kinds = collections.Counter(seen for seen, _, _ in caught)
    chosen = caught or found
    return {
        "runs": len(found),
        "caught": len(caught),
        "as": [kind for kind, _ in kinds.most_common(2)],
        "work": int(statistics.median(work for _, work, _ in chosen)),
        "seconds": round(statistics.median(seconds for _, _, seconds in chosen), 2),
    }


def figures():
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def page():
    """The page as the figures have it."""
    units = {name: level.unit for name, level in LEVELS.items()}
    return rendered(figures(), units, {name: docs(plant) for name, plant in FAULTS.items()})


def docs(plant):
    return (plant.__doc__ or "").strip().splitlines()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--levels", nargs="*", default=list(LEVELS))
    parser.add_argument("--faults", nargs="*", default=[SHIPPED, *FAULTS])
    parser.add_argument("--again", action="store_true", help="run what there are figures of")
    parser.add_argument("--render", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    for level in [] if arguments.render else arguments.levels:
        for fault in arguments.faults:
            known = fault in figures().get(level, {}) and not arguments.again
            if known or fault in CANNOT.get(level, {}):
                continue
            cell = measured(LEVELS[level], fault, arguments.runs)
            cells = figures()  # another process may take other cells meanwhile
            cells.setdefault(level, {})[fault] = cell
            lines = json.dumps(cells, indent=1, sort_keys=True)
            FIGURES.write_text(lines + "\n")
            print(level, fault, cell, flush=True)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
