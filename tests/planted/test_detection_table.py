"""The page says what was measured, each fault is caught by two levels, and a sample still is."""

import re

import pytest

from planted import detection
from planted.catalogue import FAULTS, SHIPPED
from planted.detection import LEVELS, figures, once

#: Seeds that a level has to be asked at least; the page says how many it was.
RUNS = 100
#: Levels in this process.
QUICK = [name for name, level in LEVELS.items() if not level.apart]
#: Of these, those with a seed; the one without is test_explorer_finds_planted.py's.
SEEDED = [name for name in QUICK if LEVELS[name].most > 1]


def caught_by(fault):
    """The levels that catch the fault, the cheapest first: 95 in 100 times, or without chance."""
    found = []
    for name, level in LEVELS.items():
        cell = figures().get(name, {}).get(fault, {"runs": 0})
        if cell["runs"] >= min(level.most, RUNS) and cell["caught"] >= 0.95 * cell["runs"]:
            found.append((cell["seconds"], name))
    return [name for _, name in sorted(found)]


def test_the_page_is_rendered_from_the_figures():
    assert detection.PAGE.read_text() == detection.page()


@pytest.mark.parametrize("fault", FAULTS)
def test_two_levels_catch_the_fault(fault):
    assert len(caught_by(fault)) >= 2


def test_no_level_flagged_the_shipped_code():
    cells = [cells[SHIPPED] for cells in figures().values() if SHIPPED in cells]

    assert len(cells) == len(LEVELS)
    assert [cell["caught"] for cell in cells] == [0] * len(cells)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_two_cheapest_levels_still_catch_the_fault(fault):
    """Three new seeds; each level may miss one in twenty, so at least two of three are caught."""
    for name in [name for name in caught_by(fault) if name in SEEDED][:2]:
        seen = [once(LEVELS[name], fault, seed)[0] for seed in (1_000, 1_001, 1_002)]

        print(f"\n{fault}: {name} saw {seen}; budget {LEVELS[name].unit}")
        assert sum(kind is not None for kind in seen) >= 2


@pytest.mark.parametrize("name", ["order checker", "handlers"])
def test_the_cheap_levels_do_not_flag_the_shipped_code(name):
    assert [once(LEVELS[name], SHIPPED, seed)[0] for seed in (1_000, 1_001)] == [None, None]


def test_every_reason_not_to_see_a_fault_names_one():
    from planted.detection_page import CANNOT

    assert {fault for reasons in CANNOT.values() for fault in reasons} <= FAULTS.keys()


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", [SHIPPED, *FAULTS])
@pytest.mark.parametrize("name", QUICK)
def test_a_hundred_runs_catch_what_the_page_says(name, fault):
    """And the shipped code is not flagged in any of them."""
    cell = detection.measured(LEVELS[name], fault, 100)

    assert fault != SHIPPED or cell["caught"] == 0
    assert name not in caught_by(fault) or cell["caught"] >= 0.95 * cell["runs"]


def test_the_commands_in_the_documents_are_those_there_are():
    text = detection.PAGE.read_text()

    assert re.findall(r"python (tests/\S+)", text) == ["tests/planted/detection.py"]
    assert "`pytest tests/planted -s`" in text
    assert "`python -m pytest tests/planted -s`" in (detection.ROOT / "README.md").read_text()
