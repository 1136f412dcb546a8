"""A naive graph: whole-graph walks, Python integers, no counts.  The oracle of the state machine.

It shares nothing with the runtime.  Values are integers, so sums are exact in any order and
gradients can be compared bitwise without knowing the order in which the engine adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Ref:
    """One value: a leaf, or the result of an operation on ``parents``."""

    value: int
    parents: tuple[Ref, ...] = ()
    #: The derivative by each parent, at the time of the operation.
    slopes: tuple[int, ...] = ()
    consumed: bool = False
    #: True while a tensor for it is held.
    held: bool = True
    order: int = field(default=0)

    @property
    def is_leaf(self) -> bool:
        return not self.parents


def ancestors(roots: Iterable[Ref]) -> set[Ref]:
    """The roots and everything they were computed from."""
    found: set[Ref] = set()
    waiting = list(roots)
    while waiting:
        ref = waiting.pop()
        if ref not in found:
            found.add(ref)
            waiting.extend(ref.parents)
    return found


def is_available(ref: Ref) -> bool:
    """True if a backward from it needs nothing that was consumed."""
    return not any(other.consumed for other in ancestors([ref]))


def paths(root: Ref, target: Ref) -> int:
    """The derivative by summing over every path, by recursion on the definition."""
    known: dict[Ref, int] = {}

    def derivative(ref: Ref) -> int:
        if ref is target:
            return 1
        if ref not in known:
            known[ref] = sum(
                slope * derivative(parent)
                for parent, slope in zip(ref.parents, ref.slopes, strict=True)
            )
        return known[ref]

    return derivative(root)


def between(roots: Iterable[Ref], targets: set[Ref]) -> set[Ref]:
    """What ``grad(roots, targets)`` consumes: ancestors with a parent that leads to a target."""
    useful = {ref for ref in ancestors(roots) if ancestors([ref]) & targets}
    return {ref for ref in ancestors(roots) if any(parent in useful for parent in ref.parents)}


def reachable(held: Iterable[Ref], registered: set[Ref]) -> set[Ref]:
    """What must be registered: held and registered, and what those need of the registered."""
    found: set[Ref] = set()
    waiting = [ref for ref in held if ref in registered]
    while waiting:
        ref = waiting.pop()
        if ref not in found:
            found.add(ref)
            waiting.extend(parent for parent in ref.parents if parent in registered)
    return found
