"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sweepgrad.errors import ShapeError
from sweepgrad.ops.arguments import ndim_of, shape_of
from sweepgrad.ops.declare import operand
from sweepgrad.ops.elementwise import where
from sweepgrad.ops.matmul import matmul
from sweepgrad.ops.neural import softmax
from sweepgrad.ops.shape import matrix_transpose
from sweepgrad.tensor import Tensor


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(q kᵀ · scale + mask) v over the last two axes (Vaswani et al., 2017).

    Args:
        query: (…, queries, features); key: (…, keys, features); value: (…, keys,
            width).  Leading axes (batch, heads) broadcast.
        mask: booleans, True where a query may look at a key, or numbers to add
            to the scores; broadcast to (…, queries, keys).
        causal: query i looks at the keys up to i only, besides ``mask``.
        scale: 1 / sqrt(features) by default.

    Returns:
        (…, queries, width).  A query that may look at no key gets zeros, and
        sends no gradient.

    Raises:
        ShapeError: if the shapes do not go together.
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        if ndim_of(x) < 2:
            raise ShapeError(f"attention: {name} has shape {shape_of(x)}; it needs two axes")
    factor = 1 / math.sqrt(shape_of(query)[-1]) if scale is None else scale
    scores = matmul(query, matrix_transpose(key)) * factor
    allowed: Any = None
    if causal:
        allowed = np.tri(*scores.shape[-2:], dtype=np.bool_)
    if mask is not None:
        given = mask._array if type(mask) is Tensor else operand(mask)
        if given.dtype.kind == "b":
            allowed = given if allowed is None else given & allowed
        else:
            scores = scores + mask
    if allowed is None:
        return matmul(softmax(scores, -1), value)
    some = allowed.any(axis=-1, keepdims=True)
    # Rows without any key would be softmax of -inf alone: they run open and count as 0.
    weights = softmax(where(allowed | ~some, scores, -np.inf), -1)
    return matmul(weights * some, value)


METHODS: dict[str, Any] = {}

NUMPY: dict[Any, Any] = {}

PUBLIC: dict[str, Any] = {"scaled_dot_product_attention": scaled_dot_product_attention}
