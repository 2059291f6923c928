from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epochal.cli.tui.text import sparkline
from epochal.cli.tui.vitals import (
    Vital,
    finding_lines,
    findings_of,
    overfit_gap,
    vital_lines,
    vitals_of,
)
from epochal.store.local.by_path import load_run
from tests.store.journals import Journal


def steps(journal: Journal, losses: list[float], **more: float) -> None:
    for step, loss in enumerate(losses):
        journal.add({"log": "step", "step": step, "loss": loss, **more})


def by_label(journal: Journal) -> dict[str, Vital]:
    return {vital.label: vital for vital in vitals_of(load_run(journal.folder.path))}


def test_the_vital_signs_of_a_training(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    figures = {"lr": 3e-4, "norm": 0.8, "tokens_per_second": 125_300.0, "sol": 41.5}
    steps(journal, [5.0, 2.0, 3.0], duration_ms=1500.0, **figures)
    found = by_label(journal)
    assert list(found) == ["loss", "lr", "grad norm", "tok/s", "SOL", "step time"]
    texts = [vital.text for vital in found.values()]
    assert texts == ["3.0000", "3.00e-04", "0.8000", "125.3k", "41.5 %", "1.5s"]
    assert found["loss"].remark == "best 2.0000 @ 1"
    journal.metrics(2, hellaswag=0.3).add({"log": "define", "name": "hellaswag", "goal": "max"})
    assert next(iter(by_label(journal))) == "hellaswag"


@pytest.mark.parametrize(("evaluated", "style"), [(2.1, "good"), (2.3, "warn"), (2.6, "bad")])
def test_the_gap_is_judged_against_the_training_loss_since_the_last_evaluation(
    tmp_path: Path, evaluated: float, style: str
) -> None:
    journal = Journal(tmp_path)
    steps(journal, [9.0, 9.0])
    journal.add({"log": "eval", "step": 1, "loss": 9.0})
    for step in (2, 3):
        journal.add({"log": "step", "step": step, "loss": 2.0})
    journal.add({"log": "eval", "step": 3, "loss": evaluated})
    vital = by_label(journal)["eval loss"]
    assert vital.remark == f"gap {100 * (evaluated - 2) / 2:+.1f} %"
    assert vital.remark_style == style


def test_a_gap_over_different_axes_is_unknown(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(0, loss=1.0).epoch(1, val_loss=2.0)
    run = load_run(journal.folder.path)
    assert overfit_gap(run.series("loss"), run.series("val_loss")) is None


def test_a_falling_loss_points_down_and_that_is_good(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    steps(journal, [10 * 0.97**step for step in range(100)])
    loss = by_label(journal)["loss"]
    assert (loss.trend, loss.trend_is_good) == (-1, True)


def test_a_loss_that_is_not_a_number_shouts(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add({"log": "step", "step": 0, "loss": None, "nonfinite": {"loss": "nan"}})
    loss = by_label(journal)["loss"]
    assert (loss.text, loss.style) == ("nan", "shout")


def test_runs_without_a_loss_show_what_they_have(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(0, accuracy=0.5, reward=2e6)
    assert {label: v.text for label, v in by_label(journal).items()} == {
        "accuracy": "0.5000",
        "reward": "2.0M",
    }


def test_a_run_that_logged_nothing_has_none(tmp_path: Path) -> None:
    assert vitals_of(load_run(Journal(tmp_path).add().folder.path)) == []


def test_lines_have_as_much_as_fits(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    steps(journal, [5.0, 2.0, 3.0])
    vitals = list(by_label(journal).values())
    (wide,), (narrow,) = (vital_lines(vitals, columns=columns) for columns in (60, 18))
    assert wide.plain.split() == ["loss", "→", "3.0000", "█▁▃", "best", "2.0000", "@", "1"]
    assert narrow.plain.split() == ["loss", "→", "3.0000"]


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        (np.arange(8.0), "▁▂▃▄▅▆▇█"),
        (np.full(4, 7.0), "▅▅▅▅"),
        (np.array([0.0, np.nan, 1.0]), "▁×█"),
        (np.full(3, np.inf), "×××"),
        (np.empty(0), ""),
    ],
)
def test_a_sparkline_spans_the_common_values(values: np.ndarray, drawn: str) -> None:
    assert sparkline(values, 8) == drawn


def test_open_and_severe_findings_come_first_and_fewer_rows_have_sentences_only(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path).metrics(0, loss=1.0)
    for number, (severity, state) in enumerate(
        [("error", "closed"), ("warning", "open"), ("error", "open")]
    ):
        finding = {"id": str(number), "rule": "r", "severity": severity, "state": state}
        words = {"sentence": f"Sentence {number}.", "advice": "Advice."}
        record = {"log": "finding", "evidence": {}, "t": 1.0, "steps": [1, 2], **finding, **words}
        journal.add(record, writer="findings")
    findings = findings_of(load_run(journal.folder.path))
    assert [line.plain for line in finding_lines(findings, columns=40, rows=9)] == [
        "▲ Sentence 2.",
        "  Advice.",
        "▲ Sentence 1.",
        "  Advice.",
        "○ Sentence 0.",
    ]
    assert [line.plain for line in finding_lines(findings, columns=40, rows=2)] == [
        "▲ Sentence 2.",
        "▲ Sentence 1. +1 more",
    ]
