"""The process under stress: worker threads, a reporter, and the checks at the end.

Prints one JSON line per beat on standard output; the watcher (``__main__``) reads
them, and ends the process if the beats or the workers stop.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import random
import signal
import sys
import time
import traceback
from typing import Any

os.environ.setdefault("SWEEPGRAD_CHECK_LOCKS", "1")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np

import sweepgrad as sg
from stress import signals
from stress.counters import MINE, Counters, Overlap
from stress.profiles import PROFILES, Shared, Work, WrongResultError, check
from sweepgrad.graph import DEFAULT, ORDER
from sweepgrad.sync import Event, Thread

BEAT_SECONDS = 0.25


def resident_bytes() -> int:
    """Resident memory of this process now."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Run:
    """One stress run in this process."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.stop = Event()
        self.finished = Event()
        self.overlap = Overlap()
        self.counters = [Counters() for _ in range(arguments.threads)]
        self.main_counters = MINE.counters = Counters()
        self.hazards = arguments.profile in ("hazards", "all")
        self.failures: list[str] = []
        self.shared = Shared()
        names = list(PROFILES) if arguments.profile == "all" else [arguments.profile]
        #: Each worker's, and last the main thread's; made before any of them starts.
        self.works: list[list[Work]] = [
            [PROFILES[name](self.shared) for name in names] for _ in range(arguments.threads)
        ]
        self.works.append([PROFILES["churn"](self.shared)])
        self.peak = resident_bytes()
        self.signals = 0

    def work(self, worker: int) -> None:
        """A worker thread: pieces of work in seeded random order until told to stop."""
        rng = random.Random(self.arguments.seed * 1_000_003 + worker)
        works = self.works[worker]
        counters = MINE.counters = self.counters[worker]
        try:
            while not self.stop.is_set():
                piece = rng.choice(works)
                self.overlap.enter(worker, counters)
                piece(rng, counters)
                self.overlap.leave(worker)
        except BaseException:
            self.failures.append(f"worker {worker}:\n{traceback.format_exc()}")
            self.stop.set()
        finally:
            counters.running = False

    def work_in_main_thread(self) -> None:
        """Work until the time is up or something failed, then tell the workers to stop."""
        end = time.monotonic() + self.arguments.seconds
        rng = random.Random(self.arguments.seed)
        work = self.works[-1][0]
        try:
            while time.monotonic() < end and not self.stop.is_set():
                work(rng, self.main_counters)
        except BaseException:
            self.failures.append(f"main thread:\n{traceback.format_exc()}")
        finally:
            self.stop.set()

    def beat(self) -> dict[str, Any]:
        """One line of figures, at any time."""
        resident = resident_bytes()
        self.peak = max(self.peak, resident)
        report = sg.memory_report()
        now = time.monotonic()
        idle = now - min((c.progress for c in self.counters if c.running), default=now)
        return {
            "beat": time.monotonic(),
            "operations": sum(c.operations for c in self.counters),
            "backwards": sum(c.backwards for c in self.counters),
            "idle": idle,
            "stalled": [
                f"worker {k} in {c.where}"
                for k, c in enumerate(self.counters)
                if c.running and now - c.progress > self.arguments.limit / 2
            ],
            "graphs": report.graphs,
            "nodes": report.nodes,
            "rss": resident,
        }

    def report_until_finished(self) -> None:
        """The reporter thread.  Shows who waits for whom once a worker stops progressing."""
        shown = False
        parent = os.getppid()
        if os.environ.get("STRESS_SAY_STARTED"):
            print("started", file=sys.stderr, flush=True)
        while not self.finished.wait(BEAT_SECONDS):
            if os.getppid() != parent:
                os._exit(3)  # the watcher was killed: nobody would end a hang
            beat = self.beat()
            print(json.dumps(beat), flush=True)
            if beat["stalled"] and not shown:
                shown = True
                print(
                    f"no progress: {beat['stalled']}\n{ORDER.wait_for_graph()}",
                    file=sys.stderr,
                    flush=True,
                )

    def on_timer(self, *_: object) -> None:
        """The signal handler of the hazards: uses tensors at a random moment of the main thread."""
        self.signals += 1
        try:
            leaf = sg.tensor(np.array([3.0]), requires_grad=True)
            check((leaf * leaf).backward(np.ones(1))[leaf], [6.0], "gradient in a signal handler")
        except sg.ReentrantCallError:
            self.main_counters.refused += 1
        finally:
            # Armed again when done: on a slow machine a periodic timer would interrupt its
            # own handler without end, inside whatever lock the main thread holds.
            if not self.stop.is_set():
                signals.arm()

    def run(self) -> None:
        """Start the workers, wait, stop them, check what is left."""
        threads = [
            Thread(target=self.work, args=(worker,), name=f"worker {worker}")
            for worker in range(self.arguments.threads)
        ]
        reporter = Thread(target=self.report_until_finished, name="reporter", daemon=True)
        timer = self.hazards and signals.start(self.on_timer)
        for thread in [*threads, reporter]:
            thread.start()
        self.work_in_main_thread()
        if timer:
            signals.arm(0.0)
        for thread in threads:
            thread.join()  # the watcher ends the process if this hangs
        self.finished.set()
        reporter.join()


def finish(run: Run, start_rss: int) -> dict[str, Any]:
    """Check that nothing is lost and nothing is left; returns the summary."""
    failures = run.failures
    check_total(run, failures)
    overlaps = sum(c.overlaps for c in run.counters)
    if not overlaps and run.arguments.threads > 1:
        failures.append("no two pieces of work ever overlapped: the run tested nothing")
    if not all(c.operations for c in run.counters):
        failures.append("a worker never made a step: it starved")
    if run.hazards and not run.signals and hasattr(signal, "setitimer"):
        failures.append("no signal was ever handled")
    if ORDER.violations:
        failures.append("wrong lock orders:\n" + "\n".join(ORDER.violations[:3]))
    main_counts = {
        "operations": sum(c.operations for c in run.counters),
        "backwards": sum(c.backwards for c in run.counters),
        "merges": DEFAULT.locator.merges,
        "sweeps": DEFAULT.sweeper.sweeps,
        "overlaps": overlaps,
        "refused": sum(c.refused for c in [*run.counters, run.main_counters]),
        "signals": run.signals,
        "forks": sum(c.forks for c in run.counters),
        "finalizers": sum(c.finalizers for c in [*run.counters, run.main_counters]),
        "fewest_operations": min(c.operations for c in run.counters),
        "longest_pause": round(max(c.pause for c in run.counters), 4),
        "longest_lock_wait": round(ORDER.longest_wait, 4),
        "rss_start": start_rss,
        "rss_peak": run.peak,
    }
    run.works.clear()
    run.shared.pool.clear()
    run.shared = Shared()
    gc.collect()
    sg.graph_cleanup()
    try:
        DEFAULT.check_valid()
    except sg.InvariantError as error:
        failures.append(str(error))
    left = sg.memory_report()
    if left.nodes or left.graphs or left.pending_drops:
        failures.append(f"left behind after everything was dropped: {left}")
    main_counts["rss_end"] = resident_bytes()
    main_counts["verdict"] = "failed" if failures else "passed"
    main_counts["failures"] = failures
    return main_counts


def check_total(run: Run, failures: list[str]) -> None:
    """No update of the shared parameter may be lost, however many threads made them."""
    total = len(run.shared.updates)
    found = run.shared.parameter.numpy()
    if not np.array_equal(found, np.full(4, float(total))):
        failures.append(f"{total} updates of 1 left the parameter at {found}")


def main() -> int:
    """Entry point of the child process."""
    parser = argparse.ArgumentParser(prog="stress.worker")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--profile", choices=[*PROFILES, "all", "hang"], required=True)
    parser.add_argument("--limit", type=float, required=True)
    parser.add_argument("--switch-interval", type=float, default=1e-6)
    arguments = parser.parse_args()
    if hasattr(signal, "SIGUSR1"):
        # faulthandler's own handler writes the stacks in C: it works while the main
        # thread is in a native wait and while a stuck thread keeps the GIL.
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    sys.setswitchinterval(arguments.switch_interval)
    if arguments.profile == "hang":
        from stress import hang

        hang.run()
    run = Run(arguments)
    start_rss = resident_bytes()
    run.run()
    summary = finish(run, start_rss)
    for failure in summary.pop("failures"):
        print(failure, file=sys.stderr, flush=True)
    print(json.dumps({"summary": summary}), flush=True)
    return 1 if summary["verdict"] == "failed" else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except WrongResultError as wrong:
        sys.exit(f"wrong result: {wrong}")
