"""Rows, verdicts, files, baselines, table and page."""

import json

import pytest
from benchmarks.baseline import compare
from benchmarks.results import CaseResult, Curve, Report, Row, Target, Timing, load

from benchmarks import cli, page, table


def report(**values):
    """A report with one row for each value; the spread is 10 % either way."""
    rows = [
        Row("case", label, value, "x", Target(1.0), value, 0.9 * value, 1.1 * value, "a <note>")
        for label, value in values.items()
    ]
    curve = Curve("case", "title", "size", "ns", {"line": [(1.0, 2.0), (10.0, 3.0)]})
    timing = Timing("case", "sweepgrad", 1e-6, 2e-6, 1e-6, 3e-6, 11)
    return Report(
        {"cpu": "some", "python": {"version": "3"}},
        [CaseResult("case", rows, [timing], [curve], 1.5)],
    )


@pytest.mark.parametrize(
    ("target", "value", "verdict"),
    [
        (Target(0.8), 0.8, "met"),
        (Target(0.8), 0.81, "MISSED"),
        (Target(1.9, at_most=False), 1.9, "met"),
        (Target(1.9, at_most=False), 1.89, "MISSED"),
        (Target(0.8), None, "not measured"),
        (None, None, "not measured"),
        (None, 3.0, ""),
    ],
)
def test_a_verdict_compares_the_value_with_the_target(target, value, verdict):
    assert Row("case", "label", value, target=target).verdict == verdict


def test_a_report_survives_its_file(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(report(one=0.5, two=2.0).to_json())
    assert load(path) == report(one=0.5, two=2.0)


def test_a_file_of_another_format_is_refused(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"format": 0}))
    with pytest.raises(ValueError, match="format 0"):
        load(path)


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        (1.0, 1.04, "same"),  # within 5 %
        (1.0, 1.09, "same"),  # within the spread of 0.9 to 1.1
        (1.0, 1.2, "worse"),
        (1.0, 0.8, "better"),
    ],
)
def test_a_change_counts_when_it_leaves_the_baselines_spread(before, now, verdict):
    change = compare(report(row=now), report(row=before))["case: row"]
    assert change.verdict == verdict
    assert change.before == before
    assert change.factor == pytest.approx(now / before)


def test_more_is_better_where_the_target_is_a_least_value():
    rows = [Row("case", "row", value, target=Target(1.9, at_most=False)) for value in (1.0, 2.0)]
    before, now = (Report({}, [CaseResult("case", [row])]) for row in rows)
    assert compare(now, before)["case: row"].verdict == "better"
    assert compare(before, now)["case: row"].verdict == "worse"


def test_rows_without_a_counterpart_are_not_compared():
    assert list(compare(report(one=1.0, new=1.0), report(one=1.0, old=1.0))) == ["case: one"]


def test_the_plain_table_shows_each_figure_with_its_verdict(capsys):
    table.show(report(good=0.5, bad=2.0), {})
    lines = capsys.readouterr().out.splitlines()
    (good,) = (line for line in lines if line.startswith("good"))
    (bad,) = (line for line in lines if line.startswith("bad"))
    assert good.split("  ")[0] == "good"
    assert "≤ 1 x" in good
    assert "0.5 x" in good
    assert "0.45 to 0.55" in good
    assert "met" in good
    assert "MISSED" in bad
    assert lines[-1].startswith("1 targets met, 1 missed, 0 not measured")


def test_the_table_shows_the_baseline(capsys):
    now, before = report(row=0.5), report(row=1.0)
    table.show(now, compare(now, before))
    assert "1 (-50%, better)" in capsys.readouterr().out


def test_the_page_holds_every_row_escaped_and_refers_to_nothing_else():
    text = page.render(report(good=0.5, bad=2.0), {})
    assert "<td>good<td>" in text
    assert "<td>bad<td>" in text
    assert "a &lt;note&gt;" in text
    assert "href=" not in text.replace("xlink:href=", "")
    assert "src=" not in text


def test_the_page_says_so_when_it_cannot_draw(monkeypatch):
    monkeypatch.setattr(page, "find_spec", lambda _: None)
    text = page.render(report(row=1.0), {})
    assert page.NO_PLOTS in text
    assert "<svg" not in text


def test_curves_and_timings_are_drawn_as_inline_svg():
    (case,) = report(row=1.0).cases
    assert page.draw_curve(case.curves[0]).count("<svg") == 1
    assert page.draw_bars(case.timings).count("<svg") == 1
    assert page.draw_bars([]) == ""


def test_a_saved_report_is_shown_without_measuring(tmp_path, capsys):
    path, target = tmp_path / "report.json", tmp_path / "page.html"
    path.write_text(report(good=0.5).to_json())
    assert cli.main(["--load", str(path), "--html", str(target), "--baseline", str(path)]) == 0
    assert "0.5 (+0%, same)" in capsys.readouterr().out
    assert "<td>good<td>" in target.read_text()


def test_a_missed_target_is_the_exit_code(tmp_path, capsys):
    path = tmp_path / "report.json"
    path.write_text(report(bad=2.0).to_json())
    assert cli.main(["--load", str(path)]) == 1
    assert "MISSED" in capsys.readouterr().out


def test_an_unknown_case_is_refused_with_the_known_ones(capsys):
    assert cli.main(["--only", "mlpp"]) == 2
    told = capsys.readouterr().err
    assert "no case mlpp; there are" in told
    assert "multiply, tanh" in told


def test_the_cases_are_listed(capsys):
    assert cli.main(["--list"]) == 0
    assert "sweep-wait" in capsys.readouterr().out.splitlines()
