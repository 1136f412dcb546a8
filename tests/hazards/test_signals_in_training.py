"""A signal handler that uses tensors every millisecond, for as long as a training loop runs."""

import signal

import pytest

from support.child import TESTS, run_child

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="this system has no interval timer"
)

TRAINING = """
import sys, threading, time
sys.path.insert(0, sys.argv[2])
import sweepgrad as sg
from stress import signals
from hazards.training import Training, at_rest, ids_agree
from sweepgrad.graph import DEFAULT

seconds, threads = float(sys.argv[1]), 2
training = Training()
handled, refused, errors = [0], [0], []
running = [True]

def handler(signum, frame):
    handled[0] += 1
    try:
        x = sg.tensor([3.0], requires_grad=True)
        assert (x * x).backward([1.0])[x].tolist() == [6.0]
        if training.kept:
            y = training.kept[-1][1] * x  # in a graph that the interrupted code may be using
            assert sg.grad(y, [x], [[1.0, 1.0]])[0].shape == (1,)
        training.w.update(lambda a: a)
        if handled[0] % 10 == 0:
            sg.graph_cleanup()
            sg.memory_report()
    except sg.ReentrantCallError:
        refused[0] += 1
    finally:
        # Armed when it is done: a periodic timer would interrupt its own handler without end
        # on a machine that is slow for a moment.
        if running[0]:
            signals.arm(0.001)

def work(seed):
    mine = Training(seed=seed)
    try:
        while running[0]:
            mine.step()
    except BaseException as error:
        errors.append(error)

workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
assert signals.start(handler)
for worker in workers:
    worker.start()
end = time.monotonic() + seconds
while time.monotonic() < end and not errors:
    try:
        training.step()
    except sg.GraphConsumedError:
        training.restart()  # the handler consumed a graph that this step was joining
running[0] = False
signals.arm(0.0)
for worker in workers:
    worker.join(20)
    assert not worker.is_alive()
assert errors == [], errors
training.kept.clear()
at_rest()
ids_agree()
assert DEFAULT.memory_report().nodes == 0
assert training.w.tolist() == [3.0, 1.0]
print(handled[0], refused[0])
"""


def handled(seconds, check_locks, limit):
    """How often the handler ran."""
    arguments = (seconds, str(TESTS.parent))
    return int(run_child(TRAINING, *arguments, limit=limit, check_locks=check_locks).split()[0])


@pytest.mark.parametrize("check_locks", [False, True])
def test_handlers_every_millisecond_break_nothing(check_locks):
    assert handled("1.5", check_locks, 40) > 20  # on a busy machine; 1,500 at most


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("check_locks", [False, True])
def test_handlers_every_millisecond_for_a_minute_break_nothing(check_locks):
    assert handled("60", check_locks, 150) > 2_000  # on a busy machine; 60,000 at most
