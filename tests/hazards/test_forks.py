"""Forks at bad moments, pools of every start method, and tensors sent between processes."""

import os

import pytest

from graph.test_fork_and_exit import USE
from support.child import run_child

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
