"""Conditions as rules: in the engine alone, and in a real run with its companion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.errors import UsageError
from epochal.health.engine import Health
from epochal.health.finding import Finding
from epochal.health.rule_settings import RuleSettings, recorded_rules, rule_settings
from epochal.settings import read_settings
from epochal.store.local.by_path import load_run
from tests.doubles.companions import wait_for_the_end

TOML = """
[[rules.conditions]]
when = "eval/loss > 3 for 2 points"
severity = "error"
message = "The evaluation loss is far too high."

[[rules.conditions]]
when = "step >= 4"
"""


def judged(conditions: list[Any], records: list[dict[str, Any]], **kwargs: Any) -> list[Finding]:
    health = Health(thresholds={"condition": {"conditions": conditions}}, **kwargs)
    found = [finding for record in records for finding in health.feed(record)]
    assert not health.guard.faults
    return [finding for finding in found if finding.rule == "condition"]


def metrics(step: int, **values: float) -> dict[str, Any]:
    named = {name.replace("__", "/"): value for name, value in values.items()}
    return {"log": "metrics", "t": float(step), "step": step, "m": named}


def test_a_condition_opens_a_finding_and_closes_it() -> None:
    values = [1.0, 4.0, 4.0, 4.5, 1.0, 1.0, 1.0]
    records = [metrics(step, eval__loss=value) for step, value in enumerate(values)]
    opened, closed = judged([{"when": "eval/loss > 3 for 2 points"}], records)
    assert (opened.severity, opened.state, opened.steps) == ("warning", "open", (2, 2))
    assert opened.sentence == (
        "The condition 'eval/loss > 3 for 2 points' is met: eval/loss is 4 at step 2."
    )
    assert opened.evidence == {"condition": "eval/loss > 3 for 2 points", "value": 4.0, "step": 2}
    assert (closed.id, closed.state, closed.steps) == (opened.id, "closed", (2, 3))


def test_each_condition_has_its_own_finding_severity_and_message() -> None:
    conditions = [
        {"when": "acc < 0.5", "severity": "error", "message": "Too {low}."},
        {"when": "acc < 0.5 and lr > 1", "severity": "info"},
    ]
    found = judged(conditions, [metrics(1, acc=0.1), metrics(2, lr=2.0)])
    assert [(one.severity, one.sentence) for one in found] == [
        ("error", "Too {low}."),
        ("info", "The condition 'acc < 0.5 and lr > 1' is met: acc is 0.1 and lr is 2 at step 2."),
    ]
    assert found[1].evidence["value"] == "acc is 0.1 and lr is 2"


@pytest.mark.parametrize(
    ("when", "step"),
    [("loss > 3", 2), ("acc > 3", 1), ("train/acc > 3", 2), ("step == 2", 2), ("eval_loss > 3", 1)],
)
def test_a_metric_is_found_as_readers_find_it(when: str, step: int) -> None:
    """By name, by role, or by the end of a name: that of the first series with it."""
    records = [
        metrics(0, train__loss=1.0),
        metrics(1, val__loss=9.0, val__acc=9.0),
        metrics(2, train__loss=9.0, train__acc=9.0),
    ]
    (found,) = judged([{"when": when}], records)
    assert found.evidence["step"] == step


def test_points_are_counted_again_after_a_resume() -> None:
    records = [
        *(metrics(step, loss=9.0) for step in range(3)),
        {"log": "resume", "t": 3.0, "step": 2, "attempt": 2},
        metrics(2, loss=9.0),
    ]
    assert judged([{"when": "loss > 3 for 4 points"}], records) == []


def test_a_spike_of_a_fast_run_meets_a_condition() -> None:
    records = [metrics(step, loss=50.0 if step == 4321 else 1.0) for step in range(6000)]
    records = [{**record, "t": record["step"] / 5000} for record in records]
    found = judged([{"when": "loss > 3"}, {"when": "loss > 3 for 2 points"}], records)
    assert {one.evidence["step"] for one in found} == {4321}


def test_conditions_are_silenced_together() -> None:
    assert judged([{"when": "loss > 3"}], [metrics(1, loss=9.0)], silenced=["condition"]) == []


def settings_of(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> RuleSettings:
    (folder / "epochal.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    return rule_settings(read_settings())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rules.conditions]]\nwhen = 'loss >> 3'", "expected a number after '>'"),
        ("[[rules.conditions]]\nwen = 'loss > 3'", "a condition is a text or a table with when ="),
        (
            "[[rules.conditions]]\nwhen = 'loss > 3'\nseverty = 'error'",
            "severty is not known; did you mean severity?",
        ),
        (
            "[[rules.conditions]]\nwhen = 'loss > 3'\nseverity = 'bad'",
            "severity = 'bad' is not one of info, warning, error.",
        ),
        ("[rules]\nconditions = 3", "a condition is a text or a table"),
    ],
)
def test_a_mistake_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        settings_of(tmp_path, monkeypatch, text)
    assert str(caught.value).startswith(f"epochal.toml: rules.conditions: {words}")


def test_what_a_run_keeps_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = settings_of(tmp_path, monkeypatch, TOML)
    record = json.loads(json.dumps(given.record()))
    assert [table["when"] for table in record["conditions"]] == [
        "eval/loss > 3 for 2 points",
        "step >= 4",
    ]
    assert recorded_rules(record) == given
    of_later = {"conditions": [{"when": "loss is strange"}, 3, {"when": "loss > 1", "of": "later"}]}
    assert recorded_rules(of_later) == RuleSettings()


@pytest.mark.parametrize("companion", [True, False])
def test_a_companion_and_readers_judge_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, companion: bool
) -> None:
    settings_of(tmp_path, monkeypatch, TOML)
    given = [{"when": "loss > 0", "severity": "info"}]
    where: Any = {"dir": tmp_path / "runs", "console": False, "companion": companion}
    run = epochal.init("p", "a", rules=given, **where)
    for step in range(6):
        run.log({"eval/loss": 3.5, "loss": 1.0}, step=step)
    run.finish()
    wait_for_the_end(Path(run.dir))
    (tmp_path / "epochal.toml").unlink()  # the run keeps its conditions
    view = load_run(Path(run.dir))
    recorded = view.entries("finding") if companion else view.findings()
    found = {e.record["series"]: e.record for e in recorded if e.record["rule"] == "condition"}
    assert set(found) == {"eval/loss > 3 for 2 points", "step >= 4", "loss > 0"}
    first = found["eval/loss > 3 for 2 points"]
    assert (first["severity"], first["sentence"]) == (
        "error",
        "The evaluation loss is far too high.",
    )
    assert first["evidence"]["value"] == 3.5
