"""Whether operations are recorded: a context variable, so that every thread and task has its own.

A context variable is right for threads (each starts with recording on), for
asyncio tasks (each has its own copy) and for decorators.  One limit is Python's
own: a ``with`` block inside a generator stays entered while the generator is
suspended.  Decorate the generator function instead: the mode then holds only
while its body runs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from sweepgrad.graph.inherited import shared

Function = TypeVar("Function", bound=Callable[..., Any])

_recording: ContextVar[bool] = ContextVar("sweepgrad_recording", default=True)

#: The modes entered and not yet left in this context, innermost last; recording is as
#: the last one says.
_entered: ContextVar[tuple[_Mode, ...]] = ContextVar("sweepgrad_entered", default=())

#: True when operations of the calling thread or task are recorded.
is_recording: Callable[[], bool] = _recording.get


def _restore(modes: tuple[_Mode, ...]) -> None:
    _entered.set(modes)
    _recording.set(modes[-1]._on if modes else True)


class _Mode:
    """A recording mode as a context manager and decorator.

    An instance may be reused, nested and shared by threads: what it has to
    remember is kept in the context, not in the instance.
    """

    _on: bool

    def __enter__(self) -> None:
        before = _entered.get()
        try:
            _entered.set((*before, self))
            _recording.set(self._on)
        except BaseException:  # an interrupt: `with` does not leave what was not entered
            _restore(before)
            raise

    def __exit__(self, *exc_info: object) -> None:
        # Not necessarily the last: a suspended generator leaves its block at any time,
        # and the modes entered since stay in force.
        modes = _entered.get()
        for position in reversed(range(len(modes))):
            if modes[position] is self:
                _restore(modes[:position] + modes[position + 1 :])
                return

    def __call__(self, function: Function) -> Function:
        """Decorate a function, generator function or coroutine function, also asynchronous."""
        return shared(self._wrap(function))

    def _wrap(self, function: Function) -> Function:
        if inspect.isgeneratorfunction(function):
            return cast(Function, self._wrap_generator(function))
        if inspect.isasyncgenfunction(function):
            return cast(Function, self._wrap_async_generator(function))
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with type(self)():
                    return await function(*args, **kwargs)

            return cast(Function, coroutine)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return function(*args, **kwargs)

        return cast(Function, wrapper)

    def _wrap_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        mode = type(self)

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            inner = function(*args, **kwargs)
            try:
                with mode():
                    item = next(inner)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        with mode():
                            item = inner.throw(error)
                    else:
                        with mode():
                            item = inner.send(sent)
            except StopIteration as stop:
                return stop.value
            finally:
                with mode():
                    inner.close()

        return generator

    def _wrap_async_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        mode = type(self)

        @functools.wraps(function)
        async def generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            inner = function(*args, **kwargs)
            try:
                with mode():
                    item = await anext(inner)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        with mode():
                            item = await inner.athrow(error)
                    else:
                        with mode():
                            item = await inner.asend(sent)
            except StopAsyncIteration:
                return
            finally:
                with mode():
                    await inner.aclose()

        return generator


class no_grad(_Mode):  # noqa: N801  # a context manager is named as a function, as in PyTorch
    """Nothing is recorded inside: results are untracked tensors.

    Use it as ``with no_grad():`` or ``@no_grad()``.  Thread safety: holds for
    the calling thread or asyncio task alone; a new thread starts with recording on.
    """

    _on = False


class enable_grad(_Mode):  # noqa: N801  # see no_grad
    """Operations are recorded inside, also within :class:`no_grad`; see there."""

    _on = True
