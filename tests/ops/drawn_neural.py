"""Drawn cases: losses, normalisations, cells, convolutions, pooling, Fourier transforms."""

from collections.abc import Callable
from typing import Any

import numpy as np
from drawing import Draw, DrawnCase, Operation, joined, parts

import sweepgrad as sg

REDUCTION = ("mean", "sum", "none")


def _pair_loss(function: Callable[..., Any]) -> DrawnCase:
    """A loss of two operands of one shape, both tracked."""

    def drawn(d: Draw) -> Operation:
        shape, reduction = d.shape(), d.of(*REDUCTION)
        targets = d.between(0.1, 0.9, shape)
        # Off each other by less or more than the Huber loss's bend at 1, never by it.
        x = targets + d.rng.choice([-1.0, 1.0], shape) * d.rng.choice([0.4, 1.7], shape)
        return lambda x, t: function(x, t, reduction=reduction), [np.asarray(x), targets]

    return drawn


def _bce(d: Draw) -> Operation:
    shape, reduction = d.shape(), d.of(*REDUCTION)
    weight = d.of(None, d.between(0.5, 1.5, shape))
    positive = d.of(None, d.between(0.5, 1.5, shape[-1:]))
    return lambda x, t: sg.bce_with_logits(x, t, weight, positive, reduction), [
        d.values(shape), d.between(0.1, 0.9, shape)]  # fmt: skip


def _labels(d: Draw) -> tuple[tuple[int, ...], np.ndarray, dict[str, Any]]:
    """A shape with the classes last, labels of which some are left out, and settings."""
    classes = d.integer(1, 4)
    before = d.shape()
    labels = d.rng.integers(0, classes, before)
    labels = np.where(d.rng.random(before) < d.of(0.0, 0.4, 1.0), -100, labels)
    settings: dict[str, Any] = {"reduction": d.of(*REDUCTION)}
    if d.flag():
        settings["weight"] = d.between(0.5, 1.5, (classes,))
    return (*before, classes), labels, settings


def _cross_entropy(d: Draw) -> Operation:
    shape, labels, settings = _labels(d)
    settings["label_smoothing"] = d.of(0.0, 0.3)
    settings["axis"] = axis = d.axis(len(shape))
    place = axis % len(shape)
    moved = (*shape[:-1][:place], shape[-1], *shape[:-1][place:])
    return lambda x: sg.cross_entropy(x, labels, **settings), [d.values(moved)]


def _soft_cross_entropy(d: Draw) -> Operation:
    """The labels are probabilities, and tracked too."""
    shape, _, settings = _labels(d)
    settings["label_smoothing"] = d.of(0.0, 0.3)
    return lambda x, t: sg.cross_entropy(x, t, **settings), [
        d.values(shape), d.between(0.1, 0.9, shape)]  # fmt: skip


def _nll(d: Draw) -> Operation:
    shape, labels, settings = _labels(d)
    return lambda x: sg.nll_loss(x, labels, **settings), [d.values(shape)]


def _last_axis_norm(function: Callable[..., Any], operands: int) -> DrawnCase:
    """A normalisation over the last axis, with or without weight and bias."""

    def drawn(d: Draw) -> Operation:
        shape = d.shape(1, side=(0, 4))
        count = d.integer(0, operands)
        # With a small eps the function of one element near 0 bends within a step.
        return lambda *x: function(*x, eps=0.1), [
            d.values(shape), *[d.values(shape[-1:]) for _ in range(count)]]  # fmt: skip

    return drawn


def _batch_norm(d: Draw) -> Operation:
    shape = d.shape(2, side=(1, 3))
    axis = d.axis(len(shape))
    channels = (shape[axis],)
    return lambda x, w, b: sg.batch_norm(x, w, b, axis=axis, eps=0.1), [
        d.values(shape), d.values(channels), d.values(channels)]  # fmt: skip


def _group_norm(d: Draw) -> Operation:
    groups = d.integer(1, 2)
    channels = groups * d.integer(1, 2)
    # The channels lie after the batch, as in PyTorch.
    shape = (d.integer(1, 2), channels, *d.shape(0, 2, (1, 3)))
    return lambda x, w, b: sg.group_norm(x, groups, w, b, axis=1, eps=0.1), [
        d.values(shape), d.values((channels,)), d.values((channels,))]  # fmt: skip


def _dropout(d: Draw) -> Operation:
    p, seed, training = d.of(0.0, 0.5, 1.0), d.integer(0, 9), d.flag()
    return lambda x: sg.dropout(x, p, np.random.default_rng(seed), training), [d.values(d.shape())]


def _cell(function: Callable[..., Any], gates: int, states: int) -> DrawnCase:
    """A recurrent cell, with or without biases, on any batch, of no inputs or hidden ones too."""

    def drawn(d: Draw) -> Operation:
        batch, inputs, hidden = d.shape(0, 2), d.integer(0, 3), d.integer(0, 3)
        shapes = [
            (*batch, inputs), *[(*batch, hidden)] * states,
            (inputs, gates * hidden), (hidden, gates * hidden),
            *[(gates * hidden,)] * d.integer(0, 2),
        ]  # fmt: skip
        return function, [d.values(shape) for shape in shapes]

    return drawn


def _attention(d: Draw) -> Operation:
    batch = d.shape(0, 2, (0, 2))
    ours, theirs, width, out = (d.integer(1, 3) for _ in range(4))
    causal = d.flag()
    mask = None if causal else d.of(None, d.values((ours, theirs)))
    shapes = [(*batch, ours, width), (*batch, theirs, width), (*batch, theirs, out)]
    return lambda q, k, v: sg.scaled_dot_product_attention(q, k, v, mask, causal), [
        d.values(shape) for shape in shapes]  # fmt: skip


NEURAL: dict[str, DrawnCase] = {
    "mse_loss": _pair_loss(sg.mse_loss),
    "huber_loss": _pair_loss(sg.huber_loss),
    "bce_with_logits": _bce,
    "cross_entropy": _cross_entropy,
    "cross_entropy of probabilities": _soft_cross_entropy,
    "nll_loss": _nll,
    "layer_norm": _last_axis_norm(sg.layer_norm, 2),
    "rms_norm": _last_axis_norm(sg.rms_norm, 1),
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "dropout": _dropout,
    "gru_cell": _cell(sg.gru_cell, 3, 1),
    "lstm_cell": _cell(lambda *x: joined(*sg.lstm_cell(*x)), 4, 2),
    "attention": _attention,
}


def _conv(function: Callable[..., Any], ndim: int) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        groups, batch = d.integer(1, 2), d.integer(0, 2)
        kernel = tuple(d.integer(1, 2) for _ in range(ndim))
        lengths = tuple(k + d.integer(0, 2) for k in kernel)
        settings = {
            "stride": d.integer(1, 2), "padding": d.integer(0, 1),
            "dilation": 1 if max(kernel) == 1 else d.of(1, 1, 2), "groups": groups,
        }  # fmt: skip
        if settings["dilation"] > 1:
            settings["padding"] = 1
        inputs, outputs = groups * d.integer(1, 2), groups * d.integer(1, 2)
        return lambda x, w, b: function(x, w, b, **settings), [
            d.values((batch, inputs, *lengths)), d.values((outputs, inputs // groups, *kernel)),
            d.values((outputs,))]  # fmt: skip

    return drawn


def _conv_transpose(function: Callable[..., Any], ndim: int) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        groups, batch, stride = d.integer(1, 2), d.integer(0, 2), d.integer(1, 2)
        kernel = tuple(d.integer(1, 2) for _ in range(ndim))
        lengths = tuple(d.integer(1, 3) for _ in range(ndim))
        settings = {"stride": stride, "groups": groups, "output_padding": d.integer(0, stride - 1)}
        inputs, outputs = groups * d.integer(1, 2), groups * d.integer(1, 2)
        return lambda x, w, b: function(x, w, b, **settings), [
            d.values((batch, inputs, *lengths)), d.values((inputs, outputs // groups, *kernel)),
            d.values((outputs,))]  # fmt: skip

    return drawn


def _pool(function: Callable[..., Any], ndim: int) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        kernel = tuple(d.integer(1, 2) for _ in range(ndim))
        shape = (d.integer(0, 2), d.integer(1, 2), *[k + d.integer(0, 2) for k in kernel])
        stride, padding = d.integer(1, 2), 0 if min(kernel) == 1 else d.integer(0, 1)
        return lambda x: function(x, kernel, stride, padding), [d.values(shape)]

    return drawn


def _adaptive(function: Callable[..., Any]) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        ndim = d.integer(1, 3)
        size = tuple(d.integer(1, 3) for _ in range(ndim))
        shape = (d.integer(0, 2), 1, *[d.integer(1, 4) for _ in range(ndim)])
        return lambda x: function(x, size), [d.values(shape)]

    return drawn


def _signal(function: Callable[..., Any]) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        mode = d.of("full", "same", "valid")
        return lambda a, v: function(a, v, mode), [
            d.values((d.integer(1, 4),)), d.values((d.integer(1, 4),))]  # fmt: skip

    return drawn


SIGNALS: dict[str, DrawnCase] = {
    **{f"conv{n}d": _conv(getattr(sg, f"conv{n}d"), n) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _conv_transpose(getattr(sg, f"conv_transpose{n}d"), n)
       for n in (1, 2, 3)},
    **{f"{kind}_pool{n}d": _pool(getattr(sg, f"{kind}_pool{n}d"), n)
       for kind in ("avg", "max") for n in (1, 2, 3)},
    "adaptive_avg_pool": _adaptive(sg.adaptive_avg_pool),
    "adaptive_max_pool": _adaptive(sg.adaptive_max_pool),
    "convolve": _signal(np.convolve),
    "correlate": _signal(np.correlate),
}  # fmt: skip


def _transform(name: str, ndim: int) -> DrawnCase:
    """Along one axis, two or any, with a length that cuts or pads; of a complex operand too."""
    function = getattr(np.fft, name)
    from_real = name in ("rfft", "ihfft", "rfft2", "rfftn")

    def drawn(d: Draw) -> Operation:
        shape = d.shape(max(ndim, 1), side=(2, 4))
        norm = d.of(None, "ortho", "forward")
        settings: dict[str, Any] = {"norm": norm}
        if ndim == 1:
            settings |= {"n": d.of(None, 2, 3, 5), "axis": d.axis(len(shape))}
        if from_real:
            return lambda x: parts(function(x, **settings)), [d.values(shape)]
        return lambda x, y: parts(function(x + 1j * y, **settings)), [
            d.values(shape), d.values(shape)]  # fmt: skip

    return drawn


def _shifted(function: Callable[..., Any]) -> DrawnCase:
    def drawn(d: Draw) -> Operation:
        shape = d.shape(1)
        axes = d.axes(len(shape))
        return lambda x: function(x, axes), [d.values(shape)]

    return drawn


FOURIER: dict[str, DrawnCase] = {
    **{name: _transform(name, 1) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{name: _transform(name, 2) for name in ("fft2", "ifft2", "rfft2", "irfft2")},
    **{name: _transform(name, 0) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    "fftshift": _shifted(np.fft.fftshift),
    "ifftshift": _shifted(np.fft.ifftshift),
}
