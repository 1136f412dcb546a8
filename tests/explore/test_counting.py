"""Exhaustive means exhaustive: schedules are counted against interleavings drawn by hand."""

import math

from sweepgrad.explore import explore


def writers(*counts, shared):
    """Threads that write ``counts`` times, to one cell or each to its own; the orders seen."""
    seen = []

    def scenario(m):
        one = m.cell(name="shared")
        order = []

        def write(name, cell, times):
            for _ in range(times):
                cell.set(name)
                order.append(name)

        for index, times in enumerate(counts):
            name = "abc"[index]
            cell = one if shared else m.cell(name=name)
            m.spawn(write, name, cell, times, name=name)
        m.check(lambda: seen.append("".join(order)))

    return scenario, seen


def test_every_interleaving_of_two_threads_is_run_once_without_reduction():
    """Two writes each: aabb abab abba baab baba bbaa, six in all."""
    scenario, seen = writers(2, 2, shared=True)

    report = explore(scenario, preemptions=None, reduce=False)

    assert sorted(seen) == ["aabb", "abab", "abba", "baab", "baba", "bbaa"]
    assert (report.schedules, report.pruned, report.exhausted) == (6, 0, True)


def test_writes_to_one_cell_are_all_kept_by_the_reduction():
    """No two of the steps commute, so none of the six orders is left out."""
    scenario, seen = writers(2, 2, shared=True)

    report = explore(scenario, preemptions=None)

    assert sorted(seen) == ["aabb", "abab", "abba", "baab", "baba", "bbaa"]
    assert report.exhausted


def test_writes_to_different_cells_are_run_in_one_order():
    """All steps commute: the six orders are one."""
    scenario, seen = writers(2, 2, shared=False)

    report = explore(scenario, preemptions=None)

    assert seen == ["aabb"]
    assert report.schedules == 1
    assert report.exhausted


def test_three_threads_of_three_steps_have_all_their_interleavings():
    """9! / (3! 3! 3!) = 1680."""
    scenario, seen = writers(3, 3, 3, shared=True)

    report = explore(scenario, preemptions=None, reduce=False)

    assert len(set(seen)) == len(seen) == 1680
    assert report.schedules == math.factorial(9) // 6**3


def test_a_bound_of_zero_switches_only_where_a_thread_ends():
    """Three threads, no preemption: their 3! orders."""
    scenario, seen = writers(2, 2, 2, shared=True)

    report = explore(scenario, preemptions=0, reduce=False)

    assert sorted(seen) == ["aabbcc", "aaccbb", "bbaacc", "bbccaa", "ccaabb", "ccbbaa"]
    assert report.exhausted


def test_a_bound_of_one_allows_one_switch_away_from_a_thread_that_could_go_on():
    """aabb, bbaa; and with one preemption abba (a b|b ends, a) and baab."""
    scenario, seen = writers(2, 2, shared=True)

    explore(scenario, preemptions=1, reduce=False)

    assert sorted(seen) == ["aabb", "abba", "baab", "bbaa"]


def crossed(m):
    a, b = m.lock("A"), m.lock("B")

    def one():
        with a, b:
            pass

    def two():
        with b, a:
            pass

    m.spawn(one)
    m.spawn(two)


def test_two_crossed_locks_have_six_interleavings_two_of_which_hang():
    """Drawn by hand, + takes and - lets go; capitals are the second thread's locks.

    A+ B+ B- A- then two; A+ B+ B- b+ (two has B) A- then two; A+ b+ hang; and the
    same three with the threads exchanged.
    """
    report = explore(crossed, preemptions=None, reduce=False, stop=False, raises=False)

    assert (report.schedules, report.failures, report.exhausted) == (6, 2, True)


def test_two_crossed_locks_have_three_orders_that_differ():
    """One first, two first, and the hang, which taking A before B or after does not change."""
    report = explore(crossed, preemptions=None, stop=False, raises=False)

    assert (report.schedules, report.failures, report.exhausted) == (3, 1, True)


def test_an_event_is_tried_before_every_step_and_never():
    """A thread of three steps: an event before each of them, or none."""
    fired = []

    def scenario(m):
        cell = m.cell()
        seen = []

        def work():
            for value in range(3):
                cell.set(value)
                seen.append(value)

        thread = m.spawn(work)
        m.signal(thread, lambda: seen.append("!"))
        m.check(lambda: fired.append(tuple(seen)))

    report = explore(scenario, preemptions=0, reduce=False)

    assert sorted(fired, key=str) == sorted(
        [("!", 0, 1, 2), (0, "!", 1, 2), (0, 1, "!", 2), (0, 1, 2)], key=str
    )
    assert report.exhausted
