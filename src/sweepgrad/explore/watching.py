"""Watching: the fields that the runtime reads without a lock, and the runtime itself, on the model.

For the time of an exploration, a few fields of ``Node``, ``Graph`` and ``Tensor``
are replaced *on their classes* by descriptors that make each look and each store
a step, and put back afterwards.  So the native path pays nothing, not even a
test, and no node can escape by being made through another name.  The rejected
alternatives: subclasses for the model, which every ``type(x) is Node`` and every
imported name would have to know; and hooks in the runtime, which cost natively.

The default runtime is replaced by making its object anew in place: every bound
method, default argument and imported name that refers to it follows.
"""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sweepgrad.explore.model_thread import GRAPH_KEYS, Abandoned
from sweepgrad.explore.primitives import MODEL, ModelSet
from sweepgrad.explore.switching import BOARD
from sweepgrad.graph import DEFAULT, GraphRuntime, Node, check_locks, fork, locator, register
from sweepgrad.graph import node as nodes
from sweepgrad.graph.locator import Graph
from sweepgrad.graph.registry import NodeRegistry
from sweepgrad.graph.sweeper import Sweeper
from sweepgrad.graph.watch import WATCH
from sweepgrad.tensor import Tensor

#: Slots that tell apart what can be touched of one node, graph or tensor.
(
    _CHILDREN,
    _GRAPH,
    _FORWARD,
    _DATA,
    _HANDLE,
    _RULE,
    _SAVED,
    _PARENTS,
    _EXTRAS,
    _EXPECTING,
    _CLAIM,
    _BACKLOG,
    _DIRTY,
    _ABSORBING,
    _SWEEPS,
    _OTHER,
) = range(1, 17)

#: The fields that are read or written without a lock: (class, field, slot).
FIELDS: tuple[tuple[type, str, int], ...] = (
    (Node, "children", _CHILDREN),
    (Node, "expecting", _EXPECTING),
    (Node, "graph", _GRAPH),
    (Node, "rule", _RULE),
    (Node, "saved", _SAVED),
    (Node, "parents", _PARENTS),
    (Node, "extras", _EXTRAS),
    (Node, "claim", _CLAIM),
    (Graph, "forward", _FORWARD),
    (Graph, "absorbing", _ABSORBING),
    (NodeRegistry, "backlog", _BACKLOG),
    (NodeRegistry, "dirty", _DIRTY),
    (Sweeper, "sweeps", _SWEEPS),
    (Sweeper, "full_sweeps", _SWEEPS),
)

#: Further fields for ``deep=True``: protected by locks, unless a lock is missing.
#: They share one slot of their object, which only makes the reduction weaker.
DEEP: tuple[tuple[type, str, int], ...] = (
    (NodeRegistry, "nodes", _OTHER),
    (NodeRegistry, "tips", _OTHER),
    (NodeRegistry, "saved_bytes", _OTHER),
)


class Field:
    """A field of which every look and every store is a step.

    The first store is none: it comes from the constructor, before another
    thread can know the object.
    """

    def __init__(self, member: Any, name: str, slot: int) -> None:
        self.member = member
        self.reads = sys.intern(f"look at {name} of")
        self.writes = sys.intern(f"store {name} of")
        self.slot = slot
        # A look at a dictionary may be followed by a change inside it.
        self.look_changes = name in ("nodes", "extras")

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        if BOARD.current is not None:
            BOARD.step(self.reads, owner, self.key_of(owner), self.look_changes)
        return self.member.__get__(owner, kind)

    def __set__(self, owner: Any, value: Any) -> None:
        if BOARD.current is not None and self._is_set(owner):
            BOARD.step(self.writes, owner, self.key_of(owner), True)
        self.member.__set__(owner, value)

    def key_of(self, owner: Any) -> int:
        """What the operation touches, the same in every run: from the node's id, or the graph's."""
        if type(owner) is Node:
            return int(owner.id) * 32 + self.slot
        if type(owner) is Sweeper:
            return GRAPH_KEYS + self.slot  # there is one, and no graph has the serial 0
        return GRAPH_KEYS + int(owner.serial) * 32 + self.slot

    def _is_set(self, owner: Any) -> bool:
        try:
            self.member.__get__(owner)
        except AttributeError:
            return False
        return True


class ExtrasField(Field):
    """The extras of a node: the first store is a step, for it makes them when others know the node.

    Storing None where nothing was stored is none: a node without extras and one whose
    extras are None are the same to whoever looks, and each node that is freed does it.
    """

    def __set__(self, owner: Any, value: Any) -> None:
        if BOARD.current is not None and (value is not None or self._is_set(owner)):
            BOARD.step(self.writes, owner, self.key_of(owner), True)
        self.member.__set__(owner, value)


class ValueField(Field):
    """The array of a tensor: a step for leaves and constants, whose array can be replaced."""

    def __init__(self, member: Any, graph: Any) -> None:
        super().__init__(member, "the value", _DATA)
        self.graph = graph

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        if BOARD.current is not None and self._replaceable(owner):
            BOARD.step(self.reads, owner, self.key_of(owner), False)
        return self.member.__get__(owner, kind)

    def key_of(self, owner: Any) -> int:
        node = owner._node
        return id(owner) if node is None else int(node.id) * 32 + self.slot

    def _is_set(self, owner: Any) -> bool:
        return super()._is_set(owner) and self._replaceable(owner)

    def _replaceable(self, owner: Any) -> bool:
        node = owner._node
        return node is None or self.graph.__get__(node) is None


_look_at_handle = weakref.ref.__call__


def _watched_call(node: Any) -> Any:
    """``node()``: is the handle alive?"""
    if BOARD.current is not None:
        BOARD.step("look at handle of", node, node.id * 32 + _HANDLE, False)
    return _look_at_handle(node)


def dying(handle: Any) -> None:
    """The ``__del__`` of a handle in the model: its death is a step of its own.

    CPython runs it before it clears the weak reference.  A look at the handle in
    between finds it alive and keeps it, which is the order in which the look
    came before the drop.
    """
    if BOARD.current is not None:
        node = getattr(handle, "_node", None)  # missing when making the tensor failed
        if type(node) is Node:
            BOARD.step("drop handle of", node, node.id * 32 + _HANDLE, True, None, True)


def _graph_dying(graph: Graph) -> None:
    """The ``__del__`` of a graph in the model; see :func:`dying`."""
    if BOARD.current is not None:
        BOARD.step("death of", graph, _graph_key(graph.serial), True, None, True)


def _graph_key(serial: int) -> int:
    return GRAPH_KEYS + serial * 32 + _HANDLE


class _Look:
    """A weak reference in a copy of the directory: asking whether its graph is alive is a step."""

    __slots__ = ("reference", "serial")

    def __init__(self, reference: weakref.ref[Graph], serial: int) -> None:
        self.reference = reference
        self.serial = serial

    def __call__(self) -> Graph | None:
        BOARD.step("look at a graph of", self, _graph_key(self.serial), False)
        return self.reference()

    def __repr__(self) -> str:
        return f"the directory: {self.serial}"


class ModelDirectory(ModelSet):
    """The directory of graphs: a copy is looked through in the order in which they started."""

    def __init__(self) -> None:
        super().__init__()
        self._serials: dict[Any, int] = {}

    def add(self, item: Any) -> None:
        super().add(item)
        self._serials[item] = item().serial

    def discard(self, item: Any) -> None:
        super().discard(item)
        self._serials.pop(item, None)

    def copy(self) -> Any:
        return [
            _Look(item, self._serials[item])
            for item in sorted(super().copy(), key=self._serials.__getitem__)
        ]


@contextmanager
def watched(deep: bool, check_order: bool) -> Iterator[None]:
    """Watch the fields, put the default runtime on the model, keep collections to events."""
    fields = FIELDS + DEEP if deep else FIELDS
    members = [(kind, name, kind.__dict__[name]) for kind, name, _ in fields]
    value = Tensor.__dict__["_array"]
    saved_runtime = DEFAULT.__dict__
    saved_fork = [vars(fork)[name] for name in _OF_FORK]
    saved_counts = (nodes.node_ids, register._next_id, locator.graph_serials)
    saved_hook = sys.unraisablehook
    hooked = WATCH.copy()
    checked = check_locks(check_order)
    collecting = gc.isenabled()
    gc.disable()
    gc.freeze()  # what exists now is no run's garbage
    try:
        for (kind, name, member), (_, _, slot) in zip(members, fields, strict=True):
            made = ExtrasField if slot == _EXTRAS else Field
            setattr(kind, name, made(member, name, slot))
        _set(Tensor, "_array", ValueField(value, _member(members, "graph")))
        _set(Tensor, "__del__", dying)
        _set(Graph, "__del__", _graph_dying)
        _set(Node, "__call__", _watched_call)
        _set(GraphRuntime, "__getattr__", _make_runtime)
        _set(fork, "NATIVE", MODEL)
        _set(fork, "runtimes", {weakref.ref(DEFAULT)})
        sys.unraisablehook = _unraisable
        yield
    finally:
        sys.unraisablehook = saved_hook
        for kind, name, member in members:
            setattr(kind, name, member)
        _set(Tensor, "_array", value)
        del Tensor.__del__  # type: ignore[attr-defined]
        del Graph.__del__  # type: ignore[attr-defined]
        del Node.__call__
        del GraphRuntime.__getattr__  # type: ignore[attr-defined]
        for name, before in zip(_OF_FORK, saved_fork, strict=True):
            _set(fork, name, before)
        DEFAULT.__dict__ = saved_runtime
        nodes.node_ids, register._next_id, locator.graph_serials = saved_counts
        check_locks(checked)
        WATCH.clear()
        WATCH.update(filter(_still_there, hooked))
        gc.unfreeze()
        if collecting:
            gc.enable()


#: What the fork hooks take from elsewhere.
_OF_FORK = ("NATIVE", "runtimes")


def _set(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


def _member(members: list[tuple[type, str, Any]], name: str) -> Any:
    return next(member for _, found, member in members if found == name)


def _still_there(watched: Any) -> bool:
    """False for a weak reference in ``WATCH`` whose node has died meanwhile."""
    return not isinstance(watched, weakref.ref) or _look_at_handle(watched) is not None


def fresh_runtime(first_id: int) -> None:
    """Make the default runtime anew on the model, with ids that are the same in every run.

    A hook that an earlier run left in a cycle is forgotten too: it would send every
    backward of this run the longer way.
    """
    WATCH.clear()
    ids = itertools.count(first_id)
    nodes.node_ids = ids
    register._next_id = ids.__next__
    locator.graph_serials = itertools.count(1)
    DEFAULT.__dict__ = {}  # filled by _make_runtime when the run first uses it


def used_runtime() -> GraphRuntime | None:
    """The runtime of the run, or None when the run has not used it."""
    return DEFAULT if DEFAULT.__dict__ else None


def _make_runtime(runtime: GraphRuntime, name: str) -> Any:
    """``GraphRuntime.__getattr__`` in the model: many scenarios never use the runtime."""
    if runtime is not DEFAULT or DEFAULT.__dict__:
        raise AttributeError(name)
    GraphRuntime.__init__(runtime, MODEL, "model")
    runtime.locator._directory = ModelDirectory()
    runtime._leaves = tuple(ModelSet() for _ in runtime._leaves)
    return getattr(runtime, name)


def next_free_id() -> int:
    """An id above those of all nodes that exist.

    A multiple of every number of stripes, so that locks are shared by the same
    parameters in every process that replays a token.
    """
    return (next(nodes.node_ids) // 1024 + 1) * 1024


def _unraisable(report: Any) -> None:
    error = report.exc_value
    if BOARD.unwinding or isinstance(error, Abandoned):
        return
    me = BOARD.current
    if error is None or (me is not None and error is me.interrupt):
        return
    if BOARD.reason is None:
        BOARD.reason, BOARD.error, BOARD.culprit = "exception", error, me


def hidden_locks() -> list[str]:
    """Which locks of the default runtime are not the model's: none, unless the swap has a hole."""
    runtime = DEFAULT
    locks = [runtime.sweeper.lock, runtime.locator.lock, *runtime.parameters.locks]
    locks += [graph.lock for graph in runtime.locator.list_locked()]
    return [
        repr(lock) for lock in locks if "odel" not in type(getattr(lock, "_inner", lock)).__name__
    ]
