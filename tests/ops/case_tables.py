"""Every table of cases that the tests of this folder run over, in one list."""

import numpy as np
import test_composites
import test_convolution
import test_cumulative
import test_indexing
import test_linalg
import test_other_operations
import test_reductions
import test_shape
from elementwise_table import ALL, Elementwise
from operation_cases import Case

import sweepgrad as sg


def _elementwise(one: Elementwise) -> Case:
    rng = np.random.default_rng(0)
    shapes = [(2, 3), (3,)][: len(one.domains)]
    arrays = [domain(rng, shape) for domain, shape in zip(one.domains, shapes, strict=True)]
    return Case(one.name, one.call, tuple(arrays))


#: Elementwise operations are declared under one name and called under NumPy's.
BY_NAME = {one.name: getattr(sg, one.name) for one in ALL}

#: Cases on complex matrices, where a real one says nothing about the complex gradient.
COMPLEX = test_linalg.COMPLEX

TABLES = {
    "elementwise_table": [_elementwise(one) for one in ALL],
    "test_reductions": [
        Case(name, call, (test_reductions.distinct((2, 3)),))
        for name, call in test_reductions.REDUCTIONS.items()
    ],
    "test_cumulative": [
        Case(name, call, (test_cumulative.distinct((2, 3)),))
        for name, (call, _) in test_cumulative.CUMULATIVE.items()
    ],
    "test_shape": test_shape.CASES,
    "test_indexing": test_indexing.CASES,
    "test_linalg": test_linalg.CASES,
    "test_convolution": test_convolution.CASES,
    "test_composites": test_composites.CASES,
    "test_other_operations": test_other_operations.CASES,
}
