"""What is dropped goes: leaves, nodes, whole graphs and the tables that know of them."""

import gc
import random
import sys
import threading
import weakref

import numpy as np
import pytest

import sweepgrad as sg
from support.child import run_child
from support.memory import live_blocks, resident_bytes
from support.threads import repeat, run_threads
from sweepgrad.graph import DEFAULT, GraphRuntime


def leaf(*values):
    return sg.tensor(np.array(values, float), requires_grad=True)


def create_and_drop(rounds):
    array = np.ones((2, 2))
    for _ in range(rounds):
        sg.tensor(array, requires_grad=True)


def operate_and_drop(rounds):
    array = np.ones((2, 2))
    for _ in range(rounds):
        t = sg.tensor(array, requires_grad=True)
        (t * t + t) * 2.0


@pytest.mark.parametrize("work", [create_and_drop, operate_and_drop])
@pytest.mark.parametrize("threads", [1, 4])
def test_created_and_dropped_leaves_leave_nothing(work, threads, baseline, busy_switching):
    """C1.  No backward and no sweep anywhere: memory is flat all the same."""
    rounds = 20_000 // threads
    repeat(lambda _: work(1_000), threads)
    blocks, resident = live_blocks(), resident_bytes()
    repeat(lambda _: work(rounds), threads, timeout=50)
    now = DEFAULT.memory_report()
    assert (now.graphs, now.nodes) == (baseline.graphs, baseline.nodes)
    assert now.leaves == baseline.leaves
    assert live_blocks() - blocks < 500
    assert resident_bytes() - resident < 1_000_000
    report = sg.graph_cleanup()
    assert (report.nodes_freed, report.graphs_freed, report.bytes_freed) == (0, 0, 0)
    assert (report.nodes_left, report.graphs_left) == (now.nodes, now.graphs)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("threads", [1, 4])
def test_two_hundred_thousand_dropped_leaves_leave_nothing(threads, baseline):
    """C1 at the size of the report, each thread alone doing all its rounds."""
    repeat(lambda _: create_and_drop(1_000), threads)
    resident = resident_bytes()
    repeat(lambda _: create_and_drop(200_000), threads, timeout=250)
    assert resident_bytes() - resident < 1_000_000


def test_the_count_of_live_leaves_is_exact():
    runtime = GraphRuntime()
    kept = [runtime.tensor([1.0], requires_grad=True) for _ in range(100)]
    assert runtime.memory_report().leaves == 100
    del kept[10:]
    assert runtime.memory_report().leaves == 10
    child = kept.pop() * 2.0
    assert runtime.memory_report().leaves == 10, "a child keeps its leaf"
    del child
    assert runtime.memory_report().leaves == 9


def test_the_last_drop_frees_the_whole_graph_at_once(baseline):
    x = leaf(1.0, 2.0)
    a = x * 2.0
    b = a * a
    c = b + a
    assert DEFAULT.memory_report().nodes == baseline.nodes + 3
    del a, b
    assert DEFAULT.memory_report().nodes == baseline.nodes + 3, "c needs them"
    del c
    assert DEFAULT.memory_report().nodes == baseline.nodes


def test_dropping_one_tip_keeps_what_another_needs(baseline):
    x = leaf(1.0)
    trunk = x * 2.0
    one, other = trunk * 3.0, trunk * 5.0
    del trunk
    assert DEFAULT.memory_report().nodes == baseline.nodes + 3
    del one
    assert DEFAULT.memory_report().nodes == baseline.nodes + 2
    assert other.backward([1.0])[x].tolist() == [10.0]


def test_saved_arrays_die_with_the_handles_that_need_them():
    x = leaf(*range(1000))
    square = x * x
    saved = weakref.ref(square.numpy().base)
    cube = square * x
    del square
    assert saved() is not None, "cube saved it"
    del cube
    assert saved() is None


def test_every_table_is_empty_after_many_random_lives():
    """C2.  Directory, records, drops and leaves agree at every quiet point and end empty."""
    runtime = GraphRuntime()
    choose = random.Random(2)
    alive = []

    def quiet_point():
        runtime.check_valid()
        graphs = runtime.locator.list_graphs()
        ids = {node_id for graph in graphs for node_id in graph.nodes}
        assert ids == {node.id for graph in graphs for node in graph.nodes.values()}
        assert runtime.memory_report().nodes == len(ids)

    for episode in range(2_000):
        x = runtime.tensor([1.0], requires_grad=True)
        y = x * 1.5
        for _ in range(choose.randint(0, 5)):
            y = y * choose.choice([x, y, 2.0])
        fate = choose.random()
        if fate < 0.4:
            del y
        elif fate < 0.7:
            assert x in y.backward([1.0])
        elif fate < 0.9 and alive:
            alive.append(y + alive.pop(choose.randrange(len(alive))))
        else:
            alive.append(y)
        if choose.random() < 0.05:
            alive = alive[len(alive) // 2 :]
        if choose.random() < 0.02:
            runtime.graph_cleanup()
        if episode % 100 == 0:
            quiet_point()
    quiet_point()
    y = x = None
    alive.clear()
    report = runtime.memory_report()
    assert (report.graphs, report.nodes, report.tips, report.saved_bytes) == (0, 0, 0, 0)
    assert (report.leaves, report.pending_drops) == (0, 0)
    gc.collect()
    assert runtime.locator.count() == 0


def test_a_cycle_through_a_graph_is_ordinary_garbage(baseline):
    class Holder:
        pass

    def build():
        x = leaf(*range(100))
        y = (x * x) * x
        holder = Holder()
        holder.me, holder.y, holder.x = holder, y, x
        return weakref.ref(holder), weakref.ref(y), weakref.ref(y._node)

    references = build()
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]


CHAIN = """
import gc, sys, threading, time
import numpy as np
import sweepgrad as sg
from sweepgrad.graph import DEFAULT
sys.setrecursionlimit(200)

def chain(length):
    x = sg.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(length):
        y = y * 1.0
    return x, y

def drop_unused(length):
    x, y = chain(length)
    del y

def back(length):
    x, y = chain(length)
    assert y.backward([1.0])[x].tolist() == [1.0]

def back_and_keep(length):
    x, y = chain(length)
    grads = y.backward([1.0], retain_graph=True)
    assert grads[x].tolist() == [1.0]

def collected(length):
    holder = {}
    holder["me"] = holder
    holder["xy"] = chain(length)
    del holder
    gc.collect()

def swept(length):
    x = sg.tensor([1.0], requires_grad=True)
    trunk = x * 1.0
    y = trunk
    for _ in range(length):
        y = y * 1.0
    trunk.backward([1.0])
    DEFAULT.graph_cleanup()
    assert DEFAULT.memory_report().nodes == 0
    del y

def joined_and_dropped(length):
    (x, y), (u, v) = chain(length // 2), chain(length // 2)
    w = y + v
    del y, v, w

work = globals()[sys.argv[1]]
length = int(sys.argv[2])

def user_time():
    # Without the kernel's share: a million operations take a gigabyte, and how long the kernel
    # takes to give it is the machine's affair; up to four times as long for twice as much.
    import resource
    return resource.getrusage(resource.RUSAGE_THREAD).ru_utime

# The kernel tells user time in ticks; shorter work is measured as a whole.
clock = user_time if length >= 100_000 and sys.platform == "linux" else time.thread_time

def took(length):
    start = clock()
    work(length)
    took = clock() - start
    assert DEFAULT.memory_report().nodes == 0
    return took

def all_of_it():
    # CPU time, and no automatic collections: those look at every live object again and
    # again, so that 200,000 linked tuples alone take 2.5 to 3.5 times as long as 100,000.
    gc.disable()
    # Both lengths in turn, so that what slows the machine for a while slows both; more work
    # than in proportion would show in every round.
    rounds = [(took(length // 2), took(length)) for _ in range(3)]
    # Twice the length takes about twice the time; the floor is the grain of the clock.
    assert any(whole <= 2.5 * half + 0.02 for half, whole in rounds), rounds
    print("done")

if sys.argv[3] == "thread":
    # CPython 3.13 with a GIL, by itself, overflows a small stack when a collection frees a chain
    # of any objects: it counts depth to a limit that is made for a stack of 8 MiB.
    deep = (3, 13) <= sys.version_info < (3, 14) and getattr(sys, "_is_gil_enabled", bool)()
    threading.stack_size((16 * 1024 if deep else 256) * 1024)
    thread = threading.Thread(target=all_of_it)
    thread.start()
    thread.join()
else:
    all_of_it()
"""


@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.parametrize(
    "work",
    ["drop_unused", "back", "back_and_keep", "collected", "swept", "joined_and_dropped"],
)
def test_depth_is_no_limit(work, where):
    """C9, and Burn's stack overflow: no recursion, in linear time, on a 256 KiB stack too."""
    out = run_child(CHAIN, work, "8000", where, limit=50, check_locks=False)
    assert out == "done\n"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.parametrize(
    "work",
    ["drop_unused", "back", "back_and_keep", "collected", "swept", "joined_and_dropped"],
)
def test_two_hundred_thousand_operations_deep(work, where):
    """C9 at the size of the report."""
    out = run_child(CHAIN, work, "200000", where, limit=250, check_locks=False)
    assert out == "done\n"


def test_a_kept_consumed_handle_keeps_no_arrays():
    """C18: after backward, with the loss still held, every saved array is dead."""
    x = leaf(*np.linspace(0.9, 1.1, 50))
    y, saved = x, []
    for _ in range(10):
        y = y * x
        saved.append(weakref.ref(y.numpy().base))
    loss = y
    del y
    loss.backward(np.ones(50))
    assert [reference() for reference in saved[:-1]] == [None] * 9
    assert saved[-1]() is loss.numpy().base
    assert loss.shape == (50,)


MEMORY = """
import sys, tracemalloc
import numpy as np
import sweepgrad as sg

SIDE = 500
ARRAY = SIDE * SIDE * 8

def forward():
    x = sg.tensor(np.full((SIDE, SIDE), 1.0), requires_grad=True)
    factors = [sg.tensor(np.full((SIDE, SIDE), 1.0)) for _ in range(COUNT)]
    y = x
    for factor in factors:
        y = (y * factor) * y
        y = y * 0.5
    return x, y

COUNT = int(sys.argv[1])
ones = np.ones((SIDE, SIDE))
x, y = forward()
y.backward(ones)
tracemalloc.start()
x, y = forward()
after_forward, _ = tracemalloc.get_traced_memory()
tracemalloc.reset_peak()
grads = y.backward(ones)
_, peak = tracemalloc.get_traced_memory()
assert peak <= after_forward + 12_000_000, (after_forward, peak)
settled = None
for _ in range(int(sys.argv[2])):
    del x, y, grads
    x, y = forward()
    grads = y.backward(ones)
    now, _ = tracemalloc.get_traced_memory()
    settled = now if settled is None else settled
    assert now <= settled + 50_000, (now, settled)
print("done")
"""


@pytest.mark.parametrize(
    ("operations", "repeats"), [(34, 3), pytest.param(34, 50, marks=pytest.mark.slow)]
)
def test_backward_lets_go_as_it_runs(operations, repeats):
    """C18: 100 products of 500x500; backward needs a few arrays more than the forward held."""
    assert run_child(MEMORY, str(operations), str(repeats), limit=55) == "done\n"


def test_drops_in_other_threads_reach_a_graph_whose_lock_is_held(busy_switching):
    """The dropping threads only try the lock; whoever holds it drains for them."""
    runtime = GraphRuntime()
    x = runtime.tensor([1.0], requires_grad=True)
    trunk = x * 2.0
    rounds = 300

    def build_and_drop(_):
        for _ in range(rounds):
            kept = [trunk * 3.0 for _ in range(5)]
            del kept[::2]
            y = kept[0] * kept[1]
            del kept, y

    repeat(build_and_drop, 4)
    runtime.check_valid()
    report = runtime.memory_report()
    assert (report.nodes, report.tips, report.pending_drops) == (1, 1, 0)


def test_handles_dropped_by_threads_that_did_not_make_them(baseline, busy_switching):
    boxes = [[] for _ in range(4)]
    rounds = 200

    def make(index):
        x = leaf(1.0)
        for _ in range(rounds):
            boxes[index].append(x * x)
        return True

    def drop(index):
        dropped = 0
        while dropped < rounds:
            try:
                boxes[index].pop()
                dropped += 1
            except IndexError:
                continue
        return dropped

    workers = [lambda i=i: make(i) for i in range(4)] + [lambda i=i: drop(i) for i in range(4)]
    results = run_threads(workers)
    assert results == [True] * 4 + [rounds] * 4
    now = DEFAULT.memory_report()
    assert (now.graphs, now.nodes) == (baseline.graphs, baseline.nodes)


def test_a_thread_that_ends_leaves_its_tensors_usable():
    made = []

    def work():
        x = leaf(3.0)
        made.extend([x, x * x])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    x, y = made
    assert y.backward([1.0])[x].tolist() == [6.0]


def test_the_sweep_costs_what_is_there_not_its_square():
    """Burn's sweep visits each node's whole graph: 60 s for 40,000 products on one parameter."""
    import time

    def one_unrelated_backward(products):
        parameter = leaf(1.0)
        kept = [parameter * 2.0 for _ in range(products)]
        start = time.perf_counter()
        leaf_of_its_own = leaf(3.0)
        (leaf_of_its_own * leaf_of_its_own).backward([1.0])
        sg.graph_cleanup()
        took = time.perf_counter() - start
        del kept
        return took

    small = min(one_unrelated_backward(1_000) for _ in range(3))
    large = min(one_unrelated_backward(8_000) for _ in range(3))
    assert large < 8 * small * 3 + 0.05


def test_losses_of_one_graph_back_propagated_in_turn_cost_linear_time():
    import time

    def train(losses):
        x = leaf(1.0)
        trunk = x * 2.0
        heads = [trunk * 1.5 for _ in range(losses)]
        start = time.perf_counter()
        for head in heads:
            head.backward([1.0], retain_graph=True)
        for head in heads:
            sg.grad(head, [trunk], [[1.0]])
        return time.perf_counter() - start

    small = min(train(250) for _ in range(2))
    large = min(train(2_000) for _ in range(2))
    assert large < 8 * small * 3 + 0.05


def test_the_recursion_limit_of_this_process_was_not_changed():
    assert sys.getrecursionlimit() >= 1000
