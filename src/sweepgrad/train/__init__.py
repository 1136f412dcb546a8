"""Training in threads: one classifier on the handwritten digits, three ways to share the work."""

from sweepgrad.train.report import TrainReport
from sweepgrad.train.settings import MODES, Settings
from sweepgrad.train.state import Control, EpochFigures, Snapshot, ThreadProgress
from sweepgrad.train.trainer import train

__all__ = [
    "MODES",
    "Control",
    "EpochFigures",
    "Settings",
    "Snapshot",
    "ThreadProgress",
    "TrainReport",
    "train",
]
