"""Softmax, losses, normalisations, dropout and embedding."""

import math

import numpy as np
import pytest
from finite_differences import check_gradients

import sweepgrad as sg

INF = math.inf
RNG = np.random.default_rng(3)
X = RNG.normal(size=(3, 4))
Y = RNG.normal(size=(3, 4))
WEIGHT = np.array([1.0, 2.0, 0.5, 3.0])
REDUCTIONS = ["none", "mean", "sum"]

reductions = pytest.mark.parametrize("reduction", REDUCTIONS)


def gradient(function, value):
    leaf = sg.tensor(value, requires_grad=True)
    out = function(leaf)
    return out.backward(np.ones(out.shape, out.dtype))[leaf]


def reduced(losses, reduction, divisor=None):
    losses = np.asarray(losses)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / (divisor or losses.size)


# --- softmax ------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [-1, 0, (0, 1), None])
def test_softmax_and_its_logarithm(axis):
    powers = np.exp(X)
    expected = powers / powers.sum(axis=axis, keepdims=True)
    np.testing.assert_allclose(sg.softmax(sg.tensor(X), axis).numpy(), expected, rtol=1e-14)
    np.testing.assert_allclose(
        sg.log_softmax(sg.tensor(X), axis).numpy(), np.log(expected), rtol=1e-13
    )
    check_gradients(lambda t: sg.softmax(t, axis), X)
    check_gradients(lambda t: sg.log_softmax(t, axis), X)


def test_softmax_of_large_values_and_infinities():
    x = np.float32([[1e3, 0.0, -1e3], [-1e3, -1e3, -INF]])
    leaf = sg.tensor(x, requires_grad=True)
    np.testing.assert_array_equal(sg.softmax(leaf).numpy(), [[1, 0, 0], [0.5, 0.5, 0]])
    logs = sg.log_softmax(leaf)
    half = math.log(0.5)
    np.testing.assert_allclose(logs.numpy(), [[0, -1e3, -2e3], [half, half, -INF]], rtol=1e-6)
    slope = logs.backward(np.ones((2, 3), np.float32))[leaf]
    np.testing.assert_array_equal(slope, [[-2, 1, 1], [-0.5, -0.5, 1]])


def test_softmax_of_nothing_but_minus_infinity_is_nan_without_a_warning():
    assert np.isnan(sg.softmax(sg.tensor([-INF, -INF])).numpy()).all()


# --- cross-entropy ------------------------------------------------------------------------


def label_losses(x, labels, weight, smoothing):
    """-(q * log p).sum() for each row, by the definition; 0 for label -100."""
    logs = np.log(np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True))
    losses, counted = [], []
    for row, label in zip(logs, labels, strict=True):
        if label == -100:
            losses.append(0.0)
            counted.append(0.0)
            continue
        q = np.full(len(row), smoothing / len(row))
        q[label] += 1 - smoothing
        losses.append(-(q * weight * row).sum())
        counted.append(weight[label])
    return np.array(losses), sum(counted)


@reductions
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_cross_entropy_of_labels(reduction, smoothing, weight):
    labels = [2, -100, 0]
    losses, divisor = label_losses(X, labels, np.ones(4) if weight is None else weight, smoothing)

    def loss(t):
        return sg.cross_entropy(
            t, labels, weight=weight, reduction=reduction, label_smoothing=smoothing
        )

    np.testing.assert_allclose(
        loss(sg.tensor(X)).numpy(), reduced(losses, reduction, divisor), rtol=1e-13
    )
    check_gradients(loss, X)
    np.testing.assert_array_equal(gradient(loss, X)[1], np.zeros(4))


@reductions
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_cross_entropy_of_probabilities(reduction, smoothing, weight):
    target = np.exp(Y) / np.exp(Y).sum(axis=-1, keepdims=True)
    logs = np.log(np.exp(X) / np.exp(X).sum(axis=-1, keepdims=True))
    q = (1 - smoothing) * target + smoothing / 4
    losses = -(q * logs * (1 if weight is None else weight)).sum(axis=-1)

    def loss(t, p):
        return sg.cross_entropy(t, p, weight=weight, reduction=reduction, label_smoothing=smoothing)

    np.testing.assert_allclose(
        loss(sg.tensor(X), target).numpy(), reduced(losses, reduction), rtol=1e-13
    )
    check_gradients(loss, X, target)


def test_cross_entropy_takes_more_axes_and_any_class_axis():
    cube = RNG.normal(size=(2, 3, 4))
    labels = np.array([[0, 1, 3], [2, -100, 1]])
    flat = sg.cross_entropy(sg.tensor(cube.reshape(6, 4)), labels.reshape(6), reduction="none")
    got = sg.cross_entropy(sg.tensor(cube), labels, reduction="none")
    np.testing.assert_array_equal(got.numpy(), flat.numpy().reshape(2, 3))
    moved = np.moveaxis(cube, -1, 1)
    got = sg.cross_entropy(sg.tensor(moved), labels, reduction="none", axis=1)
    np.testing.assert_array_equal(got.numpy(), flat.numpy().reshape(2, 3))
    check_gradients(lambda t: sg.cross_entropy(t, labels, axis=1, reduction="none"), moved)
    check_gradients(lambda t: sg.cross_entropy(t, 2), cube[0, 0])


def test_cross_entropy_is_exact_for_large_scores_in_float32():
    x = sg.tensor([[1e3, -1e3], [1e3, 999.0]], dtype=np.float32, requires_grad=True)
    loss = sg.cross_entropy(x, [1, 0], reduction="none")
    np.testing.assert_allclose(loss.numpy(), [2e3, math.log1p(math.exp(-1))], rtol=1e-6)
    slope = loss.backward(np.ones(2, np.float32))[x]
    p = 1 / (1 + math.e)
    np.testing.assert_allclose(slope, [[1, -1], [-p, p]], rtol=1e-6)
    assert slope.dtype == np.float32


def test_impossible_classes_cost_nothing_and_keep_gradients_finite():
    x = [[0.0, 0.0, -INF]]
    half = math.log(2)
    leaf = sg.tensor(x, requires_grad=True)
    loss = sg.cross_entropy(leaf, [0])
    assert loss.item() == pytest.approx(half)
    np.testing.assert_array_equal(loss.backward()[leaf], [[-0.5, 0.5, 0]])
    loss = sg.cross_entropy(leaf, [[1.0, 0.0, 0.0]])
    assert loss.item() == pytest.approx(half)
    np.testing.assert_array_equal(loss.backward()[leaf], [[-0.5, 0.5, 0]])


@pytest.mark.parametrize("options", [{}, {"weight": np.ones(2)}, {"label_smoothing": 0.1}])
def test_a_mean_without_ignored_rows_stays_float32(options):
    x = sg.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]], np.float32, requires_grad=True)
    loss = sg.cross_entropy(x, [0, -100, 1], **options)
    assert loss.dtype == np.float32
    assert loss.backward()[x].dtype == np.float32


def test_the_mean_of_ignored_labels_is_0_with_gradient_0():
    for call in (
        lambda t: sg.cross_entropy(t, [-100, -100, -100]),
        lambda t: sg.cross_entropy(t, [7, 7, 7], ignore_index=7, label_smoothing=0.1),
        lambda t: sg.nll_loss(t, [-100, -100, -100]),
        lambda t: sg.cross_entropy(t[:0], np.zeros(0, int)),
    ):
        leaf = sg.tensor(X, requires_grad=True)
        out = call(leaf)
        assert out.item() == 0
        np.testing.assert_array_equal(out.backward()[leaf], np.zeros((3, 4)))


def test_an_ignored_row_may_hold_infinities():
    x = [[-INF, 0.0], [0.0, 0.0], [-INF, -INF], [INF, 0.0]]
    for reduction, value in (("sum", math.log(2)), ("mean", math.log(2))):
        leaf = sg.tensor(x, requires_grad=True)
        loss = sg.cross_entropy(leaf, [-100, 1, -100, -100], reduction=reduction)
        assert loss.item() == pytest.approx(value)
        (slope,) = sg.grad(loss, leaf, create_graph=True)
        np.testing.assert_array_equal(slope.numpy(), [[0, 0], [0.5, -0.5], [0, 0], [0, 0]])
        np.testing.assert_array_equal(loss.backward()[leaf], slope.numpy())
        second = sg.grad(slope[1, 0], leaf)[0]
        np.testing.assert_array_equal(second, [[0, 0], [0.25, -0.25], [0, 0], [0, 0]])
    logs = sg.nll_loss(sg.tensor(x), [-100, 1, -100, -100])
    assert logs.item() == 0


def test_labels_and_arguments_that_do_not_fit_are_refused():
    x = sg.tensor(X, requires_grad=True)
    for labels in ([0, 4, 1], [0, -1, 1]):
        with pytest.raises(sg.LabelError, match="outside the 4 classes"):
            sg.cross_entropy(x, labels)
        with pytest.raises(IndexError):
            sg.nll_loss(x, labels)
    with pytest.raises(sg.ShapeError, match=r"shape \(2,\)"):
        sg.cross_entropy(x, [0, 1])
    with pytest.raises(sg.ShapeError, match="probabilities"):
        sg.cross_entropy(x, [0.5, 0.5, 0.5])
    with pytest.raises(sg.ShapeError, match="class weights"):
        sg.cross_entropy(x, [0, 1, 2], weight=[1.0])
    with pytest.raises(sg.SettingError, match="reduction"):
        sg.cross_entropy(x, [0, 1, 2], reduction="average")
    with pytest.raises(sg.SettingError, match="label_smoothing"):
        sg.cross_entropy(x, [0, 1, 2], label_smoothing=1.5)
    with pytest.raises(sg.ShapeError, match="axis of classes"):
        sg.cross_entropy(sg.tensor(1.0), 0)
    with pytest.raises(sg.DtypeError, match="integers"):
        sg.nll_loss(x, [0.0, 1.0, 2.0])


def test_labels_may_be_changed_after_the_loss_was_computed():
    labels = np.array([0, 1, 2])
    leaf = sg.tensor(X, requires_grad=True)
    expected = gradient(lambda t: sg.cross_entropy(t, [0, 1, 2]), X)
    loss = sg.cross_entropy(leaf, labels)
    labels[:] = 3
    np.testing.assert_array_equal(loss.backward()[leaf], expected)


# --- other losses -------------------------------------------------------------------------


@reductions
def test_squared_and_huber_losses(reduction):
    d = X - Y
    got = sg.mse_loss(sg.tensor(X), Y, reduction).numpy()
    np.testing.assert_allclose(got, reduced(d * d, reduction), rtol=1e-13)
    check_gradients(lambda t, y: sg.mse_loss(t, y, reduction), X, Y)
    a = np.abs(d)
    huber = np.where(a <= 0.7, d * d / 2, 0.7 * (a - 0.35))
    got = sg.huber_loss(sg.tensor(X), Y, 0.7, reduction).numpy()
    np.testing.assert_allclose(got, reduced(huber, reduction), rtol=1e-13)
    check_gradients(lambda t, y: sg.huber_loss(t, y, 0.7, reduction), X, Y)


@reductions
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_nll_loss(reduction, weight):
    labels = [3, -100, 1]
    w = np.ones(4) if weight is None else weight
    losses = [-w[3] * X[0, 3], 0.0, -w[1] * X[2, 1]]

    def loss(t):
        return sg.nll_loss(t, labels, weight=weight, reduction=reduction)

    np.testing.assert_allclose(
        loss(sg.tensor(X)).numpy(), reduced(losses, reduction, w[3] + w[1]), rtol=1e-14
    )
    check_gradients(loss, X)


@reductions
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_binary_cross_entropy_of_logits(reduction, weight):
    t = 1 / (1 + np.exp(-Y))
    s = 1 / (1 + np.exp(-X))
    p = 1.0 if weight is None else weight + 1
    losses = -(p * t * np.log(s) + (1 - t) * np.log(1 - s)) * (1 if weight is None else weight)

    def loss(x, target):
        return sg.bce_with_logits(
            x, target, weight, None if weight is None else weight + 1, reduction
        )

    np.testing.assert_allclose(
        loss(sg.tensor(X), t).numpy(), reduced(losses, reduction), rtol=1e-13
    )
    check_gradients(loss, X, t)


def test_binary_cross_entropy_is_exact_far_out():
    x = sg.tensor([-1e3, 1e3, -1e3, 1e3], dtype=np.float32, requires_grad=True)
    loss = sg.bce_with_logits(x, np.float32([0, 1, 1, 0]), reduction="none")
    np.testing.assert_array_equal(loss.numpy(), [0, 0, 1e3, 1e3])
    np.testing.assert_array_equal(loss.sum().backward()[x], [0, 0, -1, 1])


def test_losses_refuse_to_broadcast():
    x = sg.tensor(np.zeros((3, 1)), requires_grad=True)
    for loss in (sg.mse_loss, sg.huber_loss, sg.bce_with_logits):
        with pytest.raises(sg.ShapeError, match=loss.__name__):
            loss(x, np.zeros(3))
    with pytest.raises(sg.SettingError, match="delta"):
        sg.huber_loss(x, np.zeros((3, 1)), delta=0)
    assert sg.mse_loss(sg.tensor(np.zeros((0, 2))), np.zeros((0, 2))).item() == 0


# --- normalisations -----------------------------------------------------------------------


@pytest.mark.parametrize("axis", [-1, 0, (0, 1)])
def test_layer_norm_and_rms_norm(axis):
    mean, var = X.mean(axis=axis, keepdims=True), X.var(axis=axis, keepdims=True)
    got = sg.layer_norm(sg.tensor(X), WEIGHT, WEIGHT + 1, axis=axis).numpy()
    expected = (X - mean) / np.sqrt(var + 1e-5) * WEIGHT + WEIGHT + 1
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    check_gradients(lambda t, w, b: sg.layer_norm(t, w, b, axis=axis), X, WEIGHT, WEIGHT + 1)
    got = sg.rms_norm(sg.tensor(X), WEIGHT, axis=axis).numpy()
    expected = X / np.sqrt((X * X).mean(axis=axis, keepdims=True) + 1e-6) * WEIGHT
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    check_gradients(lambda t, w: sg.rms_norm(t, w, axis=axis), X, WEIGHT)


def test_batch_norm_over_everything_but_the_channels():
    images = RNG.normal(size=(2, 4, 3))
    mean, var = sg.batch_statistics(images)
    np.testing.assert_allclose(mean, images.mean(axis=(0, 2)))
    np.testing.assert_allclose(var, images.var(axis=(0, 2)))
    got = sg.batch_norm(sg.tensor(images), WEIGHT, WEIGHT + 1).numpy()
    scaled = (images - mean[:, None]) / np.sqrt(var + 1e-5)[:, None]
    np.testing.assert_allclose(got, scaled * WEIGHT[:, None] + WEIGHT[:, None] + 1, rtol=1e-12)
    check_gradients(sg.batch_norm, images, WEIGHT, WEIGHT + 1)
    check_gradients(sg.batch_norm, X, WEIGHT, WEIGHT + 1)
    check_gradients(lambda t, m, v: sg.batch_norm(t, mean=m, var=v), images, WEIGHT - 1, WEIGHT + 1)
    with pytest.raises(sg.ShapeError, match="4 channels"):
        sg.batch_norm(sg.tensor(images), WEIGHT[:3])
    with pytest.raises(sg.ShapeError, match="both"):
        sg.batch_norm(sg.tensor(images), mean=WEIGHT)


def test_a_batch_of_one_is_its_bias_with_gradient_0():
    x = sg.tensor([[3.0, -5.0]], requires_grad=True)
    out = sg.batch_norm(x, bias=np.array([1.0, 2.0]))
    np.testing.assert_array_equal(out.numpy(), [[1, 2]])
    np.testing.assert_array_equal(out.sum().backward()[x], [[0, 0]])


@pytest.mark.parametrize(
    "normalise",
    [sg.layer_norm, sg.rms_norm, sg.batch_norm, lambda x: sg.group_norm(x, 2)],
    ids=["layer", "rms", "batch", "group"],
)
def test_an_empty_batch_is_normalised_to_nothing_without_a_warning(normalise):
    for shape in ((0, 4), (2, 4, 0)):
        x = sg.tensor(np.zeros(shape, np.float32), requires_grad=True)
        out = normalise(x)
        assert out.shape == shape
        assert out.dtype == np.float32
        assert out.sum().backward()[x].shape == shape


def test_group_norm_normalises_groups_of_channels():
    images = RNG.normal(size=(2, 4, 3))
    groups = images.reshape(2, 2, 6)
    scaled = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(
        groups.var(-1, keepdims=True) + 1e-5
    )
    expected = scaled.reshape(2, 4, 3) * WEIGHT[:, None]
    np.testing.assert_allclose(
        sg.group_norm(sg.tensor(images), 2, WEIGHT).numpy(), expected, rtol=1e-12
    )
    check_gradients(lambda t, w, b: sg.group_norm(t, 2, w, b), images, WEIGHT, WEIGHT + 1)
    check_gradients(lambda t: sg.group_norm(t, 2, axis=-1), np.moveaxis(images, 1, -1))
    with pytest.raises(sg.ShapeError, match="3 groups"):
        sg.group_norm(sg.tensor(images), 3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_normalisations_and_losses_keep_the_dtype(dtype):
    x = sg.tensor(X, dtype=dtype, requires_grad=True)
    y = Y.astype(dtype)
    for out in (
        sg.softmax(x),
        sg.log_softmax(x),
        sg.layer_norm(x),
        sg.rms_norm(x),
        sg.batch_norm(x, WEIGHT.astype(dtype)),
        sg.batch_norm(x, mean=WEIGHT, var=WEIGHT),
        sg.group_norm(x, 2),
        sg.mse_loss(x, y),
        sg.huber_loss(x, y),
        sg.bce_with_logits(x, y, pos_weight=WEIGHT),
        sg.nll_loss(x, [0, 1, 2], weight=WEIGHT),
        sg.cross_entropy(x, [0, 1, 2], weight=WEIGHT, label_smoothing=0.1),
        sg.cross_entropy(x, abs(y)),
        sg.dropout(x, 0.5, 0),
        sg.embedding(x, [0, 2]),
    ):
        assert out.dtype == dtype
        assert sg.grad(out.sum(), x, create_graph=True)[0].dtype == dtype


# --- dropout and embedding ----------------------------------------------------------------


def test_dropout_scales_what_it_keeps_and_its_gradient_alike():
    x = sg.tensor(np.ones((50, 40)), requires_grad=True)
    out = sg.dropout(x, 0.25, np.random.default_rng(0))
    values = out.numpy()
    assert set(np.unique(values)) == {0.0, 1 / 0.75}
    assert 0.70 < (values > 0).mean() < 0.80
    np.testing.assert_array_equal(out.sum().backward()[x], values)


def test_dropout_is_reproducible_by_seed_and_by_generator():
    x = sg.tensor(np.ones(100))
    once = sg.dropout(x, 0.5, 7).numpy()
    np.testing.assert_array_equal(sg.dropout(x, 0.5, 7).numpy(), once)
    generator = np.random.default_rng(7)
    np.testing.assert_array_equal(sg.dropout(x, 0.5, generator).numpy(), once)
    assert (sg.dropout(x, 0.5, generator).numpy() != once).any()


def test_dropout_at_its_limits():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    assert sg.dropout(x, 0.0, 0) is x
    assert sg.dropout(x, 0.9, 0, training=False) is x
    out = sg.dropout(x, 1.0, 0)
    np.testing.assert_array_equal(out.numpy(), [0, 0])
    np.testing.assert_array_equal(out.sum().backward()[x], [0, 0])
    for p in (-0.1, 1.1):
        with pytest.raises(sg.SettingError, match="probability"):
            sg.dropout(x, p, 0)
    with pytest.raises(sg.SettingError, match="generator"):
        sg.dropout(x, 0.5, None)


def test_rows_of_an_embedding_that_come_twice_get_both_gradients():
    table = sg.tensor(X, requires_grad=True)
    out = sg.embedding(table, [[0, 2], [2, 2]])
    assert out.shape == (2, 2, 4)
    np.testing.assert_array_equal(out.sum().backward()[table][:, 0], [1, 0, 3])
    check_gradients(lambda t: sg.embedding(t, [[0, 2], [2, 2]]), X)


def test_the_padding_row_of_an_embedding_gets_no_gradient():
    table = sg.tensor(X, requires_grad=True)
    out = sg.embedding(table, [0, 1, 1], padding_idx=1)
    np.testing.assert_array_equal(out.sum().backward()[table][:, 0], [1, 0, 0])


def test_an_embedding_refuses_indices_outside_its_rows():
    table = sg.tensor(X, requires_grad=True)
    for indices in ([3], [-1]):
        with pytest.raises(sg.LabelError, match="3 rows"):
            sg.embedding(table, indices)
    with pytest.raises(sg.LabelError, match="padding_idx"):
        sg.embedding(table, [0], padding_idx=5)
    with pytest.raises(sg.DtypeError, match="integer"):
        sg.embedding(table, [0.5])
    with pytest.raises(sg.ShapeError, match="rows, features"):
        sg.embedding(sg.tensor([1.0]), [0])


def test_indices_of_an_embedding_may_be_changed_afterwards():
    indices = np.array([0, 1])
    table = sg.tensor(X, requires_grad=True)
    out = sg.embedding(table, indices).sum()
    indices[:] = 2
    np.testing.assert_array_equal(out.backward()[table][:, 0], [1, 1, 0])


@pytest.mark.parametrize("weight", [None, "each"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("rows", [4, 2_000])
def test_cross_entropy_of_few_and_of_many_rows_is_softmax_minus_one_hot(rows, order, weight):
    """The rule has the exponentials of few rows and computes those of many again."""
    x = np.asarray(np.random.default_rng(5).normal(size=(rows, 10)), order=order)
    labels = np.arange(rows) % 10
    weights = None if weight is None else np.arange(1.0, 11.0)
    powers = np.exp(x)
    expected = powers / powers.sum(1, keepdims=True) - np.eye(10)[labels]
    share = np.ones(rows) if weights is None else weights[labels]

    found = gradient(lambda t: sg.cross_entropy(t, labels, weight=weights), x)

    np.testing.assert_allclose(found, expected * (share / share.sum())[:, None], atol=1e-14)
