"""Cross-entropy, dropout and embedding."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import DtypeError, LabelError, SettingError, ShapeError
from sweepgrad.ops.arguments import constant
from sweepgrad.ops.arithmetic import multiply
from sweepgrad.ops.elementwise import where
from sweepgrad.ops.indexing import scatter
from sweepgrad.ops.logspace import finite_peak, log_softmax, softmax, softmax_of
from sweepgrad.ops.primitive import primitive
from sweepgrad.ops.reductions import as_float
from sweepgrad.ops.rules import plain
from sweepgrad.randomness import drawn_from
from sweepgrad.tensor import Tensor, untracked

# --- cross-entropy ------------------------------------------------------------------------


#: Exponentials of at most so many bytes are kept for the rule, which then is 2 calls of NumPy
#: shorter; larger ones are computed again, or the scores of a large vocabulary would be kept twice.
_FEW_BYTES = 1 << 16


def _label_loss_forward(
    x: NDArray[Any],
    places: NDArray[Any],
    hard: NDArray[Any],
    smooth: NDArray[Any] | None,
    careful: bool,
    reduced: bool,
    kept: list[NDArray[Any] | None],
) -> NDArray[Any]:
    """-sum_c q_c log_softmax(x)_c per row, or summed over the rows.

    q is ``hard`` at the row's label, whose flat index is in ``places``, plus
    ``smooth`` for every class.  x and ``smooth`` are (rows, classes).  ``kept``
    receives what the rule needs: peak and sum of exp(x - peak) of each row, and
    the exponentials themselves where they are small (:data:`_FEW_BYTES`).
    """
    peak = np.maximum.reduce(x, axis=-1, keepdims=True, initial=-np.inf)
    if careful or np.count_nonzero(np.isfinite(peak)) != peak.size:
        # Only here can something be infinite: x at its peak, or x where q is 0.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return _label_losses(x, finite_peak(x, -1), places, hard, smooth, reduced, kept)
    return _label_losses(x, peak, places, hard, smooth, reduced, kept)


def _label_losses(
    x: NDArray[Any],
    peak: NDArray[Any],
    places: NDArray[Any],
    hard: NDArray[Any],
    smooth: NDArray[Any] | None,
    reduced: bool,
    kept: list[NDArray[Any] | None],
) -> NDArray[Any]:
    shifted = x - peak
    powers = np.exp(shifted)
    total = np.add.reduce(powers, axis=-1, keepdims=True)
    logs = np.log(total)
    losses: NDArray[Any] = hard * (logs.reshape(-1) - shifted.take(places))
    kept += (peak, total, powers if powers.nbytes <= _FEW_BYTES else None)
    if hard.ndim and not np.logical_and.reduce(hard, axis=None):
        losses = np.where(hard == 0, 0.0, losses)  # 0 * inf
    if smooth is not None:
        losses = losses + np.where(smooth == 0, 0.0, smooth * (logs - shifted)).sum(axis=-1)
    return np.add.reduce(losses) if reduced else losses


def _label_loss_rule(
    g: Any,
    x: Any,
    places: NDArray[Any],
    hard: NDArray[Any],
    smooth: NDArray[Any] | None,
    careful: bool,
    reduced: bool,
    kept: list[Any],
) -> Any:
    """g (q_total softmax(x) - q), and an exact 0 for rows that do not count."""
    weight = hard if smooth is None else hard + np.add.reduce(smooth, axis=-1)
    idle = (weight == 0).reshape((-1, 1)) if careful else None
    if type(g) is Tensor or type(x) is Tensor:
        q = np.zeros(x.shape, x.dtype) if smooth is None else smooth.copy()
        q.reshape(-1)[places] += hard
        g = g if reduced else g.reshape((-1, 1))
        x = x if idle is None else np.where(idle, 0.0, x)
        return g * (softmax_of(x, -1) * weight.reshape((-1, 1)) - q)
    peak, total, powers = kept
    factor = (g * weight).reshape((-1, 1)) / total
    # In C order whatever x's layout is: the flat view that is written into below would
    # otherwise be a copy, and the labels would be lost.
    if powers is not None:
        result = np.multiply(powers, factor, order="C")
    else:
        result = np.exp(np.subtract(x, peak, order="C"))
        result *= factor  # the rule's own array: nobody else has it
    result.reshape(-1)[places] -= g * hard
    if smooth is not None:
        result -= smooth * (g if reduced else g[:, None])
    return result if idle is None else np.where(idle, 0.0, result)


_label_loss = primitive("cross_entropy", _label_loss_forward, x=_label_loss_rule)


def cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """-sum_c q_c log_softmax(x)_c; dx = g (softmax(x) - q) for class weights of 1.

    Args:
        x: unnormalised scores, with the classes along ``axis``.
        target: integer labels of x's shape without ``axis``, or probabilities q
            of x's shape (which may be tracked: dq = -g log_softmax(x)).
        weight: a weight for each class, which multiplies q.
        ignore_index: integer labels of this value have loss and gradient 0 and
            do not count in the mean.
        reduction: "mean" (with integer labels weighted by ``weight``; 0 if all
            are ignored), "sum", or "none" for one loss per label.
        label_smoothing: q becomes (1 - s) q + s / number of classes.

    Thread safety: as every operation, any thread.

    Raises:
        LabelError: for a label outside the classes.
        ShapeError, DtypeError, SettingError: for arguments that do not fit.
    """
    check_reduction("cross_entropy", reduction)
    if type(label_smoothing) is not float:
        label_smoothing = constant("cross_entropy", "label_smoothing", label_smoothing)
    if not 0 <= label_smoothing <= 1:
        raise SettingError(f"label_smoothing is between 0 and 1, got {label_smoothing!r}")
    x = as_float(x)
    if x.ndim == 0:
        raise ShapeError("cross_entropy needs scores with an axis of classes, got a single number")
    if axis not in (-1, x.ndim - 1):
        x = np.moveaxis(x, axis, -1)
    goal = target if type(target) is Tensor else np.asarray(target)
    weights = None if weight is None else class_weights(weight, x.shape[-1], x.dtype)
    if goal.dtype.kind in "iu":
        labels = Labels(plain(goal), x.shape, x.dtype, weights, ignore_index, reduction)
        return _of_labels(x, labels, reduction, label_smoothing)
    if axis not in (-1, goal.ndim - 1):
        goal = np.moveaxis(goal, axis, -1)  # type: ignore[type-var]
    return _of_probabilities(x, goal, weights, reduction, label_smoothing)


class Labels:
    """Integer labels, checked and flat, with what each row counts.

    Attributes:
        index: the labels, 0 where ignored.
        places: where each row's label is in the flattened scores.
        careful: whether something is ignored or weighted, so that 0 * inf may occur.
        counts: 1, or 0 where ignored, divided by the divisor of the reduction; one number
            for all rows if they count alike.
        hard: counts times the weight of the label's class.
        weights: the class weights, or None.
        shape: the labels' own shape.
    """

    __slots__ = ("careful", "counts", "hard", "index", "places", "shape", "weights")

    def __init__(
        self,
        labels: NDArray[Any],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        weights: NDArray[Any] | None,
        ignore_index: int,
        reduction: str,
    ) -> None:
        if labels.dtype.kind not in "iu":
            raise DtypeError(f"class labels are integers, got {labels.dtype}")
        if labels.shape != shape[:-1]:
            raise ShapeError(
                f"labels have shape {labels.shape} but the scores, of shape {shape} with the "
                f"classes last, need labels of shape {shape[:-1]}"
            )
        self.shape = labels.shape
        self.weights = weights
        flat = labels.reshape(-1)
        count, classes = flat.size, shape[-1]
        index = flat.astype(np.intp)  # a copy: what is checked is what is used
        # As unsigned numbers, negative labels are the largest: one look for both bounds.
        inside = count and np.maximum.reduce(index.view(np.uintp)) < classes
        if inside and not 0 <= ignore_index < classes:
            self.index = index
            self.careful = False
            self.counts = _share(count, dtype) if reduction == "mean" else np.ones((), dtype)
        else:
            valid = _valid(flat, classes, ignore_index)
            self.index = np.where(valid, flat, 0)
            self.careful = True
            self.counts = valid.astype(dtype)
            if reduction == "mean" and valid.any():
                self.counts = self.counts / int(np.count_nonzero(valid))  # a NumPy int would widen
        self.hard = self.counts
        if weights is not None:
            self._weigh(weights, reduction)
        starts = _row_starts if count <= _FEW_ROWS else _new_row_starts
        self.places = starts(count, classes) + self.index

    def _weigh(self, weights: NDArray[Any], reduction: str) -> None:
        """Count each row by the weight of its class; a mean divides by the sum of the weights."""
        self.careful = True
        self.hard = self.counts * weights[self.index]
        divisor = float(np.add.reduce(self.hard, dtype=np.float64))
        if reduction == "mean" and divisor:
            self.hard = self.hard / divisor
            self.counts = self.counts / divisor

    def rows_of(self, x: Any) -> Any:
        """The scores as (rows, classes)."""
        return x if x.ndim == 2 else x.reshape((len(self.index), x.shape[-1]))

    def shaped(self, loss: Tensor, reduction: str) -> Tensor:
        """A loss per row, in the labels' shape."""
        return loss if reduction != "none" or len(self.shape) == 1 else loss.reshape(self.shape)


#: Starts of at most so many rows are remembered.
_FEW_ROWS = 1 << 12


def _new_row_starts(count: int, classes: int) -> NDArray[np.intp]:
    """Where each row starts in the flattened scores."""
    starts = np.arange(count) * classes
    starts.flags.writeable = False
    return starts


#: A training loop asks for the same ones.
_row_starts = functools.lru_cache(maxsize=16)(_new_row_starts)


@functools.lru_cache(maxsize=16)
def _share(count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """What each of so many rows counts in their mean."""
    share = np.array(1 / count, dtype)
    share.flags.writeable = False
    return share


def _valid(flat: NDArray[Any], classes: int, ignore_index: int) -> NDArray[np.bool_]:
    """Which labels are not ignored.

    Raises:
        LabelError: if one of these is outside the classes.
    """
    valid: NDArray[np.bool_] = flat != ignore_index
    outside = valid & ((flat < 0) | (flat >= classes))
    if outside.any():
        raise LabelError(
            f"label {flat[outside][0]} is outside the {classes} classes; labels run from 0 to "
            f"{classes - 1}, and rows to leave out have ignore_index={ignore_index}"
        )
    return valid


def _of_labels(x: Any, labels: Labels, reduction: str, smoothing: float) -> Tensor:
    hard, smooth = labels.hard, None
    if smoothing:
        classes = x.shape[-1]
        per_class = np.full(classes, smoothing / classes, x.dtype)
        if labels.weights is not None:
            per_class *= labels.weights
        hard = hard * (1 - smoothing)
        smooth = np.broadcast_to(labels.counts, labels.index.shape)[:, None] * per_class
    rows = labels.rows_of(x)
    reduced = reduction != "none"
    loss = _label_loss(rows, labels.places, hard, smooth, labels.careful, reduced, [])
    return labels.shaped(loss, reduction)


def _of_probabilities(
    x: Any, target: Any, weights: NDArray[Any] | None, reduction: str, smoothing: float
) -> Tensor:
    if target.shape != x.shape or target.dtype.kind != "f":
        raise ShapeError(
            f"target has shape {target.shape} and dtype {target.dtype}; for scores of shape "
            f"{x.shape} (classes last) it is integer labels of shape {x.shape[:-1]} or "
            "probabilities of the scores' shape"
        )
    if smoothing:
        target = target * (1 - smoothing) + smoothing / x.shape[-1]
    logs = log_softmax(x)
    # 0 * -inf would be NaN: a class that cannot occur and does not occur costs nothing.
    impossible = np.equal(plain(target), 0) & np.isneginf(plain(logs))
    if impossible.any():
        logs = where(impossible, 0.0, logs)
    terms = target * logs if weights is None else target * logs * weights
    loss: Tensor = -terms.sum(axis=-1)
    if reduction == "mean":
        return loss.sum() / max(loss.size, 1)
    return loss.sum() if reduction == "sum" else loss


def check_reduction(operation: str, reduction: str) -> None:
    """Refuse a reduction that is none of the three.

    Raises:
        SettingError: if it is not.
    """
    if reduction not in ("none", "mean", "sum"):
        raise SettingError(
            f"{operation} reduces by 'none', 'mean' or 'sum', got reduction={reduction!r}"
        )


def class_weights(weight: Any, classes: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    weights = np.asarray(constant("a class-weighted loss", "weight", weight), dtype)
    if weights.shape != (classes,):
        raise ShapeError(
            f"class weights have shape {weights.shape}; {classes} classes need ({classes},)"
        )
    return weights


# --- dropout and embedding ----------------------------------------------------------------


def dropout(x: Any, p: float, generator: Any, training: bool = True) -> Tensor:
    """Elements set to 0 with probability p, the others divided by 1 - p; dx likewise.

    Args:
        generator: a numpy.random.Generator, which the call advances, or a seed
            (an int or numpy.random.SeedSequence), which gives the same mask in
            every call: what a checkpoint that computes twice needs.  There is
            no global generator.
        training: False gives x as it is.

    Thread safety: NumPy locks a generator for each draw, so sharing one corrupts
    nothing, but which thread gets which numbers is then a matter of timing.
    Masks are reproducible with one generator for each thread (``Generator.spawn``).

    Raises:
        SettingError: if p is not in [0, 1].
    """
    if not 0 <= p <= 1:
        raise SettingError(f"dropout takes a probability p between 0 and 1, got {p!r}")
    if generator is None:
        raise SettingError(
            "dropout needs a generator, numpy.random.default_rng(seed) for instance: without one "
            "its mask could not be reproduced"
        )
    x = as_float(x)
    if not training or p == 0:
        return x if type(x) is Tensor else untracked(x)
    drawn = np.random.default_rng(drawn_from(generator)).random(x.shape, np.float32)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    mask = np.where(drawn < p, 0.0, scale).astype(x.dtype)
    result: Tensor = multiply(x, mask)
    return result


def _rows_forward(
    weight: NDArray[Any], indices: NDArray[Any], padding_idx: int | None
) -> NDArray[Any]:
    rows: NDArray[Any] = weight[indices]
    return rows


def _rows_rule(
    g: Any, indices: NDArray[Any], padding_idx: int | None, weight_shape: Any, weight_dtype: Any
) -> Any:
    if padding_idx is not None:
        g = np.where((indices == padding_idx)[..., None], 0.0, g)
    return scatter(g, indices, weight_shape, weight_dtype)


_rows = primitive("embedding", _rows_forward, weight=_rows_rule)


def embedding(weight: Any, indices: Any, padding_idx: int | None = None) -> Tensor:
    """Rows of ``weight`` at ``indices``; dweight = g added up by row.

    Args:
        weight: of shape (rows, features).
        indices: integers of any shape; the result has one more axis.
        padding_idx: a row that gets no gradient.

    Raises:
        LabelError: for an index outside the rows; negative ones are not taken from the end.
        DtypeError, ShapeError: for arguments that do not fit.
    """
    weight = as_float(weight)
    places = np.array(plain(indices))
    if places.dtype.kind not in "iu":
        raise DtypeError(f"embedding takes integer indices, got {places.dtype}")
    if weight.ndim != 2:
        raise ShapeError(f"embedding weights have shape (rows, features), got {weight.shape}")
    outside = (places < 0) | (places >= weight.shape[0])
    if outside.any():
        raise LabelError(
            f"index {places[outside][0]} is outside the {weight.shape[0]} rows of the embedding"
        )
    if padding_idx is not None and not 0 <= padding_idx < weight.shape[0]:
        raise LabelError(f"padding_idx {padding_idx} is outside the {weight.shape[0]} rows")
    return _rows(weight, places, padding_idx)


METHODS: dict[str, Any] = {}
NUMPY: dict[Any, Any] = {}
PUBLIC = {
    "cross_entropy": cross_entropy,
    "dropout": dropout,
    "embedding": embedding,
}

__all__ = ["cross_entropy", "dropout", "embedding", "log_softmax", "softmax"]
