"""Functions made of others, general eigenvalues, least squares."""

import numpy as np
import pytest
from operation_cases import (
    case,
    check_differences,
    check_float32,
    check_layouts,
    check_value,
)

import sweepgrad as sg

LOOSE = {"rtol": 2e-6, "atol": 2e-6}
REAL_VALUES = [[1.0, 2.0, 0.1], [0.5, 3.0, 1.0], [0.2, 1.0, -2.0]]
COORDINATES = [0.0, 1.0, 3.0, 3.5]


def _parts(w):
    return w.real * 2 + w.imag**2 if w.dtype.kind == "c" else w


CASES = [
    case("gradient", np.gradient, (5,)),
    case("gradient of both axes", lambda x: np.multiply(*np.gradient(x)), (3, 4)),
    case("gradient along one axis", lambda x: np.gradient(x, 2.0, axis=1, edge_order=2), (2, 4)),
    case("gradient by spacing", np.gradient, (4,), 2.0),
    case("gradient by coordinates", np.gradient, (4,), COORDINATES),
    case(
        "gradient by coordinates, second order at the ends",
        lambda x, c: np.gradient(x, c, edge_order=2),
        (4,),
        COORDINATES,
    ),
    case("ediff1d", lambda x, y: np.ediff1d(x, y, y[:1]), (2, 2), (2,)),
    case("cov", np.cov, (3, 4)),
    case("cov of one", np.cov, (4,)),
    case("cov of two", lambda x, y: np.cov(x, y, rowvar=False, bias=True), (4, 2), (4,)),
    case(
        "cov with weights",
        lambda x, w: np.cov(x, fweights=np.array([1, 3, 2, 1]), aweights=w),
        (2, 4),
        [0.3, 1.2, 0.7, 2.0],
    ),
    case("corrcoef", np.corrcoef, (2, 5)),
    case("polyval", np.polyval, (3,), (2, 2)),
    case("vander", np.vander, (3,)),
    case("vander, increasing", lambda x: np.vander(x, 2, increasing=True), (3,)),
    case(
        "sliding_window_view",
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2)),
        (3, 3),
    ),
    case(
        "sliding_window_view along one axis",
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=0),
        (3, 2),
    ),
    case("eigvals, complex", lambda x: _parts(np.linalg.eigvals(x)), (2, 3, 3), **LOOSE),
    case("eigvals, real", lambda x: np.linalg.eigvals(x).real, REAL_VALUES, **LOOSE),
    case("eig, complex", lambda x: np.abs(np.linalg.eig(x)[1]), (3, 3), **LOOSE),
    case("eig, real", lambda x: np.abs(np.linalg.eig(x)[1]), REAL_VALUES, **LOOSE),
    case("lstsq", lambda a, b: np.linalg.lstsq(a, b)[0], (4, 2), (4,), **LOOSE),
    case("lstsq, residuals", lambda a, b: np.linalg.lstsq(a, b)[1], (4, 2), (4, 2), **LOOSE),
    case("lstsq, wide", lambda a, b: np.linalg.lstsq(a, b)[0], (2, 3), (2, 2), **LOOSE),
    case("tensorinv", np.linalg.tensorinv, (2, 2, 4), **LOOSE),
    case("tensorinv of one axis", lambda a: np.linalg.tensorinv(a, 1), (4, 2, 2), **LOOSE),
    case("tensorsolve", np.linalg.tensorsolve, (2, 2, 4), (2, 2), **LOOSE),
    case(
        "tensorsolve over axes",
        lambda a, b: np.linalg.tensorsolve(a, b, axes=(0,)),
        (4, 2, 2),
        (2, 2),
        **LOOSE,
    ),
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


def test_least_squares_tells_rank_and_singular_values():
    a = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    solution, residuals, rank, values = np.linalg.lstsq(
        sg.tensor(a, requires_grad=True), np.ones(3)
    )
    np.testing.assert_allclose(solution.numpy(), [1, 0], atol=1e-15)
    assert residuals.shape == (0,)
    assert rank == 1
    np.testing.assert_allclose(values.numpy(), [np.sqrt(2), 0])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda t: np.gradient(t, 1.0, 2.0, 3.0), "3 spacings for 2 axes"),
        (lambda t: np.gradient(t, [1.0], [1.0, 2.0]), "one coordinate for each element"),
        (lambda t: np.gradient(t, edge_order=2), "at least 3 elements"),
        (lambda t: np.gradient(t, edge_order=3), "edge_order is 1 or 2"),
        (lambda t: np.cov(t[None]), "one variable or a matrix"),
        (lambda t: np.vander(t), "takes a vector"),
        (lambda t: np.linalg.eig(t[:1]), "square matrices"),
        (lambda t: np.linalg.lstsq(t, t[None]), "a matrix and a vector"),
        (lambda t: np.linalg.tensorinv(t, 0), "first group"),
        (lambda t: np.linalg.tensorsolve(t, np.ones(1)), "equally many"),
    ],
)
def test_arguments_that_do_not_fit_are_named(call, said):
    with pytest.raises(sg.ShapeError, match=said):
        call(sg.tensor(np.eye(2), requires_grad=True))
