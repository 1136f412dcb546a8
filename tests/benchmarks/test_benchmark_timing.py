"""The timing core: what is timed, in which order, and what the statistics say."""

import gc
import itertools
import threading
import time
import weakref

import pytest
from benchmarks.timing import Series, Subject, measure, percentiles, ratio


class Result:
    """Something that a weak reference can watch."""


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_every_round_runs_every_engine_once_behind_another_one_each_time():
    calls = []
    subjects = [
        Subject(name, lambda _, name=name: (calls.append(name), busy(2e-3)))
        for name in ("a", "b", "c")
    ]
    series = measure(subjects, 0.0)
    rounds = len(series["a"].samples)
    assert [len(one.samples) for one in series.values()] == [rounds] * 3
    timed = calls[len(calls) - 3 * rounds :]
    rounds_run = [timed[start : start + 3] for start in range(0, len(timed), 3)]
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds_run)
    behind = {pair for names in rounds_run for pair in itertools.pairwise(names)}
    assert len(behind) == 6  # each engine behind each other one


def test_preparation_is_not_timed_and_its_result_is_the_argument():
    arguments = []

    def run(argument):
        arguments.append(argument)
        busy(1e-3)

    def prepare():
        busy(5e-3)
        return "prepared"

    series = measure([Subject("a", run, prepare)], 0.0)
    assert set(arguments) == {"prepared"}
    assert 1e-3 <= series["a"].minimum < 5e-3


def test_results_live_until_the_clock_has_stopped():
    watched, alive_at_next_call = [], []

    def run(_):
        alive_at_next_call.extend(reference() is not None for reference in watched[-1:])
        result = Result()
        watched.append(weakref.ref(result))
        return result

    measure([Subject("a", run)], 0.0, round_seconds=2e-4)
    inside_rounds = sum(alive_at_next_call)
    assert inside_rounds > len(alive_at_next_call) // 2
    gc.collect()
    assert not any(reference() is not None for reference in watched)


def test_short_subjects_are_repeated_until_a_round_is_long_enough():
    calls = []
    series = measure([Subject("a", lambda _: calls.append(1))], 0.0, round_seconds=1e-3)
    assert len(calls) / len(series["a"].samples) > 100
    assert series["a"].minimum < 1e-4


def test_processor_time_leaves_waiting_out():
    def wait(_):
        ready = threading.Event()
        ready.wait(5e-3)

    series = measure([Subject("a", wait)], 0.0, cpu_time=True, round_seconds=1e-5)
    assert series["a"].minimum < 2e-3


def test_units_divide_the_time():
    series = measure(
        [Subject("one", lambda _: busy(1e-3)), Subject("ten", lambda _: busy(1e-3), units=10)], 0.0
    )
    assert 5 < series["one"].minimum / series["ten"].minimum < 20


@pytest.mark.parametrize("collector", [False, True])
def test_the_collector_is_as_asked_in_every_round_and_afterwards_as_before(collector):
    seen = set()

    def run(_):
        seen.add(gc.isenabled())
        busy(1e-3)

    assert gc.isenabled()
    measure([Subject("a", run)], 0.0, collector=collector)
    assert seen == {collector}
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_an_error_in_a_subject_leaves_the_collector_as_it_was():
    def run(_):
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        measure([Subject("a", run)], 0.0)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_two_subjects_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two subjects of one name"):
        measure([Subject("a", busy), Subject("a", busy)], 0.0)


def test_percentiles_are_the_nearest_ranks():
    assert percentiles(list(range(101))) == (10, 90)
    assert percentiles([5.0]) == (5.0, 5.0)
    assert percentiles([3, 1, 2], 0, 100) == (1, 3)


def test_a_ratio_is_of_minima_of_medians_and_round_by_round():
    found = ratio(Series("a", [2.0, 4.0, 9.0]), Series("b", [1.0, 4.0, 3.0]))
    assert found.of_minima == 2.0
    assert found.of_medians == 4.0 / 3.0
    assert (found.low, found.high) == (1.0, 3.0)
