"""The page of operations says what the tests show, of every operation, with no cell left empty."""

import sys
from pathlib import Path

import evidence
import numpy as np

import sweepgrad as sg

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_gradients_agree_in_every_dtype_that_has_them():
    _, wrong = evidence.gathered()
    assert wrong == []


def test_every_operation_with_a_gradient_is_in_the_tables_and_agrees_in_float32():
    rows, _ = evidence.gathered()
    without = {row.name for row in rows if not row.cases}
    assert without == set(evidence.NO_GRADIENT)
    fixed = {row.name for row in rows if row.cases and not row.drawn}
    assert fixed == set()
    narrow = {row.name for row in rows if row.cases and "float32" not in row.dtypes}
    assert narrow == set()


def test_the_page_is_current():
    sys.path.insert(0, str(DOCS))
    try:
        from render_operations import PAGE, page
    finally:
        sys.path.remove(str(DOCS))
    assert PAGE.read_text("utf-8") == page(), "run python docs/render_operations.py"


def test_no_cell_of_the_page_is_empty():
    text = (DOCS / "operations.md").read_text("utf-8")
    cells = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    assert len(cells) > 300
    assert [row for row in cells if not all(cell.strip() for cell in row)] == []


def test_nothing_offered_is_listed_as_refused():
    from sweepgrad.ops.numpy_protocol import INSTEAD

    rows, _ = evidence.gathered()
    offered = {name for row in rows if row.cases for name in row.numpy}
    assert offered & {f"np.{name}" for name in INSTEAD} == set()


def test_operations_are_listed_with_signature_and_first_line():
    listed = sg.operations()
    assert listed["tanh"].startswith("tanh(x): ``tanh(x)``")
    assert listed["softmax"].startswith("softmax(x, axis=-1): ")
    assert list(listed) == sorted(listed)
    assert [name for name, text in listed.items() if text.endswith(": ")] == []


def test_a_case_that_disagrees_is_found():
    from operation_cases import Case

    detached = Case("half", lambda x: x * 0.5 + x.detach() if type(x) is sg.Tensor else x * 1.5,
                    (np.array([1.0, 2.0]),))  # fmt: skip
    assert evidence.outcome(detached, "complex128") not in evidence.OK
