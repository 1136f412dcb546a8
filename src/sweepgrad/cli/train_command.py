"""``sweepgrad train``: a classifier on the handwritten digits, trained in threads."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType
from typing import Any

from sweepgrad.cli.blas import blas_threads
from sweepgrad.cli.display import make_display
from sweepgrad.cli.output import check_writable, count, verdict, write_json
from sweepgrad.diagnostics import RESIDENT_SOURCE, cores, describe_machine
from sweepgrad.train import MODES, Control, Settings, TrainReport, train
from sweepgrad.train.settings import OPTIMIZERS


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser's commands."""
    defaults = Settings()
    parser: argparse.ArgumentParser = commands.add_parser(
        "train",
        help="train a small classifier on handwritten digits, in threads",
        description="Train a small classifier on 1,797 handwritten 8x8 digits (UCI, CC BY 4.0; "
        "359 of them held out) in threads. The exit code is 0 when the held-out accuracy reaches "
        "the target, resident memory stays flat after the first epoch and no graph is left.",
        epilog="NumPy's BLAS gets one thread per training thread, unless OPENBLAS_NUM_THREADS, "
        "OMP_NUM_THREADS or MKL_NUM_THREADS is set.",
    )
    add = parser.add_argument
    add("--threads", type=count, default=cores(), metavar="N",
        help="training threads (default: the cores this process may use)")  # fmt: skip
    add("--mode", choices=MODES, default=defaults.mode,
        help="one step for all threads together, or each on its own on one model, or a model "
        "each (default: %(default)s)")  # fmt: skip
    add("--epochs", type=count, default=defaults.epochs, metavar="N",
        help="passes over the images (default: %(default)s)")  # fmt: skip
    add("--seed", type=int, default=defaults.seed, help="default: %(default)s")
    add("--batch-size", type=count, default=defaults.batch_size, metavar="N",
        help="images in a step (default: %(default)s)")  # fmt: skip
    add("--learning-rate", type=float, metavar="RATE",
        help="default: 0.1 for sgd, 0.4 for sgd in hogwild mode, 0.002 for adam")  # fmt: skip
    add("--hidden", type=count, nargs="*", default=list(defaults.hidden), metavar="SIZE",
        help="sizes of the hidden layers (default: 64)")  # fmt: skip
    add("--optimizer", choices=OPTIMIZERS, default=defaults.optimizer,
        help="default: %(default)s, with a momentum of 0.9, or none in hogwild mode")  # fmt: skip
    add("--weight-decay", type=float, default=defaults.weight_decay, metavar="DECAY",
        help="default: %(default)s")  # fmt: skip
    add("--target", type=float, default=defaults.target, metavar="ACCURACY",
        help="held-out accuracy below this is a failure (default: %(default)s)")  # fmt: skip
    add("--plain", action="store_true", help="a log instead of the live table")
    add("--json", metavar="FILE", help="write the figures as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    """Train, report, and tell whether every promise held."""
    check_writable(options.json)
    settings = Settings(
        mode=options.mode,
        threads=options.threads,
        epochs=options.epochs,
        seed=options.seed,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        hidden=tuple(options.hidden),
        optimizer=options.optimizer,
        weight_decay=options.weight_decay,
        target=options.target,
    )
    print(f"training on handwritten digits: {settings.mode}, {settings.threads} thread(s), "
          f"{settings.epochs} epochs, seed {settings.seed}; Ctrl-C stops with the report",
          flush=True)  # fmt: skip
    control = Control()
    before = _stop_on_interrupt(control)
    try:
        with make_display(sys.stdout.isatty() and not options.plain) as display:
            report = train(settings, display.show, control)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    _print_report(report)
    figures = report.as_dict()
    figures["machine"] = describe_machine()
    figures["resident_source"] = RESIDENT_SOURCE
    figures["blas_threads"] = blas_threads()
    write_json(options.json, figures)
    if report.interrupted:
        for failure in report.failures():
            print(f"FAILED: {failure}")
        print("stopped with Ctrl-C; accuracy and memory are not judged")
        return 130
    return verdict(report.failures())


def _stop_on_interrupt(control: Control) -> Any:
    """Let Ctrl-C ask the run to stop; a second one interrupts at once.

    The handler only stores an attribute: it may run between any two steps of the
    main thread, also while that holds a lock of the threading module.  Returns
    the handler before, or None where handlers cannot be set (not the main thread).
    """

    def stop(signal_number: int, frame: FrameType | None) -> None:
        if control.stop:
            raise KeyboardInterrupt
        control.stop = True

    try:
        return signal.signal(signal.SIGINT, stop)
    except ValueError:
        return None


def _print_report(report: TrainReport) -> None:
    steps = sum(thread.steps for thread in report.threads)
    memory, sweep = report.memory, report.sweep
    print(f"\nheld-out accuracy   {report.accuracy:.4f} (target {report.settings.target:.4f})")
    print(f"time                {report.seconds:.2f} s, {steps} steps in "
          f"{len(report.threads)} thread(s), {steps / report.seconds:.0f} steps/s")  # fmt: skip
    for index, thread in enumerate(report.threads):
        print(f"  thread {index:<3} {thread.epoch} epochs  {thread.steps} steps  "
              f"loss {thread.loss:.4f}  accuracy {thread.accuracy:.4f}")  # fmt: skip
    if report.resident_first_epoch is not None and report.growth is not None:
        print(f"resident memory     {report.resident_first_epoch / 1e6:.1f} MB after the first "
              f"epoch, at most {report.growth / 1e6:+.2f} MB later, "
              f"{report.resident_end / 1e6:.1f} MB at the end")  # fmt: skip
    print(f"left at the end     {memory.graphs} graphs, {memory.nodes} nodes, "
          f"{memory.saved_bytes} bytes saved, {memory.pending_drops} drops; "
          f"a sweep freed {sweep.nodes_freed} more nodes")  # fmt: skip
    print(f"parameter updates computed again: {memory.update_retries}")
