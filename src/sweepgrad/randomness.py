"""Random generators that draw the same numbers again when a region is recomputed.

An operation that draws from a generator asks :func:`drawn_from` which one to
draw from.  Outside of a checkpointed region that is the generator itself.  While
a region runs for the first time, the state of each generator is noted before its
first use; while it is recomputed, a private copy in that state stands in, so the
user's generator, which other threads may be using, is not touched.
"""

from __future__ import annotations

import copy
from contextvars import ContextVar
from typing import Any


class Noting:
    """Notes the state of each generator that a region draws from."""

    def __init__(self) -> None:
        #: By identity: the generator, held so that the identity stays its own, and a copy.
        self.noted: dict[int, tuple[Any, Any]] = {}

    def source(self, generator: Any, original: Any) -> Any:
        if id(original) not in self.noted:
            self.noted[id(original)] = (original, copy.deepcopy(generator))
        return generator


class Replaying:
    """Stands copies in for the generators that were noted."""

    def __init__(self, noting: Noting) -> None:
        self._noted = noting.noted
        self._copies: dict[int, Any] = {}

    def source(self, generator: Any, original: Any) -> Any:
        key = id(original)
        if key not in self._copies:
            if key not in self._noted:
                return generator
            self._copies[key] = copy.deepcopy(self._noted[key][1])
        return self._copies[key]


#: Regions that are running in this context, outermost first.
_regions: ContextVar[tuple[Noting | Replaying, ...]] = ContextVar("sweepgrad_regions", default=())


def drawn_from(generator: Any) -> Any:
    """The generator to draw from in place of this one.

    Thread safety: any thread; regions are the calling thread's own.
    """
    source = generator
    for region in _regions.get():
        source = region.source(source, generator)
    return source


class inside:  # noqa: N801  # a context manager is named as a function
    """Draws inside the block are noted or replayed."""

    def __init__(self, region: Noting | Replaying) -> None:
        self._region = region
        self._before: tuple[Noting | Replaying, ...] = ()

    def __enter__(self) -> None:
        self._before = _regions.get()
        _regions.set((*self._before, self._region))

    def __exit__(self, *exc_info: object) -> None:
        _regions.set(self._before)
