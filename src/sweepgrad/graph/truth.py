"""The truth about one graph, worked out anew, and the comparison with what is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweepgrad.errors import InvariantError
from sweepgrad.graph.backlog import list_below
from sweepgrad.graph.node import Node, parents_of

if TYPE_CHECKING:
    from sweepgrad.graph.registry import NodeRegistry


def check_registry(registry: NodeRegistry) -> None:
    """Compare every derived field of a registry with the truth.

    Raises:
        InvariantError: naming the first contradiction.
    """
    nodes = registry.nodes
    expect("dirty", registry.dirty, False)
    children: dict[int, list[int]] = {key: [] for key in nodes}
    listed = set() if registry.backlog is None else registry.backlog.ids()
    for key, node in nodes.items():
        expect(f"key of {node!r}", key, node.id)
        for parent in parents_of(node):
            if parent.id in children:
                children[parent.id].append(key)
            elif parent.graph is not None:
                claim = parent.claim
                consumed = claim is not None and claim.committed
                expect(f"{parent!r} left the registry consumed", consumed, True)
                expect(f"{node!r} is in the backlog", key in listed, True)
    for node in nodes.values():
        found = children[node.id]
        expect(f"children of {node!r}", node.children, len(found))
        if found:
            below = {child for child in list_below(node) if child in nodes}
            expect(f"what is below {node!r}", below, set(found))
    expect("tips", registry.tips, sum(not found for found in children.values()))
    expect("saved bytes", registry.saved_bytes, sum(node.nbytes for node in nodes.values()))


def unreached(registry: NodeRegistry) -> list[Node]:
    """The nodes that marking from the live handles does not reach.

    The second, independent answer to what is alive: it reads parents and
    handles alone, no count.
    """
    alive: set[int] = set()
    dead = []
    for node in reversed(list(registry.nodes.values())):
        if node.id in alive or node() is not None:
            alive.update(parent.id for parent in parents_of(node))
        else:
            dead.append(node)
    return dead


def expect(what: str, found: object, expected: object) -> None:
    """Raise :class:`InvariantError` unless the two agree."""
    if found != expected:
        raise InvariantError(f"{what} is {found!r} but the truth says {expected!r}")
