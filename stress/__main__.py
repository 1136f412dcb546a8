"""The watcher: starts the process under stress and ends it if it stops making progress."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from stress.report import write_html
from sweepgrad.sync import Thread

PROFILES = ("trainers", "churn", "merge", "hazards", "all", "hang")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m stress",
        description="Real threads on one runtime until something breaks; a hang is a failure.",
    )
    parser.add_argument("--threads", type=int, default=4, help="worker threads (default 4)")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to work (default 30)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the workers' choices")
    parser.add_argument("--profile", choices=PROFILES, default="all", help="what they do")
    parser.add_argument(
        "--limit", type=float, default=20.0, help="seconds without progress that count as a hang"
    )
    parser.add_argument("--switch-interval", type=float, default=1e-6, help="of the interpreter")
    parser.add_argument(
        "--plain-locks",
        action="store_true",
        help="without the order checker, as in production: faster, other timings, no waits known",
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--html", metavar="FILE", help="write a report with plots over time")
    arguments = parser.parse_args()
    if arguments.threads < 1 or arguments.seconds <= 0 or arguments.limit <= 0:
        parser.error("--threads must be at least 1, --seconds and --limit more than 0")
    return arguments


def command(arguments: argparse.Namespace) -> list[str]:
    """The command of the process under stress."""
    options = ("threads", "seconds", "seed", "profile", "limit", "switch_interval")
    flags = [
        part
        for option in options
        for part in (f"--{option.replace('_', '-')}", str(getattr(arguments, option)))
    ]
    return [sys.executable, "-X", "faulthandler", "-m", "stress.worker", *flags]


class Watcher:
    """Reads the child's beats and ends it when they, or its workers, stop."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.beats: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.lines: SimpleQueue[str] = SimpleQueue()

    def read(self, stream: Any) -> None:
        with stream:
            for line in stream:
                self.lines.put(line)

    def take_lines(self) -> bool:
        """Take in what the child printed; True if there was a beat that shows progress."""
        alive = False
        while True:
            try:
                line = self.lines.get(timeout=0.1)
            except Empty:
                return alive
            try:
                record = json.loads(line)
            except ValueError:
                sys.stderr.write(line)
                continue
            if "summary" in record:
                self.summary = record["summary"]
                alive = True
            else:
                self.beats.append(record)
                alive = alive or record["idle"] < self.arguments.limit

    def watch(self) -> str:
        """Run to the end; returns the verdict."""
        child = subprocess.Popen(
            command(self.arguments), stdout=subprocess.PIPE, text=True, bufsize=1
        )
        reader = Thread(target=self.read, args=(child.stdout,), daemon=True)
        reader.start()
        last = time.monotonic()
        end = None
        while child.poll() is None:
            if self.take_lines() and (end is None or time.monotonic() < end):
                last = time.monotonic()
                if end is None and self.beats:
                    # Workers that get on but never stop are a hang too.
                    end = last + self.arguments.seconds + self.arguments.limit
            elif time.monotonic() - last > self.arguments.limit:
                self.end(child)
                reader.join(5.0)
                return "hung"
        reader.join(5.0)
        self.take_lines()
        if child.returncode:
            return "failed" if self.summary else f"ended with code {child.returncode}"
        return str(self.summary.get("verdict", "ended without a summary"))

    def end(self, child: subprocess.Popen[str]) -> None:
        """Have a hung child write every thread's stack, then kill it."""
        print("HANG: no progress, or no end, within the limit; every stack:", file=sys.stderr)
        if hasattr(signal, "SIGUSR1"):
            child.send_signal(signal.SIGUSR1)
            time.sleep(3.0)  # it writes them itself, and a busy machine lets it wait
        child.kill()
        child.wait(10.0)


def summary_line(verdict: str, summary: dict[str, Any]) -> str:
    """The one fixed line, also for runs that did not get to their own summary."""
    counts = " ".join(
        f"{name}={summary.get(name, 'unknown')}"
        for name in (
            "operations",
            "backwards",
            "merges",
            "sweeps",
            "overlaps",
            "refused",
            "signals",
            "forks",
            "finalizers",
            "fewest_operations",
        )
    )
    waits = " ".join(
        f"{name}_s={summary.get(name, 'unknown')}"
        for name in ("longest_lock_wait", "longest_pause")
    )
    rss = "/".join(
        f"{summary[name] / 1e6:.1f}" if name in summary else "unknown"
        for name in ("rss_start", "rss_peak", "rss_end")
    )
    return f"stress: {counts} {waits} rss_mb={rss} verdict={verdict}"


def main() -> int:
    """Entry point; 0 only when the run passed."""
    arguments = parse()
    root = Path(__file__).resolve().parent.parent
    paths = [str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    if arguments.plain_locks:
        os.environ["SWEEPGRAD_CHECK_LOCKS"] = "0"
    watcher = Watcher(arguments)
    verdict = watcher.watch()
    line = summary_line(verdict, watcher.summary)
    if arguments.json:
        record = {"arguments": vars(arguments), "verdict": verdict, "summary": watcher.summary}
        Path(arguments.json).write_text(json.dumps({**record, "beats": watcher.beats}, indent=1))
    if arguments.html:
        write_html(Path(arguments.html), line, watcher.beats)
    print(line, flush=True)
    return 0 if verdict == "passed" else 1


if __name__ == "__main__":
    sys.exit(main())
