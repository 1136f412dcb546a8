"""``sweepgrad explore module:scenario``: run a scenario under many schedules, or replay one."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from sweepgrad.errors import ExplorerError

if TYPE_CHECKING:  # the explorer needs an extra
    from sweepgrad.explore import Policy
    from sweepgrad.explore.execution import Scenario

_POLICIES = ("exhaustive", "pct", "random")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser's commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "explore",
        help="run a scenario under every schedule that matters, or replay one",
        description="Run a scenario (a function of a sweepgrad.explore.Model) under many "
        "schedules of its threads. Prints what was covered and the first failing schedule, "
        "with a token that replays it. Exit code 1 when a schedule fails.",
    )
    parser.add_argument("scenario", metavar="MODULE:SCENARIO", help="where the scenario is")
    parser.add_argument("--replay", metavar="TOKEN", help="make the run of this token again")
    parser.add_argument("--policy", choices=_POLICIES, default="exhaustive", help="who goes on")
    parser.add_argument(
        "--preemptions",
        type=_bound,
        default=2,
        metavar="N",
        help="bound of the exhaustive policy, or 'none' (default 2)",
    )
    parser.add_argument(
        "--no-reduction", action="store_true", help="also run orders that are equal to others"
    )
    parser.add_argument("--depth", type=int, default=3, help="of the faults PCT looks for")
    parser.add_argument("--schedules", type=int, metavar="N", help="stop after so many runs")
    parser.add_argument("--seconds", type=float, metavar="S", help="stop after so long")
    parser.add_argument("--seed", type=int, default=0, help="of the random policies")
    parser.add_argument("--limit", type=int, metavar="N", help="steps that count as a livelock")
    parser.add_argument("--deep", action="store_true", help="watch what locks protect, too")
    return parser


def _bound(text: str) -> int | None:
    return None if text == "none" else int(text)


def run(options: argparse.Namespace) -> int:
    """Explore or replay; 0 when no schedule fails, 1 when one does."""
    try:
        from sweepgrad import explore
    except ImportError as error:
        print(f"sweepgrad explore: {error}", file=sys.stderr)
        return 1
    scenario = find_scenario(options.scenario)
    settings: dict[str, Any] = {"deep": options.deep, "modules": [_module_of(scenario)]}
    if options.limit is not None:
        settings["limit"] = options.limit
    if options.replay is not None:
        failure = explore.replay(scenario, options.replay, raises=False, **settings)
        print(failure if failure is not None else "the run of this token ends well")
        return int(failure is not None)
    report = explore.explore(
        scenario,
        policy=_policy(options),
        schedules=options.schedules,
        seconds=options.seconds,
        raises=False,
        **settings,
    )
    print(report)
    return int(report.failure is not None)


def _policy(options: argparse.Namespace) -> Policy:
    from sweepgrad.explore import PCT, Exhaustive, RandomWalk

    runs = options.schedules if options.schedules is not None else 10_000
    if options.policy == "pct":
        return PCT(options.depth, runs, options.seed)
    if options.policy == "random":
        return RandomWalk(runs, options.seed)
    return Exhaustive(options.preemptions, not options.no_reduction)


def find_scenario(name: str) -> Scenario:
    """The function that ``module:function`` names; modules are also found in the directory.

    Raises:
        ExplorerError: if there is none.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise ExplorerError(f"{name!r} is not MODULE:SCENARIO, for instance trainer:scenario")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ExplorerError(
            f"no module {error.name!r}; run the command in the directory that holds it"
        ) from error
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ExplorerError(f"{module_name} has no function {attribute!r}")
    scenario: Scenario = found
    return scenario


def _module_of(scenario: Any) -> Any:
    return sys.modules[scenario.__module__]
