"""The operations as module-level functions, collected from the chapters of ``sweepgrad.ops``.

``functions.pyi`` beside this file states their signatures for type checkers; it is
rendered from the declarations by ``python docs/render.py``.
"""

from sweepgrad.ops.install import public_operations

globals().update(public_operations())

__all__ = sorted(public_operations())  # noqa: PLE0605  # a list, which the rule cannot see
