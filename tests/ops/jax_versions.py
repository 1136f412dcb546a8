"""The same cases for JAX: a function written with ``np`` and ``sg`` runs with ``jax.numpy``.

JAX has NumPy's names, so a case needs no second version.  Its function is made
anew with other globals, in which ``np`` is ``jax.numpy`` and ``sg`` the object
below, which maps the names that NumPy has not.
"""

import functools
import sys
from types import CellType, FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

import sweepgrad as sg
from sweepgrad.ops.catalogue import numpy_name
from sweepgrad.ops.install import public_operations

jax.config.update("jax_enable_x64", True)


def _gelu(x: Any, approximate: str = "none") -> Any:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def _running(function: Any) -> Any:
    def run(x: Any, axis: int | None = None) -> Any:
        if axis is None:
            return function(jnp.ravel(x), axis=0)
        return function(x, axis=axis % max(x.ndim, 1))

    return run


#: What JAX calls the operations that are not in NumPy.
NAMES: dict[str, Any] = {
    "digamma": special.digamma,
    "elu": jax.nn.elu,
    "erf": special.erf,
    "erfc": special.erfc,
    "expit": special.expit,
    "gammaln": special.gammaln,
    "gelu": _gelu,
    "leaky_relu": jax.nn.leaky_relu,
    "log_sigmoid": jax.nn.log_sigmoid,
    "log_softmax": jax.nn.log_softmax,
    "logit": special.logit,
    "logsumexp": special.logsumexp,
    "polygamma": special.polygamma,
    "relu": jax.nn.relu,
    "sigmoid": special.expit,
    "silu": jax.nn.silu,
    "softmax": jax.nn.softmax,
    "softplus": jax.nn.softplus,
    "cummax": _running(jax.lax.cummax),
    "cummin": _running(jax.lax.cummin),
    "logcumsumexp": _running(jax.lax.cumlogsumexp),
    "solve_triangular": lambda a, b, lower=False, unit_diagonal=False: (
        jax.scipy.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit_diagonal)
    ),
    "linear": lambda x, w, b: x @ w + b,
    "embedding": lambda w, i: jnp.take(w, i, axis=0),
    "mse_loss": lambda x, t: jnp.mean((x - t) ** 2),
    "conv1d": lambda x, w, b=None, **k: _conv(x, w, b, **k),
    "conv2d": lambda x, w, b=None, **k: _conv(x, w, b, **k),
    "conv3d": lambda x, w, b=None, **k: _conv(x, w, b, **k),
}


def _conv(x: Any, w: Any, b: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
          groups: int = 1) -> Any:  # fmt: skip
    ndim = x.ndim - 2
    stride, dilation = ((v,) * ndim if isinstance(v, int) else v for v in (stride, dilation))
    if not isinstance(padding, str):
        sides = (padding,) * ndim if isinstance(padding, int) else padding
        padding = [(p, p) if isinstance(p, int) else p for p in sides]
    out = jax.lax.conv_general_dilated(
        x, w, stride, padding, rhs_dilation=dilation, feature_group_count=groups
    )
    return out if b is None else out + b.reshape((-1,) + (1,) * ndim)


class MissingError(Exception):
    """JAX has nothing of that name."""


class _Sweepgrad:
    """``sg`` as JAX has it."""

    def __getattr__(self, name: str) -> Any:
        if name in NAMES:
            return NAMES[name]
        for place in (jnp, jnp.linalg, jnp.fft):
            if hasattr(place, name):
                return getattr(place, name)
        raise MissingError(name)


STAND_IN = _Sweepgrad()


@functools.cache
def _operation_names() -> dict[Any, str]:
    return {operation: name for name, operation in public_operations().items()}


def translated(value: Any) -> Any:
    """A case's function, or what it holds on to, as JAX has it."""
    if type(value) is FunctionType and value.__module__.startswith(("test_", "elementwise_table")):
        return _function(value)
    if value in _operation_names():
        return getattr(STAND_IN, _operation_names()[value])
    if isinstance(value, np.ufunc) or hasattr(value, "_implementation") or callable(value):
        found: Any = jnp
        for part in numpy_name(value).split(".")[1:]:
            found = getattr(found, part, None)
            if found is None:
                raise MissingError(numpy_name(value))
        return found
    return value


@functools.cache
def _globals(module: str) -> dict[str, Any]:
    names = dict(vars(sys.modules[module]))
    for name, value in list(names.items()):
        if type(value) is FunctionType and value.__module__ == module and name[:5] != "test_":
            names[name] = _function(value, names)
    names.update({"np": jnp, "sg": STAND_IN})
    return names


def _function(function: FunctionType, names: dict[str, Any] | None = None) -> FunctionType:
    known = _globals(function.__module__) if names is None else names
    cells = tuple(CellType(_held(cell.cell_contents)) for cell in function.__closure__ or ())
    made = FunctionType(
        function.__code__, known, function.__name__,
        tuple(_held(value) for value in function.__defaults__ or ()), cells or None,
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _held(value: Any) -> Any:
    """What a function holds on to: other functions are translated, the rest stays."""
    if isinstance(value, dict):
        return {key: _held(item) for key, item in value.items()}
    return translated(value) if callable(value) and not isinstance(value, type) else value


def gradients(function: Any, arrays: list[np.ndarray], seed_of: Any, outer: Any) -> Any:
    """Value, gradients, and gradients of ``sum(outer * gradient)``, by JAX."""
    points = [jnp.asarray(array) for array in arrays]
    value = jnp.asarray(function(*points))
    seed = jnp.asarray(seed_of(value.shape), value.dtype)

    def first(*at: Any) -> Any:
        return jax.vjp(lambda *a: jnp.asarray(function(*a)), *at)[1](seed)

    def weighed(*at: Any) -> Any:
        return sum((w * g).real.sum() for w, g in zip(outer, first(*at), strict=True))

    second = None
    if not any(jnp.iscomplexobj(point) for point in points):
        second = jax.grad(weighed, argnums=tuple(range(len(points))))(*points)
    return np.asarray(value), [np.asarray(g) for g in first(*points)], second


assert sg.tanh in _operation_names()
