"""NodeRegistry: the node records of one graph, their counts and statistics.

Why a node may be freed.  A node is *dead* when it has no live handle and no
registered child: nobody can name it and no backward can reach it.  Freeing it
takes one child from each of its parents, which may make them dead in turn, so
one drop frees a whole chain, tips first, in a loop.  A node is *unavailable*
when an ancestor has left the registry although a child needs it: some backward
took that ancestor's rule, so no backward can ever run from here, handles or not.

What is true and what is derived.  Parents, handle liveness (``node()``) and
committed claims are the truth.  ``nodes``, ``children``, ``below``, ``tips``,
``saved_bytes`` and ``backlog`` are derived: ``dirty`` is set before the first change
to them and cleared after the last, and :meth:`NodeRegistry.rebuild` restores them
from the truth when a change was interrupted half-way.

Nothing is destroyed here.  What is freed goes to the caller's ``garbage`` list,
which ``section.discard`` empties outside every lock, because a saved value's
destructor is somebody's code.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import repeat, starmap
from typing import Any

from sweepgrad.graph.backlog import Backlog, add_below, list_below, renewed, trim_below
from sweepgrad.graph.node import FREED, UNAVAILABLE, Node, parents_of
from sweepgrad.graph.truth import check_registry, unreached

#: How many arrivals are looked at one by one before they are counted; a block of a deque.
_FEW = 64


class NodeRegistry:
    """The records of one graph.  Every method needs the graph's lock, held by the caller."""

    __slots__ = ("arrivals", "backlog", "credit", "dirty", "nodes", "saved_bytes", "tips")

    #: Nodes recorded but not counted yet, none of them in ``nodes``; children come after
    #: their parents.  Appended to without the lock, popped under it (note [Arrival] in
    #: register.py).
    arrivals: deque[Node]

    #: Id to node, in an order where parents precede their children: nodes are
    #: registered after their parents, and a merge appends the smaller graph whole.
    nodes: dict[int, Node]
    #: How many nodes have no registered child.
    tips: int
    #: sum(node.nbytes for node in nodes.values())
    saved_bytes: int
    #: What the next sweep begins with; None while no node here is known to be unavailable.
    #: Looked at without the lock by a full sweep (note [Sweep]).
    backlog: Backlog | None
    #: Nodes claimed here since the backlog was last worked off: what a sweep that comes with
    #: a backward may cost.
    credit: int
    #: True while the fields above may contradict the truth.
    dirty: bool

    def __init__(self, arrivals: deque[Node]) -> None:
        self.arrivals = arrivals
        self.nodes = {}
        self.tips = 0
        self.saved_bytes = 0
        self.backlog = None
        self.credit = 0
        self.dirty = False

    def count_arrivals(self, garbage: list[Any]) -> None:
        """Count what has arrived.  The caller has marked the graph dirty."""
        childless: list[Node] = []
        self._count_arrivals(garbage, childless)
        for node in childless:
            self.reclaim(node, garbage)

    def _count_arrivals(self, garbage: list[Any], childless: list[Node]) -> None:
        """As above; nodes that turn out to have no child are added to ``childless``.

        Those that are there now: without a GIL others might append faster than this counts.
        Who needs a child to be counted looks at the arrivals after its append (note [Arrival]).
        """
        arrivals, nodes = self.arrivals, self.nodes
        tips = nbytes = 0
        marked = False
        for _ in range(len(arrivals)):
            node = arrivals[0]  # it leaves the queue last, so that no interrupt loses it
            unavailable = False
            nodes[node.id] = node
            tips += 1
            nbytes += node.nbytes
            parents: Any = node.parents  # parents_of written out, too
            for parent in parents if type(parents) is tuple else (parents,):
                if parent.id in nodes:
                    count = parent.children
                    if count:
                        add_below(parent, node.id)
                    else:
                        tips -= 1
                        parent.below = node.id
                    parent.children = count + 1
                    parent.expecting = False
                elif parent.graph is not None:
                    unavailable = True
            if unavailable:
                # First, or a report would see a node leave that was never added: -1 tips.
                self.tips += tips
                self.saved_bytes += nbytes
                tips = nbytes = 0
                self._forget_unavailable(node, garbage, childless)
                marked = True
            arrivals.popleft()
        self.tips += tips
        self.saved_bytes += nbytes
        if marked and arrivals and self.backlog is None:
            # A child of a node marked here may have come before the mark, unseen by R3: this
            # makes the next sweep look.
            self.backlog = Backlog()

    def _settle_arrivals(self, garbage: list[Any], childless: list[Node]) -> None:
        """Free all that has arrived if it is little and all dead, as a dropped loss is; else count.

        Freed so, a node costs half of what it costs to be counted first.  By index, because
        others append meanwhile: on CPython 3.13 without a GIL, ``list`` of a deque and its
        ``copy`` raise then.  Little, because an index far from both ends is a walk.
        """
        arrivals = self.arrivals
        count = len(arrivals)
        if count <= _FEW:
            arrived = [arrivals[place] for place in range(count)]
            for node in reversed(arrived):
                handle = node()
                if handle is not None:
                    garbage.append(handle)  # ours may have become the last reference
                    break
            else:
                # All are dead, so nothing more can arrive under them; what arrived under
                # one while it was looked at is found by the length.
                if len(arrivals) == count:
                    self._free_arrived(arrived, garbage, childless)
                    return
        self._count_arrivals(garbage, childless)

    def _free_arrived(self, arrived: list[Node], garbage: list[Any], childless: list[Node]) -> None:
        nodes = self.nodes
        for node in reversed(arrived):
            node.claim = FREED
            garbage.append(node)
            for parent in parents_of(node):
                parent.expecting = False
                if parent.id in nodes and not parent.children:
                    childless.append(parent)
        for _ in arrived:  # they leave the queue last: an interrupt above must not lose one
            self.arrivals.popleft()

    def _forget_unavailable(self, node: Node, garbage: list[Any], childless: list[Node]) -> bool:
        """Forget a node one of whose parents is consumed: no backward can ever run from it.

        True if it has registered children.
        """
        node.claim = UNAVAILABLE
        garbage.append(node)  # first: an interrupt below must not lose its saved values
        has_children = self._forget(node)
        self._let_go_of_parents(node, childless)
        return has_children

    def reclaim(self, node: Node, garbage: list[Any]) -> None:
        """Free ``node`` if it is dead, then every ancestor that this makes dead.

        The caller has marked the graph dirty, so the two sums may wait until the end.
        """
        nodes, arrivals = self.nodes, self.arrivals
        stack = [node]
        tips = nbytes = 0
        while stack:
            node = stack.pop()
            if node.children:
                continue
            handle = node()
            if handle is not None:
                # Ours may have become the last reference: let it go outside the lock.
                garbage.append(handle)
                node.below = 0  # no list of what has gone stays with a node that lives
                continue
            if arrivals:
                # Looked at after the handle: note [Arrival], freeing.
                if len(arrivals) == 1 and arrivals[0] is node:
                    self._free_arrived([node], garbage, stack)
                    continue
                self._settle_arrivals(garbage, stack)
                if node.children:
                    continue
            if node.id not in nodes:
                continue  # reclaimed, consumed or unavailable already
            # To the garbage first: an exception between the two (no memory for the list)
            # must not destroy the node here, under the lock.
            garbage.append(node)
            del nodes[node.id]
            node.claim = FREED
            tips -= 1
            nbytes += node.nbytes
            # _let_go_of_parents written out: a call for each node is a third of the cost.
            parents: Any = node.parents  # parents_of written out, too
            for parent in parents if type(parents) is tuple else (parents,):
                if parent.id in nodes:
                    left = parent.children - 1
                    parent.children = left
                    if not left:
                        tips += 1
                        stack.append(parent)
                    elif type(parent.below) is list:
                        trim_below(parent, left, nodes)
        self.tips += tips
        self.saved_bytes -= nbytes
        if self.backlog is not None:
            self.bound_backlog()

    def _let_go_of_parents(self, node: Node, childless: list[Node]) -> None:
        nodes = self.nodes
        parents: Any = node.parents
        for parent in parents if type(parents) is tuple else (parents,):
            if parent.id in nodes:
                left = parent.children - 1
                parent.children = left
                if left:
                    trim_below(parent, left, nodes)
                else:
                    self.tips += 1
                    childless.append(parent)

    def remove_closed(self, claimed: list[Node]) -> None:
        """Forget claimed nodes, all of whose ancestors are claimed with them."""
        self._note_below([node for node in claimed if self._forget(node)])

    def remove_all(self, arrived: int, garbage: list[Any]) -> None:
        """Forget every node, and the first ``arrived`` arrivals: all of them are claimed."""
        for node in self.nodes.values():
            node.below = 0  # its handle may live
        self.nodes.clear()
        # A loop in C; the claim holds the nodes.
        list(starmap(self.arrivals.popleft, repeat((), arrived)))
        self.tips = 0
        self.saved_bytes = 0
        self.backlog = None
        if self.arrivals:
            # Recorded before the claim's marks: nobody else is sure to count it (note [Sweep]).
            self.count_arrivals(garbage)

    def remove_part(self, claimed: list[Node], garbage: list[Any]) -> None:
        """Forget claimed nodes, some of whose parents stay and lose a child by it."""
        self._note_below([node for node in claimed if self._forget(node)])
        childless: list[Node] = []
        for node in claimed:
            self._let_go_of_parents(node, childless)
        for node in childless:
            self.reclaim(node, garbage)

    def _forget(self, node: Node) -> bool:
        """Take a node out; True if it has registered children."""
        children = node.children
        if self.nodes.pop(node.id, None) is not None:
            self.saved_bytes -= node.nbytes
            if not children:
                self.tips -= 1
        return children > 0

    def _note_below(self, gone: list[Node]) -> None:
        """Put the children of nodes that have left into the backlog, where any are recorded."""
        nodes = self.nodes
        for node in gone:
            below = list_below(node)
            if not nodes.keys().isdisjoint(below):
                if self.backlog is None:
                    self.backlog = Backlog()
                self.backlog.add(below)
            node.below = 0  # its handle may live; the list is the backlog's now
        if not nodes:
            nodes.clear()  # gives back the room of those that were in it

    def bound_backlog(self) -> None:
        """See to it that most of what the backlog lists is recorded."""
        backlog = self.backlog
        if backlog is not None and backlog.is_stale(len(self.nodes)):
            backlog.prune(self.nodes)
            if not backlog.size and not self.arrivals:
                self.backlog = None

    def sweep(
        self, garbage: list[Any], lists: list[list[int]], limit: int, newest: float = math.inf
    ) -> None:
        """Work off one of the backlog's two lists, ``limit`` ids at most.

        Costs what it frees, and the ids of nodes that have gone meanwhile.  Nodes with an id
        above ``newest`` are left to the next sweep.
        """
        nodes, backlog = self.nodes, self.backlog
        assert backlog is not None, "the lists are its own"
        self.dirty = True
        childless: list[Node] = []
        newer: list[int] = []
        looked = 0
        while lists and looked != limit:
            ids = lists[-1]
            child = ids.pop()
            if not ids:
                lists.pop()
            looked += 1
            if child > newest:
                newer.append(child)
                continue
            node = nodes.get(child)
            if node is not None and self._forget_unavailable(node, garbage, childless):
                below = list_below(node)
                node.below = 0
                lists.append(below)
                backlog.size += len(below)
        backlog.size -= looked
        if newer:
            backlog.add(newer)
        if not backlog.found and not backlog.begun:
            self.backlog = None
            self.credit = 0
        for node in childless:
            self.reclaim(node, garbage)
        if not lists:
            # A child that arrived before its parent was forgotten is unavailable.  With the
            # last piece and not with each: three threads that record meanwhile may be faster
            # than this counts, and each piece would count what came during the one before.
            self.count_arrivals(garbage)

    def rebuild(self, garbage: list[Any]) -> None:
        """Derive every count from the truth again and free what is dead.

        Order matters against finalizers that look at ``children`` without the
        lock (note [Drop] in section.py): a count reaches its final value first,
        the handle is looked at second.
        """
        nodes = self.nodes
        self._take_arrivals()
        taken = [node for node in nodes.values() if node.claim is not None and node.claim.committed]
        garbage.extend(taken)
        for node in taken:
            del nodes[node.id]
        for node in nodes.values():
            node.children = 0
            node.expecting = False  # of a thread that is gone, or seen again at its append
        unavailable: list[int] = []
        for node in nodes.values():
            lost = False
            for parent in parents_of(node):
                if parent.id in nodes:
                    count = parent.children
                    if count:
                        add_below(parent, node.id)
                    else:
                        parent.below = node.id
                    parent.children = count + 1
                elif parent.graph is not None:
                    lost = True
            if lost:
                unavailable.append(node.id)
        self.backlog = renewed(unavailable)
        childless = [node for node in nodes.values() if not node.children]
        self.tips = len(childless)
        self.saved_bytes = sum(node.nbytes for node in nodes.values())
        for node in childless:
            self.reclaim(node, garbage)

    def _take_arrivals(self) -> None:
        """Record what has arrived, without counting; running it again does no harm."""
        arrivals = self.arrivals
        for _ in range(len(arrivals)):
            node = arrivals[0]
            self.nodes[node.id] = node
            for parent in parents_of(node):
                parent.expecting = False
            arrivals.popleft()

    def check_valid(self) -> None:
        """Compare every derived field with the truth.

        Raises:
            InvariantError: naming the first contradiction.
        """
        check_registry(self)

    def dead(self) -> list[Node]:
        """The nodes that marking from the live handles does not reach."""
        return unreached(self)
