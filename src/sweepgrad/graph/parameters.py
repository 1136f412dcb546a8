"""ParameterSwap: replace a parameter's array in one step, without a lost update.

A parameter's array is never written into.  A forward in another thread sees the
old array or the new one, never half of each, and a value saved for backward
never changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sweepgrad.graph.hierarchy import Rank, make_lock
from sweepgrad.graph.section import leave, refused

if TYPE_CHECKING:
    from sweepgrad.graph.runtime import GraphRuntime

#: More stripes than threads usually have updates in flight, few enough to renew at a fork.
STRIPES = 32


class Cell(Protocol):
    """What is swapped: anything whose value is one attribute."""

    _array: Any


class ParameterSwap:
    """Compare-and-swap for the parameters of one runtime."""

    __slots__ = ("_retries", "_runtime", "locks")

    def __init__(self, runtime: GraphRuntime) -> None:
        self._runtime = runtime
        #: Rank PARAM.  A parameter's lock is chosen by its leaf's id.  Protects the
        #: look at the current array and the store of the new one.  Never under it:
        #: computing the new value, freeing the old one.
        self.locks = self._new_locks()
        #: Per stripe, how many swaps found another array; written under its lock.
        self._retries = [0] * STRIPES

    def _new_locks(self) -> list[Any]:
        # Serials rise over all runtimes: a fork takes the stripes of all of them.
        primitives, first = self._runtime.primitives, self._runtime.serial * STRIPES
        return [make_lock(primitives, Rank.PARAM, first + stripe) for stripe in range(STRIPES)]

    def renew_locks(self) -> None:
        """Make all locks anew, in a forked child."""
        self.locks = self._new_locks()

    def replace(self, cell: Cell, key: int, expected: Any, new: Any) -> bool:
        """Store ``new`` if the cell still holds ``expected``; False and no change otherwise.

        Thread safety: any thread.  The caller holds ``expected``, so nothing is
        freed under the lock.

        Raises:
            ReentrantCallError: inside a critical section of this thread.
        """
        state = self._runtime.primitives.threads.state
        if state.section is not None:
            raise refused("updating a parameter")
        stripe = key % STRIPES
        swapped = False
        try:
            state.section = self
            with self.locks[stripe]:
                if cell._array is expected:
                    cell._array = new
                    swapped = True
                else:
                    self._retries[stripe] += 1
        finally:
            state.section = None
        if state.deferred or state.sweeps_asked:
            leave(state)
        return swapped

    def store(self, cell: Cell, key: int, new: Any) -> None:
        """Store ``new`` whatever the cell holds.

        Under the lock, because a store between the look and the swap of a
        ``replace`` would be overwritten by a value that never saw it.
        """
        while True:
            old = cell._array
            if self.replace(cell, key, old, new):
                return

    def retries(self) -> int:
        """How many swaps found that another thread had swapped first."""
        return sum(self._retries)
