"""The stub that type checkers and editors read names what is installed, and nothing else."""

import ast
from pathlib import Path

import sweepgrad
from sweepgrad.ops.install import CHAPTERS


def test_the_stub_names_every_installed_method_and_no_other():
    stub = Path(sweepgrad.__file__).with_name("methods.pyi")
    (declared,) = [
        node
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "InstalledMethods"
    ]
    names = {node.name for node in declared.body if isinstance(node, ast.FunctionDef)}
    names |= {node.target.id for node in declared.body if isinstance(node, ast.AnnAssign)}
    installed = {name for chapter in CHAPTERS for name in chapter.METHODS}
    apart = {"__hash__", "__array_ufunc__", "__array_function__"}  # no operations
    assert names - apart == installed


def test_every_operation_of_the_namespace_says_what_it_does():
    for name in sweepgrad.operations():
        doc = getattr(sweepgrad, name).__doc__
        assert doc, name
        assert doc.strip(), name
