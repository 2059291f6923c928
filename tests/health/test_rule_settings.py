"""Settings of rules: checked against what the rules declare, kept with a run, and used."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.companion.diagnosis import Diagnosis
from epochal.errors import UsageError
from epochal.health.engine import Health
from epochal.health.registry import RULES
from epochal.health.rule import declared
from epochal.health.rule_settings import RuleSettings, recorded_rules, rule_settings, rules_of
from epochal.journal.layout import RunFolder
from epochal.journal.reader import read_journal
from epochal.run.run import Run
from epochal.settings import read_settings
from epochal.store.local.by_path import load_run
from tests.doubles.companions import companion_config

PLATEAU: list[dict[str, Any]] = [
    {"log": "metrics", "t": float(step), "step": step, "m": {"loss": 2.0 + step % 7 / 50}}
    for step in range(1200)
]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def settings_of(text: str) -> RuleSettings:
        (tmp_path / "epochal.toml").write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        return rule_settings(read_settings())

    return settings_of


def found_by(settings: RuleSettings) -> set[str]:
    health = Health(silenced=settings.silenced, thresholds=settings.thresholds)
    return {finding.rule for record in PLATEAU for finding in health.feed(record)}


def test_a_silenced_rule_finds_nothing(read: Any) -> None:
    assert "never-fell" in found_by(RuleSettings())
    assert "never-fell" not in found_by(read('[rules]\nsilence = ["never-fell"]'))
    assert "never-fell" not in found_by(read("[rules.never-fell]\nenabled = false"))


def test_a_threshold_changes_what_is_found(read: Any) -> None:
    assert "never-fell" not in found_by(read("[rules.never-fell]\npoints = 5000"))


def test_enabled_wins_over_silence(read: Any) -> None:
    read_now = read('[rules]\nsilence = ["plateau", "too-good"]\n[rules.plateau]\nenabled = true')
    assert read_now.silenced == {"too-good"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rules.overfiting.evals = 4", "rules.overfiting is not a rule; did you mean overfitting?"),
        (
            "rules.overfitting.eval = 4",
            "rules.overfitting.eval is not a threshold of overfitting; did you mean evals?",
        ),
        ("rules.overfitting.evals = 4.5", "rules.overfitting.evals = 4.5 is not a whole number"),
        ("rules.overfitting.evals = true", "rules.overfitting.evals = true is not a whole number"),
        ("rules.overfitting.share = -1", "rules.overfitting.share = -1 is not a number, 0 or more"),
        ("rules.overfitting.share = nan", "rules.overfitting.share = nan is not a number, 0 or"),
        ("rules.plateau.enabled = 0", "rules.plateau.enabled = 0 must be true or false."),
        ("rules.plateau = false", "rules.plateau = false must be a table: [rules.plateau]."),
        ('rules.silence = "plateau"', 'rules.silence = "plateau" is not a list of rules.'),
        ('rules.silence = ["platau"]', "rules.silence: platau is not a rule; did you mean plateau"),
        ("rules.nonfinite.x = 1", "rules.nonfinite.x is not a threshold of nonfinite; use one of"),
    ],
)
def test_a_mistake_is_a_sentence(read: Any, line: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(f"# rules\n{line}\n")
    assert str(caught.value).startswith(f"epochal.toml: {words}")


def test_what_a_run_keeps_is_read_back(read: Any) -> None:
    given = read('[rules]\nsilence = ["plateau"]\n[rules.overfitting]\nevals = 4\nshare = 1')
    assert given.record() == {"silence": ["plateau"], "overfitting": {"evals": 4, "share": 1.0}}
    assert recorded_rules(_written(given)) == given


@pytest.mark.parametrize(
    "said",
    [
        None,
        3,
        [],
        {"silence": 3},
        {"silence": ["a-rule-of-later", 3, None, ["x"]]},
        {"overfitting": 3, "x": {"y": 1}},
        {"overfitting": {"evals": "4", "of_later": 1, "share": float("nan")}},
    ],
)
def test_what_another_version_kept_is_left_out(said: Any) -> None:
    assert recorded_rules(said) == RuleSettings()


@pytest.mark.parametrize("text", ['[rules]\nsilence = ["{}"]', "[rules.{}]\nenabled = false"])
def test_a_rule_is_silenced_in_a_project_and_in_a_run(read: Any, text: str) -> None:
    of_project = read(text.format("plateau"))
    for given in (of_project, recorded_rules(_written(of_project))):
        names = {type(one).name for one in Health(silenced=given.silenced)._rules}
        assert names == {one.name for one in RULES} - {"plateau"}


def test_every_rule_uses_the_thresholds_of_its_project_and_of_its_run(read: Any) -> None:
    wanted = {
        rule.name: {name: _doubled(value) for name, value in declared(rule.Thresholds()).items()}
        for rule in RULES
    }
    lines = [
        "\n".join([f"[rules.{rule}]", *(f"{name} = {_toml(one)}" for name, one in values.items())])
        for rule, values in wanted.items()
    ]
    of_project = read("\n".join(lines))
    for given in (of_project, recorded_rules(_written(of_project))):
        used = Health(thresholds=given.thresholds)._rules
        assert {type(one).name: declared(one.thresholds) for one in used} == wanted


# -- no rule at all -------------------------------------------------------------------------------


@pytest.fixture(params=["EPOCHAL_HEALTH=0", "health = false"])
def lost(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose loss is lost, in a project that evaluates no rules."""
    monkeypatch.chdir(tmp_path)
    if request.param == "EPOCHAL_HEALTH=0":
        monkeypatch.setenv("EPOCHAL_HEALTH", "0")
    else:
        (tmp_path / "epochal.toml").write_text(f"{request.param}\n", encoding="utf-8")
    run = epochal.init("p", "a", dir=tmp_path / "runs", console=False, companion=False)
    for step in range(9):
        run.log({"loss": math.nan if step > 4 else 1.0}, step=step)
    return run


def test_a_run_keeps_that_no_rule_is_evaluated_and_its_readers_evaluate_none(
    lost: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Diagnosis(companion_config(lost.dir)).look()
    lost.finish()
    # Another reader, with settings of its own, does what the run keeps.
    monkeypatch.delenv("EPOCHAL_HEALTH", raising=False)
    (tmp_path / "epochal.toml").unlink(missing_ok=True)
    folder = RunFolder(lost.dir)
    assert json.loads(folder.identity.read_text(encoding="utf-8"))["rules"] == {"enabled": False}
    assert rules_of(folder) == RuleSettings(enabled=False)
    assert [record for _, record in read_journal(folder) if record["log"] == "finding"] == []
    assert load_run(Path(lost.dir)).findings(most=None) == []


def _written(settings: RuleSettings) -> Any:
    """The settings as ``run.json`` has them."""
    return json.loads(json.dumps(settings.record()))


def _doubled(value: Any) -> Any:
    return tuple(2 * one for one in value) if isinstance(value, tuple) else 2 * value


def _toml(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
