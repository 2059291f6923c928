"""The command, as a person types it; no tracker's package is needed here."""

import json
from pathlib import Path

import pytest

from epochal.cli.main import main
from epochal.exchange.sinks.ledger import Ledger
from epochal.exchange.sinks.reporting import options_from
from epochal.journal.layout import RunFolder
from epochal.run.run import Run
from tests.conftest import StartRun


@pytest.fixture
def run(start_run: StartRun) -> Run:
    run = start_run("one")
    run.log({"loss": 1.0}, step=0)
    run.log({"loss": 0.5}, step=1)
    run.finish()
    return run


def call(run: Run, *arguments: str) -> int:
    return main(["sync", run.name, "--dir", str(run.dir.parents[1]), *arguments])


def test_sends_what_is_new_and_says_how_much(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(run, "--to", "json_log,tensorboard") == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "json_log: 4 records sent, none left.",
        "tensorboard: 4 records sent, none left.",
    ]
    assert call(run, "--to", "json_log") == 0
    assert capsys.readouterr().out == "json_log: 4 records sent, none left.\n"


def test_goes_where_the_run_reports_to(run: Run, tmp_path: Path) -> None:
    log_file = tmp_path / "log.json"
    Ledger(RunFolder(run.dir)).report(options_from({"log_file": str(log_file)}))
    assert call(run) == 0
    assert len(json.loads(log_file.read_text())) == 4


def test_options_are_kept_with_the_run(run: Run, tmp_path: Path) -> None:
    assert call(run, "--to", "json_log", "--set", f"log_file={tmp_path}/a.json") == 0
    (tmp_path / "a.json").unlink()
    with open(next((run.dir / "journal").iterdir()), "ab") as journal:
        journal.write(b'{"log":"message","t":1.0,"text":"late"}\n')
    assert call(run, "--to", "json_log") == 0
    assert len(json.loads((tmp_path / "a.json").read_text())) == 5


def test_one_sink_that_cannot_be_used_keeps_no_other_from_it(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    assert call(run, "--to", "wandb,json_log") == 2
    out = capsys.readouterr().out
    assert "json_log: 4 records sent" in out
    assert "wandb: 0 records sent, 4 left: 'wandb' needs the package" in out
    assert "pip install 'epochal[wandb]'" in out


def test_status_tells_and_sends_nothing(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(run, "--status") == 0
    assert capsys.readouterr().out == "The run was never sent to another tracker.\n"
    call(run, "--to", "json_log", "--json")
    assert json.loads(capsys.readouterr().out)["json_log"]["phase"] == "closed"
    with open(next((run.dir / "journal").iterdir()), "ab") as journal:
        journal.write(b'{"log":"message","t":1.0,"text":"late"}\n')
    call(run, "--status")
    assert capsys.readouterr().out == "json_log: 4 records sent, 1 left.\n"


def test_what_a_target_cannot_hold_is_reported_every_time(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(next((run.dir / "journal").iterdir()), "ab") as journal:
        journal.write(b'{"log":"event","t":1.0,"name":"alert"}\n' * 2)
    report = "tensorboard: 2 alerts were not sent: tensorboard cannot hold them.\n"
    assert call(run, "--to", "tensorboard") == 0
    assert capsys.readouterr().out == f"tensorboard: 4 records sent, none left.\n{report}"
    assert call(run, "--to", "tensorboard") == 0
    assert capsys.readouterr().out == f"tensorboard: 4 records sent, none left.\n{report}"
    call(run, "--status")
    assert capsys.readouterr().out.endswith(report)


def test_waits_no_longer_than_it_may(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(run, "--to", "json_log", "--timeout", "0s") in (0, 2)
    assert capsys.readouterr().out.startswith("json_log: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "reports to no tracker"),
        (("--to", "wandbb"), "did you mean wandb"),
        (("--to", "aim", "--set", "aim_repository=x"), "did you mean aim_repo"),
        (("--to", "aim", "--set", "aim_repo"), "NAME=VALUE"),
    ],
)
def test_mistakes_are_named(
    run: Run, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(run, *arguments) == 2
    assert words in capsys.readouterr().err
