"""``sweepgrad hotloop``: create a tracked tensor, drop it, watch the memory."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any

from sweepgrad.cli.output import check_writable, count, takes_unicode, verdict, write_json
from sweepgrad.diagnostics import RESIDENT_SOURCE, describe_machine, hotloop
from sweepgrad.diagnostics.chart import text_chart
from sweepgrad.errors import SettingError


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser's commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "hotloop",
        help="create and drop tracked tensors and watch the memory",
        description="Create a tracked 2x2 tensor and drop it, over and over, and watch resident "
        "memory. Nobody calls graph_cleanup(). The exit code is 0 when memory grew by no more "
        f"than {hotloop.ALLOWED_GROWTH / 1e3:.0f} kB after the warm-up and the allocator's live "
        "blocks are back at their level.",
    )
    add = parser.add_argument
    add("--rounds", type=count, default=10_000_000, metavar="N", help="rounds in all threads "
        "together (default: 10_000_000)")  # fmt: skip
    add("--threads", type=count, default=1, metavar="N", help="threads (default: 1)")
    add("--op", action="store_true", help="also compute t*t + t in every round")
    add("--hold", type=count, nargs="?", const=1000, metavar="GRAPHS", help="afterwards keep "
        "handles of consumed graphs (default: 1000 of them) and sweep: what only a sweep can "
        "free")  # fmt: skip
    add("--warmup", type=count, default=50_000, metavar="N", help="rounds of each thread before "
        "the base figures are taken (default: 50_000)")  # fmt: skip
    add("--plot", metavar="FILE", help="draw resident memory as a PNG (needs matplotlib: the "
        "extra 'plot')")  # fmt: skip
    add("--json", metavar="FILE", help="write the figures as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the loop, print its figures and the verdict."""
    check_writable(options.json)
    check_writable(options.plot)
    plt = _pyplot() if options.plot else None
    settings = hotloop.Settings(
        rounds=options.rounds, threads=options.threads, op=options.op, warmup=options.warmup
    )
    print(f"{settings.rounds:,} rounds in {settings.threads} thread(s): create a tracked 2x2 tensor"
          f"{', compute t*t + t' if settings.op else ''}, drop it")  # fmt: skip
    result = hotloop.run(settings, _progress(settings.rounds))
    _print_result(result)
    failures = result.failures()
    held = None
    if options.hold is not None and not result.interrupted:
        held = hotloop.hold(options.hold)
        _print_held(held)
        failures += held.failures()
    if plt is not None:
        _plot(plt, options.plot, result)
    write_json(options.json, _figures(result, held, failures))
    code = verdict(failures)
    return 130 if result.interrupted else code


def _progress(rounds: int) -> Any:
    if not sys.stderr.isatty():
        return None

    def show(done: int, resident: int) -> None:
        sys.stderr.write(f"\r{done / rounds:6.1%}  {resident / 1e6:.1f} MB resident ")
        if done >= rounds:
            sys.stderr.write("\n")
        sys.stderr.flush()

    return show


def _print_result(result: hotloop.Result) -> None:
    if result.interrupted:
        print(f"stopped with Ctrl-C after {result.rounds:,} rounds")
    base = result.samples[0]
    per_round = result.seconds / max(result.rounds, 1) * 1e6
    print(f"{result.seconds:.1f} s, {per_round:.2f} µs a round" if takes_unicode() else
          f"{result.seconds:.1f} s, {per_round:.2f} us a round")  # fmt: skip
    print(f"\nresident memory in MB over the rounds (from {RESIDENT_SOURCE}):")
    values = [sample / 1e6 for sample in result.samples]
    # A megabyte at least from bottom to top, so that one page does not look like a cliff.
    middle = base / 1e6
    low, high = min(middle - 0.5, *values), max(middle + 0.5, *values)
    print("\n".join(text_chart(values, low, high, unicode=takes_unicode(), label="{:.2f}")))
    print(f"\nresident after warm-up  {base / 1e6:.3f} MB")
    print(f"growth at the end       {result.growth / 1e3:+.1f} kB")
    print(f"largest growth          {result.peak_growth / 1e3:+.1f} kB "
          f"(allowed: {hotloop.ALLOWED_GROWTH / 1e3:.0f} kB)")  # fmt: skip
    print(f"live allocator blocks   {result.blocks_growth:+d} (allowed: +{hotloop.ALLOWED_BLOCKS})")
    print(f"left in the runtime     {result.memory.graphs} graphs, {result.memory.nodes} nodes")


def _print_held(held: hotloop.HoldResult) -> None:
    before, after, sweep = held.before, held.after, held.sweep
    print(f"\nheld: {held.graphs} graphs whose trunk another backward consumed")
    print(f"  before graph_cleanup()  {before.graphs} graphs, {before.nodes} nodes, "
          f"{before.saved_bytes / 1e6:.1f} MB saved")  # fmt: skip
    print(f"  graph_cleanup() freed   {sweep.graphs_freed} graphs, {sweep.nodes_freed} nodes, "
          f"{sweep.bytes_freed / 1e6:.1f} MB in {sweep.seconds * 1e3:.1f} ms")  # fmt: skip
    print(f"  after graph_cleanup()   {after.graphs} graphs, {after.nodes} nodes, "
          f"{after.saved_bytes / 1e6:.1f} MB saved; every handle still a plain value")  # fmt: skip


def _figures(
    result: hotloop.Result, held: hotloop.HoldResult | None, failures: list[str]
) -> dict[str, Any]:
    figures = dataclasses.asdict(result)
    figures["held"] = dataclasses.asdict(held) if held is not None else None
    figures["failures"] = failures
    figures["machine"] = describe_machine()
    figures["resident_source"] = RESIDENT_SOURCE
    return figures


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise SettingError(
            "--plot needs matplotlib, which is not installed: pip install 'sweepgrad[plot]'"
        ) from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _plot(plt: Any, path: str, result: hotloop.Result) -> None:
    figure, axes = plt.subplots(figsize=(8, 4))
    base = result.samples[0]
    step = result.seconds / max(len(result.samples) - 1, 1)
    times = [position * step for position in range(len(result.samples))]
    axes.plot(times, [(sample - base) / 1e3 for sample in result.samples])
    axes.axhline(hotloop.ALLOWED_GROWTH / 1e3, linestyle="--", color="gray", label="allowed")
    axes.set_xlabel("seconds")
    axes.set_ylabel("resident memory after the warm-up, kB")
    axes.set_title(f"{result.rounds:,} rounds in {result.settings.threads} thread(s)")
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight", format="png")
    plt.close(figure)
    print(f"plot written to {path}")
