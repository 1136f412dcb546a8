"""Real interrupts at random moments: SIGINT in the main thread, asynchronous ones in workers."""

import os
import sys

import pytest

from support.child import run_child
from sweepgrad.graph import GraphRuntime, section

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

#: The main thread forks beside the thread of faulthandler's timer, as Python 3.12 warns.
FORKS = ("-W", "ignore::DeprecationWarning")

#: A process of its own sends the signals, so that they come at any moment and not only when
#: the interpreter lets another thread run.
SIGINTS = """
import os, random, signal, sys, threading, time
from hazards.training import Training, at_rest, ids_agree, use_in_another_thread

count = int(sys.argv[1])
read, write = os.pipe()
sender = os.fork()
if sender == 0:
    os.close(write)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rng = random.Random(int(sys.argv[2]))
    while os.read(read, 1):
        time.sleep(rng.random() * 0.004)
        os.kill(os.getppid(), signal.SIGINT)
    os._exit(0)

training = Training()
training.step()
caught = swallowed = 0
lost = []
sys.unraisablehook = lambda args: lost.append(args.exc_type)

def train():
    # A function of its own: on CPython 3.13 the backward jump of a loop that stands directly
    # in a `try` suite is outside it, and an interrupt there would end the program.
    while not lost:
        training.step()

for _ in range(count):
    try:
        os.write(write, b"x")
        train()
    except KeyboardInterrupt:
        caught += 1
    else:
        # It came in a finalizer, where Python reports and forgets it.
        assert lost == [KeyboardInterrupt], lost
        swallowed += 1
    lost.clear()
    at_rest()
    shared = training.kept[-1][1] if training.kept else None
    use_in_another_thread(limit=2.0, shared=shared)
    ids_agree()
    training.restart()
    training.step()
assert caught + swallowed == count
os.close(write)
os.waitpid(sender, 0)
training.kept.clear()
ids_agree()
print(caught)
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_a_training_loop_survives_interrupts_at_random_moments(seed):
    """C23, shorter."""
    assert interrupted("100", seed, limit=50) > 80


def interrupted(count, seed, limit):
    """How many of the interrupts the loop caught itself, not in a finalizer."""
    return int(run_child(SIGINTS, count, str(seed), check_locks=False, limit=limit, options=FORKS))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_training_loop_survives_two_thousand_interrupts():
    """C23 at the size of the report."""
    assert interrupted("2000", 2, limit=850) > 1_600


ASYNCHRONOUS = """
import ctypes, random, sys, threading, time
from hazards.training import Training, at_rest, ids_agree, use_in_another_thread
from sweepgrad.graph import DEFAULT

class Stop(BaseException):
    pass

count, threads = int(sys.argv[1]), 3
lost, errors = [], []
sys.unraisablehook = lambda args: lost.append((threading.get_ident(), args.exc_type))

class Worker(threading.Thread):
    def __init__(self, index):
        super().__init__(daemon=True)
        self.training = Training(seed=index)
        self.armed, self.over = threading.Event(), threading.Event()
        self.rounds = 0

    def run(self):
        try:
            while self.rounds < count:
                self.one_round()
                self.rounds += 1
        except BaseException as error:
            errors.append(error)
            raise

    def train(self):
        self.armed.set()
        while (self.ident, Stop) not in lost:
            self.training.step()

    def one_round(self):
        try:
            self.train()
        except Stop:
            pass
        else:
            lost.remove((self.ident, Stop))
        self.over.set()
        self.training.restart()
        self.training.step()

set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
rng = random.Random(int(sys.argv[2]))
sys.setswitchinterval(1e-5)
workers = [Worker(index) for index in range(threads)]
for worker in workers:
    worker.start()
for _ in range(count):
    for worker in workers:
        assert worker.armed.wait(10), errors
        worker.armed.clear()
        time.sleep(rng.random() * 0.002)
        assert set_exception(ctypes.c_ulong(worker.ident), ctypes.py_object(Stop)) == 1
        assert worker.over.wait(10), errors
        worker.over.clear()
        use_in_another_thread(limit=2.0)
for worker in workers:
    worker.join(10)
    assert not worker.is_alive()
assert errors == [], errors
assert lost == []
at_rest()
for worker in workers:
    worker.training.kept.clear()
ids_agree()
assert DEFAULT.memory_report().nodes == 0
print(sum(worker.rounds for worker in workers))
"""


def test_workers_survive_asynchronous_exceptions():
    """``PyThreadState_SetAsyncExc``, by which debuggers and watchdogs stop a thread."""
    assert run_child(ASYNCHRONOUS, "25", "0", check_locks=False, limit=50) == "75\n"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_survive_two_thousand_asynchronous_exceptions():
    assert run_child(ASYNCHRONOUS, "700", "1", check_locks=False, limit=550) == "2100\n"


def test_a_drop_whose_finalizer_was_interrupted_goes_with_a_full_sweep(monkeypatch):
    """Python reports and forgets what is raised in a weak reference's callback."""
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: lost.append(args.exc_type))
    runtime = GraphRuntime()
    x = runtime.tensor([2.0], requires_grad=True)
    trunk = x * 3.0
    tip = trunk * 5.0

    def interrupt(frame, event, arg):
        if event == "call" and frame.f_code is section.on_drop.__code__:
            raise KeyboardInterrupt

    sys.settrace(interrupt)
    try:
        del tip
    finally:
        sys.settrace(None)

    assert lost == [KeyboardInterrupt]
    assert runtime.memory_report().nodes == 2, "the handle is dead, the node not yet"
    assert runtime.graph_cleanup(full=True).nodes_freed == 1
    runtime.check_valid()
    assert trunk.backward([1.0])[x].tolist() == [3.0]
