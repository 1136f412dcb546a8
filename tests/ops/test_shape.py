"""Shape, joining, rearranging: values, gradients of both orders, layouts, corners."""

import numpy as np
import pytest
from finite_differences import check_gradients
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from operation_cases import (
    case,
    check_differences,
    check_float32,
    check_layouts,
    check_value,
)

import sweepgrad as sg
from sweepgrad.ops import pieces as pieces_module

CASES = [
    case("reshape", lambda x: np.reshape(x, (3, -1)), (2, 6)),
    case("reshape to a scalar", lambda x: np.reshape(x, ()), (1, 1)),
    case("reshape of a scalar", lambda x: np.reshape(x, (1, 1)), ()),
    case("reshape in Fortran order", lambda x: np.reshape(x, (3, -1), order="F"), (2, 2, 3)),
    case("ravel", np.ravel, (2, 3)),
    case("ravel in Fortran order", lambda x: np.ravel(x, "F"), (2, 1, 3)),
    case("flatten in Fortran order", lambda x: x.flatten("F"), (2, 3)),
    case("transpose", np.transpose, (2, 3, 4)),
    case("transpose with axes", lambda x: np.transpose(x, (-1, 0, 1)), (2, 3, 4)),
    case("matrix_transpose", np.matrix_transpose, (2, 3, 4)),
    case("swapaxes", lambda x: np.swapaxes(x, 0, -1), (2, 3, 4)),
    case("moveaxis", lambda x: np.moveaxis(x, [0, 1], [-1, 0]), (2, 3, 4)),
    *[
        case(f"rollaxis {axis} {start}", lambda x, a=axis, s=start: np.rollaxis(x, a, s), (2, 3, 4))
        for axis in range(-1, 3)
        for start in (0, 1, 3, -1)
    ],
    case("squeeze", np.squeeze, (1, 3, 1)),
    case("squeeze an axis", lambda x: np.squeeze(x, -1), (1, 3, 1)),
    case("expand_dims", lambda x: np.expand_dims(x, (0, -1)), (2, 3)),
    case("broadcast_to", lambda x: np.broadcast_to(x, (4, 2, 3)), (2, 1)),
    case("broadcast_to from a scalar", lambda x: np.broadcast_to(x, (2, 3)), ()),
    case(
        "broadcast_arrays",
        lambda x, y: np.multiply(*np.broadcast_arrays(x, y)),
        (2, 1),
        (1, 3),
    ),
    case("concatenate", lambda x, y: np.concatenate([x, y], axis=-1), (2, 3), (2, 1)),
    case("concatenate flattened", lambda x, y: np.concatenate([x, y], axis=None), (2, 2), (1, 1)),
    case("concatenate one twice", lambda x: np.concatenate([x, x]), (2, 2)),
    case("stack", lambda x, y: np.stack([x, y], axis=1), (2, 3), (2, 3)),
    case("stack scalars", lambda x, y: np.stack([x, y]), (), ()),
    case("hstack", lambda x, y: np.hstack([x, y]), (2, 1), (2, 3)),
    case("hstack of vectors", lambda x, y: np.hstack([x, y]), (2,), (3,)),
    case("vstack", lambda x, y: np.vstack([x, y]), (3,), (2, 3)),
    case("dstack", lambda x, y: np.dstack([x, y]), (2, 3), (2, 3)),
    case("column_stack", lambda x, y: np.column_stack([x, y]), (2,), (2, 3)),
    case("append", np.append, (2,), (2, 2)),
    case("block", lambda x, y: np.block([[x, y], [y, x]]), (2, 2), (2, 2)),
    case("block of unlike ranks", lambda x, y: np.block([[x], [y]]), (2, 2), (2,)),
    case("split", lambda x: np.split(x, 2, axis=1)[1], (2, 4)),
    case("split at positions", lambda x: np.split(x, [1, 5])[1], (4, 2)),
    case("array_split", lambda x: np.array_split(x, 3)[1], (5, 2)),
    case("hsplit", lambda x: np.hsplit(x, 2)[0], (2, 4)),
    case("vsplit", lambda x: np.vsplit(x, [1])[1], (3, 2)),
    case("dsplit", lambda x: np.dsplit(x, 2)[1], (1, 2, 4)),
    case(
        "unstack",
        lambda x: sg.unstack(x, axis=1)[1],
        (2, 3),
        reference=lambda x: x[:, 1],
    ),
    case("atleast_1d", np.atleast_1d, ()),
    case("atleast_2d", np.atleast_2d, (3,)),
    case("atleast_3d", np.atleast_3d, (3,)),
    case("atleast_3d of a matrix", np.atleast_3d, (3, 2)),
    case("flip", np.flip, (2, 3)),
    case("flip an axis", lambda x: np.flip(x, -1), (2, 3)),
    case("fliplr", np.fliplr, (2, 3)),
    case("flipud", np.flipud, (2, 3)),
    case("roll", lambda x: np.roll(x, 4), (2, 3)),
    case("roll along axes", lambda x: np.roll(x, (1, -2), (0, 1)), (2, 3)),
    *[
        case(f"rot90 {k}", lambda x, k=k: np.rot90(x, k, (0, 2)), (2, 1, 3))
        for k in (-1, 0, 1, 2, 3, 5)
    ],
    case("tile", lambda x: np.tile(x, (2, 1, 2)), (2, 3)),
    case("tile the last axis", lambda x: np.tile(x, 2), (2, 3)),
    case("repeat flattened", lambda x: np.repeat(x, 2), (2, 3)),
    case("repeat along an axis", lambda x: np.repeat(x, 3, axis=1), (2, 2)),
    case("repeat by counts", lambda x: np.repeat(x, [2, 0, 1], axis=0), (3, 2)),
    case("resize", lambda x: np.resize(x, (3, 4)), (5,)),
    case("tril", lambda x: np.tril(x, -1), (2, 3, 3)),
    case("triu", lambda x: np.triu(x, 1), (2, 4)),
    case("tril of a vector", np.tril, (3,)),
    case("copy", np.copy, (2, 3)),
    case("diag of a vector", lambda x: np.diag(x, 1), (3,)),
    case("diag of a matrix", lambda x: np.diag(x, -1), (3, 4)),
    case("diagflat", lambda x: np.diagflat(x, -1), (2, 2)),
    case("diagonal", lambda x: np.diagonal(x, 1, 2, 0), (3, 2, 4)),
    case("trace", lambda x: np.trace(x, 1), (3, 4, 2)),
    case("trace of a stack", np.linalg.trace, (2, 3, 3)),
    *[
        case(
            f"meshgrid {indexing} sparse={sparse}",
            lambda x, y, i=indexing, s=sparse: np.multiply(
                *np.meshgrid(x, y, indexing=i, sparse=s)
            ),
            (3,),
            (2,),
        )
        for indexing in ("xy", "ij")
        for sparse in (False, True)
    ],
]


@pytest.mark.parametrize("one", CASES, ids=str)
def test_gradients_of_both_orders_agree_with_finite_differences(one):
    check_differences(one)


@pytest.mark.parametrize("one", CASES, ids=str)
def test_the_value_is_numpys_and_operands_are_not_written_into(one):
    check_value(one)


@pytest.mark.parametrize("one", CASES, ids=str)
def test_float32_stays_float32(one):
    check_float32(one)


@pytest.mark.parametrize("one", CASES, ids=str)
def test_the_memory_layout_of_operands_does_not_matter(one):
    check_layouts(one)


PADS = [
    ("constant", {}),
    ("constant", {"constant_values": 2.0}),
    ("empty", {}),
    ("edge", {}),
    ("reflect", {}),
    ("reflect", {"reflect_type": "odd"}),
    ("symmetric", {}),
    ("symmetric", {"reflect_type": "odd"}),
    ("wrap", {}),
    ("linear_ramp", {}),
    ("linear_ramp", {"end_values": ((3, 1), (2, 0))}),
    ("mean", {}),
    ("mean", {"stat_length": 2}),
    ("maximum", {}),
    ("minimum", {"stat_length": ((1, 2), (2, 3))}),
    ("median", {}),
]


@pytest.mark.parametrize(("mode", "options"), PADS, ids=str)
@pytest.mark.parametrize("widths", [((1, 2), (3, 0)), 4], ids=["pairs", "wider than the array"])
def test_pad_has_a_gradient_in_every_mode(mode, options, widths):
    x = np.random.default_rng(0).normal(size=(2, 3))

    def padded(t):
        return np.pad(t, widths, mode, **options)

    if mode != "empty":  # whose padding is any number
        np.testing.assert_allclose(padded(sg.tensor(x)).numpy(), padded(x), rtol=1e-14, atol=1e-14)
        check_gradients(padded, x, second=widths != 4)
        return
    t = sg.tensor(x, requires_grad=True)
    out = padded(t)
    gradient = out.backward(np.ones(out.shape))[t]
    np.testing.assert_array_equal(gradient, np.ones((2, 3)))


def test_pad_refuses_a_function_and_an_unknown_mode():
    t = sg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(sg.NoGradientRuleError, match="named mode"):
        np.pad(t, 1, lambda *args: None)
    with pytest.raises(sg.ShapeError, match="no mode 'mirror'"):
        np.pad(t, 1, "mirror")
    with pytest.raises(sg.ShapeError, match="0 or more"):
        np.pad(t, -1)


# --- method forms and arguments -----------------------------------------------------------


def test_methods_take_their_arguments_as_numpys_methods_do():
    x = np.arange(6.0).reshape(2, 3)
    t = sg.tensor(x, requires_grad=True)
    for got, want in (
        (t.reshape(3, 2), x.reshape(3, 2)),
        (t.reshape((3, 2)), x.reshape(3, 2)),
        (t.reshape([3, -1]), x.reshape(3, 2)),
        (t.reshape(-1), x.reshape(-1)),
        (t.reshape(np.int64(6)), x.reshape(6)),
        (t.transpose(), x.T),
        (t.transpose(None), x.T),
        (t.transpose(1, 0), x.T),
        (t.transpose((1, 0)), x.T),
        (t.T, x.T),
        (t.mT, x.T),
        (t.swapaxes(0, 1), x.T),
        (t.ravel(), x.ravel()),
        (t.flatten(), x.ravel()),
        (t[None].squeeze(0), x),
        (t.take([0, 5]), x.take([0, 5])),
        (t.repeat(2, axis=0), x.repeat(2, axis=0)),
        (t.diagonal(1), x.diagonal(1)),
        (t.trace(), x.trace()),
        (t.dot(x.T), x.dot(x.T)),
    ):
        assert got.requires_grad
        np.testing.assert_array_equal(got.numpy(), want)


def test_views_share_memory_with_their_operand():
    t = sg.tensor(np.arange(24.0).reshape(2, 3, 4), requires_grad=True)
    for view in (
        t.reshape(4, 6),
        t.T,
        t.swapaxes(0, 1),
        t[0],
        t[..., ::-1],
        t[:, None, 1:],
        np.squeeze(t[None]),
        np.broadcast_to(t, (2, 2, 3, 4)),
        np.split(t, 2)[1],
        np.flip(t),
        np.diagonal(t),
    ):
        assert np.shares_memory(view._array, t._array)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda t: t.reshape(4, order="A"), r"reshape\(order='A'\)"),
        (lambda t: np.reshape(t, 4, copy=True), r"reshape\(copy=True\)"),
        (lambda t: np.ravel(t, "K"), r"ravel\(order='K'\)"),
        (lambda t: t.flatten("K"), r"flatten\(order='K'\)"),
        (lambda t: np.concatenate([t, t], out=np.zeros((4, 2))), r"concatenate\(out=...\)"),
        (lambda t: np.stack([t, t], out=np.zeros((2, 2, 2))), r"stack\(out=...\)"),
        (lambda t: np.take(t, 0, out=np.zeros(())), r"take\(out=...\)"),
        (lambda t: np.broadcast_to(t, (2, 2), subok=True), r"broadcast_to\(subok=True\)"),
        (lambda t: np.trace(t, dtype=np.float32), r"trace\(dtype="),
        (lambda t: np.sort(t, order="a"), r"sort\(order='a'\)"),
        (lambda t: np.einsum("ij->ji", t, order="F"), r"einsum\(order='F'\)"),
        (lambda t: np.dot(t, t, out=np.zeros((2, 2))), r"dot\(out=...\)"),
        (lambda t: np.fft.fft(t, out=np.zeros((2, 2), complex)), r"fft\(out=...\)"),
    ],
)
def test_arguments_that_a_tensor_cannot_honour_are_refused_by_name(call, named):
    with pytest.raises(sg.NoGradientRuleError, match=named):
        call(sg.tensor(np.ones((2, 2)), requires_grad=True))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda t: t.reshape(5), r"reshape of shape \(2, 3\)"),
        (lambda t: np.squeeze(t, 0), "its length is 2"),
        (lambda t: np.broadcast_to(t, (2, 4)), r"broadcast_to of shape \(2, 3\)"),
        (lambda t: np.concatenate([t, t.T]), r"\(2, 3\), \(3, 2\)"),
        (lambda t: np.concatenate([]) if t is None else sg.concatenate([]), "no tensors"),
        (lambda t: np.stack([t, t.T]), r"\(2, 3\), \(3, 2\)"),
        (lambda t: np.split(t, 2, axis=1), "array_split"),
        (lambda t: t[0].mT, "add an axis"),
        (lambda t: np.diagonal(t[0]), "two axes"),
        (lambda t: np.moveaxis(t, [0, 1], [0]), "destinations"),
        (lambda t: np.repeat(t, [1, 2], axis=1), "2 counts for an axis of length 3"),
        (lambda t: np.vsplit(t[0], 1), "at least 2 axes"),
    ],
)
def test_shapes_that_do_not_fit_are_named(call, said):
    with pytest.raises(sg.ShapeError, match=said):
        call(sg.tensor(np.ones((2, 3)), requires_grad=True))


def test_an_axis_out_of_range_is_numpys_own_error():
    t = sg.tensor(np.ones((2, 3)), requires_grad=True)
    for call in (
        lambda: np.concatenate([t, t], axis=2),
        lambda: np.squeeze(t, 2),
        lambda: np.expand_dims(t, 4),
        lambda: np.moveaxis(t, 3, 0),
        lambda: np.flip(t, 2),
        lambda: np.sort(t, 2),
    ):
        with pytest.raises(np.exceptions.AxisError):
            call()


def test_joining_mixed_dtypes_promotes_and_gives_each_operand_its_own_dtype_back():
    narrow = sg.tensor([1.0, 2.0], np.float32, requires_grad=True)
    wide = sg.tensor([3.0], np.float64, requires_grad=True)
    out = np.concatenate([narrow, wide, np.array([4])])
    assert out.dtype == np.float64
    gradients = out.backward(np.array([1.0, 2.0, 3.0, 4.0]))
    assert gradients[narrow].dtype == np.float32
    np.testing.assert_array_equal(gradients[narrow], [1, 2])
    np.testing.assert_array_equal(gradients[wide], [3])


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t.reshape(0),
        lambda t: t.T,
        lambda t: t[1:1],
        lambda t: t[:, ::-1],
        lambda t: np.concatenate([t, t]),
        lambda t: np.stack([t, t]),
        lambda t: np.flip(t),
        lambda t: np.roll(t, 1),
        lambda t: np.tile(t, (2, 2)),
        lambda t: np.repeat(t, 2, 0),
        lambda t: np.tril(t),
        lambda t: np.broadcast_to(t, (3, 0, 4)),
        lambda t: t[np.zeros((0, 4), bool)],
        lambda t: t[:, [1, 1, 2]],
        lambda t: np.sort(t),
        lambda t: t @ np.ones((4, 2)),
        lambda t: t.T @ np.ones((0, 2)),
        lambda t: np.einsum("ij->j", t),
        lambda t: np.pad(t, 1),
        lambda t: t.at[:, 0].set(1.0),
    ],
)
def test_operands_without_elements_get_gradients_without_elements(function):
    t = sg.tensor(np.zeros((0, 4)), requires_grad=True)
    out = function(t)
    gradient = out.backward(np.ones(out.shape))[t]
    assert gradient.shape == (0, 4)


@given(
    hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)),
    st.data(),
)
def test_a_shape_operation_hands_each_gradient_back_to_its_element(x, data):
    """Each element carries its own number, so a misplaced gradient shows."""
    x = np.arange(float(x.size)).reshape(x.shape)
    axes = data.draw(st.permutations(range(x.ndim)))
    t = sg.tensor(x, requires_grad=True)
    axis = data.draw(st.integers(-x.ndim - 1, x.ndim))
    out = np.expand_dims(t.transpose(axes), axis).reshape(-1)
    np.testing.assert_array_equal(out.backward(out.numpy())[t], x)


@pytest.mark.parametrize(
    "cut",
    [list, lambda t: np.split(t, 50), lambda t: np.array_split(t, 7)],
    ids=["iteration", "split", "array_split"],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_many_pieces_bring_one_array_of_the_whole_to_backward(cut, create_graph, monkeypatch):
    filled = []
    for name in ("_fill", "_assembled"):
        function = getattr(pieces_module, name)
        monkeypatch.setattr(
            pieces_module, name, lambda *a, function=function: filled.append(a) or function(*a)
        )
    x = np.random.default_rng(0).normal(size=(50, 2))
    t = sg.tensor(x, requires_grad=True)
    loss = sum((position * piece**3).sum() for position, piece in enumerate(cut(t)))
    (gradient,) = sg.grad(loss, [t], create_graph=create_graph)
    weights = np.concatenate([np.full(len(np.atleast_2d(p)), i) for i, p in enumerate(cut(x))])
    value = gradient.numpy() if create_graph else gradient
    np.testing.assert_allclose(value, 3 * weights[:, None] * x**2)
    assert len(filled) == 1


def test_a_piece_that_is_not_used_gets_no_gradient_and_others_keep_theirs():
    t = sg.tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    first, _, last = t
    gradient = (first * last).sum().backward()[t]
    np.testing.assert_array_equal(gradient, [[4, 5], [0, 0], [0, 1]])


def test_pieces_that_overlap_each_bring_their_gradient():
    t = sg.tensor(np.arange(4.0), requires_grad=True)
    parts = np.split(t, [3, 1])
    assert [part.shape for part in parts] == [(3,), (0,), (3,)]
    loss = parts[0].sum() + 10 * parts[2].sum()
    np.testing.assert_array_equal(loss.backward()[t], [1, 11, 11, 10])


def test_a_split_that_is_joined_again_is_the_identity():
    x = np.arange(10.0)
    t = sg.tensor(x, requires_grad=True)
    out = np.concatenate(np.array_split(t, 4))
    np.testing.assert_array_equal(out.backward(x)[t], x)


def test_a_tensor_is_iterated_over_as_a_sequence_of_operands():
    t = sg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    out = np.concatenate(t)
    np.testing.assert_array_equal(out.numpy(), [1, 2, 3, 4])
    np.testing.assert_array_equal(out.backward([1.0, 2, 3, 4])[t], [[1, 2], [3, 4]])
