"""The data that comes with the package: 1,797 handwritten digits.

The set is by Alpaydin and Kaynak, UCI Machine Learning Repository, under CC BY
4.0; see ``LICENSE-digits.txt`` beside this file.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad.errors import DatasetError

#: How many images there are, pixels in each, and the largest pixel value.
IMAGES, PIXELS, LARGEST = 1797, 64, 16

#: One image in this many is held out.  Every fifth in the set's own order, so that each
#: writer is in both parts, no random stream is involved and every run has the same test.
HELD_OUT_EVERY = 5


@dataclass(frozen=True)
class Digits:
    """Images with the digit each one shows.

    Attributes:
        images: float32, ``(n, 64)``, pixels scaled to the range 0 to 1; read-only.
        labels: integers 0 to 9, ``(n,)``; read-only.
    """

    images: NDArray[np.float32]
    labels: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.labels)


def load_digits() -> tuple[Digits, Digits]:
    """The images to train on (1,438) and the held-out ones (359), the same in every run.

    Thread safety: any thread; each call reads the file anew.

    Raises:
        DatasetError: if the installed file is missing or not what it should be.
    """
    images, labels = _read()
    held_out = np.arange(IMAGES) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
    return _part(images, labels, ~held_out), _part(images, labels, held_out)


def _read() -> tuple[NDArray[Any], NDArray[Any]]:
    path = resources.files(__name__) / "digits.npz"
    try:
        with path.open("rb") as file, np.load(file) as stored:
            images, labels = stored["images"], stored["labels"]
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DatasetError(f"{path} cannot be read ({error}); install sweepgrad again") from error
    if images.shape != (IMAGES, PIXELS) or labels.shape != (IMAGES,) or images.max() != LARGEST:
        raise DatasetError(
            f"{path} holds images of shape {images.shape} up to {images.max()}, expected "
            f"{(IMAGES, PIXELS)} up to {LARGEST}; install sweepgrad again"
        )
    return images, labels


def _part(images: NDArray[Any], labels: NDArray[Any], chosen: NDArray[np.bool_]) -> Digits:
    part = Digits((images[chosen] / LARGEST).astype(np.float32), labels[chosen].astype(np.intp))
    part.images.flags.writeable = False
    part.labels.flags.writeable = False
    return part
