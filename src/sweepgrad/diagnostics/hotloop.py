"""The hot loop: make a tracked tensor, drop it, ten million times, and watch the memory.

How it is measured.  Every thread first runs the warm-up rounds, so that the
interpreter's free lists, the allocator's arenas and the runtime's tables have
their working size.  All threads then wait while the base figures are taken, run
their rounds while this thread samples resident memory, and wait once more while
the final figures are taken, so that neither starting nor ending a thread is
counted.  Samples go into an array made beforehand: the measurement allocates
nothing that it keeps.
"""

from __future__ import annotations

import gc
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweepgrad.diagnostics.memory import resident_bytes
from sweepgrad.errors import SettingError
from sweepgrad.graph import DEFAULT, MemoryReport, SweepReport
from sweepgrad.ops import arithmetic
from sweepgrad.sync import Barrier, BrokenBarrierError, Thread
from sweepgrad.tensor import Tensor, tensor

#: Resident memory may grow by this much after the warm-up, however many rounds follow:
#: what Burn's sweep kept its growth to over ten million rounds (138 kB).
ALLOWED_GROWTH = 138_000

#: Live allocator blocks may differ by this many from the warm-up level.  Not zero: the
#: main thread's own frames and numbers come and go.  A leak of one block in 100,000 rounds
#: exceeds it over ten million.
ALLOWED_BLOCKS = 100

#: Rounds between two looks at the stop flag and the progress counter.
CHUNK = 5_000

#: Seconds to wait for threads that were told to stop.
STOP_SECONDS = 60.0

_SAMPLES = 4_096


@dataclass(frozen=True)
class Settings:
    """What to run.

    Attributes:
        rounds: in all threads together.
        threads: how many threads share them.
        op: also compute ``t*t + t`` in every round.
        warmup: rounds of each thread before the base figures are taken.
        interval: seconds between two samples.
    """

    rounds: int = 10_000_000
    threads: int = 1
    op: bool = False
    warmup: int = 50_000
    interval: float = 0.1

    def __post_init__(self) -> None:
        for name in ("rounds", "threads", "warmup"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} is {getattr(self, name)}; it must be at least 1")


@dataclass(frozen=True)
class Result:
    """What a run measured; growth is against the figures after the warm-up.

    Attributes:
        rounds: rounds run after the warm-up, fewer than asked after Ctrl-C.
        growth: bytes of resident memory at the end, less those after the warm-up.
        peak_growth: the largest such difference of any sample.
        blocks_growth: change of ``sys.getallocatedblocks()``.
        samples: resident bytes over time; the first is the base, the last the end.
        memory: the runtime's own report at the end, nothing cleaned up.
    """

    settings: Settings
    rounds: int
    seconds: float
    growth: int
    peak_growth: int
    blocks_growth: int
    samples: list[int]
    memory: MemoryReport
    interrupted: bool

    def failures(self) -> list[str]:
        """What is against the promise, one sentence each; empty when all is well."""
        found = []
        if self.peak_growth > ALLOWED_GROWTH:
            found.append(
                f"resident memory grew by {self.peak_growth / 1e3:.0f} kB, "
                f"allowed are {ALLOWED_GROWTH / 1e3:.0f} kB"
            )
        if self.blocks_growth > ALLOWED_BLOCKS:
            found.append(
                f"{self.blocks_growth} more allocator blocks are in use than after the warm-up, "
                f"allowed are {ALLOWED_BLOCKS}"
            )
        if self.memory.graphs or self.memory.nodes:
            found.append(f"{self.memory.graphs} graphs with {self.memory.nodes} nodes are left")
        return found


class _Run:
    """What the threads of one run share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stop = False
        self.errors: list[BaseException] = []
        #: Rounds that each thread has done; written by that thread alone.
        self.done = array("q", [0] * settings.threads)
        #: Every thread and the measuring one: before the base figures, after them,
        #: before the final ones, after them.
        self.barrier = Barrier(settings.threads + 1)

    def share(self, index: int) -> int:
        """How many rounds thread ``index`` runs."""
        rounds, threads = self.settings.rounds, self.settings.threads
        return rounds // threads + (index < rounds % threads)

    def work(self, index: int) -> None:
        """One thread, from warm-up to end."""
        body = _leaf_and_operation if self.settings.op else _leaf
        try:
            body(self.settings.warmup)
            self.barrier.wait()
            self.barrier.wait()
            self._rounds(body, index)
            self.barrier.wait()
            self.barrier.wait()
        except BrokenBarrierError:
            pass
        except BaseException as error:
            self.errors.append(error)
            self.abort()

    def _rounds(self, body: Callable[[int], None], index: int) -> None:
        left = self.share(index)
        while left and not self.stop:
            count = min(left, CHUNK)
            body(count)
            left -= count
            self.done[index] += count

    def abort(self) -> None:
        """Let every thread end at its next look."""
        self.stop = True
        self.barrier.abort()


_ONES = np.ones((2, 2))


def _leaf(rounds: int) -> None:
    for _ in range(rounds):
        tensor(_ONES, requires_grad=True)


def _leaf_and_operation(rounds: int) -> None:
    add, multiply = arithmetic.add, arithmetic.multiply
    for _ in range(rounds):
        t = tensor(_ONES, requires_grad=True)
        add(multiply(t, t), t)


def run(settings: Settings, on_sample: Callable[[int, int], None] | None = None) -> Result:
    """Run the loop and measure it.

    Args:
        on_sample: called with (rounds done, resident bytes) at each sample.

    Ctrl-C ends the loop early; the result says so.  An error in a thread ends the
    run and is raised here.
    """
    shared = _Run(settings)
    threads = [
        Thread(target=shared.work, args=(index,), name=f"hotloop-{index}", daemon=True)
        for index in range(settings.threads)
    ]
    try:
        for thread in threads:
            thread.start()
        return _measure(shared, on_sample)
    except BrokenBarrierError:
        raise shared.errors[0] from None
    finally:
        shared.abort()
        for thread in threads:
            if thread.ident is not None:
                thread.join(STOP_SECONDS)


def _measure(shared: _Run, on_sample: Callable[[int, int], None] | None) -> Result:
    samples = array("q", [0] * _SAMPLES)
    shared.barrier.wait()
    gc.collect()
    resident_bytes()
    blocks = sys.getallocatedblocks()
    samples[0] = resident_bytes()
    start = time.perf_counter()
    shared.barrier.wait()
    count, interrupted = _sample(shared, samples, on_sample)
    shared.barrier.wait()
    seconds = time.perf_counter() - start
    gc.collect()
    samples[count] = resident_bytes()
    blocks_growth = sys.getallocatedblocks() - blocks
    memory = DEFAULT.memory_report()
    shared.barrier.wait()
    taken = list(samples[: count + 1])
    return Result(
        settings=shared.settings,
        rounds=sum(shared.done),
        seconds=seconds,
        growth=taken[-1] - taken[0],
        peak_growth=max(taken) - taken[0],
        blocks_growth=blocks_growth,
        samples=taken,
        memory=memory,
        interrupted=interrupted,
    )


def _sample(
    shared: _Run, samples: array[int], on_sample: Callable[[int, int], None] | None
) -> tuple[int, bool]:
    """Sample until every thread has run its rounds; how many samples there are, and Ctrl-C."""
    count, interval = 1, shared.settings.interval
    try:
        while sum(shared.done) < shared.settings.rounds and not shared.errors:
            time.sleep(interval)
            resident = samples[count] = resident_bytes()
            if on_sample is not None:
                on_sample(sum(shared.done), resident)
            count += 1
            if count == _SAMPLES - 1:
                count, interval = _halve(samples, count), 2 * interval
    except KeyboardInterrupt:
        shared.stop = True
        return count, True
    return count, False


def _halve(samples: array[int], count: int) -> int:
    """Make room: of each two samples after the base keep the larger, in place."""
    kept = 1
    for position in range(1, count - 1, 2):
        samples[kept] = max(samples[position], samples[position + 1])
        kept += 1
    if count % 2 == 0:
        samples[kept] = samples[count - 1]
        kept += 1
    return kept


@dataclass(frozen=True)
class HoldResult:
    """What only a sweep can free: reports before and after it.

    Attributes:
        graphs: how many graphs were made and their handles kept.
        resident: resident bytes before the sweep, and after it.
    """

    graphs: int
    before: MemoryReport
    sweep: SweepReport
    after: MemoryReport
    resident: tuple[int, int]

    def failures(self) -> list[str]:
        """What is against the promise; empty when all is well."""
        if self.after.graphs or self.after.nodes or self.after.saved_bytes:
            return [f"after the sweep {self.after.nodes} unavailable nodes are left"]
        if self.sweep.bytes_freed != self.before.saved_bytes:
            return [
                f"the sweep freed {self.sweep.bytes_freed} bytes, but before it "
                f"{self.before.saved_bytes} were saved"
            ]
        return []


def hold(graphs: int, side: int = 64) -> HoldResult:
    """Keep handles of consumed graphs, and sweep.

    Each graph is a trunk that two heads use.  A backward through the short head
    consumes the trunk and makes the long one unavailable: its handle lives, its
    saved arrays can never be used again, and counting references does not see
    that.  The long head has more nodes than the backward claims, or the small
    sweep that comes with every backward would have freed it already.
    """
    values = np.ones((side, side))
    kept: list[Tensor] = []
    leaf = tensor(values, requires_grad=True)
    for _ in range(graphs):
        trunk = arithmetic.multiply(leaf, leaf)
        head: Any = trunk
        for _ in range(4):
            head = arithmetic.multiply(head, head)
        arithmetic.negative(trunk).backward(values)
        kept.append(head)
    before = DEFAULT.memory_report()
    resident = resident_bytes()
    sweep = DEFAULT.graph_cleanup()
    return HoldResult(graphs, before, sweep, DEFAULT.memory_report(), (resident, resident_bytes()))
