"""Backward on tensors: seeds and the mapping of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweepgrad import dispatch
from sweepgrad.conversion import ONE
from sweepgrad.errors import GradientError, NoGradientError, SweepgradError, TensorTypeError
from sweepgrad.graph import (
    ANSWER,
    Node,
    RegionRequest,
    Request,
    Rule,
    enable_grad,
)
from sweepgrad.graph import backward as run_backward
from sweepgrad.graph.watch import WATCH, after_hooks, drop_callbacks, inspector, run_callbacks
from sweepgrad.tensor import Tensor, new_tensor, node_of, untracked

ndarray = np.ndarray


class Gradients(Mapping[Tensor, Any]):
    """The result of a backward: a mapping from tensors to their gradients.

    ``grads[w]`` is an ndarray with ``w``'s shape and dtype, exclusively the
    caller's (or a Tensor, after ``create_graph=True``).  Iterating gives the
    leaves and the results marked with ``retain_grad()``.  There is no shared
    ``.grad`` to race on.

    It may be pickled.  In what was pickled together, such as a model and its
    gradients, the tensors that arrive are the keys.

    Thread safety: made for one thread; reading from several is fine.
    """

    __slots__ = ("_by_node",)

    def __init__(self, by_node: dict[Node, tuple[Tensor, Any]]) -> None:
        self._by_node = by_node

    def __getitem__(self, key: Tensor) -> Any:
        """The gradient of ``key``.

        Raises:
            NoGradientError: if it got none; says why.
            TensorTypeError: if ``key`` is not a tensor.
        """
        found = self._pair(key)
        if found is None:
            raise NoGradientError(_why_none(key))
        return found[1]

    def get(self, key: Tensor, default: Any = None) -> Any:
        """The gradient of ``key``, or ``default`` if it got none.

        Raises:
            TensorTypeError: if ``key`` is not a tensor.
        """
        found = self._pair(key)
        return default if found is None else found[1]

    def _pair(self, key: Tensor) -> tuple[Tensor, Any] | None:
        if not isinstance(key, Tensor):
            raise TensorTypeError(f"gradients are looked up by tensor, got {type(key).__name__}")
        node = key._node
        return self._by_node.get(node) if node is not None else None

    def __contains__(self, key: object) -> bool:
        return isinstance(key, Tensor) and key._node in self._by_node

    def __iter__(self) -> Iterator[Tensor]:
        for handle, _ in self._by_node.values():
            yield handle

    def __len__(self) -> int:
        return len(self._by_node)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (list(self._by_node.values()),)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{handle.shape}" for handle in self)
        return f"Gradients({len(self)} tensors: {shapes})" if len(self) else "Gradients(empty)"


def _unpickle(pairs: list[tuple[Tensor, Any]]) -> Gradients:
    return Gradients({node_of(handle, "unpickling"): (handle, value) for handle, value in pairs})


def _why_none(key: Tensor) -> str:
    shape = f"the tensor of shape {key.shape}"
    if key._node is None:
        return f"{shape} has no gradient: it is untracked; make it with requires_grad=True"
    if not key.is_leaf:
        return (
            f"{shape} has no gradient here: it is the result of an operation, and a backward "
            "keeps gradients of leaves; call its retain_grad() before the backward, or use "
            "sweepgrad.grad(output, [tensor]). A parameter after w -= step is such a result: "
            "change it with w.update(lambda a: a - step)"
        )
    if key._node() is None:
        return (
            f"{shape} has no gradient: this is a finalizer of a cycle that a collection is freeing "
            "together with the tensor, whose weak references Python has cleared already; use "
            "sweepgrad.grad(output, [tensor])"
        )
    return f"{shape} has no gradient: the result of this backward does not depend on it"


def backward(root: Tensor, gradient: Any, retain_graph: bool, create_graph: bool) -> Gradients:
    """``Tensor.backward``; see there."""
    node = node_of(root, "backward")
    seed = seed_of(root, gradient, create_graph)
    results: dict[Node, tuple[Tensor, Any]] = {}
    try:
        found = differentiate([(node, seed)], None, retain_graph, create_graph)
        seeds = {id(seed)}
        for leaf, value in found.items():
            handle = leaf()
            if handle is not None:
                results[leaf] = (handle, own(value, handle, seeds, create_graph))
        if WATCH:
            _finish(results)
    except BaseException:
        drop_callbacks()
        found = {}  # the traceback keeps this frame: nothing in it may keep an array
        results.clear()
        raise
    return Gradients(results)


def _finish(results: dict[Node, tuple[Tensor, Any]]) -> None:
    """What runs once all gradients are known: hooks of leaves, then callbacks."""
    for node, (handle, value) in results.items():
        for hook in after_hooks(node):
            hook(handle, value)
    run_callbacks()


def differentiate(
    roots: list[tuple[Node, Any]],
    targets: frozenset[Node] | None,
    retain_graph: bool,
    create_graph: bool,
) -> dict[Node, Any]:
    """Back-propagate from nodes with their seeds; see :class:`sweepgrad.graph.Request`."""
    # No floating-point warnings while rules run, where inf and NaN are answers: the gradient of
    # sqrt at 0 is inf, and a rule may overflow on its way to a finite value.  Entered once, since
    # once for each rule would cost as much as the rule.  Whoever looks for the origin of a NaN
    # (an inspector, as anomaly mode sets it) gets the caller's own error state.
    with nullcontext() if WATCH and inspector.get() is not None else np.errstate(all="ignore"):
        if not create_graph:
            return run_backward(Request(roots, targets, retain_graph))
        with enable_grad():
            return run_backward(Request(roots, targets, True, _lift))


def differentiate_region(
    roots: list[tuple[Node, Any]], targets: frozenset[Node], create_graph: bool
) -> dict[Node, Any]:
    """Gradients by the bounds of a recomputed region; see :class:`RegionRequest`.

    Runs inside a rule, so error state and recording are as the outer backward set them.
    """
    lift = _lift if create_graph else None
    return run_backward(RegionRequest(roots, targets, create_graph, lift))


def seed_of(root: Tensor, gradient: Any, create_graph: bool) -> Any:
    """The gradient to start from, of the root's shape and dtype."""
    data = root._array
    if gradient is None:
        if data.size != 1:
            raise GradientError(
                f"backward from a tensor of shape {data.shape} needs its gradient, because it has "
                "more than one element; reduce it to a loss first (.sum(), .mean()) or pass "
                "gradient=np.ones(shape)"
            )
        one: Any = ONE.get(data.dtype)
        # What is shared may be handed on: no rule writes into a gradient, and no leaf gets it.
        seed: Any = one if one is not None and not data.ndim else np.ones(data.shape, data.dtype)
        return untracked(seed) if create_graph else seed
    values = gradient._array if type(gradient) is Tensor else _seed_array(gradient)
    if values.shape != data.shape:
        raise GradientError(
            f"gradient has shape {values.shape} but the tensor has shape {data.shape}; "
            "they must be the same"
        )
    if values.dtype.kind not in "fciub" or not np.can_cast(values.dtype, data.dtype, "same_kind"):
        raise GradientError(
            f"gradient has dtype {values.dtype}, which does not convert to the tensor's "
            f"{data.dtype} without losing its kind; convert it first"
        )
    if create_graph:
        kept = gradient if type(gradient) is Tensor else untracked(values)
        return kept if kept.dtype == data.dtype else kept.astype(data.dtype)
    return values.astype(data.dtype)


def _seed_array(gradient: Any) -> NDArray[Any]:
    try:
        return np.asarray(gradient)
    except SweepgradError:
        raise
    except (TypeError, ValueError) as error:
        raise GradientError(
            f"gradient is no array: {error}; pass an array of the tensor's shape and dtype"
        ) from error


def own(value: Any, handle: Tensor, taken: set[int], create_graph: bool) -> Any:
    """The gradient as promised: the caller's own, writable, of the handle's shape and dtype.

    A declared rule returns a new array, the gradient it was given, or a view of
    that; so an array with no base that no other leaf got is nobody else's.
    """
    data = handle._array
    if create_graph:
        result = value if type(value) is Tensor else untracked(np.asarray(value))
        return result if result.dtype == data.dtype else result.astype(data.dtype)
    if type(value) is Tensor:
        value = value._array
    if (
        type(value) is ndarray
        and value.base is None
        and value.dtype == data.dtype
        and value.shape == data.shape
        and id(value) not in taken
        and value.flags.carray  # in C order, aligned and writable
    ):
        taken.add(id(value))
        return value
    if np.shape(value) != data.shape:
        raise GradientError(
            f"a gradient rule gave shape {np.shape(value)} for a leaf of shape {data.shape}; "
            "the rule of the operation that uses the leaf is wrong"
        )
    return np.array(value, dtype=data.dtype, order="C")


def _lift(
    node: Node, rule: Rule, saved: tuple[Any, ...], parents: tuple[Node, ...]
) -> tuple[Any, ...]:
    """Put saved arrays back into the graph, so that gradients of gradients flow through them."""
    if rule.lift is not None:
        return rule.lift(node, saved, parents)
    if not rule.roles:
        return saved
    lifted = []
    for value, role in zip(saved, rule.roles, strict=True):
        if role is None or type(value) is not ndarray:
            lifted.append(value)
        else:
            lifted.append(on_node(value, node if role == ANSWER else parents[role]))
    return tuple(lifted)


def on_node(value: NDArray[Any], node: Node) -> Tensor:
    """A tensor with this array on this node: its handle, or a stand-in for it.

    A stand-in is not counted as a handle.  While a differentiable backward runs,
    its root keeps every ancestor alive, and what it records keeps them from then
    on.  The array counts, not the handle's current one: a parameter may have
    been replaced since.
    """
    handle: Tensor | None = node()
    if handle is not None and handle._array is value:
        return handle
    stand_in = new_tensor(Tensor)
    stand_in._array = value
    stand_in._node = node
    return stand_in


dispatch.backward = backward
