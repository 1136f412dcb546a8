"""Planted faults: each a small defect switched on around a test; the shipped code is untouched.

Every one was met by users of other libraries or is a step of our own proofs left
out.  ``FAULTS`` maps a name to a context manager that plants the fault.
"""

import sys
from contextlib import contextmanager, nullcontext

from sweepgrad.graph import engine, fork, locator, register, section, sweeper
from sweepgrad.graph.locator import Graph, GraphLocator, find, move_drops
from sweepgrad.graph.node import FREED, Node, parents_of
from sweepgrad.graph.registry import NodeRegistry


@contextmanager
def patched(owner, name, value):
    """``owner.name`` is ``value`` inside; for classes a plain function is a method."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def replaced(function, other):
    """Every global of sweepgrad that is ``function`` is ``other`` inside."""
    places = [
        (module, name)
        for title, module in list(sys.modules.items())
        if title.startswith("sweepgrad")
        for name, value in list(vars(module).items())
        if value is function
    ]
    for module, name in places:
        setattr(module, name, other)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, function)


def directory_under_graph():
    """The directory's lock is taken under a graph's lock: a sweep that registers what it frees."""
    shipped = sweeper._begin

    def begin(graph, garbage, full):
        with graph.runtime.locator.lock:
            pass
        return shipped(graph, garbage, full)

    return patched(sweeper, "_begin", begin)


def locks_in_order_of_arrival():
    """A merge locks the first operand's graph first, and nothing excludes two merges."""

    def merge(self, one, other, garbage):
        first, second = find(one), find(other)
        if first is second:
            return first
        with first.lock, second.lock:
            if first.forward is None and second.forward is None:
                locator._merge_locked(first, second, garbage)
        return find(one)

    return patched(GraphLocator, "merge", merge)


def rules_under_the_lock():
    """Gradient rules run while the graph's lock is held."""
    shipped = engine._claim

    def claim(*args):
        claimed = shipped(*args)
        for node in claimed.plain or ():
            if node.rule.name == "ruled":
                node.rule.backward(1.0)
        return claimed

    return patched(engine, "_claim", claim)


def finalizer_waits_for_the_lock():
    """The finalizer of a handle takes its graph's lock, also when its thread has it already."""

    def on_drop(node):
        graph = node.graph
        if graph is None:
            return
        garbage = []
        with graph.lock:
            graph.drops.append(node)
            graph.drain(garbage)

    return replaced(section.on_drop, on_drop)


def drop_tries_before_it_appends():
    """The dropper looks whether the lock is free first and queues the drop second."""

    def on_drop(node):
        graph = node.graph
        if node.children or graph is None:
            return
        while graph.forward is not None:
            graph = graph.forward
        free = not graph.lock.locked()
        graph.drops.append(node)
        if free:
            section.settle(graph.threads.state, graph)

    return replaced(section.on_drop, on_drop)


def holder_looks_before_it_counts():
    """Whoever frees a child looks at the parent's handle first and lowers its count second."""

    def reclaim(self, node, garbage):
        stack = [(node, node() is not None)]
        while stack:
            node, alive = stack.pop()
            if node.children or alive:
                continue
            found = []
            self._settle_arrivals(garbage, found)
            stack += [(child, child() is not None) for child in found]
            if node.children or self.nodes.pop(node.id, None) is None:
                continue
            garbage.append(node)
            node.claim = FREED
            self.tips -= 1
            self.saved_bytes -= node.nbytes
            for parent in parents_of(node):
                if parent.id in self.nodes:
                    alive = parent() is not None
                    parent.children -= 1
                    if not parent.children:
                        self.tips += 1
                        stack.append((parent, alive))

    return patched(NodeRegistry, "reclaim", reclaim)


def drops_move_before_the_forwarding():
    """A merge moves the queue of drops first and publishes the forwarding second."""
    shipped = Graph._take_over

    def absorb(self, other):
        self.dirty = True
        move_drops(other, self)
        self.absorbing = other
        other.forward = self
        tips, saved_bytes = other.tips, other.saved_bytes
        with replaced(move_drops, lambda source, target: None):
            shipped(self, other)
        self.tips += tips
        self.saved_bytes += saved_bytes
        self.dirty = False

    return patched(Graph, "absorb", absorb)


def claim_in_two_steps():
    """A claim looks at the nodes in one critical section and takes them in another."""
    shipped = engine._ancestors

    def ancestors(roots, *rest):
        found = shipped(roots, *rest)
        graph = find(roots[0])
        graph.lock.release()
        graph.lock.acquire()
        return found

    return patched(engine, "_ancestors", ancestors)


def rule_looked_at_twice():
    """A message looks whether a node has a rule and then at the rule, which is gone by then."""

    def described(self):
        if self.graph is None:
            return f"<leaf {self.id}>"
        name = self.rule.name if self.rule is not None else "without a rule"
        return f"<node {self.id} {name}>"

    return patched(Node, "__repr__", described)


def count_outside_the_lock():
    """Who records a child counts it at its parent at once, without the graph's lock."""
    shipped = register.register_one

    def register_one(handle, parent, *rest):
        node = shipped(handle, parent, *rest)
        if parent.graph is not None:
            find(parent).count_arrivals([])
        return node

    return replaced(shipped, register_one)


def registered_in_a_merged_graph():
    """Registering does not look again, after the append, whether its graph was merged away."""
    return patched(register, "_adopt", lambda graph, garbage, merged: None)


def arrivals_left_in_a_merge():
    """A merge leaves what has arrived in the graph that it merges away."""
    return replaced(locator.move_arrivals, lambda source, target: None)


def freed_before_all_arrivals_are_counted():
    """Whoever frees a node counts what has arrived first and looks at the handle second."""

    def reclaim(self, node, garbage):
        stack = [node]
        while stack:
            node = stack.pop()
            self._count_arrivals(garbage, stack)
            if node.children:
                continue
            handle = node()
            if handle is not None:
                garbage.append(handle)
                continue
            if self.nodes.pop(node.id, None) is None:
                continue
            garbage.append(node)
            node.claim = FREED
            self.tips -= 1
            self.saved_bytes -= node.nbytes
            self._let_go_of_parents(node, stack)

    return patched(NodeRegistry, "reclaim", reclaim)


def flag_raised_after_the_append():
    """The parent is told to expect a child only after the child has arrived."""
    shipped = register.register_one

    def register_one(handle, parent, *rest):
        graph = parent.graph
        if graph is None:
            return shipped(handle, parent, *rest)
        before = parent.expecting
        node = shipped(handle, parent, *rest)
        parent.expecting = before
        parent.expecting = True
        return node

    return replaced(shipped, register_one)


def sweep_answers_for_later_claims():
    """A sweep that has come to its end throws away what claims have found meanwhile."""
    shipped = sweeper._sweep_piece

    def sweep_piece(graph, garbage, newest):
        more, *freed = shipped(graph, garbage, newest)
        if not more:
            graph.backlog = None
        return more, *freed

    return patched(sweeper, "_sweep_piece", sweep_piece)


def sweep_passes_what_was_merged_away():
    """A sweep takes a graph that was merged away since it was listed for one without work."""

    def has_work(graph):
        return graph.dirty or graph.backlog is not None or bool(graph.drops)

    return replaced(sweeper._has_work, has_work)


def sweep_looks_at_the_mark_last():
    """A sweep looks for a backlog first, and for the mark that a claim is at work second."""

    def has_work(graph):
        if graph.backlog is not None or graph.drops or graph.forward is not None:
            return True
        return graph.dirty

    return replaced(sweeper._has_work, has_work)


def shares_the_sweep_it_waited_for():
    """A thread that waited for another's sweep takes it for its own, though it began before."""
    shipped = sweeper.Sweeper._ended

    def ended(self, full):
        return 2 * shipped(self, full)

    return patched(sweeper.Sweeper, "_ended", ended)


def backlog_left_in_a_merge():
    """What is to be swept stays behind in the graph that was merged away."""
    return patched(Graph, "_take_backlog", lambda self, other: None)


def claim_does_not_look_at_arrivals_again():
    """A claim of a whole graph leaves what has arrived since it began to whoever comes next."""

    def remove_all(self, arrived, garbage):
        self.nodes.clear()
        for _ in range(arrived):
            self.arrivals.popleft()
        self.tips = self.saved_bytes = 0
        self.backlog = None

    return patched(NodeRegistry, "remove_all", remove_all)


def locks_kept_in_a_forked_child():
    """A forked child goes on with the locks as they were at the fork."""
    return patched(fork, "_renew", lambda runtime: None)


FAULTS = {
    plant.__name__: plant
    for plant in (
        directory_under_graph,
        locks_in_order_of_arrival,
        rules_under_the_lock,
        finalizer_waits_for_the_lock,
        drop_tries_before_it_appends,
        holder_looks_before_it_counts,
        drops_move_before_the_forwarding,
        claim_in_two_steps,
        rule_looked_at_twice,
        count_outside_the_lock,
        registered_in_a_merged_graph,
        arrivals_left_in_a_merge,
        freed_before_all_arrivals_are_counted,
        flag_raised_after_the_append,
        sweep_answers_for_later_claims,
        sweep_passes_what_was_merged_away,
        sweep_looks_at_the_mark_last,
        shares_the_sweep_it_waited_for,
        backlog_left_in_a_merge,
        claim_does_not_look_at_arrivals_again,
        locks_kept_in_a_forked_child,
    )
}

SHIPPED = nullcontext
