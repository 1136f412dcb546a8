"""The stub of ``sweepgrad.functions``: every operation of the namespace with its signature.

The operations are made by declarations at import, so a type checker cannot read them from the
source.  ``docs/render.py`` writes the stub and checks it.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
from collections.abc import Callable
from typing import Any

from sweepgrad.ops.install import public_operations

HEAD = '''"""Every operation of the ``sweepgrad`` namespace, for type checkers and editors.

Rendered from the declarations by ``python docs/render.py``; change them there.
"""
'''


def stub() -> str:
    """The text of ``functions.pyi``."""
    imports: dict[str, str] = {"Any": "from typing import Any"}
    lines = [define(name, op, imports) for name, op in sorted(public_operations().items())]
    listed = "\n".join(f'    "{name}",' for name in sorted(public_operations()))
    known = "\n".join(sorted(set(imports.values())))
    return f"{HEAD}\n{known}\n\n__all__ = [\n{listed}\n]\n\n" + "\n".join(lines) + "\n"


def define(name: str, operation: Callable[..., Any], imports: dict[str, str]) -> str:
    """One definition; adds to ``imports`` what its annotations need."""
    signature = inspect.signature(operation)
    scope = getattr(inspect.unwrap(operation), "__globals__", {})

    def annotated(text: Any) -> str:
        if text is inspect.Parameter.empty:
            return "Any"
        words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"\.\w+", "", str(text))))
        needed = {w for w in words if not hasattr(builtins, w) and not keyword.iskeyword(w)}
        found = {word: import_of(word, scope) for word in needed}
        if None in found.values():
            return "Any"
        imports.update({word: line for word, line in found.items() if line is not None})
        return str(text)

    parameters = [
        parameter.replace(
            annotation=Verbatim(annotated(parameter.annotation)),
            default=parameter.default if parameter.default is parameter.empty else Verbatim("..."),
        )
        for parameter in signature.parameters.values()
    ]
    shown = str(signature.replace(parameters=parameters, return_annotation=parameter_empty))
    return f"def {name}{shown} -> {annotated(signature.return_annotation)}: ..."


parameter_empty = inspect.Signature.empty


class Verbatim:
    """Shows as its text inside a signature."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def import_of(word: str, scope: dict[str, Any]) -> str | None:
    """The import that gives ``word`` its meaning in the operation's module; None if unknown."""
    if word == "np":
        return "import numpy as np"
    if word in ("NDArray", "ArrayLike", "DTypeLike"):
        return f"from numpy.typing import {word}"
    if word == "Any":
        return "from typing import Any"
    meaning = scope.get(word)
    module = getattr(meaning, "__module__", None)
    return f"from {module} import {word}" if module else None
