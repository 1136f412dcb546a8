"""Forked children and the end of the interpreter: nothing hangs, nothing is printed."""

import os

import pytest

from support.child import run_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

#: Runs in every program below: a complete use of the runtime, checked.
USE = """
import faulthandler, gc, os, signal, sys, threading, warnings
import numpy as np
import sweepgrad as sg
from sweepgrad.graph import DEFAULT, ORDER, GraphRuntime
from sweepgrad.graph import fork as fork_module
from sweepgrad.sync import NATIVE

warnings.filterwarnings("ignore", category=DeprecationWarning)  # fork with threads, Python 3.12

def use(runtime=DEFAULT):
    x = runtime.tensor([3.0], requires_grad=True)
    one, other = x * x, x * 2.0
    joined = one * other
    assert joined.backward([1.0])[x].tolist() == [54.0]
    assert (x * x).backward([1.0])[x].tolist() == [6.0]
    x.update(lambda a: a + 1.0)
    assert x.tolist() == [4.0]
    runtime.graph_cleanup()

def in_child(function, limit=10.0):
    '''Fork; run the function in the child; its exit code must be 0 within the limit.'''
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            # Not faulthandler's timer: the child waits for the parent's timer thread for ever.
            faulthandler.register(signal.SIGALRM, chain=True)
            signal.alarm(int(limit))
            function()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def locks_are_free(runtime=DEFAULT):
    locks = [runtime.sweeper.lock, runtime.locator.lock, *runtime.parameters.locks]
    locks += [graph.lock for graph in runtime.locator.list_graphs()]
    assert not any(lock.locked() for lock in locks)
    assert NATIVE.threads.state.section is None
    assert ORDER.violations == []
"""


def run(program, **options):
    assert run_child(USE + program, **options) == "done\n"


@pytest.mark.parametrize("check_locks", [False, True])
def test_a_child_forked_while_threads_work_is_whole(check_locks):
    """C22, shorter: both sides go on, in the default runtime and in another."""
    run(
        """
sys.setswitchinterval(1e-6)
stop = threading.Event()
runtimes = [DEFAULT, GraphRuntime(), GraphRuntime()]
shared = [runtime.tensor([2.0], requires_grad=True) * 1.0 for runtime in runtimes]
failures = []

def busy(index):
    try:
        while not stop.is_set():
            for runtime, trunk in zip(runtimes, shared):
                use(runtime)
                kept = [trunk * 2.0 for _ in range(5)]
                runtime.graph_cleanup()
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=busy, args=(index,)) for index in range(2)]
for thread in threads:
    thread.start()

def child():
    for runtime, trunk in zip(runtimes, shared):
        use(runtime)
        y = trunk * 3.0
        assert sg.grad(y, [trunk], [[1.0]])[0].tolist() == [3.0]
        runtime.check_valid()
        locks_are_free(runtime)

for _ in range(15):
    in_child(child)
    for runtime in runtimes:
        use(runtime)
stop.set()
for thread in threads:
    thread.join(20)
    assert not thread.is_alive()
assert failures == [], failures
for runtime in runtimes:
    runtime.check_valid()
    locks_are_free(runtime)
print("done")
""",
        check_locks=check_locks,
        limit=25,
    )


def test_a_child_forked_while_a_thread_is_inside_a_section():
    """The graph was not listed when the locks were taken: the child repairs it."""
    run(
        """
inside, leave = threading.Event(), threading.Event()
x = sg.tensor([2.0], requires_grad=True)
trunk = x * 3.0
graph = trunk._node.graph

def worker():
    # As a thread in the middle of recording: the lock is held, the counts are half-changed.
    with graph.lock:
        graph.dirty = True
        graph.tips += 7
        inside.set()
        leave.wait(20)
        graph.tips -= 7
        graph.dirty = False

thread = threading.Thread(target=worker)
thread.start()
inside.wait(20)
# Hide the graph from the forking thread's list, as if it had been started just after it.
listing = type(DEFAULT.locator).list_locked
type(DEFAULT.locator).list_locked = lambda self: []
def child():
    assert (trunk * 2.0).backward([1.0])[x].tolist() == [6.0]
    DEFAULT.check_valid()
    locks_are_free()
renew = fork_module._renew
def renew_all(runtime):
    type(DEFAULT.locator).list_locked = listing
    renew(runtime)
fork_module._renew = renew_all
in_child(child)
type(DEFAULT.locator).list_locked = listing
leave.set()
thread.join(20)
assert not thread.is_alive()
use()
print("done")
""",
        check_locks=False,
    )


def test_a_fork_waits_for_the_thread_that_is_inside_a_section():
    run(
        """
inside, order = threading.Event(), []
x = sg.tensor([2.0], requires_grad=True)
trunk = x * 3.0

def worker():
    with trunk._node.graph.lock:
        inside.set()
        while not ORDER.waiting:
            pass
        order.append("left")

thread = threading.Thread(target=worker)
thread.start()
inside.wait(20)
in_child(lambda: use() or order.index("left"))
assert order == ["left"]
thread.join(20)
locks_are_free()
print("done")
"""
    )


def test_what_a_finalizer_does_between_the_hooks_is_refused_and_not_waited_for():
    """The forking thread holds every lock; user code may run before they are released."""
    run(
        """
outcomes = []
x = sg.tensor([2.0], requires_grad=True)
one, other = x * 3.0, x * 4.0

def attempt():
    for call in (lambda: one * 2.0, lambda: one * other, DEFAULT.memory_report,
                 lambda: x.update(lambda a: a), lambda: one.backward([1.0])):
        try:
            call()
            outcomes.append("done")
        except sg.ReentrantCallError:
            outcomes.append("refused")
    outcomes.append(DEFAULT.graph_cleanup().deferred)

# Hooks before a fork run in the reverse order: one registered before sweepgrad's import runs
# after ours. Simulated by calling from inside: the last lock to be taken calls it.
acquire_rising = fork_module.acquire_rising
def acquire_and_attempt(locks, taken):
    acquire_rising(locks, taken)
    attempt()
fork_module.acquire_rising = acquire_and_attempt
sweeps = DEFAULT.sweeper.sweeps
in_child(use)
fork_module.acquire_rising = acquire_rising
assert outcomes == (["refused"] * 5 + [True]) * 4, outcomes
assert DEFAULT.sweeper.sweeps == sweeps + 1
locks_are_free()
use()
print("done")
"""
    )


def test_drops_that_meet_a_fork_are_drained_after_it():
    run(
        """
x = sg.tensor([2.0], requires_grad=True)
trunk = x * 3.0
victims = [trunk * 2.0 for _ in range(10)]
acquire_rising = fork_module.acquire_rising
def acquire_and_drop(locks, taken):
    acquire_rising(locks, taken)
    thread = threading.Thread(target=lambda: victims and victims.pop() and None)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
fork_module.acquire_rising = acquire_and_drop
def child():
    left = sg.graph_cleanup().nodes_left  # the child repairs a graph when it touches it
    assert left == 1 + len(victims), left
    DEFAULT.check_valid()
in_child(child)
fork_module.acquire_rising = acquire_rising
report = DEFAULT.memory_report()
assert (report.pending_drops, report.nodes) == (0, 1 + len(victims)), report
assert len(victims) < 9
DEFAULT.check_valid()
print("done")
"""
    )


@pytest.mark.parametrize("hook", ["_before", "_after_in_parent", "_after_in_child"])
def test_an_interrupt_during_a_fork_leaves_no_lock_held(hook):
    """It is raised at the first bytecode of a hook, where Python reports and forgets it."""
    run(
        f"""
hook = fork_module.{hook}.__code__
raised = []
def trace(frame, event, arg):
    if frame.f_code is hook and not raised:
        raised.append(True)
        raise KeyboardInterrupt
unraisable = []
sys.unraisablehook = unraisable.append
graphs = sg.tensor([1.0], requires_grad=True) * 1.0
sys.settrace(trace)
try:
    pid = os.fork()
finally:
    sys.settrace(None)
code = 1
if pid == 0:
    try:
        use()
        locks_are_free()
        code = 0
    finally:
        os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
use()
locks_are_free()
if {hook!r} != "_after_in_child":
    assert len(unraisable) == 1, unraisable
print("done")
""",
        check_locks=False,
    )


def test_a_finalizer_that_forks_inside_a_section():
    """No lock can be waited for there: the child renews them all and repairs every graph."""
    run(
        """
x = sg.tensor([2.0], requires_grad=True)
trunk = x * 3.0
other = x * 5.0
forked = []

class Forks:
    def __del__(self):
        in_child(child)
        forked.append(True)

def child():
    # Still inside the parent's section: refused here, not hanging.
    try:
        trunk * 2.0
        assert False
    except sg.ReentrantCallError:
        pass
    y = x * 7.0  # a graph of its own takes no lock
    assert y._node.graph.tips == 1

repair = type(trunk._node.graph).repair
def repair_and_fork(self, garbage):
    Forks()
    repair(self, garbage)
type(trunk._node.graph).repair = repair_and_fork
trunk._node.graph.dirty = True
y = trunk * 2.0
sg.memory_report()
assert forked == [True]
assert y.backward([1.0])[x].tolist() == [6.0]
locks_are_free()
use()
print("done")
"""
    )


def test_two_threads_that_fork_at_once():
    run(
        """
sys.setswitchinterval(1e-6)
failures = []
def forks():
    try:
        for _ in range(5):
            in_child(use)
            use()
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=forks) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(30)
    assert not thread.is_alive()
assert failures == [], failures
locks_are_free()
print("done")
""",
        limit=40,
    )


def test_a_child_of_a_child():
    run("in_child(lambda: in_child(lambda: (use(), locks_are_free())))\nprint('done')\n")


def test_a_fork_started_pool_trains():
    run(
        """
import multiprocessing

def task(value):
    x = sg.tensor([float(value)], requires_grad=True)
    gradient = (x * x).backward([1.0])[x].item()
    sg.graph_cleanup()
    return gradient

use()
keep = sg.tensor([1.0], requires_grad=True) * 2.0
with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(task, range(12)) == [2.0 * value for value in range(12)]
use()
print("done")
""",
        limit=40,
    )


EXIT = """
import sys, threading, weakref
import numpy as np
import sweepgrad as sg

kept = []
for index in range(1000):
    x = sg.tensor([float(index)], requires_grad=True)
    y = x * x
    kept.append((x, y, y * x))

class Late:
    '''Drops tensors while the interpreter goes down.'''
    def __init__(self):
        self.x = sg.tensor([2.0], requires_grad=True)
        self.y = self.x * 3.0
        self.me = self
    def __del__(self):
        del self.y
        del self.x

late = [Late() for _ in range(10)]
sys.modules["a module that goes last"] = late
trunk = kept[0][1]
many = [trunk * 2.0 for _ in range(100)]
sg.grad(many[0], [trunk], [[1.0]])
print("done")
"""

DAEMONS = """
import threading
sys.setswitchinterval(1e-6)
def busy():
    while True:
        w = sg.tensor([1.0], requires_grad=True)
        one, other = w * 2.0, w * 3.0
        (one * other).backward([1.0])
        w.update(lambda a: a + 1.0)
        sg.graph_cleanup()
for _ in range(4):
    threading.Thread(target=busy, daemon=True).start()
"""

PARKED = """
import threading
from sweepgrad.graph import DEFAULT
here = threading.Event()
def park(lock):
    lock.acquire()
    here.set()
    threading.Event().wait()
lock = {lock}
threading.Thread(target=park, args=(lock,), daemon=True).start()
here.wait(10)
"""

LOCKS = {
    "SWEEP": "DEFAULT.sweeper.lock",
    "LOCATOR": "DEFAULT.locator.lock",
    "GRAPH": "kept[1][1]._node.graph.lock",
    "the busiest GRAPH": "trunk._node.graph.lock",
    "PARAM": "DEFAULT.parameters.locks[0]",
}


def test_finalizers_at_exit_do_nothing_and_print_nothing():
    assert run_child(EXIT) == "done\n"


@pytest.mark.parametrize("run_number", range(3))
def test_busy_daemon_threads_do_not_hold_up_the_exit(run_number):
    """C24, shorter."""
    assert run_child(EXIT + DAEMONS, limit=20) == "done\n"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_exits_with_busy_daemon_threads():
    """C24."""
    for _ in range(100):
        assert run_child(EXIT + DAEMONS, limit=20) == "done\n"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_daemon_thread_parked_on_a_lock_does_not_hold_up_the_exit(lock):
    """C24: whatever it holds, nothing at exit waits for it."""
    assert run_child(EXIT + PARKED.format(lock=LOCKS[lock]), limit=20) == "done\n"


def test_an_exception_that_ends_the_program_is_all_that_is_printed():
    program = EXIT.replace('print("done")', 'raise SystemExit("the end")')
    with pytest.raises(AssertionError, match=r"--- errors\nthe end\n$"):
        run_child(program)


def test_a_generator_or_thread_local_that_holds_tensors_at_exit():
    program = (
        EXIT
        + """
def generate():
    x = sg.tensor([1.0], requires_grad=True)
    y = x * 2.0
    try:
        yield y
    finally:
        del y, x
generator = generate()
next(generator)
local = threading.local()
local.tensor = next(generate())
def in_thread():
    local.tensor = sg.tensor([1.0], requires_grad=True) * 2.0
thread = threading.Thread(target=in_thread)
thread.start()
thread.join(10)
assert not thread.is_alive()
"""
    )
    assert run_child(program) == "done\n"
