"""What the tests of this folder show of each operation: the contents of docs/operations.md.

Nothing here is stated by hand: the cases are run, the operations that they call are
noted, and in each dtype the gradient is compared.
"""

import dataclasses
import functools
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from case_tables import BY_NAME, COMPLEX, TABLES
from drawn_cases import operations_drawn
from operation_cases import Case
from recording import recorded

import sweepgrad as sg
from sweepgrad.ops.catalogue import numpy_names
from sweepgrad.ops.install import public_operations

PEERS = Path(__file__).with_name("peers.json")

#: Dtypes other than float64, with the relative error allowed to a gradient.
DTYPES = {"float16": 0.1, "float32": 2e-2, "longdouble": 1e-9, "complex128": 1e-5}

#: Operations without a gradient, and why.
NO_GRADIENT = {
    "argmax": "integers have no gradient",
    "argmin": "integers have no gradient",
    "argsort": "integers have no gradient",
    "batch_statistics": "plain arrays, for running averages outside the graph",
    "nonzero": "integers have no gradient",
    "searchsorted": "integers have no gradient",
    "np.piecewise": "refused: use np.select",
    "np.copyto": "refused: it writes into its operand",
    "np.fill_diagonal": "refused: it writes into its operand",
    "np.place": "refused: it writes into its operand",
    "np.put": "refused: it writes into its operand; sweepgrad.put gives a new tensor",
    "np.put_along_axis": "refused: likewise; sweepgrad.put_along_axis gives a new tensor",
    "np.putmask": "refused: it writes into its operand",
}


@dataclasses.dataclass
class Row:
    """An operation and what is known of it.

    Attributes:
        names: in the ``sweepgrad`` namespace, else NumPy's.
        dtypes: in which its gradient was compared.
        cases: how many cases call it, each compared with finite differences to second order.
        drawn: whether a case on shapes that Hypothesis draws calls it, likewise compared.
        torch: how many samples of PyTorch's tests agree.
        by_hand: whether it is compared with PyTorch on operands of our own as well.
        jax: how many of the cases agree with JAX.
    """

    names: list[str]
    numpy: list[str]
    dtypes: list[str] = dataclasses.field(default_factory=list)
    cases: int = 0
    drawn: bool = False
    torch: int = 0
    by_hand: bool = False
    jax: int = 0

    @property
    def name(self) -> str:
        return self.names[0]


def operation_rows() -> dict[Callable[..., Any], Row]:
    """Every operation of the namespace, and those that NumPy's functions alone reach."""
    rows: dict[Callable[..., Any], Row] = {}
    numpys = numpy_names()
    for name, operation in sorted(public_operations().items()):
        if operation in rows:
            rows[operation].names.append(name)
        else:
            rows[operation] = Row([name], numpys.get(operation, []))
    for operation, names in numpys.items():
        if operation not in rows:
            rows[operation] = Row(names, names)
    return rows


def called(cases: list[Case]) -> list[set[Callable[..., Any]]]:
    """For each case the operations that it calls itself."""
    public = set(public_operations().values())
    found = []
    with recorded() as calls:
        for one in cases:
            calls.by_operation.clear()
            if one.function in public:
                calls.note(one.function)
            one.function(*[sg.tensor(array) for array in one.arrays])
            found.append(set(calls.by_operation))
    return found


#: Of a complex matrix these give another function (one triangle is read, or a phase is free);
#: COMPLEX has cases of their own.
COMPLEX_APART = ("cholesky", "eigh", "eigvalsh", "svd")


@functools.cache
def gathered() -> tuple[list[Row], list[str]]:
    """All rows, sorted, and what disagreed."""
    rows = operation_rows()
    wrong = []
    without = peers()["jax"]["without"]
    tables = {**TABLES, "complex": COMPLEX}
    for table, cases in tables.items():
        for one, operations in zip(cases, called(cases), strict=True):
            if table == "elementwise_table":
                operations.add(BY_NAME[one.name])
            outcomes = {dtype: outcome(one, dtype) for dtype in dtypes_of(one)}
            wrong += [f"{one} in {d}: {text}" for d, text in outcomes.items() if text not in OK]
            for operation in operations & rows.keys():
                row = rows[operation]
                row.cases += 1
                row.jax += f"{table}:{one}" not in without
                row.dtypes += [d for d in outcomes if outcomes[d] == AGREES and d not in row.dtypes]
    for operation in operations_drawn() & rows.keys():
        rows[operation].drawn = True
    for name, operations in peers()["opinfo_calls"].items():
        for row in rows.values():
            row.torch += peers()["opinfo"][name].get(AGREES, 0) if row.name in operations else 0
    for row in rows.values():
        row.by_hand = row.name in peers()["by_hand"]
    return sorted(rows.values(), key=lambda row: row.name.lower()), wrong


def dtypes_of(one: Case) -> list[str]:
    if one in COMPLEX:
        return ["complex128"]
    apart = one.name.startswith(COMPLEX_APART)
    return [dtype for dtype in DTYPES if not (apart and dtype == "complex128")]


AGREES, REFUSED = "agrees", "refused"
OK = (AGREES, REFUSED)


def outcome(one: Case, dtype: str) -> str:
    """Whether the gradient in another dtype agrees; refused where value or rule do not exist."""
    # Where NumPy has no loop for a dtype it says so with one of these, as ours do.
    refusals = (TypeError, ValueError, NotImplementedError, sg.SweepgradError)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            one.reference(*_operands(one, dtype))
        except (*refusals, AttributeError):
            return REFUSED
        try:
            return _complex_outcome(one) if dtype == "complex128" else _real_outcome(one, dtype)
        except refusals as error:
            return REFUSED if isinstance(error, TypeError) else f"{type(error).__name__}: {error}"


def _operands(one: Case, dtype: str) -> list[np.ndarray]:
    if dtype != "complex128":
        return [array.astype(dtype) for array in one.arrays]
    if one in COMPLEX:
        return list(one.arrays)
    rng = np.random.default_rng(5)
    return [array + 0.1j * rng.uniform(0.5, 1.5, array.shape) for array in one.arrays]


def _gradients(one: Case, arrays: list[np.ndarray]) -> tuple[Any, Any, list[Any]]:
    leaves = [sg.tensor(array, requires_grad=True) for array in arrays]
    out = one.function(*leaves)
    seed = np.linspace(0.5, 1.5, out.size).reshape(out.shape).astype(out.dtype)
    if not out.requires_grad:
        return out, seed, [np.zeros_like(array) for array in arrays]
    found = out.backward(seed)
    return out, seed, [found.get(x, np.zeros_like(a)) for x, a in zip(leaves, arrays, strict=True)]


def _real_outcome(one: Case, dtype: str) -> str:
    out, _, got = _gradients(one, _operands(one, dtype))
    _, _, wanted = _gradients(one, [array.astype(np.float64) for array in one.arrays])
    if out.dtype.kind != "f":
        return f"the result has dtype {out.dtype}"
    for mine, precise in zip(got, wanted, strict=True):
        if mine.dtype != np.dtype(dtype):
            return f"the gradient has dtype {mine.dtype}"
        scale = max(1.0, np.abs(precise).max(initial=0))
        if not np.allclose(mine, precise, rtol=DTYPES[dtype], atol=DTYPES[dtype] * scale):
            return f"{mine.tolist()} instead of {precise.tolist()}"
    return AGREES


def _complex_outcome(one: Case) -> str:
    """Along one direction dz the real part of sum(g dz) is the change of the real part of f."""
    arrays = _operands(one, "complex128")
    out, seed, got = _gradients(one, arrays)
    rng = np.random.default_rng(6)
    moves = [rng.normal(size=a.shape) + 1j * rng.normal(size=a.shape) for a in arrays]

    def moved(step: float) -> float:
        points = [sg.tensor(a + step * m) for a, m in zip(arrays, moves, strict=True)]
        return float(np.real((one.function(*points).numpy() * seed).sum()))

    step = 1e-6
    expected = (moved(step) - moved(-step)) / (2 * step)
    slope = float(sum(np.real((g * m).sum()) for g, m in zip(got, moves, strict=True)))
    if not np.isclose(slope, expected, rtol=DTYPES["complex128"], atol=1e-6 * max(1, abs(slope))):
        return f"{slope} instead of {expected} along a direction, result of dtype {out.dtype}"
    return AGREES


@functools.cache
def peers() -> dict[str, Any]:
    """What the comparison with PyTorch and JAX gave when it was last run; see write_peers.py."""
    return json.loads(PEERS.read_text("utf-8")) if PEERS.exists() else {}
