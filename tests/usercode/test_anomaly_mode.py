"""detect_anomaly: where the operation behind a NaN or an exception was recorded."""

import gc

import numpy as np
import pytest
from custom_operations import ProductAndSum, leaf, ruled

import sweepgrad as sg
from support.threads import Gate, run_threads
from sweepgrad.graph.watch import WATCH


def nan_rule(x, g):
    return g * np.nan


def test_a_nan_names_the_line_that_recorded_the_operation():
    x = leaf([1.0])
    bad = ruled(nan_rule, "Bad")
    with sg.detect_anomaly():
        y = bad.apply(x) * 2.0  # the line to find
        with pytest.raises(sg.AnomalyError) as caught:
            y.sum().backward()
    text = str(caught.value)
    assert "the gradient rule of Bad gave a NaN" in text
    assert "y = bad.apply(x) * 2.0  # the line to find" in text
    assert __file__ in text


def test_the_origin_shows_no_frame_of_the_library():
    x = leaf([0.0])
    with sg.detect_anomaly(), np.errstate(all="ignore"):
        y = sg.sqrt(x) * 0.0
        with pytest.raises(sg.AnomalyError) as caught:
            y.sum().backward()
    assert "sweepgrad/ops" not in str(caught.value)


def test_an_exception_in_a_rule_keeps_its_type_and_gets_a_note():
    def fail(x, g):
        raise ZeroDivisionError("on purpose")

    x = leaf([1.0])
    with sg.detect_anomaly():
        y = ruled(fail, "Fails").apply(x)  # recorded here
        with pytest.raises(ZeroDivisionError, match="on purpose") as caught:
            y.backward()
    assert 'ruled(fail, "Fails").apply(x)  # recorded here' in caught.value.__notes__[0]


def test_a_nan_that_was_given_is_told_from_one_that_was_made():
    x = leaf([1.0])
    with sg.detect_anomaly():
        y = x * 2.0
        with pytest.raises(sg.AnomalyError, match="the gradient it was given had one"):
            y.backward([np.nan])


def test_an_operation_recorded_before_the_block_has_no_place_but_a_name():
    x = leaf([1.0])
    y = ruled(nan_rule, "Bad").apply(x)
    with sg.detect_anomaly(), pytest.raises(sg.AnomalyError, match="outside of detect_anomaly"):
        y.backward()


def test_outside_of_the_block_a_nan_is_a_value():
    x = leaf([1.0])
    with sg.detect_anomaly():
        pass
    y = ruled(nan_rule).apply(x)
    assert np.isnan(y.backward()[x]).all()


def test_gradients_without_nan_are_the_same_inside():
    x, y = leaf(2.0), leaf(5.0)
    with sg.detect_anomaly():
        p, q = ProductAndSum.apply(x, y)
        grads = (p * p * q).backward()
        assert (float(grads[x]), float(grads[y])) == (800.0, 380.0)
        (gx,) = sg.grad(x * x * x, x, create_graph=True)
        assert float(gx.backward()[x]) == 12.0


def test_it_finds_a_nan_in_a_second_order_gradient():
    x = leaf(0.0)
    operation = ruled(lambda x, g: g * (sg.sqrt(x) * 0.0))  # 0, and 0 times inf differentiated
    with sg.detect_anomaly(), np.errstate(all="ignore"):
        (gx,) = sg.grad(operation.apply(x), x, create_graph=True)
        assert gx.item() == 0.0
        with pytest.raises(sg.AnomalyError, match="sqrt"):
            gx.backward()


def test_it_holds_for_one_thread_alone(busy_switching):
    inside, done = Gate(), Gate()

    def debugging():
        with sg.detect_anomaly():
            inside.open()
            done.wait()

    def training():
        inside.wait()
        x = leaf([1.0])
        grads = ruled(nan_rule).apply(x).backward()
        done.open()
        return bool(np.isnan(grads[x]).all())

    assert run_threads([debugging, training])[1] is True


def test_blocks_nest_share_an_instance_and_leave_nothing():
    gc.collect()
    before = len(WATCH)
    mode = sg.detect_anomaly()
    with mode, mode:
        assert len(WATCH) == before + 2
    x = leaf([1.0])
    with mode, pytest.raises(sg.AnomalyError):
        ruled(nan_rule).apply(x).backward()
    assert len(WATCH) == before


def test_an_origin_keeps_no_frame_alive(baseline):
    """A frame would keep its locals: here a tensor of the function that recorded."""
    x = leaf([1.0])

    def record(x):
        large = leaf(np.ones(10))
        return x * 2.0 + float(large.numpy()[0])

    with sg.detect_anomaly():
        y = record(x)
        assert sg.memory_report().leaves == baseline.leaves + 1
    del x, y
