"""``sweepgrad hotloop``: bounded memory, a verdict that can fail, what only a sweep frees."""

import dataclasses
import importlib.util
import json
import signal
import subprocess
import sys

import pytest

import sweepgrad as sg
from cli.cli_child import command, environment, sweepgrad_command
from sweepgrad.cli import main
from sweepgrad.diagnostics import hotloop
from sweepgrad.graph import MemoryReport


@pytest.mark.parametrize(
    ("arguments", "threads"),
    [(["--rounds", "300_000"], 1), (["--rounds", "40_000", "--op", "--threads", "4"], 4)],
)
def test_memory_does_not_grow_with_the_rounds(tmp_path, arguments, threads):
    file = tmp_path / "f.json"
    done = sweepgrad_command("hotloop", *arguments, "--warmup", "5000", "--json", str(file))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok: every promise held" in done.stdout
    figures = json.loads(file.read_text())
    assert figures["rounds"] == int(arguments[1])
    assert figures["settings"]["threads"] == threads
    assert figures["peak_growth"] <= 138_000
    assert figures["blocks_growth"] <= 100
    assert figures["memory"]["nodes"] == 0


def test_held_graphs_are_freed_by_the_sweep_alone(capsys):
    """Ten graphs; after the short head's backward four nodes of each long head are left.

    Each saves its operand twice, 64 x 64 float64 values: 10 x 4 x 2 x 32,768 bytes.
    """
    sg.graph_cleanup()
    held = hotloop.hold(10)

    assert (held.before.graphs, held.before.nodes) == (10, 40)
    assert held.before.saved_bytes == held.sweep.bytes_freed == 10 * 4 * 2 * 32_768
    assert (held.sweep.graphs_freed, held.sweep.nodes_freed) == (10, 40)
    assert (held.after.graphs, held.after.nodes, held.after.saved_bytes) == (0, 0, 0)
    assert held.failures() == []


def test_hold_is_shown_before_and_after(capsys):
    assert main(["hotloop", "--rounds", "100", "--warmup", "100", "--hold", "7"]) == 0

    out = capsys.readouterr().out
    assert "held: 7 graphs" in out
    assert "before graph_cleanup()  7 graphs, 28 nodes" in out
    assert "after graph_cleanup()   0 graphs, 0 nodes" in out


def test_a_leak_of_tensors_fails_the_verdict(monkeypatch, capsys):
    kept = []
    monkeypatch.setattr(hotloop, "tensor", lambda *a, **k: kept.append(sg.tensor(*a, **k)))

    code = main(["hotloop", "--rounds", "5000", "--warmup", "100"])
    kept.clear()

    assert code == 1
    err = capsys.readouterr().err
    assert "resident memory grew by" in err
    assert "more allocator blocks are in use" in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peak_growth": 138_001}, "grew by 138 kB"),
        ({"blocks_growth": 101}, "101 more allocator blocks"),
        ({"memory": MemoryReport(1, 2, 0, 1, 0, 0)}, "1 graphs with 2 nodes are left"),
    ],
)
def test_each_bound_is_a_failure_of_its_own(change, message):
    good = hotloop.Result(
        hotloop.Settings(), 10_000_000, 1.0, 0, 138_000, 100, [1, 1],
        MemoryReport(0, 0, 0, 0, 0, 0), False,
    )  # fmt: skip
    assert good.failures() == []

    (failure,) = dataclasses.replace(good, **change).failures()
    assert message in failure


def test_rounds_are_shared_out_to_the_last_one():
    result = hotloop.run(hotloop.Settings(rounds=10_003, threads=4, warmup=10))

    assert result.rounds == 10_003


def test_an_error_in_a_thread_ends_the_loop_and_is_raised(monkeypatch):
    calls = []

    def failing(*args, **kwargs):
        calls.append(1)
        if len(calls) > 50:
            raise MemoryError("no room")
        return sg.tensor(*args, **kwargs)

    monkeypatch.setattr(hotloop, "tensor", failing)

    with pytest.raises(MemoryError, match="no room"):
        hotloop.run(hotloop.Settings(rounds=10_000, threads=3, warmup=10))


def test_full_samples_are_halved_and_keep_their_peak():
    """Base 7, then pairs: the larger of each stays; an odd one out stays, too."""
    samples = hotloop.array("q", [7, 1, 9, 3, 2, 5])

    count = hotloop._halve(samples, 6)

    assert list(samples[:count]) == [7, 9, 3, 5]


def test_a_plot_is_a_png_or_an_error_that_says_what_to_install(tmp_path):
    file = tmp_path / "m.png"
    done = sweepgrad_command("hotloop", "--rounds", "1000", "--warmup", "100", "--plot", str(file))

    if importlib.util.find_spec("matplotlib"):
        assert done.returncode == 0, done.stdout + done.stderr
        assert file.read_bytes().startswith(b"\x89PNG")
    else:
        assert done.returncode == 1
        assert "pip install 'sweepgrad[plot]'" in done.stderr


def test_a_missing_matplotlib_is_told_before_the_rounds(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    assert main(["hotloop", "--rounds", "1000000000", "--plot", str(tmp_path / "m.png")]) == 1

    assert "pip install 'sweepgrad[plot]'" in capsys.readouterr().err


def test_ctrl_c_stops_the_loop():
    child = subprocess.Popen(
        command("hotloop", "--threads", "2", "--rounds", "1000000000"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        assert "rounds in 2 thread(s)" in child.stdout.readline()
        child.send_signal(signal.SIGINT)
        rest, errors = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()

    assert child.returncode == 130, rest + errors
    assert "stopped with Ctrl-C" in rest + errors
    assert "Traceback" not in errors
