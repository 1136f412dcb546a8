"""Tests that need PyTorch or JAX are collected where these are installed."""

import importlib.util


def _missing(*names: str) -> bool:
    return any(importlib.util.find_spec(name) is None for name in names)


collect_ignore_glob = [
    pattern
    for pattern, needs in (
        ("test_torch_*.py", ("torch",)),
        ("test_opinfo_*.py", ("torch", "expecttest")),
        ("test_jax_*.py", ("jax",)),
    )
    if _missing(*needs)
]
