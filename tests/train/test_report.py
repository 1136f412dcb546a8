"""The verdict of a training run can fail, each promise on its own."""

import dataclasses
import json
import subprocess
import sys

import pytest

import sweepgrad as sg
from sweepgrad.graph import MemoryReport, SweepReport
from sweepgrad.train import Settings, ThreadProgress, TrainReport
from sweepgrad.train.report import ALLOWED_GROWTH

GOOD = TrainReport(
    settings=Settings(),
    seconds=1.0,
    accuracy=0.96,
    threads=[ThreadProgress(epoch=20, steps=900)],
    history=[],
    resident_first_epoch=40_000_000,
    resident_peak=40_000_000 + ALLOWED_GROWTH,
    resident_end=40_000_000,
    memory=MemoryReport(0, 0, 4, 0, 0, 0),
    sweep=SweepReport(0, 0, 0, 0, 0, 0.0),
    interrupted=False,
)


def test_a_run_that_kept_its_promises_has_no_failures():
    assert GOOD.failures() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accuracy": 0.9499}, "accuracy is 0.9499, below the target 0.9500"),
        ({"resident_peak": 40_000_001 + ALLOWED_GROWTH}, "grew by 2.00 MB after the first epoch"),
        ({"memory": MemoryReport(1, 3, 4, 1, 80, 0)}, "1 graphs with 3 nodes are left"),
    ],
)
def test_each_broken_promise_is_a_failure_of_its_own(change, message):
    failures = dataclasses.replace(GOOD, **change).failures()

    assert len(failures) == 1
    assert message in failures[0]


def test_a_stopped_run_is_judged_by_what_it_left_only():
    stopped = dataclasses.replace(GOOD, interrupted=True, accuracy=0.1, resident_peak=10**9)

    assert stopped.failures() == []
    left = dataclasses.replace(stopped, memory=MemoryReport(1, 1, 0, 1, 0, 0))
    assert len(left.failures()) == 1


def test_figures_are_plain_values():
    figures = json.loads(json.dumps(GOOD.as_dict()))

    assert figures["growth"] == ALLOWED_GROWTH
    assert figures["settings"]["mode"] == "data-parallel"
    assert figures["memory"]["leaves"] == 4


LEAKING = """
import numpy as np
import sweepgrad as sg
from sweepgrad.train import Settings, modes, train

kept = []
original = modes.cross_entropy

def leaking(*args, **kwargs):
    values = sg.tensor(np.ones((64, 64)), requires_grad=True)
    kept.append(values * values)
    return original(*args, **kwargs)

modes.cross_entropy = leaking
print("\\n".join(train(Settings(threads=1, epochs=5)).failures()))
"""


def test_a_run_that_keeps_its_graphs_fails_by_memory_and_by_what_is_left():
    """Each step keeps a graph with 32 kB: 225 steps hold some 7 MB.

    In a process of its own: one in which other tests ran holds free memory, which is used
    before any is asked for.
    """
    done = subprocess.run(
        [sys.executable, "-c", LEAKING], capture_output=True, text=True, timeout=50, check=True
    )

    assert "225 graphs with 225 nodes are left" in done.stdout
    assert "resident memory grew by" in done.stdout


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "parallel"},
        {"threads": 0},
        {"epochs": 0},
        {"batch_size": 0},
        {"seed": -1},
        {"hidden": (64, 0)},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"optimizer": "adagrad"},
        {"target": 1.5},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(sg.SettingError, match=next(iter(wrong))):
        Settings(**wrong)
