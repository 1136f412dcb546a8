"""``sweepgrad train`` in a child process: exit codes, figures, Ctrl-C."""

import json
import signal
import subprocess

import pytest

from cli.cli_child import command, environment, sweepgrad_command
from sweepgrad.train import MODES

#: Saves the command its restart, which has a test of its own.
ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


@pytest.mark.parametrize("mode", MODES)
def test_a_short_run_succeeds_with_a_modest_target(mode, tmp_path):
    figures_file = tmp_path / "figures.json"
    done = sweepgrad_command(
        "train", "--mode", mode, "--threads", "2", "--epochs", "3", "--target", "0.8",
        "--json", str(figures_file), **ONE_BLAS_THREAD,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "left at the end     0 graphs, 0 nodes" in done.stdout
    assert "ok: every promise held" in done.stdout
    figures = json.loads(figures_file.read_text())
    assert figures["accuracy"] >= 0.8
    assert figures["memory"]["graphs"] == 0
    assert figures["failures"] == []
    assert len(figures["history"]) == 3
    assert [thread["epoch"] for thread in figures["threads"]] == [3, 3]


def test_an_accuracy_below_the_target_is_told_and_fails():
    done = sweepgrad_command(
        "train", "--epochs", "1", "--threads", "1", "--target", "0.99", **ONE_BLAS_THREAD
    )

    assert done.returncode == 1
    assert "FAILED: held-out accuracy is 0." in done.stderr
    assert "below the target 0.9900" in done.stderr


def test_one_seed_gives_one_result_in_two_processes(tmp_path):
    def losses(name):
        file = tmp_path / name
        done = sweepgrad_command(
            "train", "--threads", "2", "--epochs", "2", "--seed", "3", "--target", "0",
            "--json", str(file), **ONE_BLAS_THREAD,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        figures = json.loads(file.read_text())
        return figures["accuracy"], [epoch["loss"] for epoch in figures["history"]]

    assert losses("a.json") == losses("b.json")


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "OPENBLAS_NUM_THREADS=1"), ({"OMP_NUM_THREADS": "2"}, "THREADS=2")]
)
def test_blas_gets_one_thread_unless_the_environment_says_otherwise(tmp_path, given, expected):
    file = tmp_path / "f.json"
    sweepgrad_command("train", "--epochs", "1", "--target", "0", "--json", str(file), **given)

    blas = json.loads(file.read_text())["blas_threads"]
    assert expected in blas
    assert blas.count("=1") == (0 if given else 5)


@pytest.mark.parametrize("mode", MODES)
def test_ctrl_c_stops_the_run_with_the_report(mode):
    """A real SIGINT to the child once it has trained an epoch."""
    child = subprocess.Popen(
        command("train", "--mode", mode, "--threads", "2", "--epochs", "1000000", "--plain"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        seen = ""
        for line in child.stdout:
            seen += line
            if line.startswith("epoch "):
                break
        child.send_signal(signal.SIGINT)
        rest, errors = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()

    assert child.returncode == 130, seen + rest + errors
    assert errors == ""
    assert "left at the end     0 graphs, 0 nodes" in rest
    assert "stopped with Ctrl-C" in rest


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_the_command_without_settings_reaches_the_promised_accuracy(mode):
    done = sweepgrad_command("train", "--mode", mode, limit=60.0)

    assert done.returncode == 0, done.stdout + done.stderr
