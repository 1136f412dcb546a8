"""Layers: values, parameters, reproducible weights."""

import copy
import pickle

import numpy as np
import pytest

import sweepgrad as sg
from sweepgrad import nn


def fixed_layer():
    layer = nn.Linear(2, 3, np.random.default_rng(0), dtype=np.float64)
    layer.weight.assign([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    layer.bias.assign([0.5, -1.0, 2.0])
    return layer


def test_a_linear_layer_is_the_product_with_its_weight_plus_its_bias():
    """[1, -1] times the weight is [-3, -3, -3], plus the bias."""
    y = fixed_layer()(sg.tensor([[1.0, -1.0], [0.0, 2.0]]))

    assert y.tolist() == [[-2.5, -4.0, -1.0], [8.5, 9.0, 14.0]]


def test_gradients_of_a_linear_layer_are_those_worked_out_by_hand():
    """For sum(y): dW = sums of x's columns, db = number of rows, dx = sums of W's rows."""
    layer = fixed_layer()
    x = sg.tensor([[1.0, -1.0], [0.0, 2.0]], requires_grad=True)

    gradients = layer(x).sum().backward()

    assert gradients[layer.weight].tolist() == [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    assert gradients[layer.bias].tolist() == [2.0, 2.0, 2.0]
    assert gradients[x].tolist() == [[6.0, 15.0], [6.0, 15.0]]


def test_a_layer_without_bias_has_one_parameter():
    layer = nn.Linear(2, 3, np.random.default_rng(0), bias=False, dtype=np.float64)
    layer.weight.assign([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    assert layer.parameters() == [layer.weight]
    assert layer(sg.tensor([1.0, 1.0])).tolist() == [5.0, 7.0, 9.0]


def test_a_relu_network_clips_between_its_layers_and_not_after_the_last():
    """Hidden values [2, -2] become [2, 0]; the output -2 stays negative."""
    model = nn.mlp([1, 2, 1], np.random.default_rng(0), dtype=np.float64)
    first, second = model.layers[0], model.layers[2]
    first.weight.assign([[1.0, -1.0]])
    second.weight.assign([[-1.0], [10.0]])

    assert model(sg.tensor([[2.0]])).tolist() == [[-2.0]]


def test_equal_generators_give_equal_weights_and_others_do_not():
    def weights(seed):
        return [p.tolist() for p in nn.mlp([3, 4, 2], np.random.default_rng(seed)).parameters()]

    assert weights(7) == weights(7)
    assert weights(7) != weights(8)


def test_weights_have_the_variance_that_the_gain_asks_for():
    """A uniform value within b has variance b²/3, so gain²/inputs here; 120,000 draws."""
    weight = nn.Linear(400, 300, np.random.default_rng(0), gain=2.0).weight.numpy()

    assert weight.dtype == np.float32
    assert weight.var() == pytest.approx(4.0 / 400, rel=0.02)
    assert np.abs(weight).max() <= 2.0 * np.sqrt(3.0 / 400)


def test_parameters_come_in_order_and_a_shared_layer_counts_once():
    rng = np.random.default_rng(0)
    shared, last = nn.Linear(2, 2, rng), nn.Linear(2, 1, rng)
    model = nn.Sequential(shared, np.tanh, shared, last)

    expected = [shared.weight, shared.bias, last.weight, last.bias]
    assert [id(p) for p in model.parameters()] == [id(p) for p in expected]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copied_model_has_equal_parameters_of_its_own(copied):
    model = nn.mlp([2, 3, 1], np.random.default_rng(0))
    other = copied(model)

    assert [p.tolist() for p in other.parameters()] == [p.tolist() for p in model.parameters()]
    other.parameters()[0].update(lambda a: a + 1)
    assert other.parameters()[0].tolist() != model.parameters()[0].tolist()


def test_a_wrong_last_axis_is_an_error_that_names_both_lengths():
    with pytest.raises(sg.ShapeError, match=r"length 2.*shape \(4, 3\)"):
        fixed_layer()(sg.tensor(np.ones((4, 3))))


@pytest.mark.parametrize("sizes", [[], [3], [3, 0], [0, 3]])
def test_sizes_that_make_no_network_are_refused(sizes):
    with pytest.raises(sg.SettingError):
        nn.mlp(sizes, np.random.default_rng(0))


def test_a_layer_says_what_it_is():
    model = nn.mlp([2, 3, 1], np.random.default_rng(0))

    assert repr(model) == "Sequential(Linear(2, 3), relu, Linear(3, 1))"
