"""The three ways in which threads share the work.

*data-parallel*: one model; each step's batch is cut into one part per thread;
the gradients are added in the order of the threads and one step is taken.  The
result depends on the seed and the number of threads, bit by bit, and on nothing
else.

*hogwild*: one model; each thread takes steps of its own on its share of the
images and waits for nobody (Niu, Recht, Ré and Wright, "Hogwild!", 2011).  Unlike
there, no update is lost: the optimizer's steps are exact.  The result depends on
the schedule.

*ensemble*: one model per thread, each trained on all images with its own order
and initial weights; the prediction is the mean of their probabilities.  The
result depends on the seed and the number of threads alone.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad import nn, optim
from sweepgrad.data import Digits
from sweepgrad.diagnostics import resident_bytes
from sweepgrad.errors import DivergedError
from sweepgrad.gradients import Gradients
from sweepgrad.graph import no_grad
from sweepgrad.ops.neural import cross_entropy, softmax
from sweepgrad.sync import Barrier, BrokenBarrierError
from sweepgrad.tensor import Tensor, from_numpy
from sweepgrad.train.settings import Settings
from sweepgrad.train.state import Control, EpochFigures, ThreadProgress

CLASSES = 10

#: Branches of the seed's random stream, so that no two uses draw the same numbers.
_WEIGHTS, _ORDER = 0, 1


class Mode(ABC):
    """One training run: models, data and the body of each thread.

    Attributes:
        models: the trained models, one or one per thread.
        progress: one per thread.
        history: figures at the end of each epoch of the first thread.
        started: when training began, by ``time.perf_counter``.
        settled: resident bytes when every thread had finished its first epoch, noted by the
            last of them: a display that looks now and then may come much later.
    """

    def __init__(
        self, settings: Settings, train: Digits, held_out: Digits, control: Control
    ) -> None:
        self.settings = settings
        self.train = train
        self.held_out = held_out
        self.control = control
        self.progress = [ThreadProgress() for _ in range(settings.threads)]
        self.history: list[EpochFigures] = []
        self.started = time.perf_counter()
        self.settled: int | None = None
        self.models: list[nn.Sequential] = []
        self.optimizers: list[optim.Optimizer] = []

    def body(self, index: int) -> None:
        """What thread ``index`` runs: every epoch, until the end or the stop.

        An error stops the run; nothing leaves a thread unseen.
        """
        try:
            for epoch in range(self.settings.epochs):
                if not self._epoch(index, epoch):
                    break
                self.progress[index].epoch = epoch + 1
                if index == 0:
                    self._note(epoch + 1)
                if self.settled is None and all(thread.epoch for thread in self.progress):
                    self.settled = resident_bytes()
        except BrokenBarrierError:
            self.control.abort()  # another thread's error, or a stop: told elsewhere
        except BaseException as error:
            self.control.fail(index, error)

    @abstractmethod
    def _epoch(self, index: int, epoch: int) -> bool:
        """One thread's part of one epoch; False, and early, when the run is stopped.

        Threads that wait for each other must agree on the answer: one that left
        alone would be waited for by the others.
        """

    def model_of(self, index: int) -> nn.Sequential:
        """The model that thread ``index`` trains."""
        return self.models[index % len(self.models)]

    def accuracy(self) -> float:
        """Held-out accuracy of the models' mean prediction."""
        return self._accuracy(self.models)

    def _accuracy(self, models: list[nn.Sequential]) -> float:
        with no_grad():
            images = from_numpy(self.held_out.images)
            total = sum(softmax(model(images)).numpy() for model in models)
        return float((np.argmax(total, axis=-1) == self.held_out.labels).mean())

    def _note(self, epoch: int) -> None:
        self.history.append(
            EpochFigures(
                epoch=epoch,
                seconds=time.perf_counter() - self.started,
                loss=self.progress[0].loss,
                accuracy=self._accuracy(self.models[:1]),
                resident=resident_bytes(),
            )
        )

    def _add_model(self, branch: int) -> None:
        settings = self.settings
        rng = np.random.default_rng([settings.seed, _WEIGHTS, branch])
        sizes = (self.train.images.shape[1], *settings.hidden, CLASSES)
        model = nn.mlp(sizes, rng)
        parameters = model.parameters()
        optimizer: optim.Optimizer
        if settings.optimizer == "adam":
            optimizer = optim.Adam(parameters, settings.rate, weight_decay=settings.weight_decay)
        else:
            optimizer = optim.SGD(
                parameters, settings.rate, settings.momentum, settings.weight_decay
            )
        self.models.append(model)
        self.optimizers.append(optimizer)

    def _order(self, epoch: int, branch: int) -> NDArray[np.intp]:
        """The order of the training images in an epoch."""
        rng = np.random.default_rng([self.settings.seed, _ORDER, branch, epoch])
        return rng.permutation(len(self.train))

    def _batches(self, order: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        size = self.settings.batch_size
        for start in range(0, len(order), size):
            yield order[start : start + size]

    def _gradients(
        self, index: int, chosen: NDArray[np.intp], batch: int
    ) -> tuple[Gradients, float, float]:
        """Gradients of this part's share of the batch's mean loss; the part's loss and accuracy.

        Raises:
            DivergedError: if the loss is not finite.
        """
        labels = self.train.labels[chosen]
        scores = self.model_of(index)(from_numpy(self.train.images[chosen]))
        loss = cross_entropy(scores, labels, reduction="sum") / batch
        mean = loss.item() * batch / len(labels)
        if not math.isfinite(mean):
            raise DivergedError(
                f"the loss became {mean} after {self.progress[index].steps} steps with a learning "
                f"rate of {self.settings.rate}; take a smaller one"
            )
        right = float((np.argmax(scores.numpy(), axis=-1) == labels).mean())
        return loss.backward(), mean, right

    def _own_steps(self, index: int, order: NDArray[np.intp]) -> bool:
        """Steps that wait for no other thread; False when the run is stopped."""
        for chosen in self._batches(order):
            if self.control.stop:
                return False
            loss, right = self._own_step(index, chosen)
            self.progress[index].add(loss, right)
        return True

    def _own_step(self, index: int, chosen: NDArray[np.intp]) -> tuple[float, float]:
        """One step on one batch; its loss and accuracy."""
        gradients, loss, right = self._gradients(index, chosen, len(chosen))
        self.optimizers[index % len(self.optimizers)].step(gradients)
        return loss, right


class DataParallel(Mode):
    """One model, one step for all threads together."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._add_model(0)
        threads = self.settings.threads
        #: The gradients of each thread's part of the batch; written by that thread.
        self._parts: list[Gradients | None] = [None] * threads
        #: The last thread to arrive takes the step for all, then lets them go on.  One
        #: wait in each step: with a second one, after a step taken by the first thread,
        #: a busy machine needed twice the time.
        self._barrier = Barrier(threads, self._step)
        self.control.barriers.append(self._barrier)
        #: Whether to go on; decided while every thread waits, so that all leave at the
        #: same step.  No thread looks at the stop flag itself: two looks could see two
        #: different answers.
        self._go_on = True

    def _epoch(self, index: int, epoch: int) -> bool:
        threads = self.settings.threads
        for chosen in self._batches(self._order(epoch, 0)):
            mine = np.array_split(chosen, threads)[index]
            if len(mine):
                self._parts[index], loss, right = self._gradients(index, mine, len(chosen))
                self.progress[index].add(loss, right)
            self._barrier.wait()
            if not self._go_on:
                return False
        return True

    def _step(self) -> None:
        """Add the parts up in the order of the threads and take one step.

        Run by whichever thread arrives last; the order of the sum is the same.
        """
        if self.control.stop:
            self._go_on = False
            return
        total: dict[Tensor, NDArray[Any]] = {}
        for part in self._parts:
            if part is not None:
                for parameter, gradient in part.items():
                    before = total.get(parameter)
                    total[parameter] = gradient if before is None else before + gradient
        self.optimizers[0].step(total)
        self._parts = [None] * self.settings.threads


class Hogwild(Mode):
    """One model, each thread stepping on its own.

    A gradient that n other steps overtook is divided by 1 + n (Zhang, Gupta, Lian
    and Liu, "Staleness-aware Async-SGD", 2016, divide by n).  With whole steps the
    result hung on the scheduler:

    1.  All T threads compute a gradient at the same weights.
    2.  Each takes its step: together one step with T times the learning rate.
    3.  From four threads on such rounds diverge; on a busy machine, eight threads
        with a few of them ended at 0.93 instead of 0.97.

    With the division the rounds add up to at most 1 + 1/2 + … + 1/T steps, and a
    thread that was held for long adds little.  The rejected alternative, a
    smaller rate for more threads, learns too slowly on every schedule but that one.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._add_model(0)
        #: Steps begun by each thread; written by that thread alone.
        self._begun = [0] * self.settings.threads

    def _own_step(self, index: int, chosen: NDArray[np.intp]) -> tuple[float, float]:
        before = sum(self._begun)
        gradients, loss, right = self._gradients(index, chosen, len(chosen))
        # Counted before it is taken: two threads at this point both see the other,
        # so steps taken at once are divided too often rather than not at all.
        self._begun[index] += 1
        overtaken = sum(self._begun) - before - 1
        self.optimizers[0].step(_divided(gradients, 1 + overtaken))
        return loss, right

    def _epoch(self, index: int, epoch: int) -> bool:
        return self._own_steps(index, self._order(epoch, 0)[index :: self.settings.threads])


def _divided(gradients: Gradients, divisor: int) -> Mapping[Tensor, Any]:
    """The gradients, each divided by ``divisor``."""
    if divisor == 1:
        return gradients
    return {parameter: gradient / divisor for parameter, gradient in gradients.items()}


class Ensemble(Mode):
    """A model for each thread."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        for index in range(self.settings.threads):
            self._add_model(index)

    def _epoch(self, index: int, epoch: int) -> bool:
        return self._own_steps(index, self._order(epoch, index))


#: Name to class; the names are those of ``sweepgrad.train.settings.MODES``.
BY_NAME: dict[str, type[Mode]] = {
    "data-parallel": DataParallel,
    "hogwild": Hogwild,
    "ensemble": Ensemble,
}
