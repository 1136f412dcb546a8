"""Schedules a second, by processor time, so that a busy machine does not decide."""

import json
import pathlib
import subprocess
import sys
import time

import pytest

from sweepgrad.explore import RandomWalk, explore

ROOT = pathlib.Path(__file__).parents[2]


def two_threads_two_locks(m):
    outer, inner = m.lock("outer"), m.lock("inner")

    def work():
        with outer, inner:
            pass

    m.spawn(work)
    m.spawn(work)


def test_five_thousand_schedules_a_second_on_two_threads_with_two_locks():
    explore(two_threads_two_locks, policy=RandomWalk(500))  # warm
    begun = time.process_time()

    report = explore(two_threads_two_locks, policy=RandomWalk(4_000, seed=1))

    seconds = time.process_time() - begun
    assert report.schedules / seconds > 5_000


@pytest.mark.peers
@pytest.mark.timeout(300)
def test_fifty_times_as_many_schedules_a_second_as_frontrun():
    """Against its systematic strategy, which is its default, on one program in one run."""
    command = [sys.executable, "-m", "benchmarks.against_frontrun"]

    done = subprocess.run(
        command, capture_output=True, text=True, timeout=250, check=True, cwd=ROOT
    )

    figures = json.loads(done.stdout)
    print(done.stdout)
    rate = {name: entry["per_cpu_second"] for name, entry in figures.items()}
    assert rate["explorer, random walk"] > 5_000
    assert rate["explorer, random walk"] > 50 * rate["frontrun, dpor"]
    assert rate["explorer, random walk"] > 25 * rate["frontrun, random"]
