"""Which operations a test table really calls: seen while its functions run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sweepgrad as sg
from sweepgrad.ops.install import CHAPTERS, public_operations
from sweepgrad.ops.numpy_protocol import FUNCTIONS, UFUNCS


class Calls:
    """The operations called directly, each with NumPy's function and arguments of its first call.

    Attributes:
        by_operation: the operation itself to what it was called with.
    """

    def __init__(self) -> None:
        self.by_operation: dict[Any, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {}
        self._depth = 0

    def watched(self, operation: Callable[..., Any], numpys: Any = None) -> Callable[..., Any]:
        """The operation, noting a call that no other operation made."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._depth:
                self.note(operation, numpys, args, kwargs)
            self._depth += 1
            try:
                return operation(*args, **kwargs)
            finally:
                self._depth -= 1

        return call

    def note(self, operation: Any, numpys: Any = None, args: Any = (), kwargs: Any = None) -> None:
        known = self.by_operation.get(operation)
        if known is None or (known[0] is None and numpys is not None):
            self.by_operation[operation] = (numpys, args, kwargs or {})


@contextmanager
def recorded() -> Iterator[Calls]:
    """Note the operations reached through NumPy, ``sweepgrad.name`` or a tensor meanwhile."""
    calls = Calls()
    before = dict(UFUNCS), dict(FUNCTIONS), public_operations()
    methods = {name: op for chapter in CHAPTERS for name, op in chapter.METHODS.items()}
    callables = {name: op for name, op in methods.items() if callable(op)}
    try:
        for table, kept in zip((UFUNCS, FUNCTIONS), before[:2], strict=True):
            table.update({f: calls.watched(op, f) for f, op in kept.items()})
        for name, op in before[2].items():
            setattr(sg, name, calls.watched(op))
        for name, op in callables.items():
            setattr(sg.Tensor, name, calls.watched(op))
        yield calls
    finally:
        UFUNCS.update(before[0])
        FUNCTIONS.update(before[1])
        for name, op in before[2].items():
            setattr(sg, name, op)
        for name, op in callables.items():
            setattr(sg.Tensor, name, op)


def held(function: Any) -> list[Any]:
    """The functions that one made of others holds on to, itself included."""
    found = [function]
    for one in found:
        cells = getattr(one, "__closure__", None) or ()
        contents = [cell.cell_contents for cell in cells]
        found += [value for value in contents if callable(value) and value not in found]
    return found
