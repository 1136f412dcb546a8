"""no_grad and enable_grad hold where they were entered, and only there."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import sweepgrad as sg
from support.threads import Gate, repeat, run_threads


def leaf(value=3.0):
    return sg.tensor([value], requires_grad=True)


def test_nothing_is_recorded_inside_no_grad(baseline):
    x = leaf()
    with sg.no_grad():
        y = x * x
        assert not y.requires_grad
        with sg.enable_grad():
            z = x * x
            assert z.requires_grad
        assert not (x * x).requires_grad
    assert (x * x).requires_grad
    assert z.backward([1.0])[x].tolist() == [6.0]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_the_mode_is_restored_after_an_exception(error):
    with pytest.raises(error), sg.no_grad():
        raise error
    assert sg.is_recording()


def test_one_object_may_be_nested_and_reused():
    mode = sg.no_grad()
    with mode:
        with sg.enable_grad():
            with mode:
                assert not sg.is_recording()
            assert sg.is_recording()
        assert not sg.is_recording()
    assert sg.is_recording()
    with mode:
        assert not sg.is_recording()
    assert sg.is_recording()


def test_one_object_may_be_shared_by_threads():
    """What it restores is the thread's own mode, whoever else has entered it meanwhile."""
    mode, inside, left, found = sg.no_grad(), Gate(), Gate(), {}

    def outer_on():
        with mode:
            inside.wait()
        found["on"] = sg.is_recording()
        left.open()

    def outer_off():
        with sg.no_grad():
            with mode:
                inside.open()
                left.wait()
            found["off"] = sg.is_recording()

    run_threads([outer_on, outer_off])
    assert found == {"on": True, "off": False}


def test_the_mode_of_one_thread_is_not_seen_by_another():
    """MyGrad's switch is process-wide: B records nothing while A is inside its block."""
    entered, done, modes = Gate(), Gate(), {}

    def a():
        with sg.no_grad():
            entered.open()
            done.wait()
            modes["a inside"] = sg.is_recording()
        modes["a after"] = sg.is_recording()

    def b():
        entered.wait()
        x = leaf()
        modes["b"] = (x * x).backward([1.0])[x].tolist()
        with sg.no_grad():
            modes["b inside"] = sg.is_recording()
        modes["b after"] = sg.is_recording()
        done.open()

    run_threads([a, b])
    assert modes == {
        "a inside": False,
        "a after": True,
        "b": [6.0],
        "b inside": False,
        "b after": True,
    }


def test_a_thread_flipping_its_mode_never_disturbs_a_thread_that_computes(busy_switching):
    """C10, shorter."""

    def flip():
        for round_ in range(2_000):
            try:
                with sg.no_grad():
                    if round_ % 2:
                        raise ValueError
            except ValueError:
                pass
        return sg.is_recording()

    def compute():
        x = leaf()
        for _ in range(500):
            assert (x * x).backward([1.0])[x].tolist() == [6.0]
        return True

    assert run_threads([flip, compute, flip, compute]) == [True] * 4


def test_a_new_thread_and_a_pool_thread_start_with_recording_on():
    found = []
    with ThreadPoolExecutor(1) as pool:
        with sg.no_grad():
            thread = threading.Thread(target=lambda: found.append(sg.is_recording()))
            thread.start()
            thread.join(10)
            assert not thread.is_alive()
            started_inside = pool.submit(sg.is_recording).result(10)
        started_before = pool.submit(sg.is_recording).result(10)
    # Python 3.14 may be told to copy the context into new threads; then they inherit it.
    inherits = getattr(__import__("sys").flags, "thread_inherit_context", 0)
    assert found == [not inherits]
    assert started_inside is (not inherits)
    assert started_before is (not inherits)


def test_a_copied_context_takes_the_mode_along():
    with sg.no_grad():
        context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(context.run, sg.is_recording).result(10) is False
        assert pool.submit(sg.is_recording).result(10) is True


def test_a_decorated_function_records_nothing_and_keeps_its_name():
    @sg.no_grad()
    def double(x):
        """Twice x."""
        return x * 2.0

    assert not double(leaf()).requires_grad
    assert (double.__name__, double.__doc__) == ("double", "Twice x.")
    assert sg.is_recording()
    with pytest.raises(TypeError):
        double()
    assert sg.is_recording()


def test_a_recursive_decorated_function_restores_each_level():
    @sg.no_grad()
    def down(depth):
        if depth:
            with sg.enable_grad():
                down(depth - 1)
                assert sg.is_recording()
        assert not sg.is_recording()

    down(5)
    assert sg.is_recording()


def test_threads_share_a_decorated_function(busy_switching):
    @sg.no_grad()
    def inner(x):
        return (x * x).requires_grad

    def work(_):
        x = leaf()
        return [(inner(x), (x * x).requires_grad) for _ in range(200)]

    for found in repeat(work, 4):
        assert set(found) == {(False, True)}


def test_a_decorated_generator_has_the_mode_only_while_its_body_runs():
    modes = []

    @sg.no_grad()
    def steps():
        try:
            for _ in range(2):
                modes.append(sg.is_recording())
                got = yield sg.is_recording()
                modes.append(got)
        finally:
            modes.append(sg.is_recording())
        return "result"

    generator = steps()
    assert next(generator) is False
    assert sg.is_recording()
    assert generator.send("sent") is False
    assert sg.is_recording()
    generator.close()
    assert modes == [False, "sent", False, False]
    assert sg.is_recording()


def test_a_decorated_generator_passes_errors_in_and_results_out():
    @sg.no_grad()
    def steps():
        try:
            yield 1
        except ValueError:
            yield sg.is_recording()
        return "result"

    def run():
        result = yield from steps()
        return result

    generator = run()
    assert next(generator) == 1
    assert generator.throw(ValueError) is False
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "result"
    assert sg.is_recording()


def test_a_suspended_generator_with_a_block_disturbs_no_mode_entered_since():
    """A generator suspended inside ``with no_grad()`` keeps its caller in the mode, as Python

    has it; but leaving the blocks in any order ends where it began.
    """

    def steps():
        with sg.no_grad():
            yield

    generator = steps()
    next(generator)
    assert not sg.is_recording()
    with sg.enable_grad():
        next(generator, None)  # the generator's block ends inside this one
        assert sg.is_recording()
    assert sg.is_recording()


def test_asyncio_tasks_have_modes_of_their_own():
    async def flip(rounds):
        for _ in range(rounds):
            with sg.no_grad():
                await asyncio.sleep(0)
                assert not sg.is_recording()
            assert sg.is_recording()
            await asyncio.sleep(0)

    async def compute(rounds):
        x = leaf()
        for _ in range(rounds):
            y = x * x
            await asyncio.sleep(0)
            assert y.backward([1.0])[x].tolist() == [6.0]

    @sg.no_grad()
    async def decorated(rounds):
        for _ in range(rounds):
            assert not sg.is_recording()
            await asyncio.sleep(0)

    async def main():
        await asyncio.gather(flip(50), compute(50), flip(50), decorated(50), compute(50))
        assert sg.is_recording()

    asyncio.run(main())


def test_a_task_started_inside_a_block_inherits_the_mode():
    async def main():
        with sg.no_grad():
            task = asyncio.ensure_future(mode())
        assert await task is False
        assert sg.is_recording()

    async def mode():
        return sg.is_recording()

    asyncio.run(main())


def test_a_decorated_asynchronous_generator_has_the_mode_only_while_its_body_runs():
    modes = []

    @sg.no_grad()
    async def steps():
        try:
            for index in range(3):
                await asyncio.sleep(0)
                modes.append(sg.is_recording())
                yield index
        except ValueError:
            modes.append("caught")
            yield "after"
        finally:
            modes.append(sg.is_recording())

    async def main():
        seen = []
        async for index in steps():
            assert sg.is_recording()
            seen.append(index)
        generator = steps()
        seen.append(await anext(generator))
        seen.append(await generator.athrow(ValueError))
        await generator.aclose()
        assert sg.is_recording()
        return seen

    assert asyncio.run(main()) == [0, 1, 2, 0, "after"]
    assert modes == [False, False, False, False, False, "caught", False]


def test_backward_needs_no_recording(baseline):
    x = leaf()
    y = x * x
    with sg.no_grad():
        assert y.backward([1.0])[x].tolist() == [6.0]


def test_a_differentiable_backward_records_also_inside_no_grad(baseline):
    x = leaf()
    y = x * x * x
    with sg.no_grad():
        first = y.backward([1.0], create_graph=True)[x]
        assert first.requires_grad
        assert not sg.is_recording()
    assert first.backward([1.0])[x].tolist() == [18.0]
