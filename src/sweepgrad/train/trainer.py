"""Running the threads of a training run and watching them."""

from __future__ import annotations

import time
from collections.abc import Callable

from sweepgrad.data import load_digits
from sweepgrad.diagnostics import resident_bytes
from sweepgrad.errors import SweepgradError
from sweepgrad.graph import DEFAULT
from sweepgrad.sync import Thread
from sweepgrad.train.modes import BY_NAME, Mode
from sweepgrad.train.report import TrainReport
from sweepgrad.train.settings import Settings
from sweepgrad.train.state import Control, Snapshot

#: Seconds between two looks at the threads.
INTERVAL = 0.1

#: Seconds in which a thread that was told to stop must end; a step takes milliseconds.
STOP_SECONDS = 60.0

Observer = Callable[[Snapshot], None]


def train(
    settings: Settings, observer: Observer | None = None, control: Control | None = None
) -> TrainReport:
    """Train on the digits and report.

    Args:
        observer: called about ten times a second, in this thread.
        control: set its ``stop`` to end the run early, from anywhere; the report
            then says that it was interrupted.

    Runs the training threads and waits for them: whatever happens, none is left
    running when this returns or raises.

    Raises:
        The first error that a training thread met, with a note naming the thread.
        KeyboardInterrupt: if Ctrl-C arrives as one.
    """
    control = control if control is not None else Control()
    held, out = load_digits()
    mode = BY_NAME[settings.mode](settings, held, out, control)
    watch = Watch(mode, observer)
    threads = [
        Thread(target=mode.body, args=(index,), name=f"train-{index}", daemon=True)
        for index in range(settings.threads)
    ]
    watch.look()  # so that the display's own memory is there before the first epoch
    mode.started = time.perf_counter()
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(INTERVAL)
                watch.look()
    except BaseException:
        control.abort()
        raise
    finally:
        _join(threads)
    seconds = time.perf_counter() - mode.started
    watch.look()
    if control.errors:
        index, error = control.errors[0]
        error.add_note(f"raised in training thread {index} of {settings.threads}")
        raise error
    return watch.report(seconds)


def _join(threads: list[Thread]) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline - time.monotonic()))
    alive = [thread.name for thread in threads if thread.is_alive()]
    if alive:
        raise SweepgradError(
            f"{', '.join(alive)} did not end within {STOP_SECONDS:.0f} s of being told to; "
            "please report this with the stacks that faulthandler.dump_traceback() shows"
        )


class Watch:
    """Looks at a run from outside: figures for the display, memory for the verdict."""

    def __init__(self, mode: Mode, observer: Observer | None) -> None:
        self._mode = mode
        self._observer = observer
        self._peak = 0

    def look(self) -> None:
        """Sample memory and show a snapshot."""
        mode = self._mode
        resident = resident_bytes()
        if mode.settled is not None:
            self._peak = max(self._peak, mode.settled, resident)
        if self._observer is not None:
            self._observer(
                Snapshot(
                    seconds=time.perf_counter() - mode.started,
                    epochs=mode.settings.epochs,
                    threads=mode.progress,
                    history=mode.history,
                    memory=DEFAULT.memory_report(),
                    resident=resident,
                )
            )

    def report(self, seconds: float) -> TrainReport:
        """The report, once every thread has ended."""
        mode = self._mode
        memory = DEFAULT.memory_report()
        sweep = DEFAULT.graph_cleanup()
        finished = all(progress.epoch == mode.settings.epochs for progress in mode.progress)
        return TrainReport(
            settings=mode.settings,
            seconds=seconds,
            accuracy=mode.accuracy(),
            threads=mode.progress,
            history=mode.history,
            resident_first_epoch=mode.settled,
            resident_peak=self._peak,
            resident_end=resident_bytes(),
            memory=memory,
            sweep=sweep,
            interrupted=not finished,
        )
