"""Help, version, wrong usage, and the commands that show things."""

import re

import pytest

import sweepgrad as sg
from cli.cli_child import sweepgrad_command
from sweepgrad.cli import main


def test_the_version_is_the_packages():
    done = sweepgrad_command("--version")

    assert (done.returncode, done.stdout) == (0, f"sweepgrad {sg.__version__}\n")


@pytest.mark.parametrize("command", [[], ["train"], ["hotloop"], ["locks"]])
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as done:
        main([*command, "--help"])

    assert done.value.code == 0
    assert "usage: sweepgrad" in capsys.readouterr().out


def test_the_examples_in_the_help_are_valid_commands(capsys):
    from sweepgrad.cli.main import build_parser

    with pytest.raises(SystemExit):
        main(["--help"])
    examples = re.findall(r"^  sweepgrad (.*?)(?:  |$)", capsys.readouterr().out, re.MULTILINE)

    assert len(examples) == 7
    for example in examples:
        build_parser().parse_args(example.split())


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["sing"],
        ["train", "--threads", "0"],
        ["train", "--mode", "solo"],
        ["train", "--epochs", "many"],
        ["hotloop", "--rounds", "-5"],
    ],
)
def test_wrong_usage_is_refused_with_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as done:
        main(arguments)

    assert done.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--learning-rate", "-1"], "learning_rate is -1.0"),
        (["train", "--target", "2"], "target is 2.0"),
        (["train", "--json", "/no/such/place/f.json"], "cannot be written"),
        (["hotloop", "--plot", "/no/such/place/f.png"], "cannot be written"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_any_work(arguments, message, capsys):
    assert main(arguments) == 1

    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err


def test_locks_shows_the_tree_the_table_and_what_the_checker_saw():
    done = sweepgrad_command("locks")

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    tree = [line.strip() for line in done.stdout.splitlines()]
    order = [
        tree.index(name) for name in ("SWEEP (10)", "LOCATOR (20)", "GRAPH (30)", "PARAM (40)")
    ]
    assert order == sorted(order)
    assert re.search(r"^register across two graphs +LOCATOR, GRAPH, GRAPH", done.stdout, re.M)
    assert "LOCATOR -> GRAPH: " in done.stdout
    assert "GRAPH -> GRAPH: 1 times" in done.stdout
    assert "allowed and never exercised: " in done.stdout
    assert "wrong orders: 0" in done.stdout


def test_locks_fails_when_the_checker_saw_a_wrong_order(monkeypatch, capsys):
    from sweepgrad.diagnostics import locks

    seen = locks.Observation({}, {}, ["GRAPH lock 1 taken while PARAM lock 2 is held"], [], [])
    monkeypatch.setattr(locks, "observe", lambda: seen)

    assert main(["locks"]) == 1

    shown = capsys.readouterr()
    assert "GRAPH lock 1 taken while PARAM" in shown.out
    assert "1 locks were taken in a wrong order" in shown.err
