"""Explore your own trainer: find the schedule that breaks it, replay it, show the cure.

Two workers train one parameter (hogwild) while a third thread writes checkpoints.
The trainer has two faults that a test run hardly ever meets:

* a step is read, compute, assign: another worker's step in between is lost;
* a worker takes the lock of the counters under the lock of the checkpoint, and the
  checkpoint thread takes them the other way round.

Run it, or use the command line in this directory::

    python explore_my_trainer.py
    python -m sweepgrad explore explore_my_trainer:losing_trainer
    python -m sweepgrad explore explore_my_trainer:losing_trainer --replay TOKEN
"""

import threading

import numpy as np

import sweepgrad as sg
from sweepgrad.explore import explore, replay

DATA = [(1.0, 2.0), (2.0, 4.0)]
RATE = 0.125


class Trainer:
    """Fits y = w x, one example for each worker."""

    def __init__(self):
        self.weight = sg.tensor([0.0], requires_grad=True)
        self.saving = threading.Lock()
        self.counting = threading.Lock()
        self.steps = 0
        self.saved = None

    def gradient(self, x, y):
        loss = ((self.weight * x - y) ** 2).sum()
        return loss.backward()[self.weight]

    def work(self, x, y):
        """One step of one worker."""
        self.step(x, y)
        with self.saving, self.counting:
            self.steps += 1

    def step(self, x, y):
        self.weight.assign(self.weight.numpy() - RATE * self.gradient(x, y))

    def checkpoint(self):
        with self.counting, self.saving:
            self.saved = (self.steps, self.weight.numpy().copy())


class SteadyTrainer(Trainer):
    """The cure: an update that loses nothing, and one order of locks."""

    def step(self, x, y):
        gradient = self.gradient(x, y)
        self.weight.update(lambda value: value - RATE * gradient)

    def checkpoint(self):
        with self.saving, self.counting:
            self.saved = (self.steps, self.weight.numpy().copy())


def workers_of(m, trainer):
    """Two workers; afterwards the weight must be what both steps together make of it.

    Hogwild steps may use an old weight, so the second gradient is either that of
    the old or of the new one: the results allowed are worked out by hand.  The
    gradient of (w x - y)^2 is 2 x (w x - y): at w = 0, -4 and -16 for the two
    examples; after the first step (w = 0.5) the second is -12, after the second
    step (w = 2) the first is 0.
    """
    for number, (x, y) in enumerate(DATA):
        m.spawn(trainer.work, x, y, name=f"worker {number}")

    @m.check
    def both_steps_count():
        possible = [0.125 * (4 + 16), 0.125 * (4 + 12), 0.125 * (16 + 0)]
        weight = trainer.weight.item()
        assert any(np.isclose(weight, value) for value in possible), (
            f"the weight is {weight}, but two steps make one of {possible}"
        )


def losing_trainer(m):
    workers_of(m, Trainer())


def hanging_trainer(m):
    trainer = Trainer()
    m.spawn(trainer.work, *DATA[0], name="worker")
    m.spawn(trainer.checkpoint)


def steady_trainer(m):
    trainer = SteadyTrainer()
    workers_of(m, trainer)
    m.spawn(trainer.checkpoint)


def main():
    for faulty in (losing_trainer, hanging_trainer):
        report = explore(faulty, raises=False)
        print(report, end="\n\n")
        again = replay(faulty, report.failure.token, raises=False)
        assert again.steps == report.failure.steps
        print(f"replayed: the same {len(again.steps)} steps end in the same {again.kind}\n\n")
    print(explore(steady_trainer, preemptions=1))


if __name__ == "__main__":
    main()
