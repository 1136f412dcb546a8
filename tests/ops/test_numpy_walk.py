"""Every function and ufunc of NumPy that can be overridden: offered, or refused by name.

None gives an object array, or a plain array of numbers that depends on a tracked
tensor; plain results are booleans, integers and constants.
"""

import contextlib
import inspect
import re
import warnings
from typing import Any

import numpy as np
import pytest
from case_tables import TABLES
from numpy.testing.overrides import (
    get_overridable_numpy_array_functions,
    get_overridable_numpy_ufuncs,
)
from recording import recorded

import sweepgrad as sg
from sweepgrad.ops.install import public_operations
from sweepgrad.ops.numpy_protocol import (
    FUNCTIONS,
    UFUNCS,
    UNTRACKED_FUNCTIONS,
    UNTRACKED_UFUNCS,
)

X = np.array([[0.5, 2.0, 1.5], [1.0, 3.0, 0.25]])
COMPLETE = frozenset({"copyto", "fill_diagonal", "piecewise", "place", "put", "put_along_axis",
                      "putmask"})  # fmt: skip

#: How to call the functions whose results have no gradient, where one tensor is not enough.
ARGUMENTS: dict[str, Any] = {
    "allclose": lambda f, t: f(t, t),
    "argpartition": lambda f, t: f(t, 1),
    "array_equal": lambda f, t: f(t, t),
    "array_equiv": lambda f, t: f(t, t),
    "can_cast": lambda f, t: f(t, np.float64),
    "diag_indices_from": lambda f, t: f(t[:, :2]),
    "digitize": lambda f, t: f(t, [0.0, 1.0]),
    "einsum_path": lambda f, t: f("ij->", t),
    "empty_like": lambda f, t: np.isnan(f(t)),
    "isclose": lambda f, t: f(t, t),
    "isin": lambda f, t: f(t, t),
    "lexsort": lambda f, t: f((t[0], t[1])),
    "may_share_memory": lambda f, t: f(t, t),
    "ravel_multi_index": lambda f, t: f(([1], [2]), (2, 3)),
    "searchsorted": lambda f, t: f(t[0], 1.0),
    "shares_memory": lambda f, t: f(t, t),
    "unravel_index": lambda f, t: f(2, (2, 3)),
    "vander": lambda f, t: f(t[0]),
}


def name_of(function):
    module = (getattr(function, "__module__", None) or "numpy").removeprefix("numpy").strip(".")
    return f"{module}.{function.__name__}".strip(".").removeprefix("_core.umath.")


def tracked(value=X):
    return sg.tensor(value, requires_grad=True)


def parts(result):
    """What a result is made of."""
    if isinstance(result, (tuple, list)):
        for item in result:
            yield from parts(item)
    else:
        yield result


FUNCTIONS_OF_NUMPY = sorted(get_overridable_numpy_array_functions(), key=name_of)
UFUNCS_OF_NUMPY = sorted(get_overridable_numpy_ufuncs(), key=name_of)


@pytest.fixture(scope="module")
def calls():
    """NumPy's functions that the tables of cases call, with the arguments of one call."""
    public = set(public_operations().values())
    with recorded() as seen:
        for case in (case for table in TABLES.values() for case in table):
            operands = [sg.tensor(array) for array in case.arrays]
            if case.function in public:
                seen.note(case.function, None, tuple(operands))
            case.function(*operands)
    return seen.by_operation


# --- functions ------------------------------------------------------------------------------


def test_every_function_offered_is_in_a_table_that_checks_its_gradient(calls):
    unseen = {name_of(f) for f, op in FUNCTIONS.items() if op not in calls}
    without_gradient = {"argmax", "argmin", "argsort"}
    assert unseen == COMPLETE | without_gradient


@pytest.mark.parametrize(
    "function", [f for f in FUNCTIONS_OF_NUMPY if f in UNTRACKED_FUNCTIONS], ids=name_of
)
def test_results_without_a_gradient_are_booleans_integers_or_constants(function):
    results = []
    for shift in (0.0, 1e-9):
        t = tracked(X + shift)
        name = function.__name__
        call = ARGUMENTS.get(name, lambda f, t: f(t))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results.append(list(parts(call(function, t))))
    for one, other in zip(*results, strict=True):
        assert not isinstance(one, sg.Tensor)
        assert getattr(one, "dtype", None) != np.dtype(object)
        if isinstance(one, (np.ndarray, float)) and np.asarray(one).dtype.kind in "fc":
            np.testing.assert_array_equal(one, other)  # it does not depend on the operand


@pytest.mark.parametrize(
    "function",
    [f for f in FUNCTIONS_OF_NUMPY if f not in FUNCTIONS and f not in UNTRACKED_FUNCTIONS],
    ids=name_of,
)
def test_a_function_that_is_not_offered_is_refused_by_name_with_the_way_out(function):
    t = tracked()
    with pytest.raises(sg.NoGradientRuleError) as refused:
        t.__array_function__(function, (sg.Tensor,), (t,), {})
    said = str(refused.value)
    assert f"np.{function.__name__}" in said
    assert "detach()" in said
    assert re.search(r"use \S+|nearest function offered is np\.\w+", said)
    before = list(t.numpy().flat)
    # Called as users do, it is refused as well, for that or for its other arguments.
    with contextlib.suppress(sg.SweepgradError, TypeError, ValueError, AttributeError, OSError):
        result = function(t)
        assert np.asarray(result).dtype.kind not in "fcO", result
    assert list(t.numpy().flat) == before


def test_what_is_named_instead_is_offered():
    from sweepgrad.ops.numpy_protocol import INSTEAD

    for text in INSTEAD.values():
        for name in set(re.findall(r"np\.((?:\w+\.)*\w+)", text)) - {"unique", "arange"}:
            function = np
            for part in name.split("."):
                function = getattr(function, part)
            offered = function in FUNCTIONS or function in UNTRACKED_FUNCTIONS
            assert offered or function in UFUNCS, name
        for name in re.findall(r"sweepgrad\.(\w+)\(", text):
            assert hasattr(sg, name), name


def test_every_function_that_takes_out_refuses_it(calls):
    """An array to write the result into would be out of the graph."""
    checked = 0
    for function, operation in FUNCTIONS.items():
        found = calls.get(operation)
        if found is None or "out" not in inspect.signature(operation).parameters:
            continue
        _, args, kwargs = found
        with pytest.raises(sg.NoGradientRuleError, match="out="):
            operation(*args, **{**kwargs, "out": np.zeros(())})
        checked += 1
        del function
    assert checked > 40


@pytest.mark.parametrize(
    "function",
    [np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require,
     lambda t: np.full((2, 3), t), lambda t: np.array([t, t]),
     lambda t: np.ma.masked_array(t), lambda t: np.zeros((2, 3)).__iadd__(t),
     lambda t: np.zeros((2, 3)).__setitem__(0, t[0]), lambda t: np.copyto(np.zeros((2, 3)), t)],
)  # fmt: skip
def test_no_conversion_takes_the_value_out_of_the_graph(function):
    with pytest.raises(sg.SweepgradError):
        function(tracked())


# --- ufuncs ---------------------------------------------------------------------------------


def attempt(call):
    """The result, or None where it was refused, by us or by NumPy's own checks of arguments."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except sg.NoGradientRuleError as error:
        assert "np." in str(error)  # noqa: PT017
    except (sg.SweepgradError, TypeError, ValueError, RuntimeError):
        pass
    return None


def check_kind(ufunc, result):
    for part in parts(result):
        if isinstance(part, sg.Tensor) or part is None:
            continue
        assert part.dtype.kind in "bi", (ufunc, part)
        assert ufunc in UNTRACKED_UFUNCS or ufunc is np.frexp


@pytest.mark.parametrize("ufunc", UFUNCS_OF_NUMPY, ids=name_of)
def test_a_ufunc_is_offered_or_refused_by_name(ufunc):
    t = tracked(X[:, :2] if ufunc in (np.matmul, np.vecmat) else X)
    offered = ufunc in UFUNCS or ufunc in UNTRACKED_UFUNCS
    if not offered:
        with pytest.raises(sg.NoGradientRuleError, match=re.escape(f"np.{ufunc.__name__}")):
            t.__array_ufunc__(ufunc, "__call__", *[t] * ufunc.nin)
        return
    arguments: list[Any] = [t] * ufunc.nin
    if ufunc is np.ldexp:
        arguments[1] = np.ones((2, 3), int)
    if ufunc is np.arccosh:
        arguments[0] = t + 1.0
    if ufunc in (np.arcsin, np.arccos, np.arctanh):
        arguments[0] = t / 4.0
    for place in range(ufunc.nin - (ufunc is np.ldexp)):
        mixed = [plain if index != place else arguments[place]
                 for index, plain in enumerate([np.array(t.detach())] * ufunc.nin)]  # fmt: skip
        mixed = [mixed[0], arguments[1]] if ufunc is np.ldexp else mixed
        result = ufunc(*mixed)
        check_kind(ufunc, result)
        if ufunc in UFUNCS:
            assert any(isinstance(part, sg.Tensor) and part.requires_grad for part in parts(result))


@pytest.mark.parametrize("method", ["reduce", "accumulate", "reduceat", "outer", "at"])
def test_a_method_of_a_ufunc_is_offered_or_refused_by_name(method):
    for ufunc in UFUNCS_OF_NUMPY:
        check_method(ufunc, method)


def check_method(ufunc, method):
    arguments = {"reduceat": ([0],), "outer": (X,), "at": (0, 1.0)}.get(method, ())
    t = tracked()
    result = attempt(lambda: getattr(ufunc, method)(t, *arguments))
    check_kind(ufunc, result)
    if isinstance(result, sg.Tensor):
        assert result.requires_grad
    if method == "at":
        assert result is None
    assert t.tolist() == X.tolist()
    # An array on the left, the tensor among the rest.
    array = X.copy()
    other = {"reduceat": None, "outer": (t,), "at": (0, t[0])}.get(method)
    if other is not None:
        check_kind(ufunc, attempt(lambda: getattr(ufunc, method)(array, *other)))
    assert array.tolist() == X.tolist()


def test_a_ufunc_writes_into_no_array_and_leaves_nothing_uninitialised():
    for ufunc in UFUNCS_OF_NUMPY:
        check_keywords(ufunc)


def check_keywords(ufunc):
    t = tracked()
    out = np.full((2, 3), 7.0)
    for keywords in ({"out": out}, {"out": (out,)}, {"where": X > 1}):
        if ufunc.nout > 1:
            keywords = {"out": (out,) * ufunc.nout} if "out" in keywords else keywords
        result = attempt(lambda: ufunc(*[t] * ufunc.nin, **keywords))  # noqa: B023
        assert result is None or ufunc in UNTRACKED_UFUNCS
    assert (out == 7.0).all()


# --- arguments ------------------------------------------------------------------------------

#: Arguments that choose between results, so that a gradient would be 0 wherever it exists.
CHOICES = {"axis", "axisa", "axisb", "axisc", "condition", "condlist", "ignore_index", "ind", "k",
           "tol"}  # fmt: skip

#: Arguments without influence in the calls of the tables.
INERT = {("trapezoid", "dx")}


def replaced(operation, args, kwargs):
    """The call, once with each number or array of numbers in it as a tracked tensor."""
    signature = inspect.signature(operation)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    for name, value in given.items():
        if type(value) in (float, int) or isinstance(value, (np.ndarray, list)):
            try:
                leaf = sg.tensor(np.array(value, float), requires_grad=True)
            except (TypeError, ValueError):
                continue
            bound.arguments[name] = leaf
            yield name, bound.args, bound.kwargs
            bound.arguments[name] = value


def test_no_argument_of_an_operation_leaves_the_graph_silently(calls):
    """A tracked tensor in the place of a setting gets its gradient, or is refused."""
    leaks, tried = [], 0
    for operation, (_, args, kwargs) in calls.items():
        for name, values, keywords in replaced(operation, args, kwargs):
            tried += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    result = operation(*values, **keywords)
                except (TypeError, ValueError, IndexError, AttributeError):
                    continue  # refused
            tracked_ = any(isinstance(p, sg.Tensor) and p.requires_grad for p in parts(result))
            if tracked_ or name in CHOICES or (operation.__name__, name) in INERT:
                continue
            leaks.append(f"{operation.__name__}({name}=...)")
    assert tried > 150
    assert leaks == []
