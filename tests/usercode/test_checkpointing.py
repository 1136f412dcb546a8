"""checkpoint: the same gradients from fewer saved bytes, whatever the region does."""

import gc
import random
import tracemalloc

import numpy as np
import pytest
from custom_operations import Cube, ProductAndSum, leaf

import sweepgrad as sg
from support.threads import Gate, repeat, run_threads

LAYERS = 64
WIDTH = 128


def make_layers(count, width=4, seed=0):
    """Parameters, and layers ``tanh(h @ w)`` that hold them."""
    generator = np.random.default_rng(seed)
    weights = [leaf(generator.normal(size=(width, width)) / np.sqrt(width)) for _ in range(count)]
    return weights, [lambda h, w=w: sg.tanh(h @ w) for w in weights]


def in_turn(layers, h):
    for layer in layers:
        h = layer(h)
    return h


def assert_same(expected, found, tensors):
    for tensor in tensors:
        np.testing.assert_allclose(found[tensor], expected[tensor], rtol=1e-12, atol=1e-15)


# --- memory ---------------------------------------------------------------------------------


def peaks(run, layers):
    """Peak of saved bytes in forward and backward together: looked at before every layer."""
    gc.collect()
    base = sg.memory_report().saved_bytes
    seen = []

    def watched(layer):
        def call(h):
            seen.append(sg.memory_report().saved_bytes - base)
            return layer(h)

        return call

    h = leaf(np.ones((8, WIDTH)))
    loss = run([watched(layer) for layer in layers], h).sum()
    seen.append(sg.memory_report().saved_bytes - base)
    loss.backward()
    return max(seen)


def elementwise(count):
    """Layers that save one array of 8 × WIDTH float64 each, and nothing else."""
    return [sg.tanh] * count


def test_the_peak_of_64_layers_falls_from_n_to_the_square_root_of_n():
    """One array per layer: 64 without; 7 boundaries, 8 of one region, and a few with."""
    unit = 8 * WIDTH * 8
    plain = peaks(in_turn, elementwise(LAYERS)) / unit
    pieces = peaks(sg.checkpoint_sequential, elementwise(LAYERS)) / unit

    assert plain == 64
    assert pieces <= 8 + 8 + 2


@pytest.mark.parametrize("count", [16, 64, 256])
def test_the_peak_grows_like_the_square_root(count):
    unit = 8 * WIDTH * 8
    assert peaks(sg.checkpoint_sequential, elementwise(count)) / unit <= 2 * np.sqrt(count) + 2


def test_the_memory_that_python_sees_falls_as_well():
    """An independent measure: traced bytes at the peak of forward and backward."""

    def peak(run):
        gc.collect()
        tracemalloc.start()
        h = leaf(np.ones((64, WIDTH)))
        run(elementwise(LAYERS), h).sum().backward()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(sg.checkpoint_sequential) < peak(in_turn) / 2.5


def test_a_region_keeps_its_arguments_only(baseline):
    x = leaf(np.ones(1000))
    y = sg.checkpoint(lambda h: in_turn([sg.tanh] * 10, h), x * 1.0)
    report = sg.memory_report()
    assert report.saved_bytes - baseline.saved_bytes == 8000
    assert report.nodes - baseline.nodes == 2
    y.sum().backward()
    assert sg.memory_report().saved_bytes == baseline.saved_bytes
    del x, y


# --- gradients ------------------------------------------------------------------------------


def test_gradients_are_those_of_the_plain_call_parameters_in_closures_included():
    weights, layers = make_layers(12)
    x = leaf(np.random.default_rng(1).normal(size=(3, 4)))
    expected = (in_turn(layers, x) ** 2).sum().backward()
    found = (sg.checkpoint_sequential(layers, x) ** 2).sum().backward()
    for tensor in (*weights, x):
        assert found[tensor].tobytes() == expected[tensor].tobytes()


@pytest.mark.parametrize("segments", [1, 2, 5, 12, None])
def test_any_number_of_segments_gives_the_same(segments):
    weights, layers = make_layers(12)
    x = leaf(np.ones((3, 4)))
    expected = in_turn(layers, x).sum().backward()
    found = sg.checkpoint_sequential(layers, x, segments).sum().backward()
    assert_same(expected, found, [*weights, x])


def test_an_empty_sequence_is_the_identity():
    x = leaf([1.0])
    assert sg.checkpoint_sequential([], x) is x


def test_impossible_numbers_of_segments_are_refused():
    for segments in (0, 4):
        with pytest.raises(sg.CheckpointError, match="segments"):
            sg.checkpoint_sequential([sg.tanh] * 3, leaf([1.0]), segments)


def test_nested_regions_give_the_same():
    weights, layers = make_layers(12)
    x = leaf(np.ones((3, 4)))

    def inner(h):
        return sg.checkpoint(lambda k: in_turn(layers[6:], k), h)

    def outer(h):
        return inner(sg.checkpoint(lambda k: in_turn(layers[:6], k), h))

    expected = in_turn(layers, x).sum().backward()
    found = sg.checkpoint(outer, x).sum().backward()
    assert_same(expected, found, [*weights, x])


def test_the_second_order_is_that_of_the_plain_call():
    weights, layers = make_layers(6)
    x = leaf(np.ones((2, 4)))

    def second(run):
        first = sg.grad((run(layers, x) ** 2).sum(), [*weights, x], create_graph=True)
        return sg.grad(sum((g * g).sum() for g in first), [*weights, x])

    for one, other in zip(second(in_turn), second(sg.checkpoint_sequential), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-13)


def test_arguments_that_depend_on_each_other_are_counted_once_each():
    """f(a, b) = a b w with b = a w, w captured: total = a² w², so da = 2 a w², dw = 2 a² w."""
    a, w = leaf(3.0), leaf(5.0)
    b = a * w
    loss = sg.checkpoint(lambda a, b: a * b * w, a, b)
    ga, gw = sg.grad(loss, [a, w], create_graph=True)
    assert (ga.item(), gw.item()) == (2 * 3 * 25, 2 * 9 * 5)
    gaa, gaw = sg.grad(ga, [a, w])
    assert (float(gaa), float(gaw)) == (2 * 25, 4 * 3 * 5)


def test_several_results_tuples_and_other_values_pass_through():
    x, y = leaf(2.0), leaf(5.0)

    def region(x, y):
        product, _ = ProductAndSum.apply(x, y)
        return product, "name", x + y

    product, name, total = sg.checkpoint(region, x, y)
    assert name == "name"
    grads = (product * product * total).backward()
    assert (float(grads[x]), float(grads[y])) == (800.0, 380.0)


def test_an_argument_returned_as_it_is_gets_its_gradient():
    x = leaf(2.0)
    same, square = sg.checkpoint(lambda h: (h, h * h), x)
    assert float((same * 10.0 + square).backward()[x]) == 14.0
    same, square = sg.checkpoint(lambda h: (h, h * h), x * 1.0)
    (g,) = sg.grad(same * square, x, create_graph=True)
    assert (g.item(), float(g.backward()[x])) == (12.0, 12.0)


def test_results_are_new_tensors_without_a_tracked_argument_or_parameter():
    assert not sg.checkpoint(lambda h: h * 2.0, sg.tensor(1.0)).requires_grad


def test_parameters_alone_make_a_region_tracked():
    w = leaf(3.0)
    y = sg.checkpoint(lambda h: h * w, sg.tensor(2.0))
    assert float(y.backward()[w]) == 2.0


def test_keyword_arguments_are_arguments():
    x, y = leaf(2.0), leaf(5.0)
    grads = sg.checkpoint(lambda x, *, y, n: x * y**n, x, n=2, y=y).backward()
    assert (float(grads[x]), float(grads[y])) == (25.0, 20.0)


def test_an_unused_argument_and_an_unused_result_cost_nothing():
    x, y = leaf(2.0), leaf(5.0)
    used, _ = sg.checkpoint(lambda x, y: (x * 3.0, x * 4.0), x, y)
    grads = used.backward()
    assert float(grads[x]) == 3.0
    assert y not in grads


def test_hooks_of_a_parameter_run_once_with_the_final_gradient():
    w, x = leaf(3.0), leaf(2.0)
    seen = []
    w.register_hook(lambda g: seen.append(float(g)))
    h = sg.checkpoint(lambda h: h * w, x)
    h = sg.checkpoint(lambda h: h * w, h)
    assert float(h.backward()[w]) == 2 * 2 * 3
    assert seen == [12.0]


def test_hooks_inside_a_region_run_once_in_the_recomputation():
    seen = []
    x = leaf(2.0)

    def region(h):
        k = h * 3.0
        k.register_hook(lambda g: seen.append(float(g)))
        return k * 5.0

    y = sg.checkpoint(region, x)
    assert seen == []
    y.backward()
    assert seen == [5.0]


def test_a_hook_that_the_region_puts_on_its_argument_sees_the_regions_share():
    seen = []
    x = leaf(2.0)

    def region(h):
        h.register_hook(lambda g: seen.append(float(g)))
        return h * 3.0 + h * 4.0

    assert float((sg.checkpoint(region, x) + x * 10.0).backward()[x]) == 17.0
    assert seen == [7.0]


def test_a_retained_graph_recomputes_each_time():
    runs = []
    x = leaf(2.0)
    y = sg.checkpoint(lambda h: (runs.append(None), h * h)[1], x)
    y.backward(retain_graph=True)
    assert float(y.backward()[x]) == 4.0
    assert len(runs) == 3


def test_custom_operations_inside_a_region():
    x = leaf(2.0)
    assert float(sg.checkpoint(lambda h: Cube.apply(h) * 2.0, x).backward()[x]) == 24.0


# --- random state ---------------------------------------------------------------------------


def noisy(h, generator):
    return h * generator.random(h.shape)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.random.default_rng(5),
        lambda: np.random.RandomState(5),
        lambda: np.random.Generator(np.random.PCG64(5)),
    ],
)
def test_a_generator_among_the_arguments_draws_the_same_again_and_advances_once(make):
    generator, reference = make(), make()
    mask, following = reference.random(3), reference.random(3)
    x = leaf(np.ones(3))
    y = sg.checkpoint(noisy, x, generator)
    assert y.numpy().tolist() == mask.tolist()
    assert y.sum().backward()[x].tolist() == mask.tolist()
    assert generator.random(3).tolist() == following.tolist()


def test_a_retained_region_draws_the_same_every_time():
    x = leaf(np.ones(3))
    y = sg.checkpoint(noisy, x, generator=np.random.default_rng(5))
    first = y.backward(np.ones(3), retain_graph=True)[x]
    second = y.backward(np.ones(3))[x]
    assert first.tolist() == second.tolist() == y.numpy().tolist()


def test_pythons_generator_among_the_arguments_draws_the_same_again():
    x = leaf(1.0)
    y = sg.checkpoint(lambda h, g: h * g.random(), x, random.Random(5))
    assert float(y.backward()[x]) == random.Random(5).random()


def test_the_global_states_are_restored_and_put_back():
    def draw():
        return np.random.random() * random.random()

    def seed():
        np.random.seed(3)
        random.seed(3)

    seed()
    expected, between, following = draw(), draw(), draw()
    seed()
    x = leaf(1.0)
    y = sg.checkpoint(lambda h: h * draw(), x)
    assert draw() == between
    assert float(y.backward()[x]) == expected
    assert draw() == following


def test_dropout_with_a_generator_from_a_closure_draws_the_same_mask_again():
    """Also nested, and mixed with draws outside of the region."""
    generator, reference = np.random.default_rng(7), np.random.default_rng(7)
    x, z = leaf(np.ones(100)), leaf(np.ones(100))

    def drop(h, source):
        return sg.dropout(h, 0.5, source)

    def region(h, source):
        return drop(drop(h, source) * 3.0, source)

    def nested(h):
        return sg.checkpoint(lambda k: region(k, generator), drop(h, generator))

    plain = drop(region(drop(z, reference), reference), reference).sum().backward()[z]
    found = drop(sg.checkpoint(nested, x), generator).sum().backward()[x]
    assert found.tolist() == plain.tolist()
    assert 0 < np.count_nonzero(found) < 50


def test_generators_of_other_threads_are_not_disturbed(busy_switching):
    """Each thread recomputes with copies of its own; a shared graph is recomputed by both."""
    x = leaf(np.ones(10))
    y = sg.checkpoint(noisy, x, np.random.default_rng(5))
    mask = y.numpy().tolist()

    def worker(index):
        for _ in range(50):
            assert y.backward(np.ones(10), retain_graph=True)[x].tolist() == mask

    repeat(worker, 4)


# --- what is refused --------------------------------------------------------------------------


def test_a_tracked_result_from_a_closure_is_refused_at_once():
    x = leaf(2.0)
    h = x * 3.0
    with pytest.raises(sg.CheckpointError, match="pass it as an argument"):
        sg.checkpoint(lambda: h * 2.0)
    with pytest.raises(sg.CheckpointError, match="pass it as an argument"):
        sg.checkpoint(lambda pair: pair[0] * 2.0, [h])


def test_a_parameter_replaced_before_backward_is_refused_in_backward():
    w, x = leaf(3.0), leaf(2.0)
    y = sg.checkpoint(lambda h: h * w, x)
    w.assign(4.0)
    with pytest.raises(sg.CheckpointError, match="replaced between forward and backward"):
        y.backward()


def test_a_parameter_replaced_during_the_recomputation_is_refused():
    """Another thread assigns between the first and the last look; the array changes identity."""
    w, x = leaf(3.0), leaf(2.0)
    recomputing, replaced = Gate(), Gate()
    runs = []

    def region(h):
        runs.append(None)
        if len(runs) == 2:
            recomputing.open()
            replaced.wait()
        return h * w

    y = sg.checkpoint(region, x)

    def backward():
        with pytest.raises(sg.CheckpointError, match="replaced"):
            y.backward()

    def assign():
        recomputing.wait()
        w.assign(3.0)  # the same value, yet another array
        replaced.open()

    run_threads([backward, assign])


def test_a_parameter_passed_as_an_argument_keeps_its_value():
    w, x = leaf(3.0), leaf(2.0)
    y = sg.checkpoint(lambda h, w: h * w, x, w)
    w.assign(100.0)
    grads = y.backward()
    assert (float(grads[x]), float(grads[w])) == (3.0, 2.0)


@pytest.mark.parametrize("change", ["shape", "number", "parameter"])
def test_a_region_that_computes_something_else_the_second_time_is_refused(change):
    x, w, v = leaf([1.0, 2.0]), leaf([3.0, 3.0]), leaf([4.0, 4.0])
    runs = []

    def region(h):
        runs.append(None)
        if len(runs) == 1:
            return h * w, h * 2.0
        if change == "shape":
            return (h * w).sum(), h * 2.0
        if change == "number":
            return h * w, sg.tensor([1.0, 1.0])
        return h * v, h * 2.0

    y, _ = sg.checkpoint(region, x)
    with pytest.raises(sg.CheckpointError, match="something else"):
        y.sum().backward()


def test_a_leaf_that_the_region_makes_and_drops_is_its_own():
    x = leaf(2.0)

    def region(h):
        return h * sg.tensor(3.0, requires_grad=True)

    assert float(sg.checkpoint(region, x).backward()[x]) == 3.0


# --- threads and runtimes ----------------------------------------------------------------------


def test_threads_share_parameters_and_checkpoint_each_its_own_forward(baseline, busy_switching):
    def compare():
        weights, layers = make_layers(9)
        x = np.ones((3, 4))
        expected = in_turn(layers, leaf(x)).sum().backward()

        def worker(index):
            for _ in range(10):
                grads = sg.checkpoint_sequential(layers, leaf(x)).sum().backward()
                assert all(grads[w].tobytes() == expected[w].tobytes() for w in weights)

        repeat(worker, 4)

    compare()


def test_a_region_stays_in_its_runtime():
    runtime = sg.GraphRuntime()
    w = runtime.tensor([3.0], requires_grad=True)
    x = runtime.tensor([2.0], requires_grad=True)
    y = sg.checkpoint(lambda h: h * w, x)
    assert runtime.memory_report().nodes == 1
    assert y.backward()[w].tolist() == [2.0]


def test_a_dropped_region_leaves_nothing(baseline):
    weights, layers = make_layers(4)
    sg.checkpoint_sequential(layers, leaf(np.ones((3, 4))), 2)
    assert sg.memory_report().nodes == baseline.nodes
    del weights, layers
