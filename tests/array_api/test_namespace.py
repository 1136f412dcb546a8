"""``sweepgrad.numpy`` follows the Array API standard 2024.12, and gradients flow through it."""

import inspect

import numpy as np
import pytest

import sweepgrad as sg

xp = sg.numpy

#: The standard's functions by chapter.
NAMES = """
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like
tril triu zeros zeros_like astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype
result_type abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh
divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan
less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor
maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
round sign signbit sin sinh square sqrt subtract tan tanh trunc take take_along_axis matmul
matrix_transpose tensordot vecdot concat expand_dims flip moveaxis permute_dims repeat reshape
roll squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted where
unique_all unique_counts unique_inverse unique_values argsort sort cumulative_prod
cumulative_sum max mean min prod std sum var all any diff
""".split()
LINALG = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank
matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
""".split()
FFT = """
fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift
""".split()
CONSTANTS = "e inf nan newaxis pi".split()
DTYPES = """
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
""".split()

X = [[1.0, 3.0], [2.0, 0.5]]


def test_every_name_of_the_standard_is_there_and_no_other():
    assert [name for name in NAMES if not callable(getattr(xp, name))] == []
    assert [name for name in LINALG if not callable(getattr(xp.linalg, name))] == []
    assert [name for name in FFT if not callable(getattr(xp.fft, name))] == []
    expected = {*NAMES, *CONSTANTS, *DTYPES, "linalg", "fft"}
    expected |= {"__array_api_version__", "__array_namespace_info__"}
    assert set(xp.__all__) == expected
    assert set(xp.linalg.__all__) == set(LINALG)
    assert set(xp.fft.__all__) == set(FFT)


def test_constants_dtypes_and_inspection():
    assert xp.__array_api_version__ == "2024.12"
    assert xp.newaxis is None
    assert (xp.pi, xp.e, xp.inf) == (np.pi, np.e, np.inf)
    assert all(np.dtype(getattr(xp, name)).name == name for name in DTYPES)
    info = xp.__array_namespace_info__()
    assert info.default_device() == "cpu"
    assert set(info.dtypes()) == set(DTYPES)
    assert xp.finfo(xp.float32).eps == 2**-23
    assert type(xp.finfo(sg.tensor(X)).max) is float
    assert xp.iinfo(xp.int8).max == 127


def test_a_tensor_names_its_namespace_and_device():
    t = sg.tensor(X)
    assert t.__array_namespace__() is xp
    assert t.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(sg.SettingError, match="1999"):
        t.__array_namespace__(api_version="1999.12")
    assert t.device == "cpu"
    assert t.to_device("cpu") is t
    with pytest.raises(sg.SettingError, match="cpu"):
        t.to_device("gpu")


@pytest.mark.parametrize(
    "call",
    [
        lambda t: xp.equal(t, t), lambda t: xp.argmax(t), lambda t: xp.argsort(t),
        lambda t: xp.nonzero(t)[0], lambda t: xp.unique_counts(t.detach()).counts,
        lambda t: xp.searchsorted(t[0, :], t), lambda t: xp.all(t), lambda t: xp.isnan(t),
        lambda t: xp.zeros((2,)), lambda t: xp.arange(3), lambda t: xp.eye(2),
        lambda t: xp.full(2, 7),
        lambda t: xp.asarray([1, 2]), lambda t: xp.ones_like(t), lambda t: xp.count_nonzero(t),
        lambda t: xp.linalg.matrix_rank(t), lambda t: xp.fft.fftfreq(4),
        lambda t: ~xp.asarray([True]),
        lambda t: xp.asarray([3]) & 1, lambda t: 1 << xp.asarray([3]),
    ],
)  # fmt: skip
def test_results_without_a_gradient_are_untracked_tensors(call):
    out = call(sg.tensor(X, requires_grad=True))
    assert type(out) is sg.Tensor
    assert not out.requires_grad


@pytest.mark.parametrize(
    ("call", "gradient"),
    [
        (lambda t: xp.sum(xp.square(t)), 2 * np.array(X)),
        (lambda t: xp.sum(xp.sort(t, axis=1, descending=True) * xp.asarray([1.0, 10.0])),
         [[10, 1], [1, 10]]),
        (lambda t: xp.sum(xp.concat([t, t]) * 3.0), [[6, 6], [6, 6]]),
        (lambda t: xp.linalg.trace(xp.permute_dims(t, (1, 0))), [[1, 0], [0, 1]]),
        (lambda t: xp.sum(xp.clip(t, 1.5, 2.5)), [[0, 0], [1, 0]]),
        (lambda t: xp.sum(xp.asarray(t, copy=True)), [[1, 1], [1, 1]]),
        (lambda t: xp.sum(xp.astype(t, xp.float32)), [[1, 1], [1, 1]]),
        (lambda t: xp.sum(xp.linspace(t[0, 0], 3.0, 3)), [[1.5, 0], [0, 0]]),
        (lambda t: xp.sum(xp.full((3,), t[0, 0])), [[3, 0], [0, 0]]),
        (lambda t: xp.sum(xp.meshgrid(t[0, :], t[0, :])[0]), [[2, 2], [0, 0]]),
    ],
)  # fmt: skip
def test_gradients_flow(call, gradient):
    t = sg.tensor(X, requires_grad=True)
    np.testing.assert_allclose(call(t).backward()[t], gradient)


def test_equal_elements_keep_their_order_also_when_descending():
    x = xp.asarray([1, 2, 1, 2])
    assert xp.argsort(x, descending=True).tolist() == [1, 3, 0, 2]
    assert xp.argsort(x).tolist() == [0, 2, 1, 3]


def test_asarray_copies_shares_and_refuses_as_asked():
    array = np.array([1.0, 2.0])
    assert np.shares_memory(xp.asarray(array, copy=False).numpy(), array)
    assert not np.shares_memory(xp.asarray(array).numpy(), array)
    t = sg.tensor(array)
    assert xp.asarray(t) is t
    with pytest.raises(ValueError, match="no view"):
        xp.asarray(t, dtype=xp.float32, copy=False)
    with pytest.raises(sg.TensorTypeError):
        xp.asarray([sg.tensor(1.0, requires_grad=True)])


def test_sets_of_a_tracked_tensor_are_refused_by_name():
    t = sg.tensor(X, requires_grad=True)
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        with pytest.raises(sg.NoGradientRuleError, match=name):
            getattr(xp, name)(t)


def test_signatures_have_the_standards_keywords():
    assert list(inspect.signature(xp.sort).parameters) == ["x", "axis", "descending", "stable"]
    assert list(inspect.signature(xp.eye).parameters)[:3] == ["n_rows", "n_cols", "k"]


def test_sums_of_small_integers_have_the_dtype_asked_for():
    x = sg.tensor(np.array([200, 100], np.uint8))
    for function, value in ((np.sum, 44), (np.prod, 200 * 100 % 256)):
        out = function(x, dtype=np.uint8)
        assert out.dtype == np.uint8
        assert out.item() == value
        assert function(x).dtype == np.uint64
    assert np.cumsum(x, dtype=np.uint8).tolist() == [200, 44]
    assert np.cumprod(x, dtype=np.uint8).dtype == np.uint8


# --- memory of other libraries ---------------------------------------------------------------


def test_dlpack_shares_memory_both_ways():
    array = np.array([1.0, 2.0])
    t = sg.from_dlpack(array)
    assert np.shares_memory(t.numpy(), array)
    back = np.from_dlpack(t)
    assert np.shares_memory(back, array)
    assert not back.flags.writeable
    assert t.__dlpack_device__() == array.__dlpack_device__()
    leaf = sg.from_dlpack(array, requires_grad=True, copy=True)
    array[0] = 5.0
    assert leaf.tolist() == [1.0, 2.0]
    assert (leaf * 2).sum().backward()[leaf].tolist() == [2.0, 2.0]


def test_a_consumer_that_cannot_be_told_of_read_only_memory_gets_a_copy():
    class Old:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **_):
            return self.tensor.__dlpack__()

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    t = sg.tensor([1.0, 2.0])
    assert not np.shares_memory(np.from_dlpack(Old(t)), t.numpy())
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__(copy=False)


def test_a_tracked_tensor_is_not_handed_over_silently():
    t = sg.tensor([1.0], requires_grad=True)
    with pytest.raises(sg.TensorTypeError, match=r"detach\(\)"):
        np.from_dlpack(t)
    assert np.from_dlpack(t.detach()).tolist() == [1.0]
