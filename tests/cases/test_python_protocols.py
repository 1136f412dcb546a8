"""What Python asks of a number or a sequence: conversions, formatting, iteration, comparison."""

import math
import operator
import pickle

import numpy as np
import pytest

import sweepgrad as sg


@pytest.fixture(params=[False, True], ids=["untracked", "tracked"])
def t(request):
    return sg.tensor([[1.5, -2.0], [0.0, 4.25]], requires_grad=request.param)


def test_one_element_converts_to_a_python_number(t):
    for one, value in ((t[0, 0], 1.5), (t[1:, :1], 0.0), (t[0:1, 1:2], -2.0)):
        assert float(one) == value
        assert complex(one) == value
        assert int(one) == int(value)
        assert bool(one) is bool(value)
        assert one.item() == value
        assert type(one.item()) is float
    assert math.sqrt(t[1, 1]) == math.sqrt(4.25)
    assert round(t[0, 0]).tolist() == 2.0


@pytest.mark.parametrize("convert", [float, int, complex, bool, operator.methodcaller("item")])
def test_several_elements_do_not_convert(t, convert):
    with pytest.raises(sg.TensorTypeError, match=r"item\(\)|ambiguous"):
        convert(t)


def test_integers_index_and_floats_do_not(t):
    assert [10, 20, 30][sg.tensor(2)] == 30
    assert operator.index(sg.tensor(np.int8(3))) == 3
    with pytest.raises(TypeError):
        operator.index(t[0, 0])


def test_formatting_is_that_of_the_number(t):
    assert f"{t[0, 0]:.3f}" == "1.500"
    assert f"{t[1, 1]:8.1e}" == " 4.2e+00"
    assert f"{t}" == repr(t)
    assert repr(t).startswith("tensor([[ 1.5 , -2.  ],")
    with pytest.raises(sg.TensorTypeError):
        f"{t:.3f}"


def test_length_iteration_and_membership_are_those_of_the_first_axis(t):
    assert len(t) == 2
    rows = list(t)
    assert [row.tolist() for row in rows] == [[1.5, -2.0], [0.0, 4.25]]
    assert all(type(row) is sg.Tensor for row in rows)
    assert all(row.requires_grad is t.requires_grad for row in rows)
    assert 4.25 in t
    assert 3.0 not in t
    for without_axes in (len, iter):
        with pytest.raises(TypeError):
            without_axes(t[0, 0])


def test_iterating_hands_each_part_its_gradient():
    x = sg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = sum(factor * part for factor, part in zip((1.0, 10.0, 100.0), x, strict=True))
    assert loss.backward()[x].tolist() == [1.0, 10.0, 100.0]
    first, *rest = x
    assert (first * rest[1]).backward()[x].tolist() == [3.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_comparisons_give_plain_booleans_on_either_side(t, name):
    compare = getattr(operator, name)
    for other in (1.5, np.array([1.5, 4.25]), sg.tensor([1.5, -2.0])):
        plain = other.numpy() if type(other) is sg.Tensor else other
        for got, expected in (
            (compare(t, other), compare(t.numpy(), plain)),
            (compare(other, t), compare(plain, t.numpy())),
        ):
            assert type(got) is np.ndarray
            assert got.dtype == bool
            assert got.tolist() == expected.tolist()


def test_pickling_keeps_value_dtype_and_being_tracked(t):
    again = pickle.loads(pickle.dumps(t))
    assert again.tolist() == t.tolist()
    assert again.dtype == t.dtype
    assert again.requires_grad is t.requires_grad
    assert again.is_leaf


def test_a_result_is_pickled_as_a_leaf():
    x = sg.tensor([2.0], requires_grad=True)
    again = pickle.loads(pickle.dumps(x * 3.0))
    assert again.is_leaf
    assert again.requires_grad
    assert (again * 2.0).backward()[again].tolist() == [2.0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, np.complex64])
def test_a_leaf_of_any_floating_dtype_gets_a_gradient_of_it(dtype):
    x = sg.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
    out = (x * x + 1).sum()
    assert out.dtype == dtype
    gradient = out.backward()[x]
    assert gradient.dtype == dtype
    assert gradient.tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.0, 2.0], dtype=">f8"),
        np.array([1.0, 2.0], dtype=">f4"),
        np.array([1.0, 9.0, 2.0, 9.0])[::2],
        np.array([2.0, 1.0])[::-1],
        np.broadcast_to(np.array([1.0, 2.0]), (2,)),
        np.array([[1.0, 2.0]], order="F")[0],
    ],
    ids=["big-endian", "big-endian float32", "strided", "reversed", "read-only", "Fortran"],
)
def test_memory_of_any_kind_is_taken_and_its_gradient_is_a_plain_one(array):
    for make in (sg.tensor, sg.from_numpy):
        x = make(array, requires_grad=True)
        assert x.tolist() == [1.0, 2.0]
        gradient = (x * x).sum().backward()[x]
        assert gradient.tolist() == [2.0, 4.0]
        assert gradient.dtype == array.dtype
        assert gradient.flags.c_contiguous
        assert gradient.flags.writeable


def test_values_without_axes_and_without_elements():
    scalar = sg.tensor(3.0, requires_grad=True)
    gradient = (scalar * scalar).backward()[scalar]
    assert gradient.shape == ()
    assert gradient == 6.0
    for shape in ((0,), (2, 0, 3)):
        empty = sg.tensor(np.zeros(shape), requires_grad=True)
        gradient = (np.exp(empty) * 2.0).sum().backward()[empty]
        assert gradient.shape == shape
        assert gradient.dtype == np.float64


def test_arrays_leave_operators_to_the_tensor():
    assert sg.Tensor.__array_priority__ > np.ones(2).__array_priority__
    assert np.ones(2).__mul__(sg.tensor([1.0, 2.0])).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, int, complex])
def test_an_element_of_an_array_is_not_set_to_a_tracked_tensor_silently(t, dtype):
    array = np.zeros(2, dtype)

    def store():
        array[1] = t[0, 0]

    def add():
        array[1] += t[0, 0].astype(int) if dtype is int else t[0, 0]

    if not t.requires_grad:
        store()
        assert array[1] == dtype(1.5)
        return
    for write in (store, add) if dtype is not int else (store,):
        with pytest.raises((ValueError, TypeError)) as raised:
            write()
        # NumPy says what it makes of an error while it converts, and keeps ours as the cause.
        assert "np.stack" in str(raised.value.__cause__ or raised.value)
        assert array.tolist() == [0, 0]
    array[1] = t[0, 0].item()
    assert array[1] == dtype(1.5)


def test_numbers_of_a_tracked_tensor_are_used_where_they_are_asked_for(t):
    kept = [0.0]
    kept[0] = float(t[0, 0])
    kept[int(t[1, 0])] += float(t[0, 0])
    named = {}
    named["loss"] = t[0, 0]  # a dictionary holds the tensor itself
    assert kept == [3.0]
    assert named["loss"].requires_grad is t.requires_grad


@pytest.mark.parametrize(
    ("name", "instead"),
    [("sort", "np.sort"), ("fill", "np.full_like"), ("flat", "np.ravel"), ("strides", "numpy()")],
)
def test_what_only_an_array_has_is_named_with_what_to_write_instead(t, name, instead):
    with pytest.raises(AttributeError) as raised:
        getattr(t, name)
    assert instead in str(raised.value)
    assert not hasattr(t, "nothing_of_the_kind")


def test_an_array_made_of_a_list_of_tensors_is_refused_with_the_way_out():
    t = sg.tensor([1.0, 2.0], requires_grad=True)
    for make in (np.array, np.asarray, np.sum, np.diag, lambda parts: np.r_[parts[0], 1.0]):
        with pytest.raises(sg.TensorTypeError, match=r"np\.stack\(\[\.\.\.\]\)"):
            make([t[0], t[1]])
