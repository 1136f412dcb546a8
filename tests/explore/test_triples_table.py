"""The page about triples says what was measured, and that nothing failed."""

import json

import triples_table
from test_pairs import TRIPLES


def test_the_page_about_triples_is_rendered_from_the_figures():
    figures = json.loads(triples_table.FIGURES.read_text())

    assert triples_table.PAGE.read_text() == triples_table.rendered(figures)


def test_what_was_run_was_run_a_hundred_thousand_times_without_a_failure():
    figures = json.loads(triples_table.FIGURES.read_text())

    assert figures.keys() <= {triples_table.name_of(triple) for triple in TRIPLES}
    assert {entry["schedules"] for entry in figures.values()} == {100_000}
    assert {entry["failing"] for entry in figures.values()} == {0}
