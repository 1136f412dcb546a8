"""What the threads of one run share, and what the watching thread sees of it.

Every field has one writer, or is written by single operations that may race
(``list.append``, storing an attribute), so nothing here needs a lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sweepgrad.graph import MemoryReport
from sweepgrad.sync import Barrier


@dataclass
class ThreadProgress:
    """How far one thread is.  Written by that thread alone.

    Attributes:
        epoch: epochs it has finished.
        steps: steps it has taken.
        loss: running mean of its training loss.
        accuracy: running share of its training images that it got right.
    """

    epoch: int = 0
    steps: int = 0
    loss: float = 0.0
    accuracy: float = 0.0

    def add(self, loss: float, accuracy: float) -> None:
        """Count a step.  Early on a plain mean, then one that forgets."""
        self.steps += 1
        share = max(1.0 / self.steps, 0.02)
        self.loss += share * (loss - self.loss)
        self.accuracy += share * (accuracy - self.accuracy)


@dataclass(frozen=True)
class EpochFigures:
    """How it stood when the first thread had finished an epoch.

    Attributes:
        seconds: since the start of training.
        accuracy: held-out accuracy of the model (of the first thread's, in an ensemble).
        resident: resident bytes.
    """

    epoch: int
    seconds: float
    loss: float
    accuracy: float
    resident: int


@dataclass(frozen=True)
class Snapshot:
    """What a display shows: all figures of one moment."""

    seconds: float
    epochs: int
    threads: list[ThreadProgress]
    history: list[EpochFigures]
    memory: MemoryReport
    resident: int


@dataclass
class Control:
    """How a run is stopped.

    Attributes:
        stop: set it to True, from any thread or from a signal handler, and every
            thread ends after its step.
        errors: errors of threads, each with the number of its thread; the first
            one stops the run.
        barriers: broken when a thread fails, so that none waits for it for ever.
    """

    stop: bool = False
    errors: list[tuple[int, BaseException]] = field(default_factory=list)
    barriers: list[Barrier] = field(default_factory=list)

    def fail(self, index: int, error: BaseException) -> None:
        """Stop the run because thread ``index`` raised ``error``."""
        self.errors.append((index, error))
        self.abort()

    def abort(self) -> None:
        """Stop the run and let no thread wait for another."""
        self.stop = True
        for barrier in self.barriers:
            barrier.abort()
