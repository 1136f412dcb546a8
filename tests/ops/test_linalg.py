"""Products and linear algebra: both orders, batches, broadcasting, singular and repeated values."""

import numpy as np
import pytest
from finite_differences import check_gradients
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from operation_cases import (
    Case,
    case,
    check_differences,
    check_float32,
    check_layouts,
    check_value,
)

import sweepgrad as sg

MATMULS = [
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((3,), (2, 3, 2)),
    ((2, 2, 3), (3,)),
    ((2, 2, 3), (3, 2)),
    ((2, 3), (2, 3, 2)),
    ((2, 2, 3), (2, 3, 2)),
    ((1, 2, 3), (2, 3, 2)),
    ((2, 1, 1, 3), (2, 3, 2)),
]

EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("iji->j", (2, 3, 2)),
    ("iii->i", (2, 2, 2)),
    ("ii,jj->ij", (2, 2), (3, 3)),
    ("ij->", (2, 3)),
    ("ij,k->", (2, 3), (2,)),
    ("ij,kl->ik", (2, 3), (2, 4)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("bi,ij,bj->b", (3, 2), (2, 2), (3, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 2), (2, 2)),
    ("...ij,...jk->...ik", (2, 2, 3), (3, 2)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)),
    ("...->...", (2, 3)),
    ("i...->...", (2, 3)),
    ("i...,j...->ij...", (2, 3), (2, 1)),
    ("i...i->...", (2, 3, 2)),
    ("ij,ij->i", (1, 3), (2, 3)),
    ("ij,ij->j", (2, 1), (2, 3)),
    ("ij,jk->k", (2, 1), (3, 2)),
    (",i->i", (), (3,)),
    (" i j , j k -> i k ", (2, 2), (2, 2)),
]


def _symmetric(x):
    return (x + np.swapaxes(x, -1, -2)) / 2


def _positive(x):
    return x @ np.swapaxes(x, -1, -2) + np.eye(x.shape[-1], dtype=x.dtype)


def _solved_triangle(triangle):
    return lambda a, b: np.linalg.solve(triangle(a), b)


LOOSE = {"rtol": 2e-6, "atol": 2e-6}

CASES = [
    *[case(f"matmul {a} {b}", np.matmul, a, b) for a, b in MATMULS],
    *[
        case(f"dot {a} {b}", np.dot, a, b)
        for a, b in [*MATMULS[:4], ((2, 3), (2, 3, 2)), ((), (2,))]
    ],
    case("tensordot", lambda x, y: np.tensordot(x, y, ([0, 2], [1, 0])), (2, 3, 2), (2, 2, 3)),
    case("tensordot 1", lambda x, y: np.tensordot(x, y, 1), (2, 3), (3, 2)),
    case("tensordot 0", lambda x, y: np.tensordot(x, y, 0), (2, 2), (2,)),
    case("tensordot -1", lambda x, y: np.tensordot(x, y, (-1, -2)), (2, 3), (2, 3, 2)),
    case("inner", np.inner, (2, 3), (2, 2, 3)),
    case("inner with a scalar", np.inner, (), (2, 2)),
    case("outer", np.outer, (2, 2), (3,)),
    case("vdot", np.vdot, (2, 3), (6,)),
    case("vecdot", np.vecdot, (2, 3), (3,)),
    case("vecdot along an axis", lambda x, y: np.linalg.vecdot(x, y, axis=0), (3, 2), (3, 2)),
    case("matvec", sg.matvec, (2, 2, 3), (3,), reference=lambda a, v: a @ v),
    case("vecmat", sg.vecmat, (2, 3), (3, 2), reference=lambda v, a: v @ a),
    case("kron", np.kron, (2, 3), (2, 2)),
    case("kron of unlike ranks", np.kron, (2,), (2, 1, 2)),
    case("cross", np.cross, (2, 3), (3,)),
    case("cross along axes", lambda x, y: np.cross(x, y, axisa=0, axisc=0), (3, 2), (2, 3)),
    case("multi_dot", lambda *x: np.linalg.multi_dot(x), (2, 3), (3, 2), (2, 3)),
    *[
        case(f"einsum {text} {shapes}", lambda *x, s=text: np.einsum(s, *x), *shapes)
        for text, *shapes in EINSUMS
    ],
    case("einsum of one tensor twice", lambda x: np.einsum("ij,kj->ik", x, x), (2, 3)),
    case(
        "einsum with labels", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [0, 2]), (2, 3), (3, 2)
    ),
    case(
        "einsum with labels and ...",
        lambda x, y: np.einsum(x, [..., 1], y, [1, ...]),
        (2, 3),
        (3, 2),
    ),
    case(
        "einsum optimized",
        lambda *x: np.einsum("ij,jk,kl->il", *x, optimize=True),
        (2, 3),
        (3, 2),
        (2, 2),
    ),
    case("inv", np.linalg.inv, (2, 3, 3), **LOOSE),
    case("solve for a vector", np.linalg.solve, (3, 3), (3,), **LOOSE),
    case("solve for one vector by a stack", np.linalg.solve, (2, 3, 3), (3,), **LOOSE),
    case("solve for matrices", np.linalg.solve, (2, 3, 3), (3, 2), **LOOSE),
    case("solve for a stack by one", np.linalg.solve, (3, 3), (2, 3, 2), **LOOSE),
    case(
        "solve_triangular, lower",
        lambda a, b: sg.solve_triangular(_positive(a), b, lower=True),
        (3, 3),
        (3, 2),
        reference=lambda a, b: np.linalg.solve(np.tril(_positive(a)), b),
        **LOOSE,
    ),
    case(
        "solve_triangular, unit diagonal",
        lambda a, b: sg.solve_triangular(a, b, unit_diagonal=True),
        (3, 3),
        (3,),
        reference=lambda a, b: np.linalg.solve(np.triu(a, 1) + np.eye(3), b),
        **LOOSE,
    ),
    case("det", np.linalg.det, (2, 3, 3), **LOOSE),
    case("det of one number", np.linalg.det, (1, 1), **LOOSE),
    case("logabsdet", lambda x: np.linalg.slogdet(x)[1], (2, 3, 3), **LOOSE),
    case("cholesky", lambda x: np.linalg.cholesky(_positive(x)), (2, 3, 3), **LOOSE),
    case(
        "cholesky, upper", lambda x: np.linalg.cholesky(_positive(x), upper=True), (3, 3), **LOOSE
    ),
    *[
        case(
            f"matrix_power {n}",
            lambda x, n=n: np.linalg.matrix_power(_positive(x), n),
            (2, 2),
            **LOOSE,
        )
        for n in (-2, -1, 1, 2, 3, 5)
    ],
    case("pinv of tall", np.linalg.pinv, (4, 2), **LOOSE),
    case("pinv of wide", np.linalg.pinv, (2, 2, 3), **LOOSE),
    *[
        case(f"eigh {part}", lambda x, p=part: np.linalg.eigh(_symmetric(x))[p], (2, 3, 3), **LOOSE)
        for part in (0, 1)
    ],
    case(
        "eigvalsh of the upper triangle",
        lambda x: np.linalg.eigvalsh(_symmetric(x), "U"),
        (3, 3),
        **LOOSE,
    ),
    *[
        case(
            f"svd {shape} {part}",
            lambda x, p=part: np.linalg.svd(x, full_matrices=False)[p],
            shape,
            **LOOSE,
        )
        for shape in ((3, 3), (2, 4, 2), (2, 3))
        for part in (0, 1, 2)
    ],
    case("svdvals", np.linalg.svdvals, (2, 3, 2), **LOOSE),
    *[
        case(f"qr {shape} {part}", lambda x, p=part: np.linalg.qr(x)[p], shape, **LOOSE)
        for shape in ((3, 3), (2, 4, 2), (2, 3))
        for part in (0, 1)
    ],
    case("qr, r alone", lambda x: np.linalg.qr(x, "r"), (3, 2), **LOOSE),
    *[
        case(
            f"norm {order} {axis}",
            lambda x, o=order, a=axis: np.linalg.norm(x, o, a),
            (3, 4),
            **LOOSE,
        )
        for order, axis in [
            *[(order, None) for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
            *[(order, 1) for order in (None, 0, 1, 2, 3, np.inf, -np.inf)],
        ]
    ],
    *[
        case(
            f"norm {order}",
            lambda x, o=order: np.linalg.norm(x, o),
            [0.7, -1.3, 2.1, -0.4],
            **LOOSE,
        )
        for order in (0.5, -1, 2.5)
    ],
    case(
        "norm with kept axes", lambda x: np.linalg.norm(x, "nuc", (2, 0), True), (3, 2, 2), **LOOSE
    ),
    case("vector_norm", lambda x: np.linalg.vector_norm(x, axis=(0, 2), ord=3), (2, 3, 2), **LOOSE),
    case(
        "matrix_norm", lambda x: np.linalg.matrix_norm(x, keepdims=True, ord=1), (2, 3, 2), **LOOSE
    ),
    *[
        case(f"cond {p}", lambda x, p=p: np.linalg.cond(_positive(x), p), (2, 2, 2), **LOOSE)
        for p in (None, -2, 1, "fro")
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


# --- products -------------------------------------------------------------------------------


@given(
    hnp.mutually_broadcastable_shapes(
        signature="(n?,k),(k,m?)->(n?,m?)", max_dims=3, min_side=0, max_side=3
    ),
    st.integers(0, 2**32 - 1),
)
def test_the_gradient_of_matmul_is_its_transposed_map_for_every_pair_of_shapes(shapes, seed):
    """⟨g, x v⟩ = ⟨dx, x⟩ = ⟨dy, y⟩, by forwards alone."""
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-4, 5, shape).astype(float) for shape in shapes.input_shapes)
    a, b = sg.tensor(x, requires_grad=True), sg.tensor(y, requires_grad=True)
    out = a @ b
    assert out.shape == shapes.result_shape
    np.testing.assert_array_equal(out.numpy(), x @ y)
    g = rng.integers(-4, 5, out.shape).astype(float)
    gradients = out.backward(g)
    u, v = (rng.integers(-4, 5, array.shape).astype(float) for array in (x, y))
    assert (gradients[a] * u).sum() == (g * (u @ y)).sum()
    assert (gradients[b] * v).sum() == (g * (x @ v)).sum()


def _random_einsum(rng):
    """Subscripts and whole-number operands: repeated letters, axes of length 1, ellipses."""
    lengths = {letter: int(rng.integers(1, 4)) for letter in "abcd"}
    extra = rng.integers(1, 4, 2).tolist()
    terms, arrays = [], []
    for _ in range(rng.integers(1, 4)):
        term = [str(letter) for letter in rng.choice(list("abcd"), rng.integers(0, 4))]
        shape = [
            lengths[letter] if term.count(letter) > 1 or rng.random() < 0.8 else 1
            for letter in term
        ]
        if rng.random() < 0.3:
            place, count = int(rng.integers(len(term) + 1)), int(rng.integers(3))
            term.insert(place, "...")
            shape[place:place] = extra[2 - count :]
        terms.append("".join(term))
        arrays.append(rng.integers(-3, 4, shape).astype(float))
    text = ",".join(terms)
    if rng.random() < 0.8:
        known = sorted(set(text) & set("abcd"))
        result = [str(letter) for letter in rng.permutation(known)[: rng.integers(5)]]
        if "..." in text:
            result.insert(rng.integers(len(result) + 1), "...")
        text += "->" + "".join(result)
    return text, arrays


def test_einsum_gives_each_operand_the_transposed_map_of_itself():
    """⟨g, einsum(…, v, …)⟩ = ⟨dx, v⟩, by forwards of NumPy's alone, exactly."""
    rng = np.random.default_rng(2)
    tried = 0
    while tried < 300:
        text, arrays = _random_einsum(rng)
        try:
            value = np.asarray(np.einsum(text, *arrays))
        except ValueError:
            continue
        tried += 1
        tensors = [sg.tensor(array, requires_grad=True) for array in arrays]
        out = np.einsum(text, *tensors, optimize=bool(tried % 2))
        np.testing.assert_array_equal(out.numpy(), value, err_msg=text)
        g = rng.integers(-3, 4, value.shape).astype(float)
        gradients = out.backward(g)
        for position, (t, array) in enumerate(zip(tensors, arrays, strict=True)):
            v = rng.integers(-3, 4, array.shape).astype(float)
            others = [*arrays[:position], v, *arrays[position + 1 :]]
            assert (gradients[t] * v).sum() == (g * np.einsum(text, *others)).sum(), text


def test_an_array_on_the_left_does_not_take_over_the_product():
    """C19."""
    t = sg.tensor([3.0, 4.0], requires_grad=True)
    out = np.eye(2) @ t
    assert type(out) is sg.Tensor
    np.testing.assert_array_equal(out.backward(np.ones(2))[t], [1, 1])
    out = [[1.0, 2.0]] @ t
    np.testing.assert_array_equal(out.backward([1.0])[t], [1, 2])
    out = np.ones((3, 2), np.float32) @ t
    assert out.dtype == np.float64
    np.testing.assert_array_equal(out.backward(np.ones(3))[t], [3, 3])


def test_each_factor_of_a_product_gets_its_own_dtype_back():
    x = sg.tensor(np.ones((2, 2)), np.float32, requires_grad=True)
    for other in (np.ones((2, 2)), np.ones(2), np.ones((3, 2, 2)), np.ones((2, 2), np.int8)):
        y = sg.tensor(other, requires_grad=other.dtype.kind == "f")
        for out in (
            x @ y,
            np.tensordot(x, y, (-1, -min(y.ndim, 2))),
            np.einsum("ij,...j->...i", x, y),
        ):
            gradients = out.backward(np.ones(out.shape, np.float32))
            assert gradients[x].dtype == np.float32
            if y.requires_grad:
                assert gradients[y].dtype == np.float64


def test_gradients_on_the_way_have_their_operands_dtype_too():
    seen = []
    x = sg.tensor(np.ones((2, 2)), np.float32, requires_grad=True)
    middle = x * np.float32(1)
    middle.register_hook(lambda gradient: seen.append(gradient.dtype))
    wide, vector, layers = np.ones((2, 2)), np.ones(2), np.ones((3, 2, 2))
    for out in (
        *(middle @ other for other in (wide, vector, layers)),
        *(other @ middle for other in (wide, vector, layers)),
        np.concatenate([middle, wide]),
        np.stack([middle, wide]),
        np.tensordot(middle, wide),
        np.einsum("ij,ij->i", middle, wide),
        np.linalg.solve(np.eye(2), middle),
        sg.conv1d(middle, np.ones((1, 2, 1))),
    ):
        assert out.dtype == np.float64
        out.backward(np.ones(out.shape), retain_graph=True)
    assert seen == [np.float32] * 12


def test_an_empty_inner_axis_sums_to_zero():
    x = sg.tensor(np.ones((2, 0)), requires_grad=True)
    y = sg.tensor(np.ones((0, 3)), requires_grad=True)
    for out in (x @ y, np.dot(x, y), np.einsum("ij,jk", x, y), np.tensordot(x, y, 1)):
        np.testing.assert_array_equal(out.numpy(), np.zeros((2, 3)))
        gradients = out.backward(np.ones((2, 3)))
        assert gradients[x].shape == (2, 0)
        assert gradients[y].shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda t: t @ t, r"\(2, 3\) and \(2, 3\): the last axis .* length 3.* length 2"),
        (lambda t: t @ 2.0, r"use \* to multiply by a scalar"),
        (lambda t: np.ones((4, 2, 2)) @ t[None][[0, 0, 0]], "leading axes"),
        (lambda t: np.tensordot(t, t, 1), r"tensordot of shape \(2, 3\), \(2, 3\)"),
        (lambda t: np.einsum("ij,ij", t), "names 2 operands but got 1"),
        (lambda t: np.einsum("ijk", t), "do not fit an operand with 2 axes"),
        (lambda t: np.einsum("ij->ik", t), "must occur in an operand"),
        (lambda t: np.einsum("ij->ii", t), "only once"),
        (lambda t: np.einsum("ii", t), "einsum ii-> of shapes"),
        (lambda t: np.cross(t[:, :2], t[:, :2]), "3 components"),
        (lambda t: np.vecdot(t, t[:, :2]), "lengths along axis -1 differ"),
        (lambda t: np.linalg.inv(t), "square matrices"),
        (lambda t: np.linalg.det(t[0]), "square matrices"),
        (lambda t: np.linalg.norm(t[None]), ""),
        (lambda t: np.linalg.norm(t, 3), "a matrix norm has order"),
        (lambda t: np.linalg.norm(t, "nuc", 0), "one of matrices"),
        (lambda t: np.linalg.norm(t[None], 1), "over 3 axes"),
    ],
)
def test_shapes_and_orders_that_do_not_fit_are_named(call, said):
    t = sg.tensor(np.ones((2, 3)), requires_grad=True)
    if not said:  # all elements as one vector, whatever the rank
        assert call(t).item() == pytest.approx(np.sqrt(6))
        return
    with pytest.raises(sg.ShapeError, match=said):
        call(t)


# --- determinants ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "cofactors"),
    [
        ([[1.0, 2.0], [2.0, 4.0]], [[4, -2], [-2, 1]]),
        ([[0.0, 0.0], [0.0, 0.0]], [[0, 0], [0, 0]]),
        ([[0.0]], [[1]]),
        ([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]], [[4, 4, -4], [-2, -2, 2], [0, 0, 0]]),
        ([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]], [[-3, 6, -3], [6, -12, 6], [-3, 6, -3]]),
    ],
)
def test_the_gradient_of_a_singular_determinant_is_its_cofactors(matrix, cofactors):
    x = sg.tensor(matrix, requires_grad=True)
    np.testing.assert_allclose(np.linalg.det(x).backward()[x], cofactors, atol=1e-13)
    check_gradients(np.linalg.det, np.array(matrix), atol=1e-7)


def test_a_stack_of_regular_and_singular_matrices_has_all_its_cofactors():
    x = sg.tensor([[[1.0, 2], [3, 4]], [[1, 1], [1, 1]]], requires_grad=True)
    gradient = np.linalg.det(x).backward([1.0, 2.0])[x]
    np.testing.assert_allclose(gradient, [[[4, -3], [-2, 1]], [[2, -2], [-2, 2]]], atol=1e-13)


def test_the_sign_of_a_determinant_is_untracked():
    sign, logabsdet = np.linalg.slogdet(sg.tensor(-np.eye(3), requires_grad=True))
    assert sign.item() == -1.0
    assert not sign.requires_grad
    assert logabsdet.requires_grad


def test_a_singular_matrix_has_no_inverse():
    x = sg.tensor(np.ones((2, 2)), requires_grad=True)
    for function in (np.linalg.inv, lambda t: np.linalg.solve(t, np.ones(2)), np.linalg.cholesky):
        with pytest.raises(np.linalg.LinAlgError):
            function(x)


# --- decompositions -------------------------------------------------------------------------


def test_only_one_triangle_is_read_but_the_gradient_is_symmetric():
    a = np.array([[4.0, 1.0], [1.0, 3.0]])
    for function in (np.linalg.cholesky, np.linalg.eigvalsh):
        x = sg.tensor(a, requires_grad=True)
        gradient = function(x).backward(np.ones(function(a).shape))[x]
        np.testing.assert_allclose(gradient, gradient.T)


@pytest.mark.parametrize("function", [np.linalg.eigh, np.linalg.svd], ids=["eigh", "svd"])
def test_a_function_of_repeated_values_that_has_a_gradient_gets_it(function):
    """v f(w) vᵀ does not depend on the choice of v; with f = square its gradient is 2 x."""
    a = np.diag([2.0, 2.0, 2.0])
    x = sg.tensor(a, requires_grad=True)
    if function is np.linalg.eigh:
        w, v = np.linalg.eigh(x)
        value = v @ (w**2 * v).T
    else:
        u, s, vh = np.linalg.svd(x)
        value = (u * s) @ (vh @ x)
    gradient = np.trace(value).backward()[x]
    np.testing.assert_allclose(gradient, 2 * a, atol=1e-12)


def test_singular_values_of_a_matrix_without_full_rank_have_gradients():
    x = sg.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]], requires_grad=True)
    gradient = np.linalg.svdvals(x).backward([1.0, 0.0])[x]
    np.testing.assert_allclose(gradient, [[1, 0], [0, 0], [0, 0]], atol=1e-15)


def test_the_additional_columns_of_a_full_svd_have_no_gradient():
    x = sg.tensor(np.random.default_rng(0).normal(size=(4, 2)), requires_grad=True)
    u, _, _ = np.linalg.svd(x)
    assert u.shape == (4, 4)
    thin = np.linalg.svd(x, full_matrices=False)[0]
    seed = np.ones((4, 4))
    with pytest.raises(sg.NoGradientRuleError, match="full_matrices=False"):
        u.backward(seed, retain_graph=True)
    seed[:, 2:] = 0
    np.testing.assert_allclose(u.backward(seed)[x], thin.backward(seed[:, :2])[x])


def test_the_raw_qr_is_refused_with_the_way_out():
    x = sg.tensor(np.random.default_rng(0).normal(size=(3, 2)), requires_grad=True)
    with pytest.raises(sg.NoGradientRuleError, match='mode="reduced"'):
        np.linalg.qr(x, "raw")
    wide = np.linalg.qr(x.T, "complete")
    assert wide.Q.shape == (2, 2)


def test_results_are_named_as_numpys():
    x = sg.tensor(np.eye(2), requires_grad=True)
    assert np.linalg.eigh(x).eigenvalues.shape == (2,)
    assert np.linalg.svd(x).S.shape == (2,)
    assert np.linalg.qr(x).R.shape == (2, 2)
    assert np.linalg.slogdet(x).logabsdet.item() == 0.0


def test_the_zeroth_power_of_a_matrix_is_constant():
    x = sg.tensor([[1.0, 2], [3, 4]], requires_grad=True)
    out = np.linalg.matrix_power(x, 0)
    np.testing.assert_array_equal(out.numpy(), np.eye(2))
    np.testing.assert_array_equal(out.backward(np.ones((2, 2)))[x], np.zeros((2, 2)))


# --- norms ----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [None, 1, 2, 3, 0.5, "fro"])
def test_the_norm_of_zeros_has_gradient_zero(order):
    for x, axis in ((np.zeros(3), None), (np.zeros((2, 2)), None), (np.zeros((2, 2)), 0)):
        if (order == "fro" and (x.ndim == 1 or axis == 0)) or (
            x.ndim == 2 and axis is None and order in (2, 3, 0.5)
        ):
            continue
        t = sg.tensor(x, requires_grad=True)
        out = np.linalg.norm(t, order, axis)
        np.testing.assert_array_equal(out.numpy(), np.zeros(out.shape))
        np.testing.assert_array_equal(out.backward(np.ones(out.shape))[t], np.zeros(x.shape))


def test_ties_of_a_norm_share_the_gradient():
    x = sg.tensor([3.0, -3.0, 1.0], requires_grad=True)
    np.testing.assert_array_equal(np.linalg.norm(x, np.inf).backward()[x], [0.5, -0.5, 0])
    x = sg.tensor([[1.0, -2.0], [-2.0, 1.0]], requires_grad=True)
    np.testing.assert_array_equal(np.linalg.norm(x, 1).backward()[x], [[0.5, -0.5], [-0.5, 0.5]])


# --- complex values -------------------------------------------------------------------------


def _complex(*shape):
    rng = np.random.default_rng(sum(shape))
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def _squared_singular_values(z):
    u, s, vh = np.linalg.svd(z, full_matrices=False)
    return (u * s**2) @ vh


COMPLEX = [
    Case("matmul", lambda z: z @ z, (_complex(2, 2),)),
    Case("vdot", lambda z: np.vdot(z, z * 2j), (_complex(3),)),
    Case("vecdot", lambda z: np.vecdot(z, z[::-1]), (_complex(2, 2),)),
    Case("einsum", lambda z: np.einsum("ij,kj->ik", z, np.conjugate(z)), (_complex(2, 2),)),
    Case("inv", np.linalg.inv, (_complex(2, 2),)),
    Case("solve", lambda z: np.linalg.solve(z, z[0]), (_complex(2, 2),)),
    Case("det", np.linalg.det, (_complex(3, 3),)),
    Case("logabsdet", lambda z: np.linalg.slogdet(z)[1], (_complex(2, 2),)),
    Case("phase", lambda z: np.linalg.slogdet(z)[0], (_complex(2, 2),)),
    Case("pinv", np.linalg.pinv, (_complex(3, 2),)),
    Case(
        "cholesky",
        lambda z: np.linalg.cholesky(z @ np.conjugate(z).mT + np.eye(2)),
        (_complex(2, 2),),
    ),
    Case(
        "cholesky upper",
        lambda z: np.linalg.cholesky(z @ np.conjugate(z).mT + np.eye(2), upper=True),
        (_complex(2, 2),),
    ),
    Case("eigvalsh", lambda z: np.linalg.eigvalsh(z + np.conjugate(z).mT), (_complex(3, 3),)),
    Case("eigh", lambda z: np.abs(np.linalg.eigh(z + np.conjugate(z).mT)[1]), (_complex(3, 3),)),
    Case("svdvals", np.linalg.svdvals, (_complex(3, 2),)),
    Case("svd left", lambda z: np.abs(np.linalg.svd(z, full_matrices=False)[0]), (_complex(3, 2),)),
    Case(
        "svd right", lambda z: np.abs(np.linalg.svd(z, full_matrices=False)[2]), (_complex(2, 3),)
    ),
    Case("svd together", _squared_singular_values, (_complex(3, 2),)),
    Case("qr q", lambda z: np.linalg.qr(z)[0], (_complex(3, 2),)),
    Case("qr r", lambda z: np.linalg.qr(z)[1], (_complex(3, 2),)),
    Case("norm", np.linalg.norm, (_complex(2, 2),)),
    Case("norm 3", lambda z: np.linalg.norm(z, 3, 0), (_complex(2, 2),)),
    Case("nuclear norm", lambda z: np.linalg.norm(z, "nuc"), (_complex(2, 2),)),
]


@pytest.mark.parametrize("one", COMPLEX, ids=str)
def test_complex_gradients_are_those_of_real_and_imaginary_part(one):
    """Both parts are real leaves; what they get by finite differences decides."""
    (z,) = one.arrays

    def parts(x, y):
        out = one.function(x + 1j * y)
        return out.real * 0.7 + out.imag * 1.3 if out.dtype.kind == "c" else out

    check_gradients(parts, z.real, z.imag, second=False, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda z: np.linalg.inv(z).real,
        lambda z: np.linalg.cholesky(z @ np.conjugate(z).mT + np.eye(2)).imag,
        lambda z: np.abs(np.linalg.eigh(z + np.conjugate(z).mT)[1]),
        lambda z: np.abs(np.linalg.svd(z)[0]),
        lambda z: np.linalg.qr(z)[1].imag,
    ],
    ids=["inv", "cholesky", "eigh", "svd", "qr"],
)
def test_second_derivatives_of_complex_decompositions_exist(function):
    z = _complex(2, 2)
    check_gradients(lambda x, y: function(x + 1j * y), z.real, z.imag, rtol=1e-5, atol=1e-5)
