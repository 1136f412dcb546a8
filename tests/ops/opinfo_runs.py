"""Runs our operations on the sample inputs of PyTorch's own tests, beside PyTorch."""

import collections
import contextlib
import functools
import warnings
from typing import Any

import numpy as np
import torch
from opinfo_adapters import NotOfferedError
from opinfo_table import TABLE
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree

import sweepgrad as sg

#: PyTorch has no second derivative of these.
FIRST_ORDER = {"nn.functional.scaled_dot_product_attention"}

#: Which of PyTorch's results is compared, where ours has fewer with a gradient.
PICKED: dict[str, Any] = {
    "linalg.slogdet": lambda out: out[1],
    "linalg.lstsq": lambda out: out[0],
    "linalg.lstsq.grad_oriented": lambda out: out[0],
}

#: Where what PyTorch's tests make of a result, which depends on no phase, is made of ours too.
PROCESSED = {"linalg.eig", "linalg.eigh", "linalg.svd"}

#: Errors that say that an argument is not offered, or does not mean the same in NumPy.
REFUSALS = (NotOfferedError, sg.SweepgradError, TypeError, ValueError, NotImplementedError,
            IndexError)  # fmt: skip


def name_of(info: Any) -> str:
    variant = info.variant_test_name
    return f"{info.name}.{variant}" if variant else info.name


@functools.cache
def infos() -> dict[str, Any]:
    """PyTorch's operations that have a gradient in float64."""
    return {
        name_of(info): info
        for info in op_db
        if torch.float64 in info.dtypes and info.supports_autograd
    }


class Arguments:
    """The arguments of a sample, as PyTorch's and as ours, with the leaves of both."""

    def __init__(self, sample: Any) -> None:
        values, self.structure = _pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.theirs: list[Any] = []
        self.ours: list[Any] = []
        self.leaves: list[tuple[Any, sg.Tensor]] = []
        for value in values:
            self._take(value)

    def _take(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            their = value.detach().clone().resolve_conj().resolve_neg()
            if their.dtype == torch.float32:
                their = their.double()  # weights of a sample, which PyTorch would sum in float32
            array = their.numpy()
            if array.dtype.kind not in "fc":
                self.theirs.append(their)
                self.ours.append(array)
                return
            mine = sg.tensor(array, requires_grad=value.requires_grad)
            if value.requires_grad:
                their.requires_grad_(True)
                self.leaves.append((their, mine))
            self.theirs.append(their)
            self.ours.append(mine)
        elif isinstance(value, torch.dtype):
            self.theirs.append(value)
            self.ours.append(np.dtype(str(value).removeprefix("torch.")))
        else:
            self.theirs.append(value)
            self.ours.append(value)

    def call(self, function: Any, values: list[Any]) -> Any:
        first, args, kwargs = _pytree.tree_unflatten(values, self.structure)
        return function(first, *args, **kwargs)


def outputs(result: Any, tracked: Any) -> list[Any]:
    """The results that carry a gradient, in order."""
    return [value for value in _pytree.tree_leaves(result) if tracked(value)]


def compare(info: Any, sample: Any, function: Any) -> str:
    """ "agrees", or why the sample was not compared.

    Raises:
        AssertionError: where value, gradient or second gradient differ.
    """
    arguments = Arguments(sample)
    if not arguments.leaves:
        return "nothing tracked"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        theirs = arguments.call(info.op, arguments.theirs)
        if sample.output_process_fn_grad is not None:
            theirs = sample.output_process_fn_grad(theirs)
        if name_of(info) in PICKED:
            theirs = PICKED[name_of(info)](theirs)
        theirs = outputs(theirs, lambda v: isinstance(v, torch.Tensor) and v.requires_grad)
        try:
            ours = arguments.call(function, arguments.ours)
        except REFUSALS as error:
            return f"refused: {type(error).__name__}: {error}"
        if name_of(info) in PROCESSED:
            ours = sample.output_process_fn_grad(ours)
        ours = outputs(ours, lambda v: isinstance(v, sg.Tensor) and v.requires_grad)
        _check(theirs, ours, arguments.leaves, name_of(info))
    return "agrees"


def _near(mine: Any, their: Any, what: str, loose: float) -> None:
    expected = their.detach().resolve_conj().resolve_neg().numpy(force=True)
    assert mine.shape == expected.shape, f"{what}: shape {mine.shape}, PyTorch {expected.shape}"
    scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
    np.testing.assert_allclose(mine, expected, rtol=loose, atol=loose * scale, err_msg=what)


def _array(value: Any) -> Any:
    return value.numpy() if isinstance(value, sg.Tensor) else np.asarray(value)


def _check(
    theirs: list[Any], ours: list[Any], leaves: list[tuple[Any, sg.Tensor]], name: str
) -> None:
    assert len(theirs) == len(ours), f"{len(ours)} results, PyTorch gives {len(theirs)}"
    rng = np.random.default_rng(0)
    for their, mine in zip(theirs, ours, strict=True):
        _near(mine.numpy(), their, "value", 1e-8)
    seeds = [_random(rng, mine) for mine in ours]
    inputs = [leaf for leaf, _ in leaves]
    mine_in = [leaf for _, leaf in leaves]
    first = torch.autograd.grad(theirs, inputs, [torch.tensor(s).conj() for s in seeds],
                                create_graph=True, allow_unused=True)  # fmt: skip
    my_first = sg.grad(ours, mine_in, grad_outputs=seeds, create_graph=True, allow_unused=True)
    pairs = []
    for their, mine, leaf in zip(first, my_first, mine_in, strict=True):
        if their is None and mine is None:
            continue
        zero = np.zeros(leaf.shape, leaf.dtype)
        expected = torch.tensor(zero) if their is None else their.conj()
        _near(zero if mine is None else mine.numpy(), expected, "gradient", 1e-7)
        if their is not None and mine is not None:
            pairs.append((their, mine, _random(rng, mine)))
    if name in FIRST_ORDER:
        return
    _second([p for p in pairs if p[0].requires_grad or p[1].requires_grad], inputs, mine_in)


def _random(rng: Any, like: Any) -> np.ndarray:
    values = rng.uniform(0.5, 1.5, like.shape)
    return np.asarray(values + 1j * rng.uniform(0.5, 1.5, like.shape)
                      if like.dtype.kind == "c" else values, like.dtype)  # fmt: skip


def _second(pairs: list[Any], inputs: list[Any], mine_in: list[sg.Tensor]) -> None:
    """Gradients of the real number Re(sum(weight * gradient))."""
    their = [(t, w) for t, _, w in pairs if t.requires_grad]
    mine = [(m, w) for _, m, w in pairs if m.requires_grad]
    zeros = [np.zeros(leaf.shape, leaf.dtype) for leaf in mine_in]
    theirs: Any = [None] * len(inputs)
    if their:
        # PyTorch's gradient is the conjugate of ours, and so is what it takes as a seed.
        theirs = torch.autograd.grad([t for t, _ in their], inputs,
                                     [torch.tensor(w) for _, w in their],
                                     allow_unused=True)  # fmt: skip
    ours: Any = [None] * len(inputs)
    if mine:
        ours = sg.grad([m for m, _ in mine], mine_in, grad_outputs=[w for _, w in mine],
                       allow_unused=True)  # fmt: skip
    for one, other, zero in zip(ours, theirs, zeros, strict=True):
        expected = torch.tensor(zero) if other is None else other.conj()
        _near(zero if one is None else _array(one), expected, "second gradient", 1e-6)


def run(name: str, dtype: Any = torch.float64) -> collections.Counter[str]:
    """The outcomes of an operation's samples, counted; in complex numbers where both have them.

    Raises:
        AssertionError: at the first sample that differs.
    """
    info = infos()[name]
    found: collections.Counter[str] = collections.Counter()
    torch.manual_seed(0)
    for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=True)):
        try:
            found[compare(info, sample, TABLE[name])] += 1
        except AssertionError as error:
            raise AssertionError(f"{name}, sample {number}: {sample}\n{error}") from error
    return found


def summary(name: str, dtype: Any) -> dict[str, int]:
    """How many samples agree, and how many were not compared, by the kind of reason."""
    found = run(name, dtype)
    kinds: collections.Counter[str] = collections.Counter()
    for outcome, count in found.items():
        kinds[outcome.partition(":")[0]] += count
    return dict(sorted(kinds.items()))


def operations_called(name: str) -> set[Any]:
    """Our operations that the mapping of PyTorch's operation calls, on its first samples."""
    from recording import held, recorded

    from sweepgrad.ops.install import public_operations

    public = set(public_operations().values())
    with recorded() as calls, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for function in public.intersection(held(TABLE[name])):
            calls.note(function)
        samples = infos()[name].sample_inputs("cpu", torch.float64, requires_grad=True)
        for _, sample in zip(range(20), samples, strict=False):
            arguments = Arguments(sample)
            with contextlib.suppress(*REFUSALS):
                arguments.call(TABLE[name], arguments.ours)
    return set(calls.by_operation)
