"""The reduction leaves out schedules, never outcomes: checked on generated programs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sweepgrad.explore import explore

STEPS = st.one_of(
    st.tuples(st.just("get"), st.integers(0, 1)),
    st.tuples(st.just("set"), st.integers(0, 1)),
    st.tuples(st.just("add"), st.integers(0, 1)),
    st.tuples(st.just("locked"), st.integers(0, 1)),
)
WEIGHTS = {"get": 1, "set": 1, "add": 2, "locked": 5}


def programs(steps):
    """Two or three threads with at most so many steps in all."""
    threads = st.lists(st.lists(STEPS, min_size=1, max_size=3), min_size=2, max_size=3)
    return threads.filter(lambda p: sum(WEIGHTS[kind] for t in p for kind, _ in t) <= steps)


def outcomes(program, preemptions, reduce, event):
    """Every outcome of the program (what each thread read, and the cells at the end)."""
    found = set()

    def scenario(m):
        cells = [m.cell(0, "x"), m.cell(0, "y")]
        locks = [m.lock("X"), m.lock("Y")]
        seen = [[] for _ in program]

        def run(index):
            for kind, place in program[index]:
                cell = cells[place]
                if kind == "get":
                    seen[index].append(cell.get())
                elif kind == "set":
                    cell.set(index + 1)
                elif kind == "add":
                    cell.set(cell.get() + 10)
                else:
                    with locks[place]:
                        seen[index].append(cell.get())
                        cell.set(cell.get() + 100)

        threads = [m.spawn(run, index) for index in range(len(program))]
        if event:
            m.signal(threads[0], lambda: seen[0].append(f"signal {cells[0].get()}"))
        m.check(lambda: found.add((tuple(map(tuple, seen)), tuple(cell._value for cell in cells))))

    report = explore(scenario, preemptions=preemptions, reduce=reduce)
    assert report.exhausted
    return found, report


@settings(max_examples=25, deadline=None)
@given(programs(8), st.booleans())
def test_without_a_bound_the_same_outcomes_are_met(program, event):
    expected, full = outcomes(program, None, False, event)

    found, reduced = outcomes(program, None, True, event)

    assert found == expected
    assert reduced.schedules <= full.schedules


@settings(max_examples=30, deadline=None)
@given(programs(14), st.integers(0, 2), st.booleans())
def test_under_a_bound_the_same_outcomes_are_met(program, preemptions, event):
    expected, full = outcomes(program, preemptions, False, event)

    found, reduced = outcomes(program, preemptions, True, event)

    assert found == expected
    assert reduced.schedules <= full.schedules
