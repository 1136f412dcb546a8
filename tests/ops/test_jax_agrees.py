"""Value, gradient and second gradient beside JAX, over the cases of all tables.

Run with ``-m peers`` in an environment with JAX; without it the file is not
collected (see conftest.py).  What JAX has not, or refuses, is listed in
``peers.json``, which this test compares with what it finds.
"""

import warnings

import evidence
import numpy as np
import pytest
from case_tables import COMPLEX, TABLES
from finite_differences import _weights, first_order, second_order
from jax_versions import MissingError, gradients, translated

import sweepgrad as sg

pytestmark = pytest.mark.peers

ALL = [(table, one) for table, cases in {**TABLES, "complex": COMPLEX}.items() for one in cases]

#: Where JAX's convention is another one, and why ours stays.
CONVENTIONS = dict.fromkeys(
    ("polyfit", "polyfit with weights"),
    "JAX has NaN for the gradient of x**0 at 0, and so of vander; ours is 0",
)


def check(one):
    """None where all agree; why not, where JAX has no answer.

    Where JAX has not the operation it differentiates the case's reference, a formula in
    plain NumPy.
    """
    arrays = list(one.arrays)
    outer = [_weights(position + 1, array.shape) for position, array in enumerate(arrays)]
    found = of_jax(one.function, arrays, outer)
    if isinstance(found, str) and one.reference is not one.function:
        by_formula = of_jax(one.reference, arrays, outer)
        found = found if isinstance(by_formula, str) else by_formula
    if isinstance(found, str):
        return found
    value, theirs, second = found
    out = one.function(*[sg.tensor(array) for array in arrays])
    seed = _weights(0, value.shape).astype(out.dtype)
    np.testing.assert_allclose(value, out.numpy(), rtol=1e-9, atol=1e-9)
    for mine, other in zip(first_order(one.function, arrays, seed), theirs, strict=True):
        np.testing.assert_allclose(other, mine, rtol=1e-7, atol=1e-7)
    if second is not None:
        mine_too = second_order(one.function, arrays, seed, outer)
        for mine, other in zip(mine_too, second, strict=False):
            scale = max(1.0, np.abs(mine).max(initial=0))
            np.testing.assert_allclose(other, mine, rtol=1e-6, atol=1e-6 * scale)
    return None


def of_jax(function, arrays, outer):
    """Value, gradients and second gradients by JAX, or why it has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return gradients(translated(function), arrays, lambda s: _weights(0, s), outer)
    except MissingError as error:
        return f"not in JAX: {error}"
    except (TypeError, ValueError, NotImplementedError, AttributeError, IndexError) as error:
        return f"refused by JAX: {type(error).__name__}"


@pytest.mark.parametrize(("table", "one"), ALL, ids=[f"{table}:{one}" for table, one in ALL])
def test_value_and_both_gradients_are_those_of_jax(table, one):
    reason = CONVENTIONS.get(one.name) or check(one)
    listed = evidence.peers()["jax"]["without"]
    assert listed.get(f"{table}:{one}") == reason
