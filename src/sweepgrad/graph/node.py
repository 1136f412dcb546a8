"""Node: the record of one tracked value."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweepgrad.graph.locator import Graph
    from sweepgrad.graph.runtime import GraphRuntime

#: Node ids.  One counter for the process; ``next`` on it is one C call that never
#: gives the same number twice on any build.  A child is made after its parents,
#: so its id is higher than theirs.
node_ids = itertools.count(1)


def next_id() -> int:
    """An id above those of all nodes there are.

    A function, because an exploration exchanges the counter: whoever imported that would
    compare the ids of two counters.
    """
    return next(node_ids)


class Rule:
    """A declared gradient rule: what to call in backward, and what its saved values are.

    Attributes:
        name: the operation, for messages.
        backward: ``backward(g, *saved)`` gives the gradient for the one parent,
            or a tuple with one gradient for each parent.  Written in NumPy
            functions and operators, so that it takes arrays and tensors alike.
        roles: for each saved value, where it sits in the graph: the index of
            the parent whose value it is, :data:`ANSWER` for the node's own
            value, or None for a constant.  Higher order needs it to put the
            saved arrays back into the graph.
        parts: for each parent, a function that gives its gradient alone and the
            positions of the saved values it takes; None when only ``backward`` exists.
        lift: for rules whose saved values differ from call to call, what puts
            them back into the graph in place of ``roles``:
            ``lift(node, saved, parents)`` gives what ``backward`` then gets.
    """

    __slots__ = ("backward", "lift", "name", "parts", "roles")

    def __init__(
        self,
        name: str,
        backward: Callable[..., Any],
        roles: tuple[int | None, ...] = (),
        parts: tuple[tuple[Callable[..., Any], tuple[int, ...]], ...] | None = None,
        lift: Callable[..., tuple[Any, ...]] | None = None,
    ) -> None:
        self.name = name
        self.backward = backward
        self.roles = roles
        self.parts = parts
        self.lift = lift

    def __repr__(self) -> str:
        return f"Rule({self.name!r})"


#: The role of a saved value that is the node's own value.
ANSWER = -1


class Claim:
    """One backward's mark on the nodes it visits; committed, it owns their rules.

    A node is consumed when ``node.claim.committed``.  One store commits a claim
    over any number of nodes, so an interrupted claim is either absent (the
    marks mean nothing) or complete.
    """

    __slots__ = ("committed", "nodes", "why")

    def __init__(self, why: str = "", committed: bool = False) -> None:
        self.committed = committed
        #: The nodes it owns once committed, in the order they run; emptied by ``let_go``.
        self.nodes: list[Node] = []
        #: What became of the nodes, for messages.
        self.why = why

    def __repr__(self) -> str:
        return f"Claim({self.why!r}, committed={self.committed})"

    def let_go(self) -> None:
        """Drop rules, saved values and parents of the nodes it owns; harmless if it owns none.

        Also where a backward was interrupted anywhere after the commit: a live
        handle on a consumed node must not keep the arrays of a whole graph.
        """
        if not self.committed:
            return
        for node in self.nodes:
            node.rule = None
            node.saved = ()
            node.parents = ()
        self.nodes.clear()


#: The claim of a node that a sweep found to have a consumed ancestor.
UNAVAILABLE = Claim("a backward has already taken the gradient rule of one of its ancestors", True)
#: The claim of a node that was dead and reclaimed.
FREED = Claim("it was dropped and reclaimed", True)


class Node(weakref.ref[Any]):
    """The record of one tracked value; also the weak reference to its handle.

    ``node()`` is the live handle or None, which makes handle liveness a fact of
    the interpreter rather than a count of ours: it is right even when an
    interrupt keeps a finalizer from running.  The rejected alternative, a
    ``__del__`` on the handle that decrements a count, costs the same and can
    lose a decrement.

    A leaf has no graph, no parents and no rule; it lives by its handle and by
    the children that name it as a parent, and no lock ever protects it.

    Fields of a node in a graph are written under that graph's lock, except
    where the field says otherwise.
    """

    __slots__ = (
        "__weakref__",
        "below",
        "children",
        "claim",
        "expecting",
        "extras",
        "graph",
        "id",
        "level",
        "nbytes",
        "parents",
        "rule",
        "runtime",
        "saved",
    )

    # Identity, not equality of the handles, which is what a weak reference compares.
    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __ne__ = object.__ne__

    id: int
    #: The tracked operands, in order, repeated where an operand is used twice; a single one
    #: as it is, without a tuple: see :func:`parents_of`.  Empty for a leaf and for a node whose
    #: backward has run.
    parents: Node | tuple[Node, ...]
    #: None for a leaf and for a node whose rule is gone.
    rule: Rule | None
    #: What the rule will need; a single value as it is, unless that is a tuple: see
    #: :func:`saved_of`.  Read by the backward that claimed the node.
    saved: Any
    #: None for a leaf.  May name a graph that was merged away: see ``GraphLocator.find``.
    graph: Graph | None
    #: Edges from registered children; read without a lock by finalizers (note [Drop]).
    children: int
    #: While ``children`` is not zero: the id of the only child there has been, or a list that
    #: has the ids of all registered children and maybe of some that have gone.  Unset before.
    below: int | list[int]
    #: True while a child may have arrived that is not counted yet.  Set without a lock by
    #: whoever records the child, cleared under the lock when it is counted (note [Arrival]).
    expecting: bool
    #: 1 + the highest level among the parents; 0 for a leaf.  Descending level is a
    #: topological order that depends on the graph's shape alone (note [Order]).
    level: int
    #: The last claim that visited the node.  The node is consumed when that claim
    #: is committed, and unavailable or freed when it is one of the constants for that.
    claim: Claim | None
    #: Bytes of the arrays in ``saved``.
    nbytes: int
    #: Rarely used additions: "hooks", "retain", "origin", "after".  Unset for nearly every
    #: node, since writing None would cost each recorded operation; see watch.extras_of.
    extras: dict[str, Any] | None
    #: Of a leaf alone: the runtime it belongs to.
    runtime: GraphRuntime

    def __repr__(self) -> str:
        if self.graph is None:
            return f"<leaf {self.id}>"
        rule = self.rule  # one look: the backward that claimed the node may take it now
        name = rule.name if rule is not None else "without a rule"
        return f"<node {self.id} {name}>"

    @property
    def is_leaf(self) -> bool:
        return self.graph is None


def parents_of(node: Node) -> tuple[Node, ...]:
    """The tracked operands of a node.

    Most nodes have one.  A tuple around it would be one more object for the cyclic collector
    to look at with each full collection, and an eighth of a node's memory.
    """
    parents = node.parents
    return parents if type(parents) is tuple else (parents,)  # type: ignore[return-value]


def saved_of(node: Node) -> tuple[Any, ...]:
    """The saved values of a node."""
    saved = node.saved
    return saved if type(saved) is tuple else (saved,)


def make_leaf(handle: object, runtime: GraphRuntime) -> Node:
    """The node of a new leaf.  Takes no lock; safe from any thread."""
    leaf = Node(handle)
    leaf.id = next(node_ids)
    leaf.parents = ()
    leaf.rule = None
    leaf.saved = ()
    leaf.graph = None
    leaf.children = 0
    leaf.expecting = False
    leaf.level = 0
    leaf.claim = None
    leaf.nbytes = 0
    leaf.runtime = runtime
    return leaf
