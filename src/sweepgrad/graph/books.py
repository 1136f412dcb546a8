"""What the order checker notes, in a book for each thread, and all books read together.

With one table for all, which each thread wrote while it held the lock that it noted, the
holders of unrelated locks waited for the table.  Without a GIL that made every queue for a
lock endless: 64 threads finished 300 updates of a parameter in a second, now 6,000.
"""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweepgrad.sync import ThreadState

if TYPE_CHECKING:
    from sweepgrad.graph.hierarchy import Rank, RankedLock

#: A stack as (file, line, function), innermost first; kept raw because it is taken
#: with every lock and seldom shown.
Stack = tuple[tuple[str, int, str], ...]


@dataclass
class Edge:
    """Lock class ``inner`` was taken while ``outer`` was held; where, the first time."""

    outer: Rank
    inner: Rank
    outer_stack: Stack
    inner_stack: Stack
    times: int = 0


class Book:
    """The notes of one thread at a time, which alone writes them."""

    __slots__ = ("edges", "longest_wait", "owner", "taken", "wait")

    def __init__(self) -> None:
        self.taken: dict[Rank, int] = {}
        self.edges: dict[tuple[Rank, Rank], Edge] = {}
        self.longest_wait = 0.0
        #: Identity, lock and stack while the thread waits.
        self.wait: tuple[int, RankedLock, Stack] | None = None
        self.owner: weakref.ref[ThreadState] | None = None


class Books:
    """Every thread's book.  A thread that ends leaves its book to a later one."""

    __slots__ = ("_all", "_free")

    def __init__(self) -> None:
        # Deques: append and pop are single C calls, so that no lock is needed.
        self._all: deque[Book] = deque()
        self._free: deque[Book] = deque()

    def of(self, state: ThreadState) -> Book:
        """This thread's book."""
        book: Book | None = state.book
        if book is None:
            book = state.book = self._open(state)
        return book

    def _open(self, state: ThreadState) -> Book:
        try:
            book = self._free.pop()
        except IndexError:
            book = Book()
            self._all.append(book)
        book.owner = weakref.ref(state, lambda _: self._free.append(book))
        return book

    def _every(self) -> list[Book]:
        """By index: ``list`` of a deque and its ``copy`` raise on a free-threaded 3.13 beside an
        append."""
        books = self._all
        return [books[place] for place in range(len(books))]

    def taken(self) -> dict[Rank, int]:
        """How often each class was taken, by all threads."""
        total: dict[Rank, int] = {}
        for book in self._every():
            for rank, times in book.taken.copy().items():
                total[rank] = total.get(rank, 0) + times
        return total

    def edges(self) -> dict[tuple[Rank, Rank], Edge]:
        """The observed pairs of all threads."""
        total: dict[tuple[Rank, Rank], Edge] = {}
        for book in self._every():
            for pair, edge in book.edges.copy().items():
                place = (edge.outer, edge.inner, edge.outer_stack, edge.inner_stack)
                total.setdefault(pair, Edge(*place)).times += edge.times
        return total

    def waiting(self) -> dict[int, tuple[RankedLock, Stack]]:
        """The lock that each waiting thread waits for, and where."""
        waits = [book.wait for book in self._every()]
        return {wait[0]: (wait[1], wait[2]) for wait in waits if wait is not None}

    def longest_wait(self) -> float:
        """Seconds of the longest wait for any lock."""
        return max((book.longest_wait for book in self._every()), default=0.0)

    def forget(self) -> None:
        """Everything but who waits now."""
        for book in self._every():
            book.taken, book.edges, book.longest_wait = {}, {}, 0.0

    def forget_waits(self) -> None:
        """In a forked child: the threads that waited are not there."""
        for book in self._every():
            book.wait = None
