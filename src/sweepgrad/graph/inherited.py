"""Locks that a forked child inherits with its objects, where objects have locks of their own.

On a CPython that can run without a GIL every object has one, taken to change a set, to store
into a slot, to look into the cell of a closure.  A child may find one locked for ever, and
wait for it at its first look:

    1. one thread is inside ``set.add``; another has waited for the set's lock for over 1 ms
    2. the first hands the lock over, still locked, to the second, which has yet to wake up
    3. a third thread forks, and the second does not exist in the child

(CPython 3.13.5: a plain set that 16 threads change, 3 forks of 599.)  What the object holds
is whole, because a fork stops all threads between operations.  CPython makes its own locks
anew in a child, by clearing them, but not those of objects.  So a thread that forks lists
what is sweepgrad's, and the child clears the locks of that.  Not those of other objects:
the forking thread itself may hold one, if it forks from code that a container called.
Nothing of ours calls code of others while it is locked.

The list has what the modules own and what the runtimes reach, and is made when all locks of
the hierarchy are held.  Not in it are optimizers, layers and operations of the user's own
(``custom_vjp``) that threads share, whose slots CPython locks only where two threads race for
one; and what another thread makes between the list and the fork, which would have to be shared
and waited for within that moment.

Rejected: containers that the child makes anew.  Reading the old ones without their locks
takes ``gc.get_referents``, which stops the world by a lock that the same happens to when
another thread collects; and it leaves the slots of nodes and the cells of closures, in which
children hung when the containers were no longer what they hung in.  A list by
``gc.get_objects`` with each fork would be of everything; beside 24 threads that compute on
two cores it took 0.3 to 9 s, with all locks held.
"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections import deque
from collections.abc import Callable
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from sweepgrad.sync import NATIVE

if TYPE_CHECKING:
    from sweepgrad.graph.node import Node
    from sweepgrad.graph.runtime import GraphRuntime

Function = TypeVar("Function", bound=Callable[..., Any])

#: True where each object has a lock of its own.
OBJECTS_LOCK = "free-threading" in sys.version

#: Where in an object its lock is, one byte: behind the thread's identity and two bytes.
_LOCK_AT = 10

_CACHE: type = type(functools.lru_cache(int))

#: What an object of ours may own that others look into.
_OWNED: frozenset[type] = frozenset({set, deque, dict, list, CellType, _CACHE})


class _Seen:
    """Sees the byte where the lock of a set should be, while the set is locked."""

    def __init__(self, place: Any) -> None:
        self._place = place
        self.byte = 0

    def __hash__(self) -> int:
        self.byte = self._place.value
        return 0


def _lock_of(owner: object) -> Any:
    """The byte that is the object's lock, as a ``ctypes`` integer."""
    import ctypes  # not needed with a GIL

    return ctypes.c_uint8.from_address(id(owner) + _LOCK_AT)


def _found_lock() -> bool:
    """Whether the lock is where we look for it: that byte is 1 while a set is changed, else 0."""
    probe: set[object] = set()
    place = _lock_of(probe)
    before, seen = place.value, _Seen(place)
    probe.add(seen)
    return (before, seen.byte, place.value) == (0, 1, 0)


#: Whether a child can clear the locks of objects.
LOCKS_CAN_BE_CLEARED = OBJECTS_LOCK and _found_lock()


#: What the modules of sweepgrad own; filled once, when they have been imported.
_of_modules: list[Any] = []


def note_modules() -> None:
    """List what the modules own: their dicts, containers, caches, and the cells of closures."""
    if not LOCKS_CAN_BE_CLEARED:
        return
    everything = gc.get_objects()
    classes = {kind for kind in set(map(type, everything)) if _is_ours(kind)}
    found = [each for each in everything if type(each) in classes or type(each) is _CACHE]
    found += [vars(module) for name, module in sys.modules.items() if _is_name(name)]
    functions = [each for each in everything if type(each) is FunctionType and _made_here(each)]
    level: list[Any] = [*found, *functions, *[each.__closure__ for each in functions]]
    for _ in range(2):
        level = [each for each in gc.get_referents(*level) if type(each) in _OWNED]
        found += level
    _of_modules[:] = found


#: Weak references to closures that sweepgrad made since.  Changed by set.add and set.discard
#: alone.
_closures: set[weakref.ref[Any]] = set()


def shared(function: Function) -> Function:
    """Note a closure that was made for a user, whose threads may share it; returns it."""
    if LOCKS_CAN_BE_CLEARED:
        _closures.add(weakref.ref(function, _closures.discard))
    return function


def lockable(runtimes: list[GraphRuntime]) -> list[Any]:
    """What is sweepgrad's and has a lock that a child may find locked; for a thread that forks.

    Empty where objects have no locks, or where these were not found.  The caller holds every
    lock of the hierarchy, and keeps the list until it has released them: an item may by then
    have no other reference.  Costs O(nodes); without runtimes it has what modules own, for
    which no lock is needed.
    """
    if not LOCKS_CAN_BE_CLEARED:
        return []
    found = [*_of_modules]
    for reference in _closures.copy():
        found += getattr(reference(), "__closure__", None) or ()
    nodes: list[Node] = []
    for runtime in runtimes:
        if runtime.primitives is not NATIVE:
            continue  # of an exploration, whose threads run one at a time
        for graph in runtime.locator.list_all():
            arrivals = graph.arrivals  # by index: others append
            nodes += graph.nodes.values()
            nodes += [arrivals[at] for at in range(len(arrivals))]
            found += [graph, graph.nodes, arrivals, graph.drops]
        nodes += runtime.leaves()
        found += [runtime, runtime.locator, *runtime.shared_sets()]
    # Of nodes alone: an attribute of a handle may be code of the user's.
    extras = [each for node in nodes if (each := getattr(node, "extras", None)) is not None]
    return [*found, *nodes, *[node() for node in nodes], *extras]


def clear_locks(owners: list[Any]) -> None:
    """Clear the locks of these objects; for a forked child, which has one thread."""
    for owner in owners:
        _clear_lock(owner)
        if type(owner) is dict:
            _clear_locks_of_hooks(owner)


def _clear_locks_of_hooks(extras: dict[str, Any]) -> None:
    for hooks in extras.values():
        if type(hooks) is dict:
            _clear_lock(hooks)
            for hook in hooks.values():
                for cell in getattr(hook, "__closure__", None) or ():
                    _clear_lock(cell)


def _clear_lock(owner: object) -> None:
    lock = _lock_of(owner)
    if lock.value:  # a write would copy the page
        lock.value = 0


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.partition(".")[0] == "sweepgrad"


def _made_here(function: FunctionType) -> bool:
    return function.__closure__ is not None and _is_name(function.__module__)


def _is_ours(kind: type) -> bool:
    return any(_is_name(base.__dict__.get("__module__")) for base in type.mro(kind))
