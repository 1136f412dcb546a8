"""``python -m benchmarks``: choose, run, show, save, compare."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import engines, page, table
from benchmarks.baseline import compare
from benchmarks.machine import describe, load_average
from benchmarks.plan import FREE_THREADED_VARIABLE, Plan, find_free_threaded
from benchmarks.results import CaseResult, Report, load


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument("--quick", action="store_true", help="small sizes, under 60 s in all")
    made.add_argument("--only", action="append", metavar="CASE", help="a case; may be repeated")
    made.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    made.add_argument(
        "--engines", metavar="NAMES", help="engines to compare, with commas; default: all installed"
    )
    made.add_argument(
        "--collector",
        action="store_true",
        help="leave the garbage collector on in timed rounds (default: off for every engine)",
    )
    made.add_argument(
        "--cpu-time",
        action="store_true",
        help="time single threads by the process's own clock, for a busy machine",
    )
    made.add_argument(
        "--free-threaded",
        metavar="PYTHON",
        help=f"free-threaded interpreter; default: ${FREE_THREADED_VARIABLE}, or one on PATH",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    made.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots")
    made.add_argument("--baseline", type=Path, metavar="FILE", help="compare with a JSON file")
    made.add_argument(
        "--load", type=Path, metavar="FILE", help="show a JSON file instead of measuring"
    )
    return made


def main(arguments: Sequence[str]) -> int:
    """Run the command; 1 when a target was missed, else 0."""
    options = parser().parse_args(arguments)
    if options.load is not None:
        report = load(options.load)
    else:
        # Imported here: the cases import sweepgrad, which --load does without.
        from benchmarks.cases import CASES

        if options.list:
            print("\n".join(CASES))
            return 0
        chosen = options.only or list(CASES)
        unknown = [name for name in chosen if name not in CASES]
        if unknown:
            print(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}", file=sys.stderr)
            return 2
        report = run(chosen, _plan(options))
    changes = compare(report, load(options.baseline)) if options.baseline else {}
    table.show(report, changes)
    if options.json is not None:
        options.json.write_text(report.to_json())
    if options.html is not None:
        options.html.write_text(page.render(report, changes))
    return int(any(row.verdict == "MISSED" for row in report.rows))


def _plan(options: argparse.Namespace) -> Plan:
    names = engines.installed()
    if options.engines:
        asked = options.engines.split(",")
        names = [name for name in names if name in asked or name == "sweepgrad"]
    return Plan(
        quick=options.quick,
        collector=options.collector,
        cpu_time=options.cpu_time,
        engines=names,
        free_threaded=options.free_threaded or find_free_threaded(),
    )


def run(names: Sequence[str], plan: Plan) -> Report:
    """Run the cases of these names; an error in one is a row of it, not the end of the run."""
    from benchmarks.cases import CASES

    machine = describe()
    machine["engines"] = ", ".join(plan.engines)
    machine["free-threaded interpreter"] = plan.free_threaded or "none"
    machine["garbage collector in timed rounds"] = "on" if plan.collector else "off"
    machine["clock of single threads"] = "process" if plan.cpu_time else "wall"
    machine["quick"] = plan.quick
    report = Report(machine)
    for name in names:
        start = time.perf_counter()
        try:
            result = CASES[name](plan)
        except (AssertionError, TimeoutError) as error:
            result = CaseResult(name)
            result.add_missing(f"{name} failed", str(error))
        result.seconds = time.perf_counter() - start
        print(f"{name}: {result.seconds:.1f} s", file=sys.stderr, flush=True)
        report.cases.append(result)
    machine["load after"] = load_average()
    return report
