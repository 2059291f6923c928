"""Waiting for runs: what ends a wait, and what is said about it."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from epochal.cli.main import main
from epochal.query.condition import Condition
from epochal.store.local.catalog import folder_store
from epochal.store.wait import Waited, wait_for_run
from tests.store.journals import Journal

BetweenPolls = Callable[[Callable[[], object]], None]
Capture = pytest.CaptureFixture[str]
DEAD = {"pid": 2**22 + 1, "pid_start": 1.0}


def wait(root: Path, key: str = "x", until: str | None = None, **kwargs: Any) -> Waited:
    condition = None if until is None else Condition(until)
    with folder_store(root) as store:
        return wait_for_run(store, key, until=condition, poll_s=0.01, **kwargs)


@pytest.fixture
def between_polls(monkeypatch: pytest.MonkeyPatch) -> BetweenPolls:
    """Do something each time a wait would sleep: it sees every record in a poll of its own."""
    return lambda act: monkeypatch.setattr(time, "sleep", lambda _seconds: act())


def losses(start: int = 0) -> Iterator[dict[str, Any]]:
    for step in itertools.count(start):
        value = 1.0 if step in (20, 30, 31) else 5.0
        yield {"log": "metrics", "step": step, "m": {"train/loss": value}}


@pytest.mark.parametrize(
    ("status", "words"),
    [("finished", "p/x: finished at step 1."), ("failed", "p/x: failed at step 1 with 1 error.")],
)
def test_the_end_of_a_run_ends_the_wait(tmp_path: Path, status: str, words: str) -> None:
    Journal(tmp_path).metrics(1, loss=1.0).finish(status)
    waited = wait(tmp_path)
    assert (waited.event, waited.status, waited.step, waited.id) == ("ended", status, 1, "id-x")
    assert waited.sentence == words


def test_a_condition_that_was_met_for_one_point_ends_the_wait(
    tmp_path: Path, between_polls: BetweenPolls
) -> None:
    journal = Journal(tmp_path)
    records = losses()
    between_polls(lambda: journal.add(next(records)))
    waited = wait(tmp_path, until="loss < 2")
    assert (waited.event, waited.step, waited.values) == ("until", 20, {"loss": 1.0})
    assert waited.sentence == "p/x: the condition is met at step 20: loss is 1."


def test_points_before_the_wait_count(tmp_path: Path, between_polls: BetweenPolls) -> None:
    journal = Journal(tmp_path)
    for record in itertools.islice(losses(), 31):
        journal.add(record)
    assert wait(tmp_path, until="loss < 2", timeout_s=0).event == "until"
    assert wait(tmp_path, until="loss < 2 for 2 points", timeout_s=0).event == "timeout"
    records = losses(31)
    between_polls(lambda: journal.add(next(records)))
    waited = wait(tmp_path, until="loss < 2 for 2 points and step > 5")
    assert (waited.event, waited.step) == ("until", 31)


def test_a_condition_on_steps_needs_no_metric(tmp_path: Path, between_polls: BetweenPolls) -> None:
    journal = Journal(tmp_path)
    records = losses()
    between_polls(lambda: journal.add(next(records)))
    assert wait(tmp_path, until="step >= 7").step == 7
    assert wait(tmp_path, until="step >= 7").event == "until"


def test_a_run_that_does_not_exist_is_waited_for(tmp_path: Path) -> None:
    Journal(tmp_path, "y").finish()
    notices: list[str] = []

    def appear(sentence: str) -> None:
        notices.append(sentence)
        Journal(tmp_path, "xx").metrics(1, loss=1.0).finish()

    assert wait(tmp_path, "xx", notice=appear).run == "p/xx"
    assert [one.partition(": ")[0] for one in notices] == ["Waiting for the run to appear"]
    waited = wait(tmp_path, "z", timeout_s=0)
    assert (waited.event, waited.status, waited.id) == ("timeout", "missing", None)


def test_a_misspelt_metric_is_noticed_at_once(tmp_path: Path) -> None:
    Journal(tmp_path).add({"log": "metrics", "step": 1, "m": {"val/loss": 3.0}})
    notices: list[str] = []
    waited = wait(tmp_path, until="loss/val < 2", timeout_s=0, notice=notices.append)
    assert notices == ["The run has no metric 'loss/val' yet. Did you mean 'val/loss'?"]
    assert waited.sentence.startswith("p/x is still running after ")


@pytest.mark.parametrize(
    ("on", "event"),
    [("error", "finding"), ("warning", "finding"), ("end", "timeout"), ("finding", "finding")],
)
def test_an_open_finding_ends_the_wait(tmp_path: Path, on: str, event: str) -> None:
    journal = Journal(tmp_path)
    for step in range(60):
        journal.metrics(step, loss=math.nan if step > 50 else 1.0 / (step + 1))
    waited = wait(tmp_path, on=on, timeout_s=0)
    assert waited.event == event
    if waited.finding is not None:
        assert waited.finding.rule == "nonfinite"
        assert waited.sentence.startswith("p/x: error: The loss became NaN at step 51")


def test_findings_below_the_severity_do_not_count(tmp_path: Path) -> None:
    journal = Journal(tmp_path, rules={"conditions": [{"when": "loss > 1"}]})
    journal.metrics(1, loss=2.0)
    found = {on: wait(tmp_path, on=on, timeout_s=0).event for on in ("error", "warning", "finding")}
    assert found == {"error": "timeout", "warning": "finding", "finding": "finding"}


def test_a_process_that_is_gone_has_ended(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    header = {**journal._header("loop", 1, 0), **DEAD}
    journal.path().write_text(json.dumps(header) + "\n", encoding="utf-8")
    waited = wait(tmp_path, timeout_s=0)
    assert (waited.event, waited.status) == ("ended", "crashed")
    assert waited.reason is not None


@pytest.mark.parametrize(
    ("words", "code", "event"),
    [
        (["x", "--on", "end"], 0, "ended"),
        (["x", "--on", "warning"], 1, "finding"),
        (["y", "--timeout", "0s"], 3, "timeout"),
        (["--until", "loss > 3"], 4, "until"),
    ],
)
def test_the_exit_code_says_what_happened(
    tmp_path: Path, capsys: Capture, words: list[str], code: int, event: str
) -> None:
    journal = Journal(tmp_path, rules={"conditions": [{"when": "loss > 3"}]})
    journal.metrics(1, loss=4.0).finish()
    assert main(["wait", *words, "--dir", str(tmp_path)]) == code
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["wait", *words, "--json", "--dir", str(tmp_path)]) == code
    assert json.loads(capsys.readouterr().out)["event"] == event


def test_a_mistake_in_a_condition_is_marked(tmp_path: Path, capsys: Capture) -> None:
    assert main(["wait", "x", "--until", "loss = 3", "--dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == " " * 9 + "^"
