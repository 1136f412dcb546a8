"""The timing core: interleaved rounds, one engine after the other, round after round.

Why not pyperf or pytest-benchmark: both run one subject to the end before the
next one starts (pyperf in processes of its own), so a slow minute of the machine
lands on one engine and becomes a ratio.  Here every round runs every engine once,
in an order that is drawn anew for each round, and a ratio compares figures of the
same rounds.  Taken from them: calibrating how often a subject runs per round, so
that the clock's resolution does not matter, and reporting order statistics
instead of a mean.

*Minimum* is the figure that counts: noise only adds time.  *Median* and the
*spread* (the middle 80 % of the rounds) show what the machine did meanwhile.

*Clock*: wall-clock time, or the processor time of the whole process (``cpu_time=True``),
which leaves out the time that other programs had the processor.  The second is the
better one on a busy machine; it says nothing about waiting.

*Garbage collector*: the same for all engines.  Everything that exists before a
measurement is frozen (``gc.freeze``), the collector is off while a round is
timed, and between rounds the young generations are collected, untimed.  With
``collector=True`` it stays on with its default thresholds, and an engine pays for
the collections that its allocations cause.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

#: A round of one engine is made at least this long, in seconds.
ROUND_SECONDS = 0.5e-3
#: Rounds that a case gets even when its time is up.
FEWEST_ROUNDS = 11
MOST_ROUNDS = 4000

#: Gives seconds since some moment.
Clock = Callable[[], float]


def _nothing() -> None:
    return None


@dataclass
class Subject:
    """What is timed.

    Attributes:
        engine: name in the results.
        run: ``run(prepared)`` is timed; what it returns is kept until the clock has stopped.
        prepare: makes the argument of ``run``, untimed, once for each call.
        units: how many operations one call stands for.
    """

    engine: str
    run: Callable[[Any], object]
    prepare: Callable[[], Any] = _nothing
    units: int = 1


@dataclass
class Series:
    """Seconds per unit of one subject, round by round."""

    engine: str
    samples: list[float] = field(default_factory=list)

    @property
    def minimum(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def spread(self) -> tuple[float, float]:
        """The 10th and 90th percentile."""
        return percentiles(self.samples)


@dataclass(frozen=True)
class Ratio:
    """One series over another, of the same rounds.

    Attributes:
        of_minima: minimum over minimum, the figure that a target is compared with.
        of_medians: median over median.
        low, high: 10th and 90th percentile of the ratios round by round.
    """

    of_minima: float
    of_medians: float
    low: float
    high: float


def percentiles(samples: Sequence[float], low: int = 10, high: int = 90) -> tuple[float, float]:
    """Two percentiles by the nearest rank, which needs no interpolation rule."""
    ordered = sorted(samples)
    last = len(ordered) - 1
    return ordered[round(last * low / 100)], ordered[round(last * high / 100)]


def ratio(numerator: Series, denominator: Series) -> Ratio:
    """Compare two series of the same measurement."""
    pairs = [one / other for one, other in zip(numerator.samples, denominator.samples, strict=True)]
    low, high = percentiles(pairs)
    return Ratio(
        numerator.minimum / denominator.minimum,
        numerator.median / denominator.median,
        low,
        high,
    )


def measure(
    subjects: Sequence[Subject],
    seconds: float,
    *,
    collector: bool = False,
    cpu_time: bool = False,
    round_seconds: float = ROUND_SECONDS,
) -> dict[str, Series]:
    """Time all subjects in interleaved rounds for about ``seconds``, untimed parts included.

    Returns:
        For each engine its series; all have one sample for each round.
    """
    names = [subject.engine for subject in subjects]
    if len(set(names)) != len(names):
        raise ValueError(f"two subjects of one name in {names}; a name is a key of the results")
    clock = time.process_time if cpu_time else time.perf_counter
    before = gc.isenabled()
    gc.collect()
    gc.freeze()
    try:
        repeats = [_calibrate(subject, round_seconds, collector, clock) for subject in subjects]
        series = [Series(name) for name in names]
        _rounds(subjects, repeats, series, seconds, collector, clock)
    finally:
        gc.unfreeze()
        _switch_collector(before)
    return dict(zip(names, series, strict=True))


def _rounds(
    subjects: Sequence[Subject],
    repeats: Sequence[int],
    series: Sequence[Series],
    seconds: float,
    collector: bool,
    clock: Clock,
) -> None:
    order = list(range(len(subjects)))
    shuffle = random.Random(0).shuffle
    end = time.perf_counter() + seconds
    for done in range(MOST_ROUNDS):
        if done >= FEWEST_ROUNDS and time.perf_counter() > end:
            return
        for position in order:
            subject = subjects[position]
            taken = _one_round(subject, repeats[position], collector, clock)
            series[position].samples.append(taken / (repeats[position] * subject.units))
        # Shuffled, so that no engine always runs in the caches that one other left.  A
        # rotation does not do: it leaves each engine behind the same other one, and one
        # subject measured twice, second in line behind itself, came out 15 % faster.
        shuffle(order)


def _calibrate(subject: Subject, round_seconds: float, collector: bool, clock: Clock) -> int:
    """How many calls make a round long enough; doubles as the warm-up."""
    repeats = 1
    while True:
        taken = min(_one_round(subject, repeats, collector, clock) for _ in range(3))
        if taken >= round_seconds or repeats >= 1 << 20:
            return repeats
        repeats *= 2


def _one_round(subject: Subject, repeats: int, collector: bool, clock: Clock) -> float:
    """Seconds that ``repeats`` calls took; the clock stops before their results are dropped."""
    prepared = [subject.prepare() for _ in range(repeats)]
    results: list[object] = []
    keep, run = results.append, subject.run
    gc.collect(1)
    _switch_collector(collector)
    try:
        start = clock()
        for argument in prepared:
            keep(run(argument))
        return clock() - start
    finally:
        gc.disable()


def _switch_collector(on: bool) -> None:
    if on:
        gc.enable()
    else:
        gc.disable()
