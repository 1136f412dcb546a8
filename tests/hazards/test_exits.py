"""The end of the interpreter: exit code 0, in time, nothing printed, whatever is alive then."""

import subprocess
import sys
import time

import pytest

from graph.test_fork_and_exit import DAEMONS, EXIT
from support.child import run_child

#: Daemon threads that the exit finds inside something of ours.  ``reached()`` says that the
#: thread has got there; ``stay()`` never returns.
PREPARED = """
import atexit, threading
from sweepgrad.graph import DEFAULT, Rule, register_one

here = threading.Semaphore(0)
reached, stay = here.release, threading.Event().wait

def ruled(x, rule, saved=()):
    result = sg.tensor([0.0])
    result._node = register_one(result, x._node, Rule("ruled", rule), saved, 0)
    return result

def leaf():
    return sg.tensor([2.0], requires_grad=True)

def pause(*_):
    reached()
    stay()

class Pauses:
    def __del__(self):
        pause()

def daemon(work):
    threading.Thread(target=work, daemon=True).start()
    assert here.acquire(timeout=20)

def holding(lock, work):
    '''Another daemon holds the lock for ever; the work is about to wait for it.'''
    def hold():
        lock.acquire(blocking=False)  # or a daemon of an earlier phase has it, for ever too
        pause()
    daemon(hold)
    def wait():
        reached()
        work()
    daemon(wait)
"""

PHASES = {
    "a gradient rule": "x = leaf()\ndaemon(lambda: ruled(x, pause).backward([1.0]))",
    "a hook": """
x = leaf()
y = x * 2.0
y.register_hook(pause)
daemon(lambda: y.backward([1.0]))
""",
    "the function of an update": "daemon(lambda: leaf().update(pause))",
    "a saved value's destructor": """
def drop():
    y = ruled(leaf() * 1.0, lambda g, value: g, (Pauses(),))
    del y
daemon(drop)
""",
    "a generator": """
def steps():
    x = leaf()
    y = x * 2.0
    yield y
    pause()
generator = steps()
next(generator)
daemon(lambda: next(generator))
""",
    "waiting to record": "holding(trunk._node.graph.lock, lambda: trunk * 2.0)",
    "waiting to claim": "holding(trunk._node.graph.lock, lambda: trunk.backward([1.0]))",
    "waiting to sweep a graph": "holding(trunk._node.graph.lock, sg.graph_cleanup)",
    "waiting to join": """
one, other = leaf() * 2.0, leaf() * 3.0
holding(one._node.graph.lock, lambda: one * other)
""",
    "waiting to update": """
w = leaf()
holding(DEFAULT.parameters.locks[w._node.id % 32], lambda: w.update(lambda a: a))
""",
    "waiting for a sweep": "holding(DEFAULT.sweeper.lock, sg.graph_cleanup)",
}


def test_daemon_threads_in_every_phase_do_not_hold_up_the_exit():
    """C24: one daemon thread or two in each phase, all of them in one process."""
    program = EXIT + PREPARED
    for phase, lines in PHASES.items():
        # Names of their own: the trunk of one phase is locked for good.
        program += f"\ndef phase():  # {phase}\n    trunk = leaf() * 2.0\n"
        program += "".join(f"    {line}\n" for line in lines.strip().splitlines())
        program += "    kept.append(locals())\nphase()\n"
    assert run_child(program, limit=20) == "done\n"


AT_EXIT = """
import atexit

def late():
    # Registered before the import of sweepgrad: runs after everything that it registered.
    x = sg.tensor([3.0], requires_grad=True)
    one, other = x * x, x * 2.0
    assert (one * other).backward([1.0])[x].tolist() == [54.0]
    x.update(lambda a: a + 1.0)
    sg.graph_cleanup()
    del one, other
    print("late")

atexit.register(late)
import sweepgrad as sg
kept = sg.tensor([1.0], requires_grad=True) * 2.0
"""

FINALIZERS = """
import atexit, gc, weakref
import sweepgrad as sg

class Backward:
    '''Back-propagates, sweeps and drops while modules are torn down.'''
    def __init__(self, cycle):
        self.grad = sg.grad
        self.x = sg.tensor([3.0], requires_grad=True)
        self.y = self.x * self.x
        self.cleanup = sg.graph_cleanup
        self.me = self if cycle else None
    def __del__(self):
        # Not y.backward()[x]: the collector has cleared the weak references to a cycle before
        # it calls its finalizers, so that x looks dropped.
        assert self.grad(self.y, [self.x], [[1.0]])[0].tolist() == [6.0]
        z = self.x * 2.0
        del z
        self.cleanup()

first = [Backward(cycle) for cycle in (False, True) for _ in range(5)]
import sys
sys.modules["aaa, torn down early"] = [Backward(False)]
sys.modules["zzz, torn down late"] = [Backward(True)]
gc.collect()
keep = Backward(False)
weakref.finalize(keep, lambda x: (x * x).backward([1.0]), keep.x)  # runs at exit
print("done")
"""

THREAD_LOCALS = """
import threading
import sweepgrad as sg

local = threading.local()
ended, kept = [], []

def work():
    local.x = sg.tensor([1.0], requires_grad=True)
    local.y = local.x * 2.0
    local.cycle = {"y": local.y}
    local.cycle["me"] = local.cycle
    kept.append(local.y * 3.0)

threads = [threading.Thread(target=work) for _ in range(5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(20)
    assert not thread.is_alive()
work()  # and in the main thread
print("done")
"""


def test_an_atexit_callback_from_before_the_import_uses_everything():
    assert run_child(AT_EXIT) == "late\n"


def test_finalizers_that_back_propagate_at_exit_print_nothing():
    assert run_child(FINALIZERS) == "done\n"


def test_thread_locals_with_tensors_print_nothing_at_exit():
    assert run_child(THREAD_LOCALS) == "done\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", [AT_EXIT, FINALIZERS, EXIT + DAEMONS, EXIT + THREAD_LOCALS])
def test_a_hundred_exits_each_in_time(program):
    """C24 at the size of the report; a third of them with the checker."""
    for number in range(100):
        start = time.monotonic()
        run_child(program, limit=20, check_locks=number % 3 == 0)
        assert time.monotonic() - start < 15  # 5 s, on a machine that has other work too


SUBINTERPRETER = """
import sys
program = '''
import sys
sys.path[:] = {path!r}
try:
    import sweepgrad
except ImportError as error:
    assert type(error).__name__ == "SubinterpreterError", repr(error)
    assert "main interpreter" in str(error)
    assert "numpy" not in sys.modules
else:
    raise AssertionError("imported")
'''.format(path=sys.path)

import _testcapi
assert _testcapi.run_in_subinterp(program) == 0
import sweepgrad as sg
x = sg.tensor([3.0], requires_grad=True)
assert (x * x).backward([1.0])[x].tolist() == [6.0]
assert _testcapi.run_in_subinterp(program) == 0
print("done")
"""


def test_a_subinterpreter_is_refused_before_numpy_is_loaded_into_it():
    """The main interpreter is not disturbed, before its own import or after."""
    has_it = [sys.executable, "-c", "import _testcapi"]
    if subprocess.run(has_it, check=False, capture_output=True).returncode:
        pytest.skip("this build has no _testcapi, by which to start a subinterpreter")
    assert run_child(SUBINTERPRETER) == "done\n"
