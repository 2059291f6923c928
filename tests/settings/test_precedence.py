"""Argument over environment over project file over user file over default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epochal.journal.layout import read_json
from epochal.run.current import OPEN_RUNS
from epochal.run.run import recorder_of
from epochal.run.start import init
from epochal.settings import DECLARED, RUN_OPTIONS, Settings, read_settings, with_arguments
from tests.settings.places import Places

# One setting of each kind: TOML in the project's file, in the user's, a text of the variable, and
# the three values.
SAID: dict[str, tuple[str, str, str, tuple[Any, Any, Any]]] = {
    "dir": ('"/p"', '"/u"', "/e", ("/p", "/u", "/e")),
    "project": ('"p"', '"u"', "e", ("p", "u", "e")),
    "resume": ('"allow"', '"latest"', "must", ("allow", "latest", "must")),
    "tags": ('["p"]', '["u"]', "e", (("p",), ("u",), ("e",))),
    "enabled": ("false", "true", "1", (False, True, True)),
    "verbosity": ('"verbose"', "3", "trace", ("verbose", "debug", "trace")),
    "redact": ('["p"]', "false", "e", (("p",), False, ("e",))),
    "grace_s": ("1", "2", "3", (1.0, 2.0, 3.0)),
    "alerts": ('["a://p"]', '["a://u"]', "a://e", (("a://p",), ("a://u",), ("a://e",))),
    "server.port": ("1", "2", "", (1, 2, None)),
    "hub.bytes_per_s": ("1", "2", "3", (1, 2, 3)),
}
BY_KEY = {one.key: one for one in DECLARED}


@pytest.mark.parametrize("key", SAID)
def test_environment_over_project_over_user_over_default(
    key: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = BY_KEY[key]
    project, user, text, expected = SAID[key]
    if setting.variable is not None:
        monkeypatch.delenv(setting.variable, raising=False)

    def value() -> Any:
        return getattr(read_settings(), setting.name)

    assert value() == setting.default == getattr(Settings(), setting.name)
    places.write_user(f"{setting.key} = {user}")
    assert value() == expected[1]
    places.write(f"{setting.key} = {project}")
    assert value() == expected[0]
    if setting.variable is not None:
        monkeypatch.setenv(setting.variable, text)
        assert value() == expected[2]
        monkeypatch.setenv(setting.variable, "")
        assert value() == expected[0]


def test_an_argument_wins_over_environment_and_file(
    places: Places, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places.write('project = "file"\ndir = "nowhere"\nresume = "must"\ngit = false')
    monkeypatch.setenv("EPOCHAL_PROJECT", "variable")
    run = init("argument", "a", dir=tmp_path / "runs", resume="never", console=False)
    assert run.dir == tmp_path / "runs" / "argument" / "a"


@pytest.mark.parametrize("name", RUN_OPTIONS)
def test_every_option_of_a_run_is_an_argument(name: str) -> None:
    """Its default is a value that the argument accepts as well."""
    before = read_settings({})
    assert with_arguments(before, {name: RUN_OPTIONS[name].default}) == before


def test_a_setting_of_a_run_is_a_keyword_of_init(places: Places) -> None:
    places.write("console = false\nfinish_wait_s = 1.5")
    run = init(name="x", git=False, finish_wait_s=0.5, health=False, dir="runs")
    assert recorder_of(run).ending.wait_s == 0.5
    identity = read_json(run.dir / "run.json")
    assert "git" not in identity
    assert identity["rules"] == {"enabled": False}
    assert list(OPEN_RUNS) == [run]
    assert not recorder_of(init(name="y", enabled=False, dir="runs")).is_recorded


def test_what_arguments_leave_open_comes_from_the_file(places: Places) -> None:
    places.write(
        'project = "file"\ndir = "out"\ntags = ["a"]\nconsole = false\nfinish_wait_s = 1.5\n'
        'git = false\nredact = ["cluster"]\n\n[sinks]\nlog_file = "log/training.json"'
    )
    run = init(name="x", tags=["b"], config={"cluster": "the-cluster-name", "lr": 0.1})
    run.finish()
    said = (run.dir / "run.json").read_text(encoding="utf-8")
    assert run.dir == places.project / "out" / "file" / "x"
    assert '"tags":["a","b"]' in said.replace(" ", "")
    assert "the-cluster-name" not in said
    assert recorder_of(run).ending.wait_s == 1.5
    assert str(places.project / "log/training.json") in (run.dir / "sinks.json").read_text()


def test_options_of_sinks_argument_over_config_file_over_settings(places: Places) -> None:
    places.write('console = false\ngit = false\n[sinks]\nwandb_project = "s"\nwandb_name = "s"')
    places.write_user('[sinks]\nwandb_entity = "u"\nwandb_name = "u"\nreport_to = "wandb"')
    config = places.write("wandb_name: c\nwandb_mode: c\n", name="config.yaml")
    run = init(name="x", config=config, wandb_mode="offline", dir="runs")
    run.finish()
    said = (run.dir / "sinks.json").read_text()
    for text in ('"s"', '"u"', '"c"', '"offline"'):
        assert text in said
    assert "wandb" in said


def test_a_sink_of_the_file_is_switched_off_by_an_argument(places: Places) -> None:
    places.write('console = false\ngit = false\n[sinks]\nreport_to = ["json_log"]')
    run = init(name="x", report_to="none", dir="runs")
    run.finish()
    assert not (run.dir / "sinks.json").exists()


def test_paths_of_a_project_are_from_its_file_and_a_users_from_the_working_folder(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    places.write('dir = "runs"')
    places.write_user('cache_dir = "cache"\nserver.token_file = "~/token"')
    monkeypatch.delenv("EPOCHAL_CACHE_DIR")
    (places.project / "src").mkdir()
    monkeypatch.chdir(places.project / "src")
    settings = read_settings()
    assert settings.dir == str(places.project / "runs")
    assert settings.cache_dir == "cache"
    assert settings.server_token_file == str(Path.home() / "token")


def test_conditions_of_init_come_after_those_of_the_file(places: Places) -> None:
    places.write('console = false\ngit = false\n[[rules.conditions]]\nwhen = "loss > 3"')
    run = init(name="x", rules=["acc < 0.5", {"when": "lr > 1", "severity": "info"}], dir="runs")
    assert read_json(run.dir / "run.json")["rules"]["conditions"] == [
        {"when": "loss > 3"},
        {"when": "acc < 0.5"},
        {"when": "lr > 1", "severity": "info"},
    ]
    assert "rules" in read_json(init(name="y", rules="loss > 3", dir="runs").dir / "run.json")


def test_rules_of_the_project_are_over_those_of_the_user(places: Places) -> None:
    places.write("[rules.overfitting]\nevals = 4")
    places.write_user('[rules]\nsilence = ["plateau"]\n[rules.overfitting]\nevals = 9\nleast = 7')
    rules = {key: located.value for key, located in read_settings().rules.items()}
    assert rules == {"silence": ["plateau"], "overfitting.evals": 4, "overfitting.least": 7}
