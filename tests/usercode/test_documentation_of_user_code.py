"""The programs in the documentation pages about user code run, and hold what they assert."""

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs"
NAMES = ("custom-operations", "hooks", "checkpointing", "higher-order", "anomaly", "gradcheck")


@pytest.mark.parametrize("name", NAMES)
def test_the_programs_of_the_page_run(name):
    page = (PAGES / f"{name}.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    namespace = {}
    try:
        for program in programs:
            exec(compile(program, f"{name}.md", "exec"), namespace)
    finally:
        # CPython 3.13 without the GIL keeps module-level functions, and with them their
        # globals, for good.
        namespace.clear()
    assert programs


@pytest.mark.parametrize("name", NAMES)
def test_the_page_states_its_threading_promise(name):
    assert "## Threading promise" in (PAGES / f"{name}.md").read_text()
