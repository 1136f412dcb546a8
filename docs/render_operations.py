"""Render ``operations.md``: every operation with what the tests show of it.

``python docs/render_operations.py`` runs the cases of ``tests/ops`` (a few seconds; it needs the
test extra) and writes the page; ``tests/ops/test_operations_page.py`` checks that it is current.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
PAGE = HERE / "operations.md"

HEAD = """# Operations

Rendered by `python docs/render_operations.py` from what the tests of `tests/ops` run; nothing \
here is typed by hand. `sweepgrad.operations()` gives the same names with signature and first line.

* *dtypes*: in which value and gradient were compared, besides float64: float16, float32 and \
longdouble with the float64 gradient, complex128 with the change of the value along a direction. \
Where one is missing, NumPy (or the function) does not have it.
* *orders*: up to which order gradients agree with finite differences in float64, on the operands \
of the cases and on shapes that Hypothesis draws: without axes, empty, several axes, broadcast, in \
any layout of the memory.
* *agrees with*: finite differences, with the number of fixed cases and "drawn shapes"; PyTorch, \
with the number of its own sample inputs (value, gradient, second gradient; {complex_samples} more \
samples agree in complex numbers), or "by hand" where only our own operands are compared; JAX, \
with the number of fixed cases, its own function or else the case's formula in plain NumPy. "no \
counterpart" says that the peer has no such function, or that it refuses the cases.
"""


def page() -> str:
    """The text of the page."""
    sys.path[:0] = [path for path in (str(TESTS / "ops"), str(TESTS)) if path not in sys.path]
    import evidence

    rows, _ = evidence.gathered()
    peers = evidence.peers()
    complex_samples = sum(counts.get("agrees", 0) for counts in peers["opinfo_complex"].values())
    lines = [
        HEAD.format(complex_samples=complex_samples),
        "| operation | NumPy | dtypes | orders | agrees with |",
        "|---|---|---|---|---|",
        *[line(row, evidence) for row in rows],
        "",
        *pytorch(peers),
        *without_gradient(evidence),
        *refused(),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def line(row: Any, evidence: Any) -> str:
    """One operation."""
    names = ", ".join(f"`{name}`" for name in row.names)
    numpys = ", ".join(f"`{name}`" for name in row.numpy) or "not in NumPy"
    if row.name in evidence.NO_GRADIENT:
        return f"| {names} | {numpys} | any | none | {evidence.NO_GRADIENT[row.name]} |"
    dtypes = ", ".join(d for d in ("float16", "float32", "float64", "longdouble", "complex128")
                       if d == "float64" or d in row.dtypes)  # fmt: skip
    agrees = [
        f"finite differences ({row.cases}{', drawn shapes' if row.drawn else ''})",
        f"PyTorch ({row.torch or 'by hand'})"
        if row.torch or row.by_hand
        else "PyTorch: no counterpart",
        f"JAX ({row.jax})" if row.jax else "JAX: no counterpart",
    ]
    return f"| {names} | {numpys} | {dtypes} | first, second | {'; '.join(agrees)} |"


def pytorch(peers: Any) -> list[str]:
    """The samples of PyTorch's own tests, counted."""
    counts: dict[str, int] = {}
    for found in peers["opinfo"].values():
        for kind, number in found.items():
            counts[kind] = counts.get(kind, 0) + number
    unmapped = peers["opinfo_unmapped"]
    return [
        "## PyTorch's samples",
        "",
        f"Of {len(peers['opinfo']) + len(unmapped)} entries (operations and variants) with a "
        f"gradient in PyTorch's list, {len(peers['opinfo'])} are mapped to operations of ours "
        f"(`tests/ops/opinfo_table.py`) and {len(unmapped)} are not. Their samples:",
        "",
        "| outcome | samples |",
        "|---|---|",
        *[f"| {kind} | {number} |" for kind, number in sorted(counts.items())],
        "",
        'Every sample is run. It is "refused" where an argument has no counterpart here or means '
        "something else in NumPy.",
        "",
        f"Not mapped: {', '.join(f'`{name}`' for name in unmapped)}.",
        "",
    ]


def without_gradient(evidence: Any) -> list[str]:
    """NumPy's functions with plain results."""
    from sweepgrad.ops.catalogue import numpy_name
    from sweepgrad.ops.numpy_protocol import UNTRACKED_FUNCTIONS, UNTRACKED_UFUNCS

    names = sorted(numpy_name(f) for f in (*UNTRACKED_FUNCTIONS, *UNTRACKED_UFUNCS))
    return [
        "## Plain results",
        "",
        "These functions of NumPy give booleans, integers or constants, which have no gradient, as "
        f"plain arrays: {', '.join(f'`{name}`' for name in names)}.",
        "",
    ]


def refused() -> list[str]:
    """What is written instead of a function that is not offered."""
    from sweepgrad.ops.numpy_protocol import INSTEAD

    return [
        "## Refused by name",
        "",
        "Every other function of NumPy that can be overridden raises `NoGradientRuleError` for a "
        "tracked tensor; a test walks them all. Some with what to write instead:",
        "",
        "| refused | instead |",
        "|---|---|",
        *[f"| `np.{name}` | {text} |" for name, text in sorted(INSTEAD.items())],
        "",
    ]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
