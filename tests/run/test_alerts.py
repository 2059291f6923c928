"""``run.alert``: recorded, printed, sent where findings are sent, and not repeated too soon."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.companion.alerts import Alerts
from epochal.companion.diagnosis import Diagnosis
from epochal.errors import EpochalError
from tests.companion.test_alerts import Sent, finish
from tests.conftest import StartRun
from tests.doubles.companions import companion_config
from tests.doubles.journals import of_kind


def alerts_of(folder: Path) -> list[dict[str, Any]]:
    events = [record for record in of_kind(folder, "event") if record["name"] == "alert"]
    return [{name: one[name] for name in ("title", "text", "level")} for one in events]


def test_an_alert_is_an_event_with_its_level(start_run: StartRun) -> None:
    run = start_run()
    run.log({"loss": 9.0}, step=3)
    assert run.alert("loss is high", "above 5", level="warning") is True
    assert run.alert("done") is True
    assert alerts_of(run.dir) == [
        {"title": "loss is high", "text": "above 5", "level": "warning"},
        {"title": "done", "text": "", "level": "info"},
    ]
    events = epochal.load(run.dir).view.events()
    assert [entry.record["step"] for entry in events] == [3, 3]


def test_the_same_title_waits(start_run: StartRun) -> None:
    run = start_run()
    told = [run.alert("a"), run.alert("a", "again"), run.alert("b"), run.alert("a", wait_s=0)]
    assert told == [True, False, True, True]
    assert [one["title"] for one in alerts_of(run.dir)] == ["a", "b", "a"]


def test_warnings_are_printed_as_notices(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(console=True)
    run.alert("hot", "90 °C", level="error")
    run.alert("fine")
    shown = capsys.readouterr()
    assert "alert: hot: 90 °C" in shown.err
    assert "alert: fine" in shown.out + shown.err


@pytest.mark.parametrize(
    ("level", "recorded"),
    [("warn", "warning"), ("ERROR", "error"), ("critical", "error"), (logging.WARNING, "warning")],
)
def test_the_levels_of_logging_are_known(start_run: StartRun, level: Any, recorded: str) -> None:
    run = start_run()
    assert run.alert("hot", level=level)
    assert [one["level"] for one in alerts_of(run.dir)] == [recorded]


_WRONG: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"title": " "}, {"title": "alert"}),
    ({"level": "loud"}, {"level": "warning"}),
    ({"wait_s": "soon"}, {}),
]


@pytest.mark.parametrize(("arguments", "recorded"), _WRONG)
def test_a_wrong_argument_is_noted_and_the_alert_is_sent(
    start_run: StartRun, arguments: dict[str, Any], recorded: dict[str, str]
) -> None:
    run = start_run()
    assert run.alert(**{"title": "a", **arguments})
    assert alerts_of(run.dir) == [{"title": "a", "text": "", "level": "info", **recorded}]
    assert [r for r in of_kind(run.dir, "event") if r["name"].startswith("value-")]


@pytest.mark.parametrize("arguments", [arguments for arguments, _ in _WRONG])
def test_a_wrong_argument_raises_in_a_strict_run(
    start_run: StartRun, arguments: dict[str, Any]
) -> None:
    run = start_run(strict=True)
    with pytest.raises(EpochalError):
        run.alert(**{"title": "a", **arguments})
    assert alerts_of(run.dir) == []


@pytest.mark.parametrize(("least", "num_sent"), [("error", 1), ("off", 0)])
def test_the_companion_sends_it_once_also_after_a_restart(
    start_run: StartRun, least: str, num_sent: int
) -> None:
    run = start_run(companion=False)
    run.alert("loss is high", "above 5", level="info")
    sent = Sent()
    alerts = Alerts(sent, run="p/a", least=least)
    for _ in range(2):
        Diagnosis(companion_config(run.dir), on_alert=alerts.asked).look()
    run.finish()
    finish(alerts)
    assert sent.bodies == ["loss is high: above 5"] * num_sent
