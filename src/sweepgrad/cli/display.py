"""What ``train`` shows while it runs: a live table on a terminal, lines otherwise."""

from __future__ import annotations

import time
from typing import Any, Protocol

from sweepgrad.train import EpochFigures, Snapshot

#: Seconds between two lines of the plain log.
LOG_INTERVAL = 2.0


class Display(Protocol):
    """Shows snapshots; entered before the first and left after the last."""

    def __enter__(self) -> Display: ...
    def __exit__(self, *exc_info: object) -> None: ...
    def show(self, snapshot: Snapshot) -> None: ...


def make_display(live: bool) -> Display:
    """The live table if asked for and rich is installed; else the log."""
    if live:
        try:
            import rich  # noqa: F401  # only to see whether it is there
        except ImportError:
            print("(pip install 'sweepgrad[cli]' for the live table)")
        else:
            return LiveTable()
    return PlainLog()


class PlainLog:
    """A line for the first epoch, then one every two seconds, then one for the last."""

    def __init__(self) -> None:
        self._next = 0.0
        self._shown = 0

    def __enter__(self) -> PlainLog:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None

    def show(self, snapshot: Snapshot) -> None:
        """Print the newest epoch if it is time."""
        if len(snapshot.history) == self._shown:
            return
        epoch = snapshot.history[-1]
        if time.monotonic() < self._next and epoch.epoch != snapshot.epochs:
            return
        self._shown = len(snapshot.history)
        self._next = time.monotonic() + LOG_INTERVAL
        print(_line(epoch, snapshot), flush=True)


def _line(epoch: EpochFigures, snapshot: Snapshot) -> str:
    memory = snapshot.memory
    steps = sum(thread.steps for thread in snapshot.threads)
    return (
        f"epoch {epoch.epoch}/{snapshot.epochs}  loss {epoch.loss:.4f}  "
        f"held-out {epoch.accuracy:.4f}  {steps / max(snapshot.seconds, 1e-9):.0f} steps/s  "
        f"{memory.graphs} graphs  {memory.nodes} nodes  {memory.saved_bytes / 1e6:.2f} MB saved  "
        f"{snapshot.resident / 1e6:.1f} MB resident"
    )


class LiveTable:
    """rich's live display: one row per thread, the whole below."""

    def __init__(self) -> None:
        from rich.live import Live

        # Drawn by whoever calls show(): rich's own refresh thread would be one more
        # thread to stop.
        self._live = Live(auto_refresh=False)

    def __enter__(self) -> LiveTable:
        self._live.__enter__()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self._live.__exit__(*exc_info)

    def show(self, snapshot: Snapshot) -> None:
        """Draw the snapshot."""
        self._live.update(self._table(snapshot), refresh=True)

    def _table(self, snapshot: Snapshot) -> Any:
        from rich.console import Group
        from rich.table import Table

        memory = snapshot.memory
        held_out = f"{snapshot.history[-1].accuracy:.4f}" if snapshot.history else "-"
        whole = (
            f"{snapshot.seconds:.1f} s  held-out accuracy {held_out}  {memory.graphs} graphs  "
            f"{memory.nodes} nodes  {memory.saved_bytes / 1e6:.2f} MB saved  "
            f"{snapshot.resident / 1e6:.1f} MB resident"
        )
        table = Table()
        for name in ("thread", "epoch", "loss", "accuracy", "steps/s"):
            table.add_column(name, justify="right")
        for index, thread in enumerate(snapshot.threads):
            table.add_row(
                str(index),
                f"{thread.epoch}/{snapshot.epochs}",
                f"{thread.loss:.4f}",
                f"{thread.accuracy:.4f}",
                f"{thread.steps / max(snapshot.seconds, 1e-9):.0f}",
            )
        return Group(table, whole)
