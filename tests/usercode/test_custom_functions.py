"""Custom operations as classes: results, rules, what is saved, and what is refused."""

import gc
import weakref

import numpy as np
import pytest
from custom_operations import Cube, ProductAndSum, Shifted, leaf, ruled

import sweepgrad as sg
from support.threads import repeat


def test_a_rule_gives_the_gradient():
    x = leaf([1.0, -2.0])
    y = Cube.apply(x)

    assert y.numpy().tolist() == [1.0, -8.0]
    assert y.sum().backward()[x].tolist() == [3.0, 12.0]


def test_one_rule_serves_first_second_and_third_order():
    x = leaf(2.0)
    (first,) = sg.grad(Cube.apply(x), x, create_graph=True)
    (second,) = sg.grad(first, x, create_graph=True)
    (third,) = sg.grad(second, x)

    assert (first.item(), second.item(), float(third)) == (12.0, 12.0, 6.0)


def test_several_results_share_one_run_of_the_rule():
    """d(p² q) with p = xy, q = x + y at (2, 5): dx = 2pqy + p², dy = 2pqx + p²."""
    x, y = leaf(2.0), leaf(5.0)
    p, q = ProductAndSum.apply(x, y)
    grads = (p * p * q).backward()

    assert float(grads[x]) == 2 * 10 * 7 * 5 + 100
    assert float(grads[y]) == 2 * 10 * 7 * 2 + 100


def test_second_order_flows_through_a_saved_result_of_several():
    """f = x³y² + x²y³: fxx = 6xy² + 2y³, fxy = 6x²y + 6xy²."""
    x, y = leaf(2.0), leaf(5.0)
    p, q = ProductAndSum.apply(x, y)
    (gx,) = sg.grad(p * p * q, x, create_graph=True)
    del p, q
    gxx, gxy = sg.grad(gx, [x, y])

    assert float(gxx) == pytest.approx(6 * 2 * 25 + 2 * 125, rel=1e-12)
    assert float(gxy) == pytest.approx(6 * 4 * 5 + 6 * 2 * 25, rel=1e-12)


def test_a_result_without_a_gradient_counts_as_zeros():
    x, y = leaf(2.0), leaf(5.0)
    p, q = ProductAndSum.apply(x, y)
    del p

    grads = q.backward()
    assert (float(grads[x]), float(grads[y])) == (1.0, 1.0)


def test_none_stands_for_zeros_when_asked_for():
    seen = []

    class Two(sg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2.0, x * 3.0

        @staticmethod
        def backward(ctx, g1, g2):
            seen.append((g1, g2))
            return g2 * 3.0

    x = leaf(1.0)
    assert float(Two.apply(x)[1].backward()[x]) == 3.0
    assert seen[0][0] is None


def test_the_results_of_a_dropped_call_can_be_dropped_in_any_order(baseline):
    for order in ((0, 1), (1, 0)):
        results = list(ProductAndSum.apply(leaf(2.0), leaf(5.0)))
        assert sg.memory_report().nodes == baseline.nodes + 3
        for index in order:
            results[index] = None
    assert sg.memory_report().nodes == baseline.nodes


def test_constants_and_untracked_tensors_are_arguments_without_a_gradient():
    seen = []

    class Scaled(sg.Function):
        @staticmethod
        def forward(ctx, x, factor, offset, name):
            seen.append((ctx.needs_input_grad, name))
            ctx.factor = factor
            return x * factor + offset

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None, None, None

    x = leaf([1.0, 2.0])
    y = Scaled.apply(x, 3.0, sg.tensor([5.0, 6.0]), "name")
    assert y.sum().backward()[x].tolist() == [3.0, 3.0]
    assert seen == [((True, False, False, False), "name")]


def test_nothing_is_recorded_without_a_tracked_argument_or_in_no_grad():
    assert not Cube.apply(sg.tensor(2.0)).requires_grad
    with sg.no_grad():
        assert not Cube.apply(leaf(2.0)).requires_grad


def test_integer_and_marked_results_are_untracked():
    class Peak(sg.Function):
        @staticmethod
        def forward(ctx, x):
            place, copy = np.argmax(x), x * 1.0
            ctx.mark_non_differentiable(copy)
            return x.numpy().max(), place, copy

        @staticmethod
        def backward(ctx, g):
            return g * np.array([0.0, 1.0])

    x = leaf([1.0, 4.0])
    peak, place, copy = Peak.apply(x)
    assert (peak.requires_grad, place.requires_grad, copy.requires_grad) == (True, False, False)
    assert place.item() == 1
    assert peak.backward()[x].tolist() == [0.0, 1.0]


def test_an_argument_returned_as_it_is_becomes_a_result_of_its_own():
    class Through(sg.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10.0

    x = leaf(2.0)
    y = Through.apply(x)
    assert y is not x
    assert not y.is_leaf
    assert float((y * x).backward()[x]) == 2.0 * 10.0 + 2.0


def test_an_untracked_tensor_that_forward_returns_stays_untracked():
    """A cached constant must not become part of the graph of whoever returned it first."""
    constant = sg.tensor([1.0])

    class Constant(sg.Function):
        @staticmethod
        def forward(ctx, x):
            return constant

        @staticmethod
        def backward(ctx, g):
            return g * 0.0

    x = leaf([5.0])
    assert Constant.apply(x).backward()[x].tolist() == [0.0]
    assert not constant.requires_grad


def test_a_gradient_given_out_is_nobody_elses():
    """A rule that returns a saved array, or one it keeps, must not have it written into."""
    kept = np.ones(2)
    x, y = leaf([3.0, 4.0]), leaf([5.0, 6.0])

    class Keeps(sg.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0], kept

    grads = Keeps.apply(x, y).backward(np.ones(2))
    grads[x][...] = -1.0
    grads[y][...] = -1.0
    assert y.numpy().tolist() == [5.0, 6.0]
    assert kept.tolist() == [1.0, 1.0]


def test_saved_bytes_are_counted_and_go_with_the_rule(baseline):
    x = leaf(np.ones(1000))
    y = Cube.apply(x * 1.0)
    assert sg.memory_report().saved_bytes == baseline.saved_bytes + 8000
    y.backward(np.ones(1000))
    assert sg.memory_report().saved_bytes == baseline.saved_bytes
    del x, y


def test_a_saved_value_is_what_the_parameter_was_at_that_moment():
    x = leaf([2.0])
    y = Cube.apply(x)
    x.assign([100.0])
    assert y.backward()[x].tolist() == [12.0]


def test_retained_graphs_run_the_rule_again():
    x = leaf(1.0)
    before = Shifted.runs
    y = Shifted.apply(x, 2.0)
    y.backward(retain_graph=True)
    y.backward()
    assert Shifted.runs == before + 2


def test_once_differentiable_refuses_the_second_order_and_gives_the_first():
    class Once(sg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @sg.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            assert not g.requires_grad
            assert not x.requires_grad
            return g * 2.0 * x

    x = leaf(3.0)
    assert float(Once.apply(x).backward()[x]) == 6.0
    (first,) = sg.grad(Once.apply(x), x, create_graph=True)
    assert first.item() == 6.0
    with pytest.raises(sg.HigherOrderError, match="Once"):
        first.backward()


def test_an_intermediate_value_is_refused_for_the_second_order_only():
    class Exp(sg.Function):
        @staticmethod
        def forward(ctx, x):
            half = np.exp(x * 0.5)
            ctx.save_for_backward(half)
            return half * half

        @staticmethod
        def backward(ctx, g):
            (half,) = ctx.saved_tensors
            return g * half * half

    x = leaf(0.0)
    assert float(Exp.apply(x).backward()[x]) == 1.0
    with pytest.raises(sg.HigherOrderError, match="intermediate"):
        sg.grad(Exp.apply(x), x, create_graph=True)


def test_a_tracked_tensor_from_outside_keeps_its_place_for_the_second_order():
    """y = w x with w from a closure: dx = w, and d(dx)/dw = 1."""
    w, x = leaf(5.0), leaf(2.0)

    class Closed(sg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    (gx,) = sg.grad(Closed.apply(x), x, create_graph=True)
    assert float(gx.backward()[w]) == 1.0


def test_an_attribute_that_is_a_result_is_in_the_graph_for_the_second_order():
    class Exp(sg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.result = np.exp(x)
            return ctx.result

        @staticmethod
        def backward(ctx, g):
            return g * ctx.result

    x = leaf(0.5)
    (first,) = sg.grad(Exp.apply(x), x, create_graph=True)
    assert float(first.backward()[x]) == pytest.approx(np.exp(0.5), rel=1e-15)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda g: (g, g), ["Ruled", "2 gradients", "1 argument"]),
        (lambda g: g.sum(), ["Ruled", "argument 0 ('x')", "shape ()", "shape (2,)"]),
        (lambda g: g.astype(np.float32), ["Ruled", "argument 0 ('x')", "float32", "float64"]),
        (lambda g: np.ones((1, 2)), ["Ruled", "argument 0 ('x')", "shape (1, 2)"]),
    ],
    ids=["number", "shape", "dtype", "broadcastable"],
)
def test_a_wrong_gradient_is_an_error_that_names_operation_and_argument(returned, words):
    x = leaf([1.0, 2.0])
    y = ruled(lambda x, g: returned(g)).apply(x)
    with pytest.raises(sg.GradientError) as caught:
        y.sum().backward()
    for word in words:
        assert word in str(caught.value)


def test_a_list_that_contains_itself_is_an_argument_like_any_other():
    class Counted(sg.Function):
        @staticmethod
        def forward(ctx, x, items):
            return x * float(len(items))

    endless = []
    endless.append(endless)
    assert Counted.apply(leaf(3.0), endless).item() == 3.0


@pytest.mark.parametrize("container", [lambda t: [t], lambda t: {"a": (1, [t])}])
def test_a_tracked_tensor_inside_a_container_is_refused(container):
    with pytest.raises(sg.TensorTypeError, match="argument 0 of Cube"):
        Cube.apply(container(leaf(1.0)))


@pytest.mark.parametrize(
    ("value", "error"), [("text", sg.TensorTypeError), (None, sg.TensorTypeError)]
)
def test_a_result_that_is_no_array_is_refused(value, error):
    class Odd(sg.Function):
        @staticmethod
        def forward(ctx, x):
            return value

    with pytest.raises(error, match="Odd"):
        Odd.apply(leaf(1.0))


def test_save_for_backward_refuses_other_values_and_names_the_way():
    class Saves(sg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)

    with pytest.raises(sg.TensorTypeError, match=r"ctx\.name = value"):
        Saves.apply(leaf(1.0))


def test_a_missing_attribute_says_where_saved_tensors_are():
    y = ruled(lambda x, g: g).apply(leaf(1.0))
    assert y.requires_grad
    with pytest.raises(AttributeError, match="saved_tensors"):
        sg.Context((True,)).missing


def test_tensors_of_two_runtimes_are_refused():
    other = sg.GraphRuntime()
    x, y = leaf(1.0), other.tensor(2.0, requires_grad=True)
    with pytest.raises(sg.RuntimeMismatchError):
        ProductAndSum.apply(x, y)


def test_a_custom_operation_works_in_a_runtime_of_its_own(baseline):
    runtime = sg.GraphRuntime()
    x = runtime.tensor([2.0], requires_grad=True)
    y = Cube.apply(x)
    assert runtime.memory_report().nodes == 1
    assert y.backward()[x].tolist() == [12.0]


def test_a_rule_sees_recording_on_whatever_the_caller_chose():
    """A backward inside a rule means the same everywhere."""
    seen = []
    x = leaf(2.0)

    def rule(x, g):
        seen.append(sg.is_recording())
        inner = leaf(x.item())
        return g * (inner * inner).backward()[inner]

    y = ruled(rule).apply(x)
    with sg.no_grad():
        grads = y.backward()
        assert not sg.is_recording()
    assert float(grads[x]) == 4.0
    assert seen == [True]


def test_a_first_order_rule_records_nothing(baseline):
    """Saved tensors and gradients are constants to it, so no graph grows behind the pass."""
    x = leaf([2.0])
    inside = []

    def rule(x, g):
        product = g * x
        inside.append((product.requires_grad, sg.memory_report().nodes))
        return product

    ruled(rule).apply(x * 1.0).backward()
    assert inside == [(False, baseline.nodes)]
    del x


def test_threads_run_the_rule_of_one_retained_call_each_with_tensors_of_its_own(busy_switching):
    """Half of them differentiate again: saved tensors are in the graph for those alone."""

    class Scaled(sg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.factor = 5.0
            ctx.result = x * x
            return ctx.result

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            assert x.requires_grad == ctx.result.requires_grad
            return g * ctx.factor * x * (ctx.result / ctx.result)

    x = leaf(3.0)
    y = Scaled.apply(x)

    def worker(index):
        for _ in range(100):
            if index % 2:
                assert float(y.backward(retain_graph=True)[x]) == 15.0
            else:
                (first,) = sg.grad(y, x, create_graph=True)
                assert float(sg.grad(first, x, retain_graph=True)[0]) == pytest.approx(5.0)

    repeat(worker, 4)


def test_pruned_arguments_cost_no_error():
    """A dropped leaf needs no gradient; the other argument still gets its own."""
    x = leaf(2.0)
    p, _ = ProductAndSum.apply(x, leaf(5.0))
    assert float(p.backward()[x]) == 5.0


def test_a_context_lives_no_longer_than_its_rule():
    contexts = []

    class Seen(sg.Function):
        @staticmethod
        def forward(ctx, x):
            contexts.append(weakref.ref(ctx))
            ctx.array = np.ones(3)
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            return g * 2.0

    x = leaf(1.0)
    y = Seen.apply(x)
    gc.collect()
    assert contexts[0]() is not None
    y.backward()
    assert contexts[0]() is None
