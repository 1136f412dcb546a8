"""What to train and how."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sweepgrad.errors import SettingError

#: How threads share the work; see :mod:`sweepgrad.train.modes`.
MODES = ("data-parallel", "hogwild", "ensemble")

OPTIMIZERS = ("sgd", "adam")


@dataclass(frozen=True)
class Settings:
    """The settings of one training run.

    Attributes:
        mode: one of :data:`MODES`.
        threads: training threads.
        epochs: passes over the training images.
        seed: of the initial weights and the order of the images.
        batch_size: images in a step; in data-parallel mode of all threads together.
        learning_rate: None takes one that suits optimizer and mode.
        hidden: sizes of the hidden layers.
        optimizer: one of :data:`OPTIMIZERS`.
        weight_decay: pulls the weights towards 0.
        target: held-out accuracy below this is a failure.

    Raises:
        SettingError: if a setting is out of its range.
    """

    mode: str = "data-parallel"
    threads: int = 1
    epochs: int = 20
    seed: int = 0
    batch_size: int = 32
    learning_rate: float | None = None
    hidden: tuple[int, ...] = (64,)
    optimizer: str = "sgd"
    weight_decay: float = 1e-4
    target: float = 0.95

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, MODES)
        _one_of("optimizer", self.optimizer, OPTIMIZERS)
        for name in ("threads", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.seed < 0:
            raise SettingError(f"seed is {self.seed}; it must be at least 0")
        if any(size < 1 for size in self.hidden):
            raise SettingError(f"hidden is {self.hidden}; every layer needs at least 1 value")
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise SettingError(
                f"learning_rate is {self.learning_rate}; it must be finite and above 0"
            )
        if not 0 <= self.target <= 1:
            raise SettingError(f"target is {self.target}; an accuracy is between 0 and 1")

    @property
    def momentum(self) -> float:
        """Momentum of sgd: 0.9, and none in hogwild mode.

        There, a gradient is as many steps old as there are threads, which acts
        as momentum of its own (Mitliagkas, Zhang, Hadjis and Ré, "Asynchrony begets
        momentum", 2016); with 0.9 on top, eight threads diverged in every run.
        """
        return 0.0 if self.mode == "hogwild" else 0.9

    @property
    def rate(self) -> float:
        """The learning rate: as set, or one measured to suit optimizer and mode."""
        if self.learning_rate is not None:
            return self.learning_rate
        if self.optimizer == "adam":
            return 2e-3
        return 0.1 if self.momentum else 0.3


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")
