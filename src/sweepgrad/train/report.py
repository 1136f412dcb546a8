"""What a training run did, and whether it kept its promises."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from sweepgrad.graph import MemoryReport, SweepReport
from sweepgrad.train.settings import Settings
from sweepgrad.train.state import EpochFigures, ThreadProgress

#: Resident memory counts as flat when no sample after the first epoch is more than this
#: above its end.  Not zero: the allocator's arenas, the display and late imports move it
#: (by 0.3 MB where it was measured).  A training step saves some 30 kB for backward, so a
#: run that kept its graphs would pass this after about 70 of its steps.
ALLOWED_GROWTH = 2_000_000


@dataclass(frozen=True)
class TrainReport:
    """The figures of a training run.

    Attributes:
        seconds: from the first step to the last thread's end.
        accuracy: held-out accuracy at the end.
        threads: how far each thread came.
        history: figures at the end of each epoch.
        resident_first_epoch: resident bytes when every thread had finished its
            first epoch, or None if that never came.
        resident_peak: the largest sample after that.
        resident_end: at the end.
        memory: what the runtime held at the end, before anything was cleaned up.
        sweep: what ``graph_cleanup()`` then found.
        interrupted: True if the run was stopped before its end.
    """

    settings: Settings
    seconds: float
    accuracy: float
    threads: list[ThreadProgress]
    history: list[EpochFigures]
    resident_first_epoch: int | None
    resident_peak: int
    resident_end: int
    memory: MemoryReport
    sweep: SweepReport
    interrupted: bool

    @property
    def growth(self) -> int | None:
        """Bytes from the end of the first epoch to the largest later sample."""
        if self.resident_first_epoch is None:
            return None
        return self.resident_peak - self.resident_first_epoch

    def failures(self) -> list[str]:
        """The promises that did not hold, one sentence each.

        Accuracy and memory of a run that was stopped early are not judged.
        """
        found = []
        if self.memory.graphs or self.memory.nodes:
            found.append(
                f"{self.memory.graphs} graphs with {self.memory.nodes} nodes are left at the end"
            )
        if self.interrupted:
            return found
        if self.accuracy < self.settings.target:
            found.append(
                f"held-out accuracy is {self.accuracy:.4f}, below the target "
                f"{self.settings.target:.4f}; more --epochs or another --learning-rate may help"
            )
        if self.growth is not None and self.growth > ALLOWED_GROWTH:
            found.append(
                f"resident memory grew by {self.growth / 1e6:.2f} MB after the first epoch, "
                f"allowed are {ALLOWED_GROWTH / 1e6:.2f} MB"
            )
        return found

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        figures = dataclasses.asdict(self)
        figures["growth"] = self.growth
        figures["failures"] = self.failures()
        return figures
