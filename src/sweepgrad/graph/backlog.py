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

#: How many ids of children that have gone a list may have, beside as many as are there.
_SLACK = 8


class Backlog:
    """Where the unavailable nodes of one graph are: lists of children of nodes that left it.

    A child that is recorded still is unavailable, and so is all that descends from it.

    Attributes:
        found: lists that no sweep has begun with; not empty ones only.
        begun: lists that a sweep is working off, the last first.
        size: how many ids were put into it, those of children that have gone included.
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
        """Take over what the backlog of a graph merged away has."""
        self.found += other.found
        self.begun += other.begun
        self.size += other.size

    def ids(self) -> set[int]:
        """All that is listed."""
        return {child for below in (*self.found, *self.begun) for child in below}


def add_below(parent: Node, child: int, count: int, recorded: Container[int]) -> None:
    """Note a further child of a node that has ``count``.

    Children that go are not taken out, which would cost as much as looking for them; a
    list most of which has gone is made anew instead.
    """
    below = parent.below
    if type(below) is int:
        parent.below = [below, child]
        return
    assert type(below) is list
    if len(below) > 2 * count + _SLACK:
        below[:] = [one for one in below if one in recorded]
    below.append(child)


def list_below(node: Node) -> list[int]:
    """The list of a node that has or had children; of one that left, the caller may empty it."""
    below = node.below
    return [below] if type(below) is int else below  # type: ignore[return-value]
