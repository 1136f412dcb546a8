"""Puts the declared operations where users look for them: operators, methods, NumPy's names.

Each chapter (a module of this package) states three tables:

* ``METHODS``: name of an operator or method of Tensor to operation.  The
  operation itself becomes the method, so an operator costs one Python call.
* ``NUMPY``: NumPy's function or ufunc to the operation that stands for it.  The
  operation takes the arguments that NumPy's function takes.
* ``PUBLIC``: name in the ``sweepgrad`` namespace to operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sweepgrad.ops import (
    activations,
    arithmetic,
    array_api,
    attention,
    complex_numbers,
    composites,
    convolution,
    cumulative,
    decompositions,
    diagonals,
    differences,
    eigen,
    einsum,
    elementwise,
    exponents,
    fourier,
    indexing,
    joining,
    linalg,
    linear,
    logspace,
    losses,
    mapping,
    matmul,
    nanreductions,
    neural,
    normalization,
    norms,
    padding,
    pieces,
    polynomials,
    pooling,
    products,
    quantiles,
    rearrange,
    recurrent,
    reductions,
    rounding,
    scimath,
    selection,
    shape,
    signals,
    spaces,
    special,
    trigonometric,
    updates,
)
from sweepgrad.ops.numpy_protocol import FUNCTIONS, UFUNCS, array_function, array_ufunc
from sweepgrad.tensor import Tensor

CHAPTERS: tuple[Any, ...] = (
    arithmetic,
    exponents,
    trigonometric,
    rounding,
    complex_numbers,
    elementwise,
    special,
    activations,
    reductions,
    logspace,
    cumulative,
    differences,
    nanreductions,
    quantiles,
    neural,
    linear,
    normalization,
    losses,
    matmul,
    products,
    shape,
    indexing,
    joining,
    pieces,
    rearrange,
    diagonals,
    padding,
    selection,
    updates,
    einsum,
    linalg,
    decompositions,
    norms,
    eigen,
    convolution,
    pooling,
    attention,
    signals,
    composites,
    fourier,
    spaces,
    polynomials,
    scimath,
    recurrent,
    mapping,
    array_api,
)


def install() -> None:
    """Install every chapter's methods and NumPy functions; running it again changes nothing."""
    Tensor.__array_ufunc__ = array_ufunc  # type: ignore[method-assign]
    Tensor.__array_function__ = array_function  # type: ignore[method-assign]
    for chapter in CHAPTERS:
        for name, operation in chapter.METHODS.items():
            setattr(Tensor, name, operation)
        for function, operation in chapter.NUMPY.items():
            if isinstance(function, np.ufunc):
                UFUNCS[function] = operation
            else:
                FUNCTIONS[function] = operation


def public_operations() -> dict[str, Callable[..., Any]]:
    """Every operation of the ``sweepgrad`` namespace by name."""
    return {name: op for chapter in CHAPTERS for name, op in chapter.PUBLIC.items()}
