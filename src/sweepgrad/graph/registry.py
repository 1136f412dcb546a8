"""NodeRegistry: the node records of one graph, their counts and statistics.

Why a node may be freed.  A node is *dead* when it has no live handle and no
registered child: nobody can name it and no backward can reach it.  Freeing it
takes one child from each of its parents, which may make them dead in turn, so
one drop frees a whole chain, tips first, in a loop.  A node is *unavailable*
when an ancestor has left the registry although a child needs it: some backward
took that ancestor's rule, so no backward can ever run from here, handles or not.

What is true and what is derived.  Parents, handle liveness (``node()``) and
committed claims are the truth.  ``nodes``, ``children``, ``tips`` and
``saved_bytes`` are derived: ``dirty`` is set before the first change to them
and cleared after the last, and :meth:`NodeRegistry.rebuild` restores them from
the truth when a change was interrupted half-way.

Nothing is destroyed here.  What is freed goes to the caller's ``garbage`` list,
which ``section.discard`` empties outside every lock, because a saved value's
destructor is somebody's code.
"""

from __future__ import annotations

from typing import Any

from sweepgrad.errors import InvariantError
from sweepgrad.graph.node import FREED, UNAVAILABLE, Node


class NodeRegistry:
    """The records of one graph.  Every method needs the graph's lock, held by the caller."""

    __slots__ = ("dirty", "nodes", "saved_bytes", "tips")

    #: Id to node, in an order where parents precede their children: nodes are
    #: registered after their parents, and a merge appends the smaller graph whole.
    nodes: dict[int, Node]
    #: How many nodes have no registered child.
    tips: int
    #: sum(node.nbytes for node in nodes.values())
    saved_bytes: int
    #: True while the fields above may contradict the truth.
    dirty: bool

    def __init__(self) -> None:
        self.nodes = {}
        self.tips = 0
        self.saved_bytes = 0
        self.dirty = False

    def add(self, node: Node) -> None:
        """Record a node whose non-leaf parents are recorded here."""
        nodes = self.nodes
        nodes[node.id] = node
        for parent in node.parents:
            if parent.id in nodes:
                if not parent.children:
                    self.tips -= 1
                parent.children += 1
        self.tips += 1
        self.saved_bytes += node.nbytes

    def reclaim(self, node: Node, garbage: list[Any]) -> None:
        """Free ``node`` if it is dead, then every ancestor that this makes dead.

        The caller has marked the graph dirty, so the two sums may wait until the end.
        """
        nodes = self.nodes
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
                continue
            if nodes.pop(node.id, None) is None:
                continue  # reclaimed, consumed or unavailable already
            garbage.append(node)
            node.claim = FREED
            tips -= 1
            nbytes += node.nbytes
            # _let_go_of_parents written out: a call for each node is a third of the cost.
            for parent in node.parents:
                if parent.id in nodes:
                    left = parent.children - 1
                    parent.children = left
                    if not left:
                        tips += 1
                        stack.append(parent)
        self.tips += tips
        self.saved_bytes -= nbytes

    def _let_go_of_parents(self, node: Node, childless: list[Node]) -> None:
        nodes = self.nodes
        for parent in node.parents:
            if parent.id in nodes:
                parent.children -= 1
                if not parent.children:
                    self.tips += 1
                    childless.append(parent)

    def remove_closed(self, claimed: list[Node]) -> None:
        """Forget claimed nodes, all of whose ancestors are claimed with them."""
        nodes = self.nodes
        if len(claimed) == len(nodes):
            nodes.clear()
            self.tips = 0
            self.saved_bytes = 0
            return
        for node in claimed:
            self._forget(node)

    def remove_part(self, claimed: list[Node], garbage: list[Any]) -> None:
        """Forget claimed nodes, some of whose parents stay and lose a child by it."""
        for node in claimed:
            self._forget(node)
        childless: list[Node] = []
        for node in claimed:
            self._let_go_of_parents(node, childless)
        for node in childless:
            self.reclaim(node, garbage)

    def _forget(self, node: Node) -> None:
        if self.nodes.pop(node.id, None) is not None:
            if not node.children:
                self.tips -= 1
            self.saved_bytes -= node.nbytes

    def sweep(self, garbage: list[Any]) -> int:
        """Free what is dead or unavailable, decided from the truth; returns how many nodes."""
        before = len(self.nodes)
        self.dirty = True
        self._free_unavailable(garbage)
        self.rebuild(garbage)
        self.dirty = False
        return before - len(self.nodes)

    def _free_unavailable(self, garbage: list[Any]) -> None:
        nodes = self.nodes
        for node in list(nodes.values()):
            for parent in node.parents:
                # Parents come first in `nodes`, so one pass carries it down the graph.
                if parent.graph is not None and parent.id not in nodes:
                    node.claim = UNAVAILABLE
                    del nodes[node.id]
                    garbage.append(node)
                    break

    def rebuild(self, garbage: list[Any]) -> None:
        """Derive every count from the truth again and free what is dead.

        Order matters against finalizers that look at ``children`` without the
        lock (note [Drop] in section.py): a count reaches its final value first,
        the handle is looked at second.
        """
        nodes = self.nodes
        taken = [node for node in nodes.values() if node.claim is not None and node.claim.committed]
        for node in taken:
            del nodes[node.id]
        garbage.extend(taken)
        for node in nodes.values():
            node.children = 0
        for node in nodes.values():
            for parent in node.parents:
                if parent.id in nodes:
                    parent.children += 1
        childless = [node for node in nodes.values() if not node.children]
        self.tips = len(childless)
        self.saved_bytes = sum(node.nbytes for node in nodes.values())
        for node in childless:
            self.reclaim(node, garbage)

    def check_valid(self) -> None:
        """Compare every derived field with the truth.

        Raises:
            InvariantError: naming the first contradiction.
        """
        nodes = self.nodes
        expect("dirty", self.dirty, False)
        children = dict.fromkeys(nodes, 0)
        for key, node in nodes.items():
            expect(f"key of {node!r}", key, node.id)
            for parent in node.parents:
                if parent.id in children:
                    children[parent.id] += 1
                elif parent.graph is not None:
                    claim = parent.claim
                    consumed = claim is not None and claim.committed
                    expect(f"{parent!r} left the registry consumed", consumed, True)
        for node in nodes.values():
            expect(f"children of {node!r}", node.children, children[node.id])
        expect("tips", self.tips, sum(not count for count in children.values()))
        expect("saved bytes", self.saved_bytes, sum(node.nbytes for node in nodes.values()))

    def dead(self) -> list[Node]:
        """The nodes that marking from the live handles does not reach.

        The second, independent answer to what is alive: it reads parents and
        handles alone, no count.
        """
        alive: set[int] = set()
        dead = []
        for node in reversed(list(self.nodes.values())):
            if node.id in alive or node() is not None:
                alive.update(parent.id for parent in node.parents)
            else:
                dead.append(node)
        return dead


def expect(what: str, found: object, expected: object) -> None:
    """Raise :class:`InvariantError` unless the two agree."""
    if found != expected:
        raise InvariantError(f"{what} is {found!r} but the truth says {expected!r}")
