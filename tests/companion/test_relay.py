"""Sinks driven by a real companion; what the sinks themselves do is tested with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from epochal.companion.own_journal import OwnJournal
from epochal.companion.relay import Relay
from epochal.journal.layout import RunFolder, write_json
from epochal.journal.process import process_identity
from tests.doubles.companions import companion_config, wait_for_the_end
from tests.doubles.journals import of_kind
from tests.doubles.scripts import run_folder, run_script

REPORTING = """
from epochal.run.companion import start_companion
from epochal.run.run import recorder_of
from dataclasses import replace
from epochal.settings import read_launch, read_settings
from epochal.exchange.sinks.ledger import Ledger
from epochal.exchange.sinks.reporting import options_from

run = start(companion=False)
recorder = recorder_of(run)
Ledger(recorder.folder).report(options_from({"report_to": "json_log"}))
recorder.ending.wait_s = WAIT
start_companion(recorder, read_launch(), settings=replace(read_settings(), grace_s=GRACE))
run.log({"loss": 0.5}, step=1)
begun = time.monotonic()
run.finish()
print(time.monotonic() - begun)
"""
HANGING = """
import time
from epochal.exchange.sinks.members.json_log import JsonLogSink
JsonLogSink.write = lambda self, batch: time.sleep(600)
"""


def script(*, grace_s: float, wait_s: float) -> str:
    return REPORTING.replace("GRACE", str(grace_s)).replace("WAIT", str(wait_s))


def logged(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "training.json").read_text())
    return found


def test_what_was_logged_has_been_forwarded_when_finish_returns(tmp_path: Path) -> None:
    code, _, err = run_script(tmp_path, script(grace_s=120, wait_s=120))
    assert (code, err) == (0, "")
    assert "finish" in [record["log"] for record in logged(run_folder(tmp_path))]
    wait_for_the_end(run_folder(tmp_path))


def test_a_sink_that_hangs_holds_finish_no_longer_than_it_may(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANGING)
    folder = run_folder(tmp_path)
    source = script(grace_s=1, wait_s=0.3)
    code, out, err = run_script(tmp_path, source, PYTHONPATH=str(tmp_path))
    assert code == 0
    assert float(out) < 60  # the sink would take ten times as long
    assert f"'epochal sync {folder}' sends what is missing" in err
    wait_for_the_end(folder)
    event = next(event for event in of_kind(folder, "event") if event["name"] == "unfinished")
    (left,) = event["left"]
    assert left["command"] == f"epochal sync {folder}"
    assert left["what"].startswith("not sent to json_log")


def test_a_run_without_sinks_has_none_loaded(tmp_path: Path) -> None:
    relay = Relay(RunFolder(tmp_path), OwnJournal(companion_config(tmp_path)))
    relay.look()
    relay.finish()
    assert not relay.go_on()
    assert relay.left() is None


def test_while_another_process_sends_the_relay_waits(tmp_path: Path) -> None:
    other = process_identity(1)
    kept = {"v": 1, "report_to": ["json_log"], "sinks": {"json_log": {"owner": other}}}
    write_json(tmp_path / "sinks.json", kept)
    relay = Relay(RunFolder(tmp_path), OwnJournal(companion_config(tmp_path)))
    relay.finish()
    assert not relay.is_busy
    assert relay.left() == "not sent to json_log: another process was sending"


def test_a_sink_nobody_knows_is_told_of_and_not_tried_again(tmp_path: Path) -> None:
    write_json(tmp_path / "sinks.json", {"v": 1, "report_to": ["nothing"], "sinks": {}})
    relay = Relay(RunFolder(tmp_path), OwnJournal(companion_config(tmp_path)))
    relay.look()
    relay.look()
    (event,) = of_kind(tmp_path, "event")
    assert event["name"] == "sinks-failed"
    assert "'nothing' is not known" in (relay.left() or "")
