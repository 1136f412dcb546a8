"""The standard's Fourier transform extension on tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as _np

from sweepgrad.numpy.creation import fftfreq, rfftfreq
from sweepgrad.numpy.results import wrapped

_NAMES = [
    "fft", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftn",
]  # fmt: skip

for _name in _NAMES:
    globals()[_name] = wrapped(getattr(_np.fft, _name), _name)

__all__ = sorted([*_NAMES, "fftfreq", "rfftfreq"])  # noqa: PLE0605  # a list

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The functions above are made in a loop, which type checkers cannot see."""
