"""What training shows: a live table on a terminal, a log elsewhere or without rich."""

import sys

from sweepgrad.cli import display
from sweepgrad.graph import MemoryReport
from sweepgrad.train import EpochFigures, Snapshot, ThreadProgress

SNAPSHOT = Snapshot(
    seconds=2.0,
    epochs=20,
    threads=[ThreadProgress(3, 120, 0.5, 0.875), ThreadProgress(2, 100, 0.25, 0.75)],
    history=[EpochFigures(3, 1.9, 0.5, 0.9375, 40_000_000)],
    memory=MemoryReport(2, 14, 4, 2, 1_230_000, 0),
    resident=41_200_000,
)


def test_the_log_has_every_figure_in_one_line(capsys):
    with display.PlainLog() as log:
        log.show(SNAPSHOT)
        log.show(SNAPSHOT)

    assert capsys.readouterr().out == (
        "epoch 3/20  loss 0.5000  held-out 0.9375  110 steps/s  2 graphs  14 nodes  "
        "1.23 MB saved  41.2 MB resident\n"
    )


def test_the_log_waits_between_lines_but_shows_the_last_epoch(capsys):
    def at(epoch):
        history = [EpochFigures(n + 1, 1.0, 0.5, 0.9, 1) for n in range(epoch)]
        return Snapshot(1.0, 20, SNAPSHOT.threads, history, SNAPSHOT.memory, 1)

    with display.PlainLog() as log:
        for epoch in (1, 2, 3, 20):
            log.show(at(epoch))

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["1/20", "20/20"]


def test_a_terminal_without_rich_gets_the_log_and_is_told_how_to_change_that(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich", None)

    assert type(display.make_display(live=True)) is display.PlainLog
    assert "pip install 'sweepgrad[cli]'" in capsys.readouterr().out


def test_the_live_table_has_every_figure_or_rich_is_missing(capsys):
    shown = display.make_display(live=True)
    try:
        import rich.console
    except ImportError:
        assert type(shown) is display.PlainLog
        return
    console = rich.console.Console(width=120, no_color=True)
    console.print(shown._table(SNAPSHOT))

    out = capsys.readouterr().out
    for figure in ("3/20", "2/20", "0.5000", "0.2500", "0.8750", "0.7500", "60", "50",
                   "held-out accuracy 0.9375", "2 graphs", "14 nodes", "1.23 MB saved",
                   "41.2 MB resident"):  # fmt: skip
        assert figure in out
