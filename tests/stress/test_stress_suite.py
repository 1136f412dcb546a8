"""The stress suite runs clean on the shipped code, and its watcher ends what hangs."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def stress(*arguments, **environment):
    """Run the suite in a child process; gives its result and the seconds it took."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "stress", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=55,
        env={**os.environ, **environment},
        check=False,
    )
    return done, time.monotonic() - start


def child(*arguments):
    """Run Python with a program that may import the suite."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=55,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        check=False,
    )


@pytest.mark.parametrize("profile", ["trainers", "churn", "merge", "hazards"])
def test_each_profile_passes_and_prints_the_fixed_line(profile, tmp_path):
    figures, page = tmp_path / "figures.json", tmp_path / "page.html"
    done, _ = stress(
        "--profile", profile, "--seconds", "1.5", "--json", str(figures), "--html", str(page)
    )

    assert done.returncode == 0, done.stderr
    line = done.stdout.splitlines()[-1]
    assert line.startswith("stress: operations=")
    assert line.endswith("verdict=passed")
    summary = json.loads(figures.read_text())["summary"]
    assert summary["operations"] > 0
    assert summary["overlaps"] > 0
    if profile == "hazards":
        assert min(summary[event] for event in ("signals", "forks", "finalizers")) > 0
    assert "<svg" in page.read_text()


@pytest.mark.parametrize("kind", ["workers", "main", "gil"])
def test_a_hang_is_ended_within_the_limit_and_shows_every_stack(kind):
    """C27: two workers, main and worker, a thread that keeps the interpreter busy."""
    done, seconds = stress("--profile", "hang", "--seconds", "1", "--limit", "3", STRESS_HANG=kind)

    assert done.returncode != 0
    assert done.stdout.splitlines()[-1].endswith("verdict=hung")
    assert "most recent call first" in done.stderr
    assert "hang.py" in done.stderr
    # The limit, 5 s to end it, 2 s for two interpreters to start.
    assert seconds < 3 + 5 + 2


def test_a_wrong_result_fails_the_run(tmp_path):
    """A lost update of the shared parameter is seen at the end."""
    program = tmp_path / "lossy.py"
    program.write_text(
        "import runpy, sys\n"
        "from sweepgrad.graph.parameters import ParameterSwap\n"
        "def replace(self, cell, key, expected, new):\n"
        "    cell._array = new\n"
        "    return True\n"
        "ParameterSwap.replace = replace\n"
        "from stress import worker\n"
        "sys.exit(worker.main())\n"
    )
    arguments = [
        "--threads",
        "4",
        "--seconds",
        "2",
        "--seed",
        "1",
        "--profile",
        "trainers",
        "--limit",
        "20",
    ]
    done = child(str(program), *arguments)

    assert done.returncode == 1, done.stderr
    assert "updates of 1 left the parameter at" in done.stderr


CHILDREN = {
    "a main thread that fails": (
        "from stress import profiles\n"
        "shipped = profiles.Churn.__call__\n"
        "import threading\n"
        "def churn(self, *rest):\n"
        "    assert threading.current_thread() is not threading.main_thread(), 'planted'\n"
        "    return shipped(self, *rest)\n"
        "profiles.Churn.__call__ = churn\n"
    ),
    "workers that never stop": (
        "from stress import worker\n"
        "class Never(worker.Event):\n"
        "    def is_set(self):\n"
        "        return False\n"
        "shipped = worker.Run.__init__\n"
        "def init(self, *rest):\n"
        "    shipped(self, *rest)\n"
        "    self.stop = Never()\n"
        "worker.Run.__init__ = init\n"
    ),
}


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [("a main thread that fails", "failed"), ("workers that never stop", "hung")],
)
def test_a_run_whose_workers_would_go_on_for_ever_is_ended(kind, verdict, tmp_path, monkeypatch):
    from stress import __main__ as suite

    program = tmp_path / "child.py"
    program.write_text(
        CHILDREN[kind] + "from stress import worker\nraise SystemExit(worker.main())"
    )
    arguments = argparse.Namespace(
        threads=2, seconds=1.0, seed=0, profile="churn", limit=2.0, switch_interval=1e-6
    )
    flags = suite.command(arguments)[5:]
    child = [sys.executable, "-X", "faulthandler", str(program), *flags]
    monkeypatch.setattr(suite, "command", lambda _: child)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src")]))

    assert suite.Watcher(arguments).watch() == verdict


def test_the_worker_ends_when_its_watcher_is_killed():
    """Or it would run on for its whole time, and a hang in it for ever."""
    with subprocess.Popen(
        [sys.executable, "-m", "stress", "--profile", "churn", "--seconds", "40"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "STRESS_SAY_STARTED": "1"},
    ) as watcher:
        started = watcher.stderr.readline()  # the worker's: it holds this pipe as well
        watcher.kill()
        killed = time.monotonic()
        watcher.stderr.read()  # ends when the worker does

    assert started == b"started\n"
    assert time.monotonic() - killed < 15


def test_bad_arguments_are_refused():
    done, _ = stress("--threads", "0")

    assert done.returncode == 2
    assert "--threads must be at least 1" in done.stderr


def test_a_finalizer_is_progress_of_the_thread_that_runs_it():
    """A collection runs those of all threads; its own thread would look stalled for minutes."""
    done = child(
        "-c",
        "import gc, threading\n"
        "import sweepgrad as sg\n"
        "from stress.counters import MINE\n"
        "from stress.profiles import Cycle\n"
        "gc.disable()\n"
        "leaf = sg.tensor([3.0], requires_grad=True)\n"
        "def make():\n"
        "    Cycle(leaf * 2.0, None)\n"
        "    made.append(MINE.counters)\n"
        "made = []\n"
        "thread = threading.Thread(target=make)\n"
        "thread.start()\n"
        "thread.join()\n"
        "gc.collect()\n"
        "print(made[0].finalizers, MINE.counters.finalizers, MINE.counters.where)\n",
    )
    assert (done.stdout, done.stderr) == ("0 1 a finalizer\n", "")


def test_what_holds_up_all_threads_is_done_by_one_at_a_time_that_rests_after_it():
    done = child(
        "-c",
        "import time\n"
        "from stress.counters import Paced\n"
        "paced, took = Paced(rest=9.0), []\n"
        "def action():\n"
        "    assert not paced.run(action), 'one at a time'\n"
        "    time.sleep(0.02)\n"
        "    took.append(time.monotonic())\n"
        "end = time.monotonic() + 1.0\n"
        "while time.monotonic() < end:\n"
        "    paced.run(action)\n"
        "gaps = [later - one for one, later in zip(took, took[1:])]\n"
        "assert gaps and min(gaps) > 0.19, gaps\n",
    )
    assert done.returncode == 0, done.stderr


def test_signals_go_past_waits_on_the_builds_that_they_break():
    done = child(
        "-c",
        "import sys\n"
        "from stress.signals import breaks_waits\n"
        "def breaks(version, gil):\n"
        "    sys.version_info, sys._is_gil_enabled = version, lambda: gil\n"
        "    return breaks_waits()\n"
        "versions = [(3, 13, 13), (3, 13, 14), (3, 14, 4), (3, 14, 5), (3, 15, 0)]\n"
        "assert not any(breaks(version, True) for version in versions)\n"
        "print([breaks(version, False) for version in versions])\n",
    )
    assert (done.stdout, done.stderr) == ("[True, False, True, False, False]\n", "")
