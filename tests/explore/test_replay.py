"""A failing schedule comes back from the string that was printed, step for step."""

import re
import subprocess
import sys

import pytest

import sweepgrad as sg
from support.schedules import comparable
from sweepgrad.explore import (
    PCT,
    ExplorerError,
    NonDeterminismError,
    RandomWalk,
    ScheduleFailure,
    explore,
    replay,
)


def lost_update(m):
    """Two threads train one parameter by read, compute, assign: an update is lost."""
    w = sg.tensor([1.0], requires_grad=True)

    def train():
        gradient = (w * w).backward()[w]
        w.assign(w.numpy() - 0.25 * gradient)

    m.spawn(train, name="first")
    m.spawn(train, name="second")

    @m.check
    def both_updates_count():
        assert w.item() == 0.25, f"w is {w.item()}, but two halvings make 0.25"


@pytest.mark.parametrize(
    "policy", [None, PCT(depth=2, schedules=500), RandomWalk(500)], ids=["dfs", "pct", "walk"]
)
def test_the_printed_token_replays_the_same_run(policy):
    with pytest.raises(ScheduleFailure) as caught:
        explore(lost_update, policy=policy)
    printed = str(caught.value)
    token = re.search(r"^token: (\S+)$", printed, re.MULTILINE).group(1)

    again = replay(lost_update, token, raises=False)

    first = caught.value.report.failure
    assert again.token == token
    assert comparable(again.steps) == comparable(first.steps)
    assert again.message == first.message
    assert again.table() == first.table()
    with pytest.raises(ScheduleFailure, match="two halvings"):
        replay(lost_update, token)


def test_the_table_has_a_column_for_each_thread_and_a_row_for_each_step():
    report = explore(lost_update, raises=False)

    lines = report.failure.table(full=True).splitlines()

    assert re.fullmatch(r" step  first +second", lines[0])
    assert len(lines) == 2 + len(report.failure.steps)
    starts = {match.start() for line in lines if (match := re.search("release|acquire", line))}
    assert len(starts) == 2, "each thread has its own column"


def test_a_changed_program_does_not_replay_silently():
    token = explore(lost_update, raises=False).failure.token

    def other(m):
        cell = m.cell(0)
        m.spawn(cell.set, 1)
        m.spawn(cell.set, 2)

    with pytest.raises(NonDeterminismError):
        replay(other, token)
    with pytest.raises(NonDeterminismError, match="not those of the token"):
        replay(other, "s1-none-00000000")


def test_a_run_that_ends_well_replays_to_nothing():
    def scenario(m):
        cell = m.cell(0)
        m.spawn(cell.set, 1)

    from sweepgrad.explore import tokens

    assert replay(scenario, tokens.encode([], [(0, "write")])) is None


@pytest.mark.parametrize("text", ["", "s1", "s1-12-9c1f02e1", "s2-none-9c1f02e1", "s1-1b-xyz"])
def test_what_is_no_token_is_refused(text):
    with pytest.raises(ExplorerError, match="not a schedule token"):
        replay(lost_update, text)


def test_the_command_line_finds_and_replays_in_a_new_process(tmp_path):
    (tmp_path / "trainer.py").write_text(
        "import sweepgrad as sg\n"
        "def scenario(m):\n"
        "    w = sg.tensor([1.0], requires_grad=True)\n"
        "    def train():\n"
        "        w.assign(w.numpy() - 0.25 * (w * w).backward()[w])\n"
        "    m.spawn(train, name='first')\n"
        "    m.spawn(train, name='second')\n"
        "    @m.check\n"
        "    def check():\n"
        "        assert w.item() == 0.25\n"
    )

    def command(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "sweepgrad", "explore", "trainer:scenario", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    found = command()
    token = re.search(r"^token: (\S+)$", found.stdout, re.MULTILINE).group(1)
    again = command("--replay", token)

    assert found.returncode == 1, found.stderr
    assert again.returncode == 1, again.stderr
    table = found.stdout[found.stdout.index(" step ") : found.stdout.index("Traceback")]
    assert table in again.stdout
    assert f"token: {token}" in again.stdout
