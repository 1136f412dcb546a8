"""Forks at bad moments, pools of every start method, and tensors sent between processes."""

import os

import pytest

from graph.test_fork_and_exit import USE
from support.child import run_child
from sweepgrad.graph.inherited import OBJECTS_LOCK

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

#: Fork next to other threads: Python 3.12 warns of it.
QUIET = ("-W", "ignore::DeprecationWarning")


def run(program, *arguments, **options):
    assert run_child(USE + program, *arguments, options=QUIET, **options) == "done\n"


LOCKS = {
    "SWEEP": "DEFAULT.sweeper.lock",
    "LOCATOR": "DEFAULT.locator.lock",
    "GRAPH": "trunk._node.graph.lock",
    "PARAM": "DEFAULT.parameters.locks[3]",
}

FORK_BESIDE_A_HOLDER = """
inside, order = threading.Event(), []
x = sg.tensor([2.0], requires_grad=True)
trunk = x * 3.0
lock = eval(sys.argv[1])

def holder():
    with lock:
        inside.set()
        while not ORDER.waiting:  # until the fork waits for this lock
            pass
        order.append("left")

thread = threading.Thread(target=holder)
thread.start()
assert inside.wait(20)

def child():
    use()
    assert sg.grad(trunk * 2.0, [x], [[1.0]])[0].tolist() == [6.0]
    DEFAULT.check_valid()
    locks_are_free()

in_child(child, limit=5.0)
assert order == ["left"]
thread.join(20)
assert not thread.is_alive()
child()
print("done")
"""


@pytest.mark.parametrize("lock", LOCKS)
def test_a_fork_while_another_thread_holds_a_lock_waits_for_it(lock):
    """C22: at each internal lock."""
    run(FORK_BESIDE_A_HOLDER, LOCKS[lock])


FORK_IN_A_MERGE = """
from sweepgrad.graph import locator, section
from support.lines import AtLines

def forks_at(line):
    '''Another thread stops at this line of a merge until a fork waits for it; True if it has it.'''
    x = sg.tensor([2.0], requires_grad=True)
    one, other = x * 3.0, x * 5.0
    reached = threading.Event()

    def stop(place):
        reached.set()
        while not ORDER.waiting and not released.is_set():
            pass

    released, joined = threading.Event(), []
    lines = AtLines((locator, section), stop, at=line)
    thread = threading.Thread(
        target=lambda: joined.append(lines.run(lambda: one * other)) or reached.set()
    )
    thread.start()
    assert reached.wait(20)

    def child():
        use()
        DEFAULT.check_valid()
        assert (one * 1.0).backward([1.0])[x].tolist() == [3.0]
        assert sg.graph_cleanup().nodes_left <= 2
        locks_are_free()

    in_child(child, limit=5.0)
    released.set()  # at a line without a lock, for which no fork waits
    thread.join(20)
    assert not thread.is_alive()
    assert joined[0].backward([1.0])[x].tolist() == [60.0]
    DEFAULT.check_valid()
    locks_are_free()
    return lines.place

places = []
for line in range(int(sys.argv[1]), 200, int(sys.argv[2])):
    place = forks_at(line)
    if place is None:
        break
    places.append(place)
assert any("absorb" in place or "_take_over" in place for place in places), places
print("done")
"""


def test_a_fork_in_the_middle_of_a_merge_leaves_both_sides_whole():
    """Every fourth line; the other thread goes on when the fork waits for it."""
    run(FORK_IN_A_MERGE, "1", "4", limit=50)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_fork_at_every_line_of_a_merge_leaves_both_sides_whole():
    run(FORK_IN_A_MERGE, "0", "1", limit=150)


def test_a_fork_inside_a_gradient_rule_leaves_both_sides_whole():
    """In the thread that runs the backward: both sides finish it."""
    run(
        """
from sweepgrad.graph import Rule, register_one
pids = []

def rule(g):
    pids.append(os.fork())
    use()
    return g * 2.0

x = sg.tensor([2.0], requires_grad=True)
y = x * 3.0
z = sg.tensor([0.0])
z._node = register_one(z, y._node, Rule("forks", rule), (), 0)
z = z * 5.0
found = z.backward([1.0])[x].tolist()
if pids[0] == 0:
    code = 1
    try:
        faulthandler.register(signal.SIGALRM, chain=True)
        signal.alarm(5)
        assert found == [30.0]
        use()
        DEFAULT.check_valid()
        locks_are_free()
        code = 0
    finally:
        os._exit(code)
assert found == [30.0]
assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 0
use()
locks_are_free()
print("done")
"""
    )


def test_a_fork_while_another_thread_is_inside_a_gradient_rule():
    """Its claim is gone in the child; what it did not claim is there, and works."""
    run(
        """
from sweepgrad.graph import Rule, register_one
inside, leave, found = threading.Event(), threading.Event(), []

def rule(g):
    inside.set()
    assert leave.wait(20)
    return g * 2.0

x = sg.tensor([2.0], requires_grad=True)
trunk = x * 3.0
z = sg.tensor([0.0])
z._node = register_one(z, trunk._node, Rule("waits", rule), (), 0)
other = x * 7.0
thread = threading.Thread(target=lambda: found.append(z.backward([1.0])[x].tolist()))
thread.start()
assert inside.wait(20)

def child():
    use()
    try:
        (trunk * 1.0).backward([1.0])
        raise AssertionError("consumed by a thread that does not exist here")
    except sg.GraphConsumedError:
        pass
    assert other.backward([1.0])[x].tolist() == [7.0]
    DEFAULT.check_valid()
    locks_are_free()

in_child(child, limit=5.0)
use()
leave.set()
thread.join(20)
assert not thread.is_alive()
assert found == [[6.0]]
locks_are_free()
print("done")
"""
    )


POOLS = """
import concurrent.futures, multiprocessing
from hazards import pool_tasks

method = sys.argv[1]
x = sg.tensor([1.0], requires_grad=True)
kept = x * 2.0
context = multiprocessing.get_context(method)
with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
    values = [float(value) for value in range(6)]
    assert list(pool.map(pool_tasks.gradient, values, timeout=40)) == [2 * v for v in values]
    w = sg.tensor([3.0, 4.0], requires_grad=True)
    for tensor, grads in pool.map(pool_tasks.train, [w] * 3, timeout=40):
        assert (tensor.tolist(), tensor.requires_grad, tensor.is_leaf) == ([3.0, 4.0], True, True)
        assert grads[tensor].tolist() == [6.0, 8.0], "the pair was sent together"
        assert len(grads) == 1 and w not in grads
    result = pool.submit(pool_tasks.square, kept).result(40)
    assert (result.tolist(), result.is_leaf) == ([4.0], True), "a graph stays where it is"
assert kept.backward([1.0])[x].tolist() == [2.0]
use()
locks_are_free()
print("done")
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_pools_of_processes_train_and_send_tensors_and_gradients(method):
    run(POOLS, method, limit=50)


#: Locks what is sweepgrad's in children, before its own hook runs, as a fork does with those that
#: were just handed from one thread to another (see ``sweepgrad.graph.inherited``).
LOCKED_CONTAINERS = """
import os
found = []
os.register_at_fork(after_in_child=lambda: [lock(each) for each in found])  # before sweepgrad's
import collections, ctypes, functools, gc, sys, types

KINDS = {set, collections.deque, types.CellType, type(functools.lru_cache(int))}
OURS = {"Node", "Graph", "Tensor", "GraphRuntime", "GraphLocator", "Rule"}

def lock(container):
    '''Without a GIL an object begins with its thread's identity, two bytes, and its lock.'''
    ctypes.c_uint8.from_address(id(container) + 10).value = 1

def find(*roots):
    '''What sweepgrad's modules and these objects lead to and several threads may look into.'''
    modules = [module for name, module in sys.modules.items() if name.startswith("sweepgrad")]
    stack, seen = [*map(vars, modules), *roots], {}
    while stack:
        each = stack.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        of = each if type(each) is types.FunctionType else type(each)
        ours = (getattr(of, "__module__", "") or "").startswith("sweepgrad")
        if ours and type(each) is types.FunctionType:
            stack += each.__closure__ or ()
        elif ours or isinstance(each, (dict, list, tuple, types.BuiltinMethodType, set)):
            stack += gc.get_referents(each)
    return [
        each for each in seen.values() if type(each) in KINDS or type(each).__name__ in OURS
    ]
"""

EVERYTHING_LOCKED = """
x = sg.tensor([2.0], requires_grad=True)
trunk, other = x * 3.0, x * 5.0
merged = trunk * (x * 7.0)
queued = other * 2.0
unavailable = trunk * 2.0
(trunk * 4.0).backward([1.0])
seen = []
first = x.register_hook(lambda g: seen.append("first"))
x.register_hook(lambda g: seen.append("second"))
x.register_post_accumulate(lambda leaf, g: seen.append("after"))
runtime = GraphRuntime()
leaf = runtime.tensor([2.0], requires_grad=True)
y = leaf * 1.0
square = sg.value_and_grad(lambda w: (w * w).sum())
quietly = sg.no_grad()(lambda: x * 2.0)
labels, scores = np.array([0, 1]), sg.tensor(np.eye(2), requires_grad=True)

def everything():
    global trunk, other, merged, unavailable, y, queued
    with other._node.graph.lock:
        queued = None  # its drop is queued, as while another thread holds the lock
    use()
    use(GraphRuntime())
    assert (other * 2.0).backward([1.0])[x].tolist() == [10.0]
    assert seen[-3:] == ["first", "second", "after"]
    first.remove()
    assert (x * 2.0).backward([1.0])[x].tolist() == [2.0]
    assert seen[-2:] == ["second", "after"]
    assert square(x)[0].item() == float(x.numpy()[0]) ** 2
    assert not quietly().requires_grad
    sg.einsum("ij,jk", scores, scores).sum().backward()
    sg.cross_entropy(scores, labels).backward()
    assert len((y * y).backward([1.0])) == 1
    trunk = other = merged = unavailable = y = None
    gc.collect()
    sg.graph_cleanup(full=True)
    assert sg.memory_report().nodes == runtime.memory_report().nodes == 0
    DEFAULT.check_valid()
    locks_are_free()

graphs = [graph for each in (DEFAULT, runtime) for graph in each.locator.list_all()]
sg.einsum("ij,jk", scores, scores)
sg.cross_entropy(scores, labels)
found += find(x, scores, merged, unavailable, queued, *graphs)
extras = x._node.extras
found += [*square.__closure__, *quietly.__closure__]
found += extras, extras["hooks"], extras["after"], *[graph.nodes for graph in graphs]
kinds = {type(each).__name__ for each in found}
assert kinds == OURS | {"set", "deque", "_lru_cache_wrapper", "dict", "cell"}, kinds
# Two of each graph; of each runtime the directory and the leaves; four caches at least.
assert len(graphs) >= 3 and len(found) >= 2 * len(graphs) + 2 * 9 + 4, (len(graphs), len(found))

def child():
    everything()
    in_child(use, limit=5.0)

in_child(child, limit=20.0)
found.clear()
everything()
print("done")
"""

without_gil = pytest.mark.skipif(not OBJECTS_LOCK, reason="objects have no locks here")


@without_gil
@pytest.mark.parametrize("check_locks", [False, True])
def test_an_object_whose_lock_no_thread_will_let_go_is_unlocked_in_the_child(check_locks):
    """Sets, deques, caches, closures, nodes, graphs and tensors, before our own hook runs."""
    program = LOCKED_CONTAINERS + USE + EVERYTHING_LOCKED
    assert run_child(program, options=QUIET, check_locks=check_locks) == "done\n"


FORKS_BESIDE_STARTING_GRAPHS = """
stop = threading.Event()
x = sg.tensor([2.0], requires_grad=True)

def start_graphs():
    while not stop.is_set():
        kept = [x * 2.0 for _ in range(20)]

use()  # NumPy has a lock of its own for what it has not multiplied before: docs/hazards.md
threads = [threading.Thread(target=start_graphs, daemon=True) for _ in range(24)]
for thread in threads:
    thread.start()
for _ in range(20):  # a number, not a time: a busy machine makes fewer in one
    in_child(use, limit=20.0)
stop.set()
for thread in threads:
    thread.join(20)
print("done")
"""


@without_gil
@pytest.mark.timeout(120)
def test_children_forked_beside_threads_that_queue_for_a_set_all_finish():
    """A set of the runtime is handed from thread to thread, by CPython, during a fork."""
    program = USE + FORKS_BESIDE_STARTING_GRAPHS
    assert run_child(program, options=QUIET, check_locks=False, limit=100.0) == "done\n"
