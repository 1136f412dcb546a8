"""What the explorer runs to find planted faults: all of it for every fault, and for none.

Pairs of operations on the small world of ``support.worlds``, whose outcomes must be
sequential ones, and what pairs do not have: collections, signal handlers, forks, hooks,
destructors of saved values, temporary operands, and a world that is dropped whole.
"""

import contextlib
import functools

import sweepgrad as sg
from support import worlds
from sweepgrad.explore import yield_point
from sweepgrad.graph import DEFAULT, Rule, register_one, sweeper
from sweepgrad.graph.node import UNAVAILABLE
from sweepgrad.tensor import Tensor, new_tensor

SHIPPED_PIECE = sweeper._PIECE


class Cycle:
    """Garbage that only a collection finds, with a tensor in it."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.me = self


class Calls:
    """A saved value whose destructor calls a function."""

    def __init__(self, function):
        self.function = function

    def __del__(self):
        self.function()


def with_saved(x, value):
    """A tensor of the value of ``x`` whose rule has saved ``value``."""
    result = new_tensor(Tensor)
    result._array = x._array
    result._node = register_one(result, x._node, Rule("saved", lambda g, v: g), (value,), 0)
    return result


@functools.cache
def pair(*actions):
    return worlds.scenario_of(actions, worlds.sequential(actions))


def collected(m):
    """A collection that drops a tensor at any step of an operation of the same thread."""
    world = worlds.World()

    def work():
        Cycle(world.trunk * 2.0)
        world.trunk * 3.0

    m.collect(m.spawn(work))


def collected_in_a_join(m):
    world = worlds.World()

    def work():
        Cycle(world.trunk * 2.0)
        world.trunk * world.side

    m.collect(m.spawn(work))


def parents_and_children_dropped(m):
    """A chain without any other handle goes from both ends."""
    chain = [sg.tensor([2.0], requires_grad=True)]
    for _ in range(5):
        chain.append(chain[-1] * 1.0)
    del chain[0]

    def drop_children():
        while chain:
            chain.pop()

    def drop_parents():
        while chain:
            chain.pop(0)

    m.spawn(drop_children)
    m.spawn(drop_parents)


def handlers_in_a_backward(m, drops=1, assigns=1):
    """Signal handlers that drop a tensor, and some that assign, anywhere in a backward."""
    leaf = sg.tensor([2.0], requires_grad=True)
    trunk = leaf * 3.0
    tips = [trunk * 7.0 for _ in range(drops)]
    thread = m.spawn((trunk * 2.0).backward, [1.0], name="backward")

    def assign():
        with contextlib.suppress(sg.ReentrantCallError):
            leaf.assign([5.0])

    for number in range(drops):
        m.signal(thread, tips.pop, f"signal {number} that drops")
    for number in range(assigns):
        m.signal(thread, assign, f"signal {number} that assigns")


def many_handlers_in_a_backward(m):
    handlers_in_a_backward(m, drops=2, assigns=4)


def forked(m):
    world = worlds.World()

    def child():
        worlds.backward(world)
        sg.graph_cleanup()

    m.fork(m.spawn(worlds.drop_tip, world, name="forks"), child)
    m.spawn(worlds.operate, world)


def forked_beside_a_join(m):
    world = worlds.World()
    m.fork(m.spawn(worlds.create, world, name="forks"), lambda: worlds.backward(world))
    m.spawn(worlds.join, world)


def rule_that_operates_in_its_graph(m):
    world = worlds.World()
    found = []

    def rule(g):
        world.tips.append(world.tips[0] * 2.0)
        return g * 2.0

    def work():
        found.append(worlds.gradient(worlds.with_rule(world.losses[0], rule), world))

    m.spawn(work)
    m.spawn(worlds.operate, world)


def saved_value_that_operates(m):
    """What a sweep frees had saved a value whose destructor uses the same graph."""
    world = worlds.World()
    sweeping = []
    kept = with_saved(world.trunk, Calls(lambda: sweeping and world.tips[0] * 2.0))
    world.losses[0].backward()  # the trunk is consumed: what hangs on it is unavailable

    def cleanup():
        sweeping.append(True)
        try:
            sg.graph_cleanup()
        finally:
            sweeping.clear()  # a run that is given up: what is destroyed later does nothing

    m.spawn(cleanup)
    m.spawn(worlds.drop_tip, world)
    m.check(kept.numpy)


def temporary_beside_a_sweep(m):
    """An operand that only the call holds, while the other thread sweeps."""
    leaf = sg.tensor([2.0], requires_grad=True)
    trunk = leaf * 7.0
    found = []

    def work():
        result = (trunk * 2.0) * 3.0
        try:
            found.append(result.backward([1.0])[leaf].item())
        except sg.GraphConsumedError:
            found.append("consumed")

    m.spawn(work)
    m.spawn(lambda: sg.graph_cleanup(full=True), name="cleanup")

    def check():
        assert found == [42.0], found

    m.check(check)


def two_first_hooks(m):
    """Two threads add the first hooks of one leaf; both must run."""
    leaf = sg.tensor([2.0], requires_grad=True)
    seen = []
    for name in ("a", "b"):
        m.spawn(leaf.register_hook, lambda g, name=name: seen.append(name), name=name)

    def check():
        (leaf * 3.0).backward([1.0])
        assert sorted(seen) == ["a", "b"], f"hooks lost: {seen}"

    m.check(check)


def two_losses_of_a_long_trunk(m):
    """Two threads want one chain: one of them is right, the other is told so."""
    leaf = sg.tensor([2.0], requires_grad=True)
    trunk = leaf * 1.0
    for _ in range(4):
        trunk = trunk * 1.0
    found = []

    def work(loss):
        try:
            found.append(loss.backward([1.0])[leaf].item())
        except sg.GraphConsumedError:
            found.append("consumed")

    m.spawn(work, trunk * 3.0, name="one")
    m.spawn(work, trunk * 5.0, name="other")

    def check():
        assert found.count("consumed") == 1, found

    m.check(check)


def many_drops_beside_a_join(m):
    """Tips of the smaller graph go, one after the other, while it is merged."""
    leaf = sg.tensor([2.0], requires_grad=True)
    one, other = leaf * 1.0, leaf * 3.0
    kept = [one * 2.0 for _ in range(6)]
    tips = [other * 2.0 for _ in range(4)]
    m.spawn(lambda: one * other, name="join")

    def drop():
        while tips:
            tips.pop()

    m.spawn(drop)
    m.check(kept.clear)


def dropped_whole(m):
    """After two threads have worked, everything is dropped: no graph is listed any more."""
    world = worlds.World()
    m.spawn(worlds.join, world)
    m.spawn(worlds.create, world)

    def check():
        yield_point()
        vars(world).clear()
        listed = DEFAULT.locator.count()
        assert not listed, f"{listed} graphs listed, none left"

    m.check(check)


def operate_on_side(world):
    """On the graph that a join merges away."""
    kept = world.side * 2.0
    world.tips.append(kept)
    return kept.numpy().tobytes()


def a_child_comes_as_another_dies(m):
    """The last counted child of a node dies while another arrives and the handle is dropped."""
    w = sg.tensor([2.0], requires_grad=True)
    handles = [w * 3.0]
    children = [handles[0] * 5.0]
    sg.memory_report()  # counts it
    late = []

    def record():
        late.append(handles[0] * 7.0)
        handles.clear()

    m.spawn(children.clear, name="drop")
    m.spawn(record)

    def check():
        assert late[0].backward([1.0])[w].tolist() == [21.0]

    m.check(check)


def recorded_counted_and_dropped(m):
    """A child arrives, is counted by another thread and dies; then its parent is dropped."""
    w = sg.tensor([2.0], requires_grad=True)
    handles = [w * 3.0]

    def record_and_drop():
        handles[0] * 7.0
        handles.clear()

    m.spawn(record_and_drop)
    m.spawn(sg.memory_report, name="report")


def dropped_beside_a_report(m):
    """A tip dies while a report, which takes no handle of it, holds its graph's lock."""
    trunk = sg.tensor([2.0], requires_grad=True) * 3.0
    tips = [trunk * 5.0]
    sg.memory_report()  # counts it
    kept = trunk * 7.0  # for the report to count
    m.spawn(tips.clear, name="drop")
    m.spawn(sg.memory_report, name="report")

    def check():
        assert kept.item() == 42.0

    m.check(check)


def recorded_between_two_joins(m):
    """Two joins of the same graphs, and an operation on a node that the first one moves."""
    w = sg.tensor([2.0], requires_grad=True)
    large = w * 3.0
    larger = large * 1.0
    larger = larger * 1.0
    small = w * 5.0
    arrived = small * 1.0  # not counted yet
    made = []
    m.spawn(lambda: made.append(large + small), name="join")
    m.spawn(lambda: made.append(larger + arrived), name="join again")
    m.spawn(lambda: made.append(arrived * 7.0), name="operate")

    def check():
        slopes = sorted(sg.grad(made, [w], [[1.0]] * 3, retain_graph=True)[0].tolist())
        assert slopes == [8.0 + 8.0 + 35.0]

    m.check(check)


def swept_in_pieces(m):
    """A sweep, one node a piece, while another thread's backward consumes what it has passed."""
    world = worlds.World()
    kept = world.trunk * world.side  # one graph
    (world.side * 19.0).backward()  # something to sweep it for

    def sweep():
        sweeper._PIECE = 1
        try:
            sg.graph_cleanup()
        finally:  # also in a run that is given up
            sweeper._PIECE = SHIPPED_PIECE

    m.spawn(sweep)
    m.spawn(worlds.backward, world, name="backward")

    def check():
        sg.graph_cleanup()
        left = sg.memory_report().nodes
        assert (left, kept._node.saved) == (1, ()), f"{left} nodes left, 1 is right: {world.third}"

    m.check(check)


def swept_while_another_consumes(m):
    """A sweep in one thread; in the other a trunk is consumed and then a sweep asked for."""
    w = sg.tensor([2.0], requires_grad=True)
    trunk = w * 3.0
    kept = [trunk * w for _ in range(4)]

    def consume_and_sweep():
        trunk.backward([1.0])
        sg.graph_cleanup()
        left = sg.memory_report().nodes
        assert (left, len(kept)) == (0, 4), f"a sweep returned and left {left} nodes"

    m.spawn(sg.graph_cleanup, name="sweep")
    m.spawn(consume_and_sweep, name="consume")


def joined_behind_a_sweep(m):
    """A sweep, while a graph with something to sweep is joined to one that it has passed."""
    w = sg.tensor([2.0], requires_grad=True)
    first = [w * 1.0]  # listed before the other, and larger
    first.extend([first[0] * 1.0 for _ in range(6)])
    trunk = w * 3.0
    kept = [trunk * w for _ in range(4)]
    sg.memory_report()
    trunk.backward([1.0])

    def sweep():
        sg.graph_cleanup()
        left = [one for one in kept[:4] if one._node.claim is not UNAVAILABLE]
        assert not left, f"a sweep returned and left {len(left)} nodes"

    m.spawn(sweep)
    m.spawn(lambda: kept.append(first[0] * kept[0]), name="join")


def seen_consumed(m):
    """A thread that sees that another's backward has consumed the trunk finds work for a sweep."""
    w = sg.tensor([2.0], requires_grad=True)
    trunk = w * 3.0
    kept = [trunk * w for _ in range(2)]
    sg.memory_report()
    graph = trunk._node.graph

    def look():
        for _ in range(12):
            claim = trunk._node.claim
            if claim is not None and claim.committed:
                assert sweeper._has_work(graph), f"a sweep would leave {len(kept)} nodes"

    m.spawn(look)
    m.spawn(lambda: trunk.backward([1.0]), name="backward")


def consumed_and_joined(m):
    """A trunk with four children is consumed in one thread, joined to a larger graph in another."""
    w = sg.tensor([2.0], requires_grad=True)
    trunk = w * 3.0
    kept = [trunk * 5.0 for _ in range(4)]
    large = [w * 7.0]
    large.extend(large[0] * 11.0 for _ in range(8))
    m.spawn(lambda: trunk.backward([1.0]), name="backward")
    m.spawn(lambda: kept.append(large[0] * kept[0]), name="join")

    def check():
        sg.graph_cleanup()
        left = sg.memory_report().nodes
        held = len(large), len(kept)
        assert (left, *held) == (9, 9, 5), f"{left} nodes left, 9 are right"

    m.check(check)


def child_beside_a_backward_of_the_whole(m):
    """A child is recorded of a tip whose whole graph another thread consumes."""
    w = sg.tensor([2.0], requires_grad=True)
    tip = (w * 3.0) * 5.0
    kept = []
    m.spawn(lambda: kept.append(tip * w), name="operate")
    m.spawn(lambda: tip.backward([1.0]), name="backward")

    def check():
        sg.graph_cleanup()
        assert kept[0]._node.saved == (), "a sweep left the saved values of an unavailable node"

    m.check(check)


#: Fault: the scenario that shows it, the kind of failure, and a word of its message.
SHOWN_BY = {
    "directory_under_graph": (
        lambda: pair(worlds.cleanup_full, worlds.join),
        "deadlock",
        "cleanup_full -> join",
    ),
    "locks_in_order_of_arrival": (
        lambda: pair(worlds.join, worlds.join_back),
        "deadlock",
        "join -> join_back",
    ),
    "rules_under_the_lock": (
        lambda: pair(worlds.backward_nested, worlds.operate),
        "exception",
        "ReentrantCallError",
    ),
    "finalizer_waits_for_the_lock": (lambda: collected, "deadlock", "work -> work"),
    "drop_tries_before_it_appends": (
        lambda: pair(worlds.drop_tip, worlds.join),
        "invariant",
        "1 pending drops",
    ),
    "holder_looks_before_it_counts": (
        lambda: parents_and_children_dropped,
        "invariant",
        "dead nodes",
    ),
    "drops_move_before_the_forwarding": (
        lambda: pair(worlds.join, worlds.drop_side_loss),
        "invariant",
        "dead nodes",
    ),
    "claim_in_two_steps": (
        lambda: pair(worlds.backward, worlds.backward),
        "exception",
        "has no attribute 'backward'",
    ),
    "rule_looked_at_twice": (
        lambda: two_losses_of_a_long_trunk,
        "exception",
        "has no attribute 'name'",
    ),
    "count_outside_the_lock": (
        lambda: pair(worlds.operate, worlds.operate),
        "exception",
        "pop from an empty deque",
    ),
    "registered_in_a_merged_graph": (
        lambda: pair(operate_on_side, worlds.join),
        "invariant",
        "none of the sequential outcomes",
    ),
    "arrivals_left_in_a_merge": (lambda: pair(worlds.operate, worlds.join), "invariant", ""),
    "freed_before_all_arrivals_are_counted": (
        lambda: a_child_comes_as_another_dies,
        "invariant",
        "",
    ),
    "flag_raised_after_the_append": (
        lambda: recorded_counted_and_dropped,
        "invariant",
        "dead nodes",
    ),
    "sweep_answers_for_later_claims": (lambda: swept_in_pieces, "invariant", ""),
    "sweep_passes_what_was_merged_away": (
        lambda: joined_behind_a_sweep,
        "exception",
        "left 4 nodes",
    ),
    "sweep_looks_at_the_mark_last": (
        lambda: seen_consumed,
        "exception",
        "leave 2 nodes",
    ),
    "shares_the_sweep_it_waited_for": (
        lambda: swept_while_another_consumes,
        "exception",
        "left 4 nodes",
    ),
    "backlog_left_in_a_merge": (
        lambda: consumed_and_joined,
        "invariant",
        "in the backlog",
    ),
    "claim_does_not_look_at_arrivals_again": (
        lambda: child_beside_a_backward_of_the_whole,
        "invariant",
        "saved values",
    ),
    "locks_kept_in_a_forked_child": (lambda: forked, "exception", "in the forked process"),
    "rules_in_a_locked_graph": (
        lambda: rule_that_operates_in_its_graph,
        "deadlock",
        "work -> work",
    ),
    "sweep_destroys_under_the_lock": (
        lambda: saved_value_that_operates,
        "deadlock",
        "cleanup -> cleanup",
    ),
    "finalizer_takes_the_directory_lock": (
        lambda: collected_in_a_join,
        "deadlock",
        "work -> work",
    ),
    "holder_does_not_look_again": (
        lambda: dropped_beside_a_report,
        "invariant",
        "1 pending drops",
    ),
    "drops_moved_after_a_look": (lambda: many_drops_beside_a_join, "exception", "IndexError"),
    "deferred_taken_after_a_look": (lambda: handlers_in_a_backward, "exception", "IndexError"),
    "shortened_during_a_merge": (
        lambda: recorded_between_two_joins,
        "invariant",
        "GraphConsumedError",
    ),
    "drop_trusts_any_claim": (
        lambda: pair(worlds.backward, worlds.backward),
        "invariant",
        "dead nodes",
    ),
    "directory_entry_left_behind": (lambda: dropped_whole, "invariant", "graphs listed"),
    "inputs_let_go_before_recording": (lambda: temporary_beside_a_sweep, "invariant", "consumed"),
    "hooks_made_twice": (lambda: two_first_hooks, "invariant", "hooks lost"),
    "update_without_a_compare": (
        lambda: pair(worlds.update, worlds.update),
        "invariant",
        "none of the sequential outcomes",
    ),
    "fork_takes_the_locks_inside_out": (
        lambda: forked_beside_a_join,
        "deadlock",
        "join -> ",
    ),
}


#: For random schedules: too many to try them all.
FURTHER = (many_handlers_in_a_backward,)


@functools.cache
def workload():
    """Every scenario once, the same for every fault.

    To be called before a fault is planted: the outcomes that are right are worked out natively.
    """
    return list(dict.fromkeys([*(make() for make, _, _ in SHOWN_BY.values()), *FURTHER]))
