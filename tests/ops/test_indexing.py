"""Indexing, functional updates, sorting and choosing: each gradient lands where it belongs."""

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
from sweepgrad.ops import indexing


def _updated(name, index):
    """NumPy's in-place update on a copy, as the reference for ``t.at[index]``."""

    def reference(x, v):
        out = x.copy()
        if name == "set":
            out[index] = v
        else:
            getattr(np, name).at(out, index, v)
        return out

    return reference


def _updates():
    for name in ("set", "add", "subtract", "multiply", "divide"):
        for label, index, shape in (
            ("slice", (slice(1, None), 0), (2,)),
            ("broadcast scalar", (slice(None, None, -2),), ()),
            ("row", 1, (2,)),
            ("rows with repeats", [0, 1, 0, 2], (4, 2)),
            ("rows broadcast", [0, 2, 0], (2,)),
            ("elements with repeats", ([0, 1, 0], [1, 1, 1]), (3,)),
            ("mask", np.array([[True, False], [True, True], [False, False]]), (3,)),
        ):
            yield case(
                f"at.{name} {label}",
                lambda x, v, n=name, i=index: getattr(x.at[i], n)(v),
                (3, 2),
                np.random.default_rng(3).uniform(0.5, 2, shape),
                reference=_updated(name, index),
            )


CASES = [
    *[
        case(f"index {label}", lambda x, i=index: x[i], (3, 4))
        for label, index in (
            ("integer", 1),
            ("negative integer", -1),
            ("NumPy integer", np.int64(2)),
            ("two integers", (0, -2)),
            ("slice", slice(1, 3)),
            ("steps", (slice(None, None, 2), slice(None, None, -1))),
            ("ellipsis", (..., 1)),
            ("new axis", (None, slice(None), None, 2)),
            ("list with repeats", [0, 2, 0]),
            ("negative repeats", [0, -3, -1]),
            ("index matrix", np.array([[0, 1], [1, 1]])),
            ("unsigned", np.array([2, 0], np.uint8)),
            ("two lists", ([0, 0, 1], [1, 1, 3])),
            ("broadcast lists", ([[0], [2]], [1, 1])),
            ("list after slice", (slice(None), [3, 0, 3])),
            ("list beside an integer", (1, [0, 0, 2])),
            ("0-d array", np.array(1)),
            ("mask of rows", np.array([True, False, True])),
            ("mask", np.arange(12).reshape(3, 4) % 5 == 0),
            ("mask all False", np.zeros((3, 4), bool)),
            ("mask and list", (np.array([True, False, True]), [1, 1])),
            ("True", True),
            ("False", False),
            ("empty list", []),
            ("empty slice", slice(2, 1)),
        )
    ],
    *[
        case(f"index of rank 3, {label}", lambda x, i=index: x[i], (2, 3, 2))
        for label, index in (
            ("lists apart", ([0, 1], slice(None), [1, 1])),
            ("lists together", (slice(None), [0, 2], [1, 1])),
            ("list apart from an integer", (0, slice(None), [1, 0, 1])),
            ("mask of two axes", np.array([[True, False, True], [False, False, True]])),
            ("ellipsis and list", (..., [1, 1, 0])),
            ("new axis and list", (None, [0, 0])),
        )
    ],
    case("take", lambda x: np.take(x, [[0, 2], [2, -1]], axis=1), (2, 3)),
    case("take flattened", lambda x: np.take(x, [5, 0, 5]), (2, 3)),
    case("take wrapped", lambda x: np.take(x, [7, -8], axis=0, mode="wrap"), (3, 2)),
    case("take clipped", lambda x: np.take(x, [7, -8, 1], axis=0, mode="clip"), (3, 2)),
    case("take a scalar", lambda x: np.take(x, 1, axis=0), (3, 2)),
    case(
        "take_along_axis",
        lambda x: np.take_along_axis(x, np.array([[0, 0], [1, -2], [0, 1]]), axis=0),
        (2, 2),
    ),
    case(
        "take_along_axis broadcast",
        lambda x: np.take_along_axis(x, np.array([[0, 2, 2, 1]]), axis=1),
        (2, 3),
    ),
    case(
        "take_along_axis flattened",
        lambda x: np.take_along_axis(x, np.array([3, 3]), axis=None),
        (2, 2),
    ),
    *_updates(),
    case(
        "put_along_axis",
        lambda x, v: sg.put_along_axis(x, np.array([[0], [2]]), v, axis=1),
        (2, 3),
        (2, 1),
        reference=lambda x, v: np.where(np.array([[1, 0, 0], [0, 0, 1]], bool), v, x),
    ),
    case(
        "scatter_add",
        lambda x, v: sg.scatter_add(x, np.array([[0, 0], [1, 2]]), v, axis=1),
        (2, 3),
        (2, 2),
        reference=lambda x, v: np.add(x, [[v[0, 0] + v[0, 1], 0, 0], [0, v[1, 0], v[1, 1]]]),
    ),
    case("sort", np.sort, (3, 4)),
    case("sort along the first axis", lambda x: np.sort(x, axis=0), (4, 2)),
    case("sort flattened", lambda x: np.sort(x, axis=None), (2, 3)),
    case("partition", lambda x: np.sort(np.partition(x, 2)[:, :3]), (2, 5)),
    case("partition, the k-th", lambda x: np.partition(x, -2, axis=0)[-2], (4, 2)),
    case(
        "topk",
        lambda x: sg.topk(x, 2, axis=0).values,
        (4, 2),
        reference=lambda x: -np.sort(-x, axis=0)[:2],
    ),
    case(
        "smallest k",
        lambda x: sg.topk(x, 2, largest=False).values,
        (2, 4),
        reference=lambda x: np.sort(x)[:, :2],
    ),
    case(
        "choose",
        lambda x, y: np.choose(np.array([0, 1, 1]), [x, y]),
        (3,),
        (2, 3),
    ),
    case(
        "select",
        lambda x, y: np.select(
            [np.array([True, False, False]), np.array([True, True, False])], [x, y], 1.0
        ),
        (3,),
        (3,),
    ),
    case("compress", lambda x: np.compress([True, False, True], x, axis=1), (2, 3)),
    case("extract", lambda x: np.extract(np.array([True, False, True]), x), (3,)),
    case("delete", lambda x: np.delete(x, [0, -1], axis=1), (2, 4)),
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


# --- repeated indices -----------------------------------------------------------------------


def test_an_element_named_several_times_gets_the_sum_of_its_gradients():
    """C14."""
    x = sg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = (x[[2, 0, 2, 2]] * np.array([1.0, 10.0, 100.0, 1000.0])).sum()
    np.testing.assert_array_equal(loss.backward()[x], [10.0, 0.0, 1101.0])

    x = sg.tensor([1.0], requires_grad=True)
    np.testing.assert_array_equal(x[[0, 0]].sum().backward()[x], [2.0])

    x = sg.tensor(np.zeros((2, 2)), requires_grad=True)
    np.testing.assert_array_equal(x[[0, 0], [1, 1]].sum().backward()[x], [[0, 2], [0, 0]])


@given(
    hnp.array_shapes(min_dims=1, max_dims=3, max_side=4).flatmap(
        lambda shape: st.tuples(
            st.just(shape),
            st.one_of(
                hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True),
                hnp.integer_array_indices(
                    shape, result_shape=hnp.array_shapes(max_dims=2, max_side=6)
                ),
                hnp.arrays(bool, shape),
                st.lists(st.integers(-shape[0], shape[0] - 1), max_size=12),
            ),
        )
    )
)
def test_any_index_gives_back_to_each_element_what_was_taken_from_it(given_):
    """The oracle counts with np.add.at on whole numbers, where order cannot matter."""
    shape, index = given_
    x = np.arange(float(np.prod(shape))).reshape(shape)
    t = sg.tensor(x, requires_grad=True)
    out = t[index]
    expected_value = np.asarray(x[index] if not isinstance(index, list) or index else x[:0])
    np.testing.assert_array_equal(out.numpy(), expected_value)
    seed = 1.0 + np.arange(float(out.size)).reshape(out.shape)
    expected = np.zeros(shape)
    if out.size:
        np.add.at(expected, index, seed)
    np.testing.assert_array_equal(out.backward(seed)[t], expected)


def _part_of_index(rng, length):
    """A part of an index for an axis of this length (or for none), and how many axes it takes."""
    bound = [None, *range(-length, length + 1)]
    lengths = [(), (1,), (3,), (2, 1), (2, 3)]
    kind = rng.integers(7)
    if kind == 0:
        return int(rng.integers(-length, length)), 1
    if kind == 1:
        start, stop = (bound[rng.integers(len(bound))] for _ in range(2))
        return slice(start, stop, [None, 2, -1, -2][rng.integers(4)]), 1
    if kind == 2:
        return rng.integers(-length, length, lengths[rng.integers(5)]), 1
    if kind == 3:
        return rng.integers(-length, length, 3).tolist(), 1
    if kind == 4:
        return rng.random(length) < 0.5, 1
    return (None, 0) if kind == 5 else (bool(rng.random() < 0.8), 0)


def _random_index(rng, shape):
    parts, axis = [], 0
    while axis < len(shape) and rng.random() < 0.9:
        part, taken = _part_of_index(rng, shape[axis])
        parts.append(part)
        axis += taken
    if rng.random() < 0.3:
        parts.insert(rng.integers(len(parts) + 1), ...)
    return tuple(parts)


def test_mixed_indices_and_updates_do_as_numpys():
    """Integers, slices, lists, arrays, masks, None and ... in any mixture that NumPy takes."""
    rng = np.random.default_rng(1)
    taken = 0
    while taken < 400:
        shape = tuple(rng.integers(1, 5, rng.integers(1, 5)).tolist())
        index = _random_index(rng, shape)
        x = np.arange(float(np.prod(shape))).reshape(shape)
        try:
            value = np.asarray(x[index])
        except IndexError:
            continue
        taken += 1
        t = sg.tensor(x, requires_grad=True)
        out = t[index]
        np.testing.assert_array_equal(out.numpy(), value, err_msg=str((shape, index)))
        seed = 1.0 + np.arange(float(value.size)).reshape(value.shape)
        expected = np.zeros(shape)
        if value.size:
            np.add.at(expected, index, seed)
        gradient = out.backward(seed)[t]
        np.testing.assert_array_equal(gradient, expected, err_msg=str((shape, index)))
        for name in ("set", "add", "multiply"):
            got = getattr(t.at[index], name)(seed).numpy()
            wanted = _updated(name, index)(x, seed) if value.size else x
            np.testing.assert_array_equal(got, wanted, err_msg=str((name, shape, index)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "index"),
    [
        ((50, 8), np.random.default_rng(0).integers(-50, 50, 400)),
        ((50, 8), np.random.default_rng(0).permutation(50)),
        ((50,), np.random.default_rng(0).integers(0, 50, (20, 20))),
        (
            (20, 30),
            tuple(np.random.default_rng(0).integers(0, 20, (2, 400))),
        ),
        ((4, 5, 6), (slice(None), np.random.default_rng(0).integers(0, 5, 90))),
        ((300, 2), np.random.default_rng(0).integers(0, 256, 400).astype(np.uint8)),
        ((40, 50, 60), (slice(3), np.array([1, 1, -1]), np.array([[0], [1]]))),
    ],
    ids=[
        "rows",
        "distinct rows",
        "matrix of elements",
        "pairs",
        "middle axis",
        "small integers",
        "few of many",
    ],
)
def test_fast_accumulation_is_bitwise_that_of_add_at(dtype, shape, index, monkeypatch):
    monkeypatch.setattr(indexing, "CHUNK", 100)
    t = sg.tensor(np.zeros(shape), dtype, requires_grad=True)
    out = t[index]
    seed = np.random.default_rng(1).normal(size=out.shape).astype(dtype)
    expected = np.zeros(shape, dtype)
    np.add.at(expected, index, seed)
    np.testing.assert_array_equal(out.backward(seed)[t], expected)


def test_index_arrays_are_copied_when_the_operation_is_recorded():
    index, mask = np.array([0, 1]), np.array([True, False, True])
    x = sg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    picked, masked = x[index], x[mask]
    updated = x.at[index].set(5.0)
    taken = np.take(x, index)
    along = np.take_along_axis(x, index, axis=0)
    index[:] = 2
    mask[:] = False
    np.testing.assert_array_equal(picked.backward([1.0, 1.0])[x], [1, 1, 0])
    np.testing.assert_array_equal(masked.backward([1.0, 1.0])[x], [1, 0, 1])
    np.testing.assert_array_equal(updated.backward([1.0, 1.0, 1.0])[x], [0, 0, 1])
    np.testing.assert_array_equal(taken.backward([1.0, 1.0])[x], [1, 1, 0])
    np.testing.assert_array_equal(along.backward([1.0, 1.0])[x], [1, 1, 0])


def test_tensors_may_be_indices():
    x = sg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for index in (sg.tensor([2, 2]), (sg.tensor([2, 2]),), sg.tensor([False, False, True])):
        out = x[index]
        np.testing.assert_array_equal(out.numpy(), np.full(out.shape, 3.0))
        np.testing.assert_array_equal(out.sum().backward()[x], [0, 0, out.size])
    assert x[sg.tensor(1)].item() == 2.0
    assert x[sg.tensor(1) :].shape == (2,)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (3, IndexError),
        ((0, 0), IndexError),
        ([0, 3], IndexError),
        (np.zeros(2, bool), IndexError),
        ([0.5], sg.DtypeError),
        (np.array([1.0]), sg.DtypeError),
        ("a", sg.DtypeError),
    ],
)
def test_an_impossible_index_is_refused(index, error):
    x = sg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(error):
        x[index]


def test_the_gradient_of_a_picked_scalar_is_its_place():
    x = sg.tensor(np.ones((2, 2)), requires_grad=True)
    out = x[1, 0]
    assert out.shape == ()
    np.testing.assert_array_equal(out.backward()[x], [[0, 0], [1, 0]])


# --- updates --------------------------------------------------------------------------------


def test_an_update_leaves_its_tensor_as_it_was():
    x = sg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x.at[0].set(9.0)
    np.testing.assert_array_equal(x.numpy(), [1, 2, 3])
    np.testing.assert_array_equal(y.numpy(), [9, 2, 3])
    np.testing.assert_array_equal(x.at[1:].get().numpy(), [2, 3])


def test_of_values_set_at_one_place_the_last_stays_and_alone_gets_the_gradient():
    x = sg.tensor([0.0, 0.0], requires_grad=True)
    v = sg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = x.at[[0, 0, 1]].set(v)
    np.testing.assert_array_equal(out.numpy(), [2, 3])
    gradients = out.backward([10.0, 20.0])
    np.testing.assert_array_equal(gradients[x], [0, 0])
    np.testing.assert_array_equal(gradients[v], [0, 10, 20])


def test_a_value_that_is_broadcast_gets_the_sum_of_its_gradients():
    x = sg.tensor(np.zeros((2, 3)), requires_grad=True)
    v = sg.tensor([[1.0]], requires_grad=True)
    out = x.at[:, 1:].set(v)
    np.testing.assert_array_equal(out.backward(np.ones((2, 3)))[v], [[4.0]])


def test_an_update_keeps_the_dtype_and_refuses_values_it_would_cut_off():
    x = sg.tensor([1.0, 2.0], np.float32, requires_grad=True)
    v = sg.tensor([5.0], np.float64, requires_grad=True)
    out = x.at[:1].set(v)
    assert out.dtype == np.float32
    assert out.backward([1.0, 1.0])[v].dtype == np.float64
    with pytest.raises(sg.DtypeError, match="cut them off"):
        sg.tensor([1, 2]).at[0].set(0.5)


def test_an_update_outside_the_bounds_is_refused():
    x = sg.tensor(np.zeros((3, 2)), requires_grad=True)
    for index in ([0, 3], [0, -4]):
        for name in ("set", "add", "multiply"):
            with pytest.raises(IndexError):
                getattr(x.at[index], name)(1.0)


@pytest.mark.parametrize(
    "write",
    [
        lambda t: np.put(t, 0, 1.0),
        lambda t: np.place(t, np.array([True, False]), 1.0),
        lambda t: np.putmask(t, np.array([True, False]), 1.0),
        lambda t: np.put_along_axis(t, np.array([0]), 1.0, 0),
        lambda t: np.copyto(t, 1.0),
        lambda t: np.fill_diagonal(t, 1.0),
    ],
    ids=["put", "place", "putmask", "put_along_axis", "copyto", "fill_diagonal"],
)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_functions_that_write_into_a_tensor_are_refused_with_the_way_out(write, requires_grad):
    t = sg.tensor([1.0, 2.0], requires_grad=requires_grad)
    with pytest.raises(sg.NoGradientRuleError, match="a tensor is never written into; "):
        write(t)
    np.testing.assert_array_equal(t.numpy(), [1, 2])


# --- order ----------------------------------------------------------------------------------


def test_equal_elements_keep_their_order_in_a_sort_and_so_do_their_gradients():
    x = sg.tensor([2.0, 1.0, 2.0], requires_grad=True)
    loss = (np.sort(x) * np.array([1.0, 2.0, 3.0])).sum()
    np.testing.assert_array_equal(loss.backward()[x], [2, 1, 3])


def test_topk_takes_the_first_of_equal_elements():
    x = sg.tensor([1.0, 3.0, 3.0, 2.0], requires_grad=True)
    found = sg.topk(x, 3)
    np.testing.assert_array_equal(found.values.numpy(), [3, 3, 2])
    np.testing.assert_array_equal(found.indices, [1, 2, 3])
    np.testing.assert_array_equal(found.values.backward([1.0, 2.0, 3.0])[x], [0, 1, 2, 3])
    np.testing.assert_array_equal(sg.topk(x, 1).indices, [1])
    np.testing.assert_array_equal(sg.topk(sg.tensor([1.0, np.nan, 2.0]), 2).indices, [1, 2])
    assert sg.topk(x, 0).values.shape == (0,)
    with pytest.raises(sg.ShapeError, match="length 4"):
        sg.topk(x, 5)


def test_nan_is_sorted_last_and_gets_its_own_gradient():
    x = sg.tensor([np.nan, 1.0, 0.0], requires_grad=True)
    out = np.sort(x)
    np.testing.assert_array_equal(out.numpy(), [0, 1, np.nan])
    np.testing.assert_array_equal(out.backward([1.0, 2.0, 3.0])[x], [3, 2, 1])


def test_places_are_plain_integers_without_a_gradient():
    x = sg.tensor([[2.0, 1.0, 2.0], [0.0, 3.0, 0.0]], requires_grad=True)
    for places in (np.argsort(x), x.argsort(), sg.argsort(x)):
        assert type(places) is np.ndarray
        np.testing.assert_array_equal(places, [[1, 0, 2], [0, 2, 1]])
    np.testing.assert_array_equal(x.nonzero(), np.nonzero(x.numpy()))
    np.testing.assert_array_equal(sg.tensor([1.0, 2.0]).searchsorted([1.5, 2.0]), [1, 1])


def test_choose_refuses_integers_without_a_choice():
    t = sg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(sg.ShapeError, match="1 choices"):
        np.choose(np.array([0, 1]), [t])
    np.testing.assert_array_equal(
        np.choose(np.array([5, -1]), [t, -t], mode="clip").numpy(), [-1, 2]
    )


def test_gradients_flow_through_a_gather_of_a_scatter():
    check_gradients(
        lambda x, v: (x.at[[1, 1, 0]].add(v) ** 2)[[0, 1, 1]],
        np.array([0.3, -0.7, 1.1]),
        np.array([0.5, 0.2, -0.9]),
    )
