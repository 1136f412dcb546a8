"""Tensor: the public handle on a value, tracked or not.

A tensor is an ndarray plus, when tracked, a node of the graph.  Its array is
never written into: operations make new arrays and a parameter's array is
replaced as a whole, so a value saved for backward cannot change under it.

The operators and NumPy methods are installed by :mod:`sweepgrad.ops`, each one
the declared operation itself: ``t * u`` is one Python call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sweepgrad import dispatch
from sweepgrad.conversion import converted
from sweepgrad.errors import (
    DtypeError,
    NotTrackedError,
    ShapeError,
    TensorTypeError,
)
from sweepgrad.graph import DEFAULT, GraphRuntime, Node
from sweepgrad.protocols import Protocols

if TYPE_CHECKING:
    from sweepgrad.autograd.hooks import HookHandle
    from sweepgrad.gradients import Gradients
    from sweepgrad.methods import InstalledMethods
else:
    InstalledMethods = object  # sweepgrad.ops installs them on the class itself

ndarray = np.ndarray


@final
class Tensor(Protocols, InstalledMethods):
    """A value that remembers how it was computed.

    Made by :func:`tensor` and :func:`from_numpy`, or by operations on tensors.

    Thread safety: a tensor may be used by any number of threads at once.  Its
    array is replaced in one step by :meth:`assign` and :meth:`update` and never
    written into.

    Tensors hash and compare by identity where a dict or set does it; ``==`` is
    NumPy's, element by element.
    """

    __slots__ = ("__weakref__", "_array", "_node")

    _array: NDArray[Any]
    _node: Node | None

    __array_priority__ = 1000.0

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise TensorTypeError(
            "Tensor() is not called directly; use sweepgrad.tensor(array) to copy an array "
            "or sweepgrad.from_numpy(array) to share its memory"
        )

    # --- what it is -----------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the value."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._array.size

    @property
    def nbytes(self) -> int:
        """Bytes of the value."""
        return self._array.nbytes

    @property
    def requires_grad(self) -> bool:
        """True when the tensor is tracked: a backward from its results can reach it."""
        return self._node is not None

    @property
    def is_leaf(self) -> bool:
        """True unless an operation on tracked tensors made it."""
        node = self._node
        return node is None or node.graph is None

    # --- getting the value out --------------------------------------------------------

    def numpy(self) -> NDArray[Any]:
        """The value as a read-only view; the tensor's own memory, never a copy.

        The view stays what it was when a parameter is replaced.
        """
        view = self._array.view()
        view.flags.writeable = False
        return view

    def item(self) -> Any:
        """The value of a one-element tensor as a Python scalar.

        Raises:
            TensorTypeError: if there is not exactly one element.
        """
        if self._array.size != 1:
            raise TensorTypeError(
                f"item() needs a tensor with one element, this one has shape {self.shape}; "
                "index it first, or use .numpy()"
            )
        return self._array.item()

    def tolist(self) -> Any:
        """The value as nested Python lists."""
        return self._array.tolist()

    def detach(self) -> Tensor:
        """An untracked tensor that shares this one's memory; no gradient flows through it."""
        return untracked(self._array)

    # --- replacing a parameter's value -------------------------------------------------

    def assign(self, value: ArrayLike | Tensor) -> None:
        """Replace the value in one step with a copy of ``value``.

        Another thread's forward sees the old value or the new one, never a
        mixture, and values saved for a backward stay what they were.

        Args:
            value: same shape; converted to this tensor's dtype.

        Thread safety: any thread.  Of an ``assign`` and an ``update`` at once,
        the update is computed again from the assigned value or came first.

        Raises:
            ShapeError: if the shapes differ.
            DtypeError: if the value does not convert to this tensor's dtype.
            TensorTypeError: if the tensor is the result of an operation.
        """
        node, old = self._node, self._array
        if node is not None and node.graph is not None:
            self._refuse_result("assign")
        if type(value) is ndarray and value.dtype is old.dtype and value.shape == old.shape:
            new = value.copy("K")
        else:
            new = self._new_value(value, "assign")
        runtime, key = self._swap_place()
        runtime.parameters.store(self, key, new)

    def update(self, function: Callable[[NDArray[Any]], ArrayLike]) -> None:
        """Replace the value by ``function(value)`` without losing another thread's update.

        ``function`` gets the current array (read-only) and runs outside every
        lock; when another thread replaced the value meanwhile, it runs again
        on the new one.  It must therefore have no side effects.

        Thread safety: any thread, and ``function`` may itself use tensors.

        Raises:
            ShapeError: if the result has another shape; nothing is replaced.
            DtypeError: if it does not convert to this tensor's dtype; likewise.
            TensorTypeError: if the tensor is the result of an operation.
        """
        self._refuse_result("update")
        runtime, key = self._swap_place()
        swap = runtime.parameters.replace
        while True:
            current = self._array
            view = current.view()
            view.flags.writeable = False
            new = self._new_value(function(view), "update")
            if swap(self, key, current, new):
                return

    def _refuse_result(self, operation: str) -> None:
        if not self.is_leaf:
            raise TensorTypeError(
                f"{operation}() replaces the value of a leaf (a parameter or constant), but this "
                f"tensor of shape {self.shape} is the result of an operation; compute a new "
                "tensor instead"
            )

    def _new_value(self, value: Any, operation: str) -> NDArray[Any]:
        old = self._array
        source = value._array if type(value) is Tensor else value
        new = converted(source, old.dtype, operation)
        if new.shape != old.shape:
            raise ShapeError(
                f"{operation}() got shape {new.shape} for a tensor of shape {old.shape}; "
                "a parameter keeps its shape: reshape the value, or make a new tensor"
            )
        return new

    def _swap_place(self) -> tuple[GraphRuntime, int]:
        node = self._node
        if node is None:
            return DEFAULT, 0
        return node.runtime, node.id

    # --- gradients -------------------------------------------------------------------

    def backward(
        self,
        gradient: ArrayLike | Tensor | None = None,
        retain_graph: bool = False,
        create_graph: bool = False,
    ) -> Gradients:
        """Back-propagate from this tensor; returns the gradients of all live leaves it came from.

        Args:
            gradient: gradient of this tensor; same shape, converted to its dtype.
                May be left out for a tensor with one element, where it is 1.
            retain_graph: keep the graph for another backward.  Otherwise the
                graph's gradient rules are consumed.
            create_graph: make the gradients tensors that can be differentiated
                again; implies ``retain_graph``.

        Returns:
            A mapping from tensors to arrays.  Each array is the caller's own,
            writable, and has its tensor's shape and dtype.  Bitwise the same in
            every run, whatever other threads do.  Where a gradient is inf or NaN
            it is given without a warning; ``detect_anomaly`` finds its origin.

        Thread safety: any thread.  Of two threads that back-propagate through a
        shared part without ``retain_graph``, one gets the right answer and the
        other a GraphConsumedError.

        Raises:
            NotTrackedError: if the tensor is untracked.
            GradientError: if ``gradient`` is missing or has the wrong shape or dtype.
            GraphConsumedError: if an earlier backward consumed a part of the graph;
                nothing has been changed.
        """
        found: Gradients  # a cast would cost a call
        if dispatch.COLLECTS_ANYWHERE:
            run = copy_context().run
            found = run(dispatch.backward, self, gradient, retain_graph, create_graph)
        else:
            found = dispatch.backward(self, gradient, retain_graph, create_graph)
        return found

    def register_hook(self, hook: Callable[[Any], Any]) -> HookHandle:
        """Call ``hook(gradient)`` when this tensor's gradient is complete in a backward.

        The hook gets a read-only array, or a tensor under ``create_graph``.  It may
        return another gradient of the same shape and dtype, which takes its place;
        None leaves it.  It may use tensors and run a backward of its own.

        Returns:
            A handle with ``remove()``, which is also a context manager.

        Thread safety: any thread may register and remove.  The hook runs in the
        thread that runs the backward.  See docs/hooks.md for the order.

        Raises:
            NotTrackedError: if the tensor is untracked.
            GraphConsumedError: if a backward has consumed it already.
            GradientError: from the backward, if the replacement does not fit.
        """
        return cast("HookHandle", dispatch.register_hook(self, hook))

    def register_post_accumulate(self, hook: Callable[[Tensor, Any], Any]) -> HookHandle:
        """Call ``hook(tensor, gradient)`` once a ``backward`` has this leaf's final gradient.

        For work per parameter, such as an update: ``hook`` gets the leaf and the
        array that the backward gives out for it, read-only (or a tensor, under
        ``create_graph``).  ``sweepgrad.grad`` does not run it.

        Returns:
            A handle with ``remove()``, which is also a context manager.

        Thread safety: as :meth:`register_hook`.

        Raises:
            NotTrackedError: if the tensor is untracked.
            TensorTypeError: if it is the result of an operation.
        """
        return cast("HookHandle", dispatch.register_post_accumulate(self, hook))

    def retain_grad(self) -> None:
        """Make a later backward keep the gradient of this result: ``grads[self]``.

        Without it only leaves have their gradients kept.  For a leaf it changes
        nothing.

        Thread safety: any thread.

        Raises:
            NotTrackedError: if the tensor is untracked.
            GraphConsumedError: if a backward has consumed it already.
        """
        dispatch.retain_grad(self)

    # --- Python and NumPy protocols ------------------------------------------------------

    def __contains__(self, value: object) -> bool:
        data = value._array if type(value) is Tensor else value
        return bool((self._array == data).any())

    __hash__ = object.__hash__

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.__copy__()

    def __copy__(self) -> Tensor:
        node = self._node
        if node is None:
            return untracked(self._array.copy())
        return _made_of(self._array.copy(), True, runtime_of(node))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self._array, self.requires_grad)


#: Makes a tensor without running ``Tensor.__init__``; the caller sets both fields.
new_tensor: Callable[[type[Tensor]], Tensor] = object.__new__


def untracked(data: NDArray[Any]) -> Tensor:
    """An untracked tensor on this array, which nobody may write into."""
    result = new_tensor(Tensor)
    result._array = data
    result._node = None
    return result


def _made_of(data: NDArray[Any], requires_grad: bool, runtime: GraphRuntime) -> Tensor:
    """A constant or a leaf on this array."""
    kind = data.dtype.kind
    if kind not in "fciub":
        raise DtypeError(
            f"a tensor holds numbers or booleans, got dtype {data.dtype}; "
            "convert the array first, for instance with .astype(np.float64)"
        )
    if requires_grad and kind not in "fc":
        raise DtypeError(
            f"requires_grad=True needs a floating or complex dtype, got {data.dtype}, which has "
            "no gradient; pass dtype=np.float32 or np.float64"
        )
    result = new_tensor(Tensor)
    result._array = data
    result._node = runtime.leaf(result) if requires_grad else None
    return result


def _unpickle(data: NDArray[Any], requires_grad: bool) -> Tensor:
    return tensor(data, requires_grad=requires_grad)


def tensor(
    array: ArrayLike | Tensor,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    runtime: GraphRuntime = DEFAULT,
) -> Tensor:
    """A new tensor with a copy of ``array``.

    Args:
        array: anything NumPy makes a numeric or boolean array of.
        dtype: dtype of the copy; by default that of ``array``.
        requires_grad: make it a leaf, whose gradient a backward computes.
        runtime: the graph runtime of the leaf; the default one serves all programs
            but those that want an island of their own.

    Thread safety: any thread; takes no lock.

    Raises:
        DtypeError: for object, string or structured arrays, an unknown ``dtype`` or one
            that the values do not convert to, and for a leaf whose dtype is not
            floating or complex.
        ShapeError: for nested sequences of unequal lengths.
        TensorTypeError: for masked arrays and other subclasses of ndarray.
    """
    if type(array) is ndarray and dtype is None:
        data = array.copy()
    else:
        data = converted(_plain(array), dtype, "tensor")
    return _made_of(data, requires_grad, runtime)


def from_numpy(
    array: NDArray[Any], requires_grad: bool = False, runtime: GraphRuntime = DEFAULT
) -> Tensor:
    """A new tensor that shares memory with ``array``; see :func:`tensor` for the rest.

    Writing into ``array`` later changes the tensor, and a backward computes with
    what it then finds: do not write while a graph that uses the tensor is alive.

    Raises:
        TensorTypeError: if ``array`` is not exactly an ndarray.
    """
    if type(array) is not ndarray:
        raise TensorTypeError(
            f"from_numpy() shares memory with an ndarray, got {type(array).__name__}; "
            "use sweepgrad.tensor(...) to copy other values"
        )
    return _made_of(array, requires_grad, runtime)


def _plain(value: Any) -> Any:
    """Unwrap tensors; refuse ndarray subclasses, whose extra meaning would be lost."""
    if type(value) is Tensor:
        return value._array
    if isinstance(value, ndarray) and type(value) is not ndarray:
        raise TensorTypeError(
            f"tensors are made of plain ndarrays, got {type(value).__name__}; "
            "pass np.asarray(value) if dropping what the subclass adds is right"
        )
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def runtime_of(node: Node) -> GraphRuntime:
    """The runtime that a node belongs to."""
    return node.runtime if node.graph is None else node.graph.runtime


def node_of(value: Tensor, operation: str) -> Node:
    """The node of a tracked tensor.

    Raises:
        NotTrackedError: if it is untracked.
    """
    node = value._node
    if node is None:
        raise NotTrackedError(
            f"{operation} needs a tracked tensor, this one has shape {value.shape} and is not: it "
            "was made without requires_grad=True, from untracked tensors, with .detach(), or "
            "inside no_grad()"
        )
    return node


def _tensor_of(
    runtime: GraphRuntime, array: ArrayLike | Tensor, dtype: DTypeLike | None, requires_grad: bool
) -> Tensor:
    return tensor(array, dtype, requires_grad, runtime)


GraphRuntime.make_tensor = _tensor_of
