"""Further planted faults: met by ourselves, or of the finalizer, fork and hook kind.

As in faults.py: each is a context manager, and the shipped code is untouched.
"""

import sys
import weakref
from contextlib import contextmanager
from types import SimpleNamespace

from planted.faults import patched, replaced
from sweepgrad.graph import (
    GraphRuntime,
    engine,
    fork,
    locator,
    parameters,
    register,
    section,
    sweeper,
    watch,
)
from sweepgrad.graph.locator import find, move_drops
from sweepgrad.graph.node import Node


def rules_in_a_locked_graph():
    """Backward keeps its graph's lock while it runs the rules, and nothing tells their calls."""
    shipped = engine._run_plain

    def run_plain(order, gradients):
        if not order:
            return shipped(order, gradients)
        with find(order[0]).lock:
            return shipped(order, gradients)

    return patched(engine, "_run_plain", run_plain)


def sweep_destroys_under_the_lock():
    """A sweep takes what it frees apart, destructors of saved values included, under the lock."""
    shipped = sweeper._sweep_piece

    def sweep_piece(graph, garbage, newest):
        found = shipped(graph, garbage, newest)
        state = graph.threads.state
        outer = state.section, state.discarding
        state.section, state.discarding = None, False
        try:
            section.discard(state)
        finally:
            state.section, state.discarding = outer
        return found

    return patched(sweeper, "_sweep_piece", sweep_piece)


def finalizer_takes_the_directory_lock():
    """The finalizer of a handle takes the lock of the directory of graphs."""
    shipped = section.on_drop

    def on_drop(node):
        graph = node.graph
        if graph is not None:
            with graph.runtime.locator.lock:
                pass
        shipped(node)

    return replaced(shipped, on_drop)


def holder_does_not_look_again():
    """Whoever releases a graph's lock does not look at its queue once more."""
    shipped = section.leave

    def leave(state, graph=None):
        shipped(state)

    return replaced(shipped, leave)


def drops_moved_after_a_look():
    """Drops are moved by look and pop, as if nobody else could empty the queue in between."""

    def move(source, target):
        while source.drops:
            target.drops.append(source.drops.popleft())

    return replaced(move_drops, move)


def deferred_taken_after_a_look():
    """What was deferred is taken by look and pop; a signal handler may take it in between."""

    def leave(state, graph=None):
        if graph is not None and (graph.drops or graph.forward is not None):
            section.settle(state, graph)
        while state.deferred:
            section.settle(state, state.deferred.pop())
        if state.sweeps_asked and not state.sweeping:
            asked, state.sweeps_asked = state.sweeps_asked, []
            for runtime in asked:
                runtime.sweeper.run(state)

    return replaced(section.leave, leave)


def directory_entry_left_behind():
    """A graph that goes leaves its entry in the directory."""
    without_callback = SimpleNamespace(ref=lambda graph, callback: weakref.ref(graph))
    return patched(locator, "weakref", without_callback)


@contextmanager
def inputs_let_go_before_recording():
    """An operation lets go of a temporary operand before it has recorded the child.

    A handle that nothing but the call holds counts as dead from the moment the call
    begins to record; a sweep in between takes the operand.
    """
    from sweepgrad.explore import watching  # not on a build without greenlet

    shipped, let_go, holders = register.register_one, set(), _holders_of_a_temporary()
    look = watching._look_at_handle

    def register_one(handle, parent, *rest):
        operand = parent()
        if parent.graph is None or sys.getrefcount(operand) > holders:
            return shipped(handle, parent, *rest)
        let_go.add(parent)
        try:
            return shipped(handle, parent, *rest)
        finally:
            let_go.discard(parent)

    def liveness(node):
        return None if node in let_go else look(node)

    with replaced(shipped, register_one), patched(watching, "_look_at_handle", liveness):
        Node.__call__ = liveness  # an exploration has its own in the same place, and removes it
        try:
            yield
        finally:
            if "__call__" in vars(Node):
                del Node.__call__


def _holders_of_a_temporary():
    """How many references an operand has, seen from where it is recorded, if it is a temporary."""
    seen = []
    shipped = register.register_one

    def register_one(handle, parent, *rest):
        operand = parent()
        seen.append(sys.getrefcount(operand))
        return shipped(handle, parent, *rest)

    with replaced(shipped, register_one):
        leaf = GraphRuntime().tensor([1.0], requires_grad=True)
        (leaf * 2.0) * 3.0
    return seen[-1]


def hooks_made_twice():
    """The extras of a node are made by look and store: of two first hooks one is lost."""

    def extras_of(node):
        extras = getattr(node, "extras", None)
        if extras is None:
            made = {}
            node.extras = made
            return made
        return extras

    return replaced(watch.extras_of, extras_of)


def update_without_a_compare():
    """A parameter's new array is stored whatever the parameter holds by then."""

    def replace(self, cell, key, expected, new):
        cell._array = new
        return True

    return patched(parameters.ParameterSwap, "replace", replace)


def shortened_during_a_merge():
    """A node's graph is shortened to the survivor before its merge has moved the node there."""

    def find(node):
        graph = node.graph
        if graph.forward is not None:
            while graph.forward is not None:
                graph = graph.forward
            node.graph = graph
        return graph

    return replaced(locator.find, find)


def drop_trusts_any_claim():
    """The drop of a node that a backward has visited is done, also if its claim came to nothing."""
    shipped = section.on_drop

    def on_drop(node):
        if node.claim is None:
            shipped(node)

    return replaced(shipped, on_drop)


@contextmanager
def fork_takes_the_locks_inside_out():
    """A fork takes the graphs' locks first and the directory's after them."""

    def before():
        from sweepgrad.graph import fork

        state = fork.NATIVE.threads.state
        held = state.fork = fork._Held()
        if state.section is not None or state.sweeping:
            return
        state.section = held
        live = fork.live_runtimes()
        graphs = [graph for runtime in live for graph in runtime.locator.list_locked()]
        graphs.sort(key=lambda graph: graph.serial)
        fork.acquire_rising([graph.lock for graph in graphs], held.taken)
        fork.acquire_rising([runtime.locator.lock for runtime in live], held.taken)
        held.graphs = graphs

    # The interpreter keeps the function that was registered, so its code is exchanged.
    shipped = fork._before.__code__
    fork._before.__code__ = before.__code__
    try:
        yield
    finally:
        fork._before.__code__ = shipped


FAULTS = {
    plant.__name__: plant
    for plant in (
        rules_in_a_locked_graph,
        sweep_destroys_under_the_lock,
        finalizer_takes_the_directory_lock,
        holder_does_not_look_again,
        drops_moved_after_a_look,
        deferred_taken_after_a_look,
        directory_entry_left_behind,
        inputs_let_go_before_recording,
        hooks_made_twice,
        update_without_a_compare,
        shortened_during_a_merge,
        drop_trusts_any_claim,
        fork_takes_the_locks_inside_out,
    )
}
