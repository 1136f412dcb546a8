"""What each policy promises."""

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from sweepgrad.explore import PCT, Drawn, Exhaustive, RandomWalk, drawn_schedules, explore


def lost_update(m):
    cell = m.cell(0)

    def add():
        cell.set(cell.get() + 1)

    m.spawn(add)
    m.spawn(add)

    @m.check
    def both_counted():
        assert cell.get() == 2


def orders(policy, steps=3):
    """The orders of two threads' writes that the policy ran."""
    seen = []

    def scenario(m):
        cell = m.cell()
        order = []

        def write(name):
            for _ in range(steps):
                cell.set(name)
                order.append(name)

        m.spawn(write, "a")
        m.spawn(write, "b")
        m.check(lambda: seen.append("".join(order)))

    explore(scenario, policy=policy, stop=False)
    return seen


@pytest.mark.parametrize("policy", [RandomWalk, PCT], ids=["walk", "pct"])
def test_the_same_seed_gives_the_same_schedules(policy):
    assert orders(policy(schedules=50, seed=7)) == orders(policy(schedules=50, seed=7))
    assert orders(policy(schedules=50, seed=7)) != orders(policy(schedules=50, seed=8))


def test_a_random_walk_reaches_every_interleaving():
    """6! / (3! 3!) = 20; the rarest has probability 1/32 or more, so 1,000 runs miss it never."""
    assert len(set(orders(RandomWalk(schedules=1000, seed=1)))) == 20


def test_pct_of_depth_one_runs_threads_one_after_the_other():
    """No change of priority: both orders, with equal chances (binomial, 6 standard deviations)."""
    seen = orders(PCT(depth=1, schedules=400, seed=3))

    assert set(seen) == {"aaabbb", "bbbaaa"}
    assert abs(seen.count("aaabbb") - 200) < 60


def test_pct_meets_a_fault_of_depth_two_at_least_as_often_as_it_states():
    """The lost update needs one preemption at one step: n = 2, k = 4, so 1/8 at least.

    Of 4,000 runs 500 or more are expected, with a standard deviation of 21.
    """
    policy = PCT(depth=2, schedules=4000, seed=5, steps=4)

    report = explore(lost_update, policy=policy, stop=False, raises=False)

    assert policy.chance() == 1 / 8
    assert report.failures > 500 - 6 * 21
    assert "1/(2 * 4^1) = 0.12" in report.policy


def test_pct_does_not_find_what_its_depth_excludes():
    report = explore(lost_update, policy=PCT(depth=1, schedules=500), stop=False)

    assert report.failures == 0


def test_pct_takes_the_longest_run_for_its_number_of_steps():
    policy = PCT(depth=2, schedules=10)

    explore(lost_update, policy=policy, stop=False, raises=False)

    assert policy.steps == 4


def test_a_random_policy_is_never_exhausted():
    assert not explore(lost_update, policy=RandomWalk(5), raises=False).exhausted
    assert not explore(lost_update, policy=PCT(2, 5), raises=False).exhausted


def test_the_budget_of_schedules_is_kept():
    report = explore(
        lost_update, policy=Exhaustive(None, reduce=False), schedules=3, stop=False, raises=False
    )

    assert report.schedules == 3
    assert not report.exhausted


def adders(amounts):
    """Threads that add to one cell without a lock."""

    def scenario(m):
        cell = m.cell(0)

        def add(amount):
            cell.set(cell.get() + amount)

        for amount in amounts:
            m.spawn(add, amount)

        @m.check
        def all_counted():
            assert cell.get() == sum(amounts)

    return scenario


def test_program_and_schedule_shrink_together():
    """The least program that loses an update is two threads that add 1, with one preemption."""
    programs = st.lists(st.integers(1, 9), min_size=1, max_size=5)

    def failure(drawn):
        amounts, policy = drawn
        policy = Drawn(policy.switches)  # a policy serves one exploration
        return explore(adders(amounts), policy=policy, raises=False).failure

    drawn = find(
        st.tuples(programs, drawn_schedules()),
        lambda drawn: failure(drawn) is not None,
        settings=settings(max_examples=2000, database=None, deadline=None, derandomize=True),
    )

    assert drawn[0] == [1, 1]
    order = "".join("ab"[note.thread] for note in failure(drawn).steps)
    assert order in ("abba", "baab")


@settings(max_examples=25, deadline=None)
@given(drawn_schedules())
def test_a_drawn_schedule_of_a_right_program_never_fails(policy):
    def scenario(m):
        lock, cell = m.lock("L"), m.cell(0)

        def add():
            with lock:
                cell.set(cell.get() + 1)

        m.spawn(add)
        m.spawn(add)

        @m.check
        def both_counted():
            assert cell.get() == 2

    assert explore(scenario, policy=policy).schedules == 1
