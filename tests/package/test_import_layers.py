"""Imports point downward, one module imports threads, one package takes locks.

The rule, lowest first; a module imports only from rows above its own in this
list, or from its own package:

* ``errors``, ``sync`` and ``randomness`` know nothing of the rest.
* ``interpreter`` refuses a subinterpreter before anything else is imported.
* ``graph`` is the runtime; it knows neither tensors nor NumPy.
* ``dispatch`` holds the hooks by which ``tensor`` reaches backward and NumPy's
  protocols without importing them: they are installed from above.
* ``tensor``, then ``gradients`` (backward on tensors) and ``interchange`` (DLPack), then ``ops``.
* ``numpy`` is the Array API's namespace, over the operations.
* ``autograd`` (custom functions, hooks) builds on the operations.
* ``nn``, ``optim``, ``data``, ``diagnostics`` and ``explore`` do not know each other.
* ``sweepgrad`` itself is the public namespace of everything so far.
* ``train``, then ``cli``, then ``python -m sweepgrad``.

Imports under ``if TYPE_CHECKING`` are for readers and type checkers and may point
anywhere: they do not run.
"""

import ast
import functools
from pathlib import Path

import pytest

import sweepgrad

ROOT = Path(sweepgrad.__file__).parent

LAYERS = (
    ("errors", "sync", "randomness"),
    ("interpreter",),
    ("graph",),
    ("dispatch", "conversion", "protocols"),
    ("tensor",),
    ("gradients", "interchange"),
    ("functional",),
    ("ops",),
    ("functions", "numpy"),
    ("autograd",),
    ("nn", "optim", "data", "diagnostics", "explore", "bridge"),
    ("__init__",),
    ("train",),
    ("cli",),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

#: Ways to start threads or to wait for them.
THREADING = {"threading", "_thread", "queue", "concurrent", "multiprocessing", "asyncio"}

#: File to the modules of THREADING it may import, and why.
MAY_IMPORT = {
    "sync.py": {"threading"},
    "explore/threads.py": {"queue"},  # to put the explorer's own queues in its place
}

#: Names that make or take a lock.
LOCKS = {"acquire", "release", "lock", "locks", "Lock", "RLock", "make_lock", "RankedLock",
         "under_pair", "acquire_rising"}  # fmt: skip

#: What may use them: the runtime, what it is made of, and the explorer, whose locks
#: are models that switch between its threads and never wait.
MAY_LOCK = ("graph/", "sync.py", "explore/")


def sources():
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


@functools.cache
def parse(name):
    return ast.parse((ROOT / name).read_text("utf-8"), name)


def unit(name):
    """The row entry that a file belongs to."""
    return name.split("/")[0].removesuffix(".py")


def running_imports(tree):
    """Full names of what a module imports when it runs."""
    found = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            stack.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        stack.extend(ast.iter_child_nodes(node))
    return found


def own_unit(imported):
    """Which row entry a full name means, or None for another package."""
    parts = imported.split(".")
    if parts[0] != "sweepgrad":
        return None
    known = len(parts) > 1 and ((ROOT / parts[1]).is_dir() or (ROOT / f"{parts[1]}.py").exists())
    return parts[1] if known else "__init__"


def upward_imports(name, tree):
    """The imports of a file that do not point downward."""
    me = unit(name)
    return [
        f"{name} imports {imported}"
        for imported in running_imports(tree)
        if (other := own_unit(imported)) is not None and other != me and LEVEL[other] >= LEVEL[me]
    ]


def thread_imports(name, tree):
    """The imports of a file that bring in threads behind the back of sync.py."""
    allowed = MAY_IMPORT.get(name, set())
    tops = {imported.split(".")[0] for imported in running_imports(tree)}
    return sorted(tops & THREADING - allowed)


def lock_uses(name, tree):
    """Places in a file that make or take a lock."""
    if name.startswith(MAY_LOCK):
        return []
    found = []
    for node in ast.walk(tree):
        used = set()
        if isinstance(node, ast.Attribute):
            used = {node.attr}
        elif isinstance(node, ast.Name):
            used = {node.id}
        elif isinstance(node, ast.ImportFrom):
            used = {alias.name for alias in node.names if node.module != "sweepgrad.diagnostics"}
        if used & LOCKS and not is_lock_report(node):
            found.append(f"{name}:{node.lineno} uses {', '.join(sorted(used & LOCKS))}")
    return found


def is_lock_report(node):
    """``sweepgrad.diagnostics.locks``, the module, and the text column of the operations table."""
    return (isinstance(node, ast.Name) and node.id == "locks") or (
        isinstance(node, ast.Attribute) and node.attr == "locks"
        and isinstance(node.value, ast.Name) and node.value.id == "operation"
    )  # fmt: skip


def violations(check):
    """What a check finds in all files."""
    return [(name, found) for name in sources() if (found := check(name, parse(name)))]


def test_every_module_has_its_place_in_the_layers():
    """A new package is given a row here before anything imports it."""
    assert {unit(name) for name in sources()} == set(LEVEL)


def test_imports_point_downward():
    assert violations(upward_imports) == []


def test_only_sync_imports_threads():
    assert violations(thread_imports) == []


def test_only_the_graph_package_makes_or_takes_locks():
    assert violations(lock_uses) == []


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("ops/x.py", "from sweepgrad.nn import Linear", 1),
        ("ops/x.py", "from sweepgrad import nn", 1),
        ("ops/x.py", "def f():\n    import sweepgrad.cli.main", 1),
        ("ops/x.py", "import sweepgrad", 1),
        ("ops/x.py", "from sweepgrad import tensor", 0),
        ("ops/x.py", "from sweepgrad.ops import y", 0),
        ("nn/x.py", "from sweepgrad import optim", 1),
        ("graph/x.py", "if TYPE_CHECKING:\n    from sweepgrad.tensor import Tensor", 0),
        ("graph/x.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import sweepgrad.tensor", 1),
    ],
)
def test_an_upward_import_is_seen(name, source, expected):
    assert len(upward_imports(name, ast.parse(source))) == expected


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("train/x.py", "import threading", ["threading"]),
        ("graph/x.py", "from threading import Lock", ["threading"]),
        ("ops/x.py", "def f():\n    from concurrent.futures import Executor", ["concurrent"]),
        ("explore/threads.py", "import queue, threading", ["threading"]),
        ("sync.py", "import threading, _thread", ["_thread"]),
        ("train/x.py", "from sweepgrad.sync import Thread", []),
    ],
)
def test_an_import_of_threads_is_seen(name, source, expected):
    assert thread_imports(name, ast.parse(source)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("with self.lock:\n    pass", 1),
        ("runtime.sweeper.lock.acquire()", 2),
        ("from sweepgrad.graph.hierarchy import make_lock", 1),
        ("from sweepgrad.sync import Lock\nLock()", 2),
        ("NATIVE.lock()", 1),
        ("from sweepgrad.sync import Barrier\nBarrier(2).wait()", 0),
    ],
)
def test_a_lock_outside_the_graph_package_is_seen(source, expected):
    assert len(lock_uses("train/x.py", ast.parse(source))) == expected
    assert lock_uses("graph/x.py", ast.parse(source)) == []
