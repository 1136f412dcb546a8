"""einsum: sums of products written as letters.

The gradient of one operand is itself an einsum, of g and the other operands,
with that operand's letters as its output.  What remains is what a sum of
products cannot express: letters that occur in one operand alone (its gradient
is stretched along them), axes of length 1 that were stretched (summed), and
letters that occur twice in one operand (the gradient is put on the diagonal).
"""

from __future__ import annotations

import functools
import operator
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sweepgrad.errors import ShapeError, TensorTypeError
from sweepgrad.graph import Rule, is_recording
from sweepgrad.ops.arguments import ndim_of, refuse, refuse_out
from sweepgrad.ops.declare import fit, operand
from sweepgrad.ops.indexing import scatter
from sweepgrad.ops.primitive import register
from sweepgrad.tensor import Tensor, new_tensor

_LETTERS = string.ascii_letters


def einsum(
    *operands: Any,
    out: Any = None,
    dtype: Any = None,
    order: Any = "K",
    casting: Any = "safe",
    optimize: Any = False,
) -> Tensor:
    """``numpy.einsum``, in both of its notations: letters, or operands each with a list of labels.

    Repeated letters, letters summed out of one operand, ellipses and axes of
    length 1 that stretch all have gradients.

    Args:
        optimize: as NumPy's: contract several operands pairwise.  The same is
            done for each gradient.

    Dtypes: NumPy's promotion; each gradient has its operand's dtype.

    Raises:
        ShapeError: if the letters do not fit the operands' shapes.
    """
    refuse_out("einsum", out)
    refuse("einsum", "dtype", dtype, "convert an operand with .astype(dtype)")
    refuse("einsum", "order", order, "tensors have no memory layout to ask for", "K")
    refuse("einsum", "casting", casting, "convert an operand with .astype(dtype)", "safe")
    if not operands:
        raise ShapeError('einsum needs subscripts and operands, as in einsum("ij,jk->ik", a, b)')
    if isinstance(operands[0], str):
        subscripts, tensors = operands[0], list(operands[1:])
    else:
        subscripts, tensors = _from_labels(operands)
    inputs, output = _parse(subscripts, tuple([ndim_of(t) for t in tensors]))
    return _apply(tensors, inputs, output, optimize)


def _from_labels(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """The notation ``einsum(a, [0, 1], b, [1, 2], [0, 2])`` as letters."""
    tensors = list(operands[:-1:2])
    lists = list(operands[1::2])
    result = operands[-1] if len(operands) % 2 else None
    inputs = ",".join(_letters_of(labels) for labels in lists)
    return (inputs if result is None else f"{inputs}->{_letters_of(result)}"), tensors


def _letters_of(labels: Any) -> str:
    if isinstance(labels, Tensor) or not hasattr(labels, "__iter__"):
        raise TensorTypeError(
            f"einsum got {labels!r} where a list of axis labels belongs; alternate operands and "
            "lists, as in einsum(a, [0, 1], b, [1, 2], [0, 2])"
        )
    return "".join(
        "..." if label is Ellipsis else _LETTERS[operator.index(label)] for label in labels
    )


@functools.lru_cache(maxsize=1024)
def _parse(subscripts: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """The operands' letters and the result's, ellipses replaced by letters that are free.

    Raises:
        ShapeError: if the letters do not fit the number of operands or axes.
    """
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ShapeError(
            f'einsum "{subscripts}" names {len(terms)} operands but got {len(ranks)}; '
            "separate the letters of the operands by commas"
        )
    free = [letter for letter in _LETTERS if letter not in text]
    shared = 0
    for term, rank in zip(terms, ranks, strict=True):
        letters = term.replace("...", "")
        spare = rank - len(letters)
        if spare < 0 or (spare and "..." not in term) or not all(c in _LETTERS for c in letters):
            raise ShapeError(
                f'einsum "{subscripts}": the letters "{term}" do not fit an operand with {rank} '
                "axes; give one letter for each axis, or ... for the rest"
            )
        if "..." in term:
            shared = max(shared, spare)
    if shared > len(free):
        raise ShapeError(f'einsum "{subscripts}" needs more than {len(_LETTERS)} letters')
    rest = "".join(free[:shared])

    def spelled(term: str, rank: int) -> str:
        count = rank - len(term.replace("...", ""))
        return term.replace("...", rest[len(rest) - count :] if count else "")

    inputs = tuple(spelled(term, rank) for term, rank in zip(terms, ranks, strict=True))
    if arrow:
        output = right.replace("...", rest)
    else:
        once = sorted(c for c in set(left.replace("...", "")) if c.isalpha() and left.count(c) == 1)
        output = rest + "".join(once)
    if not all(any(c in term for term in inputs) for c in output) or len(set(output)) < len(output):
        raise ShapeError(
            f'einsum "{subscripts}": each letter of the result "{right}" must occur in an operand '
            "and only once in the result"
        )
    return inputs, output


def _apply(tensors: list[Any], inputs: tuple[str, ...], output: str, optimize: Any) -> Tensor:
    looked = {id(t): t._array for t in tensors if type(t) is Tensor}  # one: see declare.binary
    arrays = [looked[id(t)] if type(t) is Tensor else operand(t) for t in tensors]
    try:
        out = np.asarray(np.einsum(_spell(inputs, output), *arrays, optimize=optimize))
    except ValueError as error:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ShapeError(f"einsum {_spell(inputs, output)} of shapes {shapes}: {error}") from error
    result = new_tensor(Tensor)
    result._array = out
    result._node = None
    which = tuple(
        [index for index, t in enumerate(tensors) if type(t) is Tensor and t._node is not None]
    )
    if which and is_recording():
        rule, needs = _rule(inputs, output, which, _hashable(optimize))
        kept = [arrays[index] for index in needs]
        saved = (*kept, [a.shape for a in arrays], [a.dtype for a in arrays])
        nbytes = sum([array.nbytes for array in kept])
        register(result, [tensors[index]._node for index in which], rule, saved, nbytes)
    return result


def _hashable(optimize: Any) -> Any:
    """A contraction path serves the value only; each gradient finds its own."""
    return optimize if isinstance(optimize, (bool, str)) else True


def _spell(inputs: Sequence[str], output: str) -> str:
    return f"{','.join(inputs)}->{output}"


@functools.lru_cache(maxsize=1024)
def _rule(
    inputs: tuple[str, ...], output: str, which: tuple[int, ...], optimize: Any
) -> tuple[Rule, tuple[int, ...]]:
    """The rule for one choice of letters and tracked operands, and which operands it saves."""
    count = len(inputs)
    needs = tuple(index for index in range(count) if any(index != position for position in which))
    roles = tuple(which.index(index) if index in which else None for index in needs)
    parts = tuple(
        (_part(inputs, output, position, needs, optimize), tuple(range(len(needs) + 2)))
        for position in which
    )

    def single(g: Any, *saved: Any) -> Any:
        return parts[0][0](g, *saved)

    def several(g: Any, *saved: Any) -> Any:
        return tuple(function(g, *saved) for function, _ in parts)

    backward = single if len(which) == 1 else several
    return Rule("einsum", backward, (*roles, None, None), parts), needs


def _part(
    inputs: tuple[str, ...], output: str, position: int, needs: tuple[int, ...], optimize: Any
) -> Callable[..., Any]:
    """The gradient of one operand, as a function of g, the saved operands, shapes and dtypes."""
    own = "".join(dict.fromkeys(inputs[position]))
    others = [index for index in needs if index != position]
    sources = [needs.index(index) for index in others]
    known = set(output).union(*[inputs[index] for index in others])
    subscripts = _spell(
        [output, *[inputs[index] for index in others]], "".join(c for c in own if c in known)
    )

    def part(g: Any, *saved: Any) -> Any:
        *arrays, shapes, dtypes = saved
        product = np.einsum(subscripts, g, *[arrays[s] for s in sources], optimize=optimize)
        if set(own) - known:
            lengths = iter(product.shape)
            product = product.reshape(tuple(next(lengths) if c in known else 1 for c in own))
        return _onto(product, own, inputs[position], shapes[position], dtypes[position])

    return part


def _onto(
    product: Any, own: str, letters: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    """Stretch or sum each letter's axis to the operand's length, and fill its diagonals."""
    lengths = dict(zip(letters, shape, strict=True))
    goal = tuple(lengths[c] for c in own)
    stretched = tuple(
        have if want == 1 else want for have, want in zip(product.shape, goal, strict=True)
    )
    if stretched != product.shape:
        product = np.broadcast_to(product, stretched)
    product = fit(product, goal, dtype)
    if len(own) == len(letters):
        return product
    # For each axis of the operand, where along it the product's element belongs.
    ramps = dict(zip(own, np.ix_(*[np.arange(length) for length in goal]), strict=True))
    return scatter(product, tuple(ramps[letter] for letter in letters), shape, dtype)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {np.einsum: einsum}

PUBLIC: dict[str, Any] = {"einsum": einsum}
