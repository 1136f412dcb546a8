"""Which children a node has, by their ids, and the backlog: where unavailable nodes are found.

A node names its parents and not its children: strong references both ways would make
every graph a cycle, which only the collector frees.  Once it is counted a node has the
ids of its children, and the registry of the graph has the nodes of these ids, if they
are recorded still.  Recording an operation does not touch them (note [Arrival]).

Everything here belongs to one graph and needs its lock.
"""

from __future__ import annotations

from collections.abc import Container

from sweepgrad.graph.node import Node

#: How many ids of nodes that have gone a list, or a backlog, has before anybody minds.
_SLACK = 8


class Backlog:
    """Where the unavailable nodes of one graph are: lists of children of nodes that left it.

    A child that is recorded still is unavailable, and so is all that descends from it.
    Without any list it says that something has arrived which is to be counted.

    Attributes:
        found: lists that no sweep has begun with, none of them empty.
        begun: lists that a sweep is working off, the last first, none of them empty.
        size: how many ids the lists have, those of nodes that have gone included.
    """

    __slots__ = ("begun", "found", "size")

    def __init__(self) -> None:
        self.found: list[list[int]] = []
        self.begun: list[list[int]] = []
        self.size = 0

    def add(self, below: list[int]) -> None:
        """Put in the children of one node."""
        self.found.append(below)
        self.size += len(below)

    def begin(self) -> None:
        """Leave all that has been found until now to the sweep."""
        self.begun += self.found
        self.found = []

    def join(self, other: Backlog) -> None:
        """Take over what the backlog of the other graph of a merge has; the shorter list moves."""
        self.found = _joined(self.found, other.found)
        self.begun = _joined(self.begun, other.begun)
        self.size += other.size

    def is_stale(self, recorded: int) -> bool:
        """True if most of what is listed has gone, in a graph of so many nodes."""
        return self.size > 2 * recorded + _SLACK

    def prune(self, recorded: Container[int]) -> None:
        """Forget what has gone, or the lists could grow for ever beside nodes that live long.

        At least half of a stale backlog goes, so it costs no more than putting that in did.
        """
        self.size = 0
        for lists in (self.found, self.begun):
            left = dict.fromkeys(child for below in lists for child in below if child in recorded)
            lists[:] = [list(left)] if left else []
            self.size += len(left)

    def ids(self) -> set[int]:
        """All that is listed."""
        return {child for below in (*self.found, *self.begun) for child in below}


def renewed(unavailable: list[int]) -> Backlog | None:
    """The backlog where exactly these nodes have a parent that left.

    As if a sweep had begun with them: one that is under way goes on, and what it would
    have left to the next one is little.  Who interrupted whom need not be known for that.
    """
    if not unavailable:
        return None
    backlog = Backlog()
    backlog.add(unavailable)
    backlog.begin()
    return backlog


def _joined(one: list[list[int]], other: list[list[int]]) -> list[list[int]]:
    if len(one) < len(other):
        one, other = other, one
    one += other
    return one


def add_below(parent: Node, child: int) -> None:
    """Note a further child of a node that has one."""
    below = parent.below
    if type(below) is int:
        parent.below = [below, child]
    else:
        below.append(child)  # type: ignore[union-attr]  # mypy does not narrow by type(x) is int


def trim_below(parent: Node, left: int, recorded: Container[int]) -> None:
    """Forget children that have gone, if they are most of the list; ``left`` are there.

    A child that goes is not taken out at once, because looking for it costs as much as the
    list is long.  A list that is made anew when a quarter of it is left costs each child
    that goes a constant, keeps memory within what is alive, and is short when a claim looks
    at it under the lock.
    """
    below = parent.below
    if type(below) is list and len(below) > 4 * left + _SLACK:
        parent.below = [child for child in below if child in recorded]


def list_below(node: Node) -> list[int]:
    """The list of a node that has or had children; of one that left, the caller may empty it."""
    below = node.below
    return [below] if type(below) is int else below  # type: ignore[return-value]
