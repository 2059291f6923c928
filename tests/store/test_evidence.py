"""What stands on the evidence sheet of a run is what the run recorded."""

from __future__ import annotations

import json
import math
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest

import epochal
from epochal.cli.main import main
from epochal.journal.line import encode_json
from epochal.store.evidence.material import digits
from epochal.store.evidence.sheet import Evidence, evidence_of
from epochal.store.opening import open_runs
from tests.exchange.imports.event_files import scalar, write_events

# 1,500 tokens of 3.5 characters.
MOST_CHARACTERS = 5250


def section(sheet: Evidence, title: str) -> tuple[str, ...]:
    return next((each.facts for each in sheet.sections if each.title == title), ())


def record_sum(folder: Path, name: str, weight: float) -> None:
    """A loss of two terms, a norm that is always clipped, and a constant reward."""
    with epochal.init(
        "p", name, dir=folder, console=False, companion=False, config={"size": 8}
    ) as run:
        for step in range(200):
            terms = {"recon": 2.0 + math.sin(step), "kl": 1 / (step + 1)}
            loss = terms["recon"] + weight * terms["kl"]
            norm = 3.0 + math.cos(step)
            clipped = {"norm": norm, "norm_clipped": 1.0, "reward": 0.5}
            run.log({"loss": loss, **terms, **clipped}, step=step)


def test_fixed_relations_and_constants_are_stated(tmp_path: Path) -> None:
    record_sum(tmp_path, "a", 20.0)
    facts = section(evidence_of(epochal.load(tmp_path / "p" / "a").view), "metrics")
    assert "loss = 1 × recon + 20 × kl at every point" in facts
    constant = next(fact for fact in facts if fact.startswith("the same at every point"))
    assert "norm_clipped = 1 (200 points)" in constant
    assert "reward = 0.5 (200 points)" in constant


def test_the_numbers_are_those_of_the_series(tmp_path: Path) -> None:
    record_sum(tmp_path, "a", 2.0)
    run = epochal.load(tmp_path / "p" / "a")
    series = run.view.series("loss")
    fifths = [digits(float(np.median(part))) for part in np.array_split(series.floats, 5)]
    (course,) = (f for f in section(run.evidence, "metrics") if f.startswith("loss: 200 points"))
    assert f"medians of fifths {' → '.join(fifths)}" in course
    first = section(run.evidence, "loss")[0]
    summary = series.summary
    assert f"first {digits(summary.first)}, last {digits(summary.last)}" in first
    assert f"smallest {digits(summary.min)} at {summary.min_step}" in first


def test_the_nearest_run_of_the_project_is_compared(tmp_path: Path) -> None:
    record_sum(tmp_path, "light", 0.1)
    record_sum(tmp_path, "heavy", 20.0)
    with open_runs(tmp_path) as store:
        facts = section(evidence_of(store.run("heavy"), store), "differs from the nearest run")
    assert facts[0] == "nearest configuration: light (finished)"
    assert "there: loss = 1 × recon + 0.1 × kl at every point" in facts


def test_areas_without_a_record_are_named_with_the_line_that_adds_them(tmp_path: Path) -> None:
    record_sum(tmp_path, "a", 1.0)
    missing = section(epochal.load(tmp_path / "p" / "a").evidence, "not recorded")
    assert "gradients, weights, optimizer: add `epochal.watch(model)`" in missing
    assert "training data: add `loader = epochal.watch_data(loader)`" in missing


def test_three_thousand_metrics_fit_and_no_line_is_cut(tmp_path: Path) -> None:
    stages = [f"{letter * 12}.{layer}" for letter in ascii_lowercase for layer in range(24)]
    names = [f"{stage}.weight" for stage in stages]
    with epochal.init("p", "wide", dir=tmp_path, console=False, companion=False) as run:
        for step in range(12):
            values = {f"params/{name}/norm": 1.0 + step for name in names}
            values |= {f"grads/{name}/norm": 0.1 for name in names}
            values |= {f"update_ratio/{name}": 0.01 for name in names}
            values |= {f"own/{'long' * 10}/{n}": math.sin(step * n + 1) for n in range(1200)}
            run.log({"loss": 5.0 - step / 10, **values}, step=step)
    sheet = epochal.load(tmp_path / "p" / "wide").evidence
    assert len(str(sheet)) <= MOST_CHARACTERS
    assert len(encode_json(sheet).decode()) <= MOST_CHARACTERS
    assert sheet.left_out > 0
    family = "aaaaaaaaaaaa.*.weight ×24"
    numbers = "weights 1 → 12, gradients 0.1 → 0.1, updates 0.01 → 0.01"
    assert f"{family}: {numbers}" in section(sheet, "layers")


def test_runs_of_other_trackers_have_a_sheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(tmp_path / "cache"))
    events = [scalar("loss", 1.0 / (step + 1), step=step, t=1.7e9) for step in range(4)]
    write_events(tmp_path / "logs" / "a", events)
    facts = section(epochal.load(tmp_path / "logs" / "a").evidence, "metrics")
    assert any(fact.startswith("loss: 4 points, step 0 to 3, values 1 → 0.5") for fact in facts)


def test_an_empty_run_has_a_sheet(tmp_path: Path) -> None:
    epochal.init("p", "a", dir=tmp_path, console=False, companion=False).finish()
    assert section(epochal.load(tmp_path / "p" / "a").evidence, "run")


def test_the_command_prints_the_sheet_and_judges_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with epochal.init("p", "a", dir=tmp_path, console=False, companion=False) as run:
        run.log({"loss": math.nan}, step=0)
    assert main(["--dir", str(tmp_path), "doctor", "a", "--evidence"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Evidence of p/a"
    assert "- loss: 1 of 1 points are nan or infinite" in lines
    assert main(["--dir", str(tmp_path), "doctor", "a", "--evidence", "--json"]) == 0
    given = json.loads(capsys.readouterr().out)
    facts = [f"- {fact}" for each in given["sections"] for fact in each["facts"]]
    assert [line for line in lines if line.startswith("- ")] == facts
