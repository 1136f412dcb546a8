"""Benchmarks of sweepgrad beside PyTorch, HIPS/autograd, MyGrad, JAX and bare NumPy.

Run from the repository root: ``python -m benchmarks --help``.  What is measured
and what the figures mean: ``docs/performance.md``.
"""
