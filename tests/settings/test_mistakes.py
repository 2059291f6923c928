"""A mistake in a file is one sentence that names the file and the key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from epochal.errors import UsageError
from epochal.run.start import init
from epochal.settings import read_settings
from tests.settings.places import Places

WRONG = {
    'projet = "x"': "projet is not a setting; did you mean project?",
    "zzzz = 1": "zzzz is not a setting; use one of alert_on, alerts,",
    "dir = 3": "dir = 3 is not a text, or is empty.",
    'project = " "': 'project = " " is not a text, or is empty.',
    'resume = "maybe"': 'resume = "maybe" is not known: use one of never, allow, must, latest.',
    'family = "rll"': 'family = "rll" is not known: use one of supervised, language, preference,',
    "resume = 3": "resume = 3 is not known: use one of never,",
    "tags = [1]": "tags = [1] is not a list of texts.",
    'console = "yes"': 'console = "yes" is not a switch: use true or false.',
    "grace_s = -1": "grace_s = -1 is not a time: use seconds, 0 or more.",
    "grace_s = true": "grace_s = true is not a time: use seconds, 0 or more.",
    "grace_s = nan": "grace_s = nan is not a time: use seconds, 0 or more.",
    "telemetry_every_s = 0.5": "telemetry_every_s = 0.5 is out of range: use 1 to 3600 seconds.",
    "verbosity = 7": "verbosity = 7 is not a verbosity: use 0 to 4, or one of quiet,",
    'redact = ["("]': "redact = ['('] holds '(', no regular expression: missing ),",
    "server.port = 70000": "server.port = 70000 is not a whole number from 0 to 65535.",
    "server.prt = 1": "server.prt is not a setting; did you mean port?",
    "server = 1": "server must be a table: [server].",
    "rules = 1": "rules must be a table: [rules].",
    "sinks = []": "sinks must be a table: [sinks].",
    "x = ": "this is not valid TOML: Invalid value (at line 3",
    'x = "': "this is not valid TOML: Illegal character",
}


@pytest.mark.parametrize("line", list(WRONG))
def test_a_mistake_is_a_sentence(line: str, places: Places) -> None:
    said = places.mistake(f"# settings\n\n{line}\n# the end\n")
    assert said.startswith(f"epochal.toml: {WRONG[line]}")
    assert "\n" not in said


def test_an_address_is_not_shown(places: Places) -> None:
    assert "hunter2" not in places.mistake('alerts = ["hunter2"]')


def test_a_file_that_ends_too_early(places: Places) -> None:
    said = places.mistake('project = "x"\ntags = [\n')
    assert said.startswith("epochal.toml: this is not valid TOML: ")


def test_a_mistake_that_a_variable_overrides_is_said_too(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_GRACE", "1")
    assert "grace_s" in places.mistake("grace_s = 'x'")


def test_a_mistake_of_the_user_names_the_users_file(places: Places) -> None:
    path = places.write_user("\nprojct = 1")
    with pytest.raises(UsageError) as caught:
        read_settings()
    assert str(caught.value).startswith(f"{path}: projct is not a setting")


def test_a_file_that_is_not_text(places: Places) -> None:
    (places.project / "epochal.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"epochal\.toml cannot be read: it is not UTF-8 text\."):
        read_settings()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(places: Places) -> None:
    places.write("").chmod(0)
    with pytest.raises(UsageError, match=r"epochal\.toml cannot be read: Permission denied\."):
        read_settings()


def test_a_file_that_cannot_be_read(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_CONFIG", str(places.project))
    with pytest.raises(UsageError, match=r"project cannot be read: Is a directory\."):
        read_settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[rules.overfiting]\nevals = 1", "rules.overfiting is not a rule; did you mean"),
        ("[sinks]\nwandb_projct = 'x'", "the option 'wandb_projct' is not known: did you"),
    ],
)
def test_init_says_what_is_wrong(places: Places, text: str, words: str) -> None:
    places.write(text)
    with pytest.raises(UsageError) as caught:
        init(name="x", dir=places.project / "runs", console=False)
    assert str(caught.value).startswith(f"epochal.toml: {words}")
    assert not (places.project / "runs").exists()


@pytest.mark.slow
def test_a_file_that_breaks_while_a_training_runs_does_no_harm(
    places: Places, tmp_path: Path
) -> None:
    places.write("git = false\nconsole = false")
    run = init(name="x", dir=tmp_path / "runs")
    places.write("git = ")
    run.log({"loss": 1.0}, step=1)
    run.save_html(tmp_path / "a.html")
    run.finish()
    assert (tmp_path / "a.html").exists()
