"""Signal handlers that use tensors at every point of every operation, all in one thread."""

import gc

import pytest

import sweepgrad as sg
from graph.test_interrupts import MODULES, ONE, Scene, gradient
from support.interrupts import Visitor, watched
from sweepgrad.graph import check_locks
from sweepgrad.sync import NATIVE


@pytest.fixture(autouse=True, scope="module")
def watched_modules():
    with watched(MODULES):
        yield


@pytest.fixture(autouse=True)
def plain_locks():
    """The checked lock is Python code that a handler could find half-way; production's is not."""
    before = check_locks(False)
    yield
    check_locks(before)


class Handler:
    """Drops a tip, operates, back-propagates and now and then sweeps; counts what was refused."""

    #: After this many calls it rests: at every point for ever, it would make more garbage than
    #: the code between two points can take apart.
    LIMIT = 300

    def __init__(self, scene, every):
        self.scene = scene
        self.every = every
        self.tips = [scene.a * 1.0 for _ in range(self.LIMIT)]
        self.points = self.calls = self.refused = 0

    def __call__(self):
        self.points += 1
        if self.points % self.every or self.calls == self.LIMIT:
            return
        self.calls += 1
        if self.tips:
            self.tips.pop()  # inside a section: queued, and its graph deferred
        try:
            y = self.scene.x * 3.0
            assert y.backward(ONE)[self.scene.x].item() == 3.0
            if self.calls % 5 == 0:
                self.scene.runtime.graph_cleanup()
        except sg.ReentrantCallError:
            self.refused += 1


def drop(scene, *names):
    for name in names:
        delattr(scene, name)


ACTIONS = {
    "register": lambda s: s.a * 3.0,
    "register under two": lambda s: s.a * s.c,
    "start a graph": lambda s: s.x * s.w,
    "join": lambda s: s.c * s.e,
    "drop a tip": lambda s: drop(s, "c"),
    "drop a trunk": lambda s: drop(s, "c", "a"),
    "backward": lambda s: s.c.backward(ONE),
    "retaining backward": lambda s: s.c.backward(ONE, retain_graph=True),
    "backward to a part": lambda s: sg.grad(s.c, [s.a], [ONE]),
    "sweep": lambda s: s.runtime.graph_cleanup(),
    "report": lambda s: s.runtime.memory_report(),
    "update": lambda s: s.w.update(lambda a: a + 0.0),
}


@pytest.mark.parametrize("every", [1, 2, 3, 7])
@pytest.mark.parametrize("action", ACTIONS)
def test_handlers_at_the_points_of_an_operation_break_nothing(action, every):
    scene = Scene()
    handler = Handler(scene, every)
    visitor = Visitor(MODULES, handler)

    kept = visitor.run(lambda: ACTIONS[action](scene))

    assert handler.points
    state = NATIVE.threads.state
    assert (state.section, state.sweeping, state.discarding) == (None, False, False)
    handler.tips.clear()
    del kept
    runtime = scene.runtime
    runtime.graph_cleanup()
    runtime.check_valid()
    assert runtime.memory_report().pending_drops == 0
    assert state.deferred == []
    assert gradient(scene.e, scene.x, scene.w) == [1.0, 5.0]
    vars(scene).clear()
    gc.collect()
    assert runtime.memory_report().nodes == 0


def test_a_deferred_drop_that_a_handler_takes_between_the_look_and_the_pop():
    """Found by the stress suite: the test at the end of a loop looks for signals after it."""
    scene = Scene()
    state = NATIVE.threads.state

    class Taken(list):
        def pop(self, *args):
            self.clear()
            return list.pop(self, *args)

    state.deferred, before = Taken([scene.a._node.graph]), state.deferred
    try:
        scene.runtime.graph_cleanup()
        assert state.deferred == []
    finally:
        state.deferred = before
