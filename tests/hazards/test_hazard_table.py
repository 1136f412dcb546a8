"""docs/hazards.md names tests that exist, in every row, and every test of this folder."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "hazards.md"
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def rows():
    """The rows of all tables, without headings."""
    lines = PAGE.read_text("utf-8").splitlines()
    table = [line for line in lines if line.startswith("|")]
    return [row for row in table if not row.startswith(("|---", "| event |"))]


def functions(file):
    """Function to whether it runs by default, at least for some of its parameters."""
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    return {
        node.name: "pytest.mark.slow" not in [ast.unparse(part) for part in node.decorator_list]
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip()[:50])
def test_each_row_names_tests_that_exist(row):
    assert row.count("|") == 4, "event, promise, shown by"
    named = NAMED.findall(row)
    assert named
    assert len(named) == row.count("::"), "each name is a path and a function"
    for file, function in named:
        assert function in functions(file), f"{file} has no {function}"
    assert any(functions(file)[function] for file, function in named), "not by slow tests alone"


def test_every_test_of_hazards_is_in_the_table():
    named = set(NAMED.findall("\n".join(rows())))
    tests = {
        (f"hazards/{path.name}", name)
        for path in (TESTS / "hazards").glob("test_*.py")
        if path.name != Path(__file__).name
        for name in functions(f"hazards/{path.name}")
        if name.startswith("test_")
    }
    assert tests - named == set()
    assert len(tests) > 30
