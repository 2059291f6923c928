"""The results of ``make test-frameworks`` in the docs, and what ``make check`` says of them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tools.frameworks import FRAMEWORKS, PAGE, complaints, main, rows_of, with_row

EMPTY = "# Title\n\n<!-- results -->\n<!-- end of results -->\n\nMore.\n"
TODAY = date(2026, 11, 15)


def page_with(result: str, day: str) -> str:
    page = EMPTY
    for name in FRAMEWORKS:
        page = with_row(page, name, (result, day, f"{name} 1.0"))
    return page


def test_a_result_is_written_between_the_marks() -> None:
    page = page_with("passed (3 tests)", "2026-11-01")
    assert rows_of(page)["optuna"] == ("passed (3 tests)", "2026-11-01", "optuna 1.0")
    assert page.startswith("# Title")
    assert page.endswith("More.\n")
    again = with_row(page, "optuna", ("failed", "2026-11-02", "optuna 2.0"))
    assert rows_of(again)["optuna"][0] == "failed"
    assert len(rows_of(again)) == len(FRAMEWORKS)


def test_new_results_are_fine() -> None:
    assert complaints(page_with("passed (3 tests)", "2026-11-01"), TODAY) == []


def test_old_failed_and_missing_results_are_sentences() -> None:
    old = complaints(page_with("passed (3 tests)", "2026-07-01"), TODAY)
    failed = complaints(page_with("failed", "2026-11-01"), TODAY)
    missing = complaints(EMPTY, TODAY)
    assert len(old) == len(failed) == len(missing) == len(FRAMEWORKS)
    assert "over 120 days ago: run 'make test-frameworks NAME=" in old[0]
    assert "failed on 2026-11-01" in failed[0]
    assert "has no result of" in missing[0]


def test_every_framework_has_its_tests() -> None:
    there = {
        p.stem.removeprefix("test_")
        for p in (Path(__file__).parent / "frameworks").glob("test_*.py")
    }
    assert there == set(FRAMEWORKS)
    assert set(rows_of(PAGE.read_text(encoding="utf-8"))) <= set(FRAMEWORKS)


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fastai"])
    assert "no framework 'fastai'" in capsys.readouterr().err
