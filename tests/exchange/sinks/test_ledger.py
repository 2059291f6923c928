import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from epochal.errors import FormatError
from epochal.exchange.sinks.ledger import Ledger, SinkProgress
from epochal.exchange.sinks.reporting import options_from
from epochal.exchange.sinks.sink import SinkBusyError
from epochal.journal.layout import RunFolder, write_json
from epochal.journal.process import process_identity


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(RunFolder(tmp_path))


@pytest.fixture
def other_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_nothing_is_reported_before_it_was_said(ledger: Ledger) -> None:
    assert ledger.reporting().report_to == ()
    assert ledger.progress_by_sink() == {}
    assert ledger.progress("wandb") == SinkProgress()


def test_reporting_and_progress_keep_apart(ledger: Ledger) -> None:
    progress = SinkProgress(
        sent={"loop": (1, 0, 5)}, sending={"loop": (1, 0, 9)}, state={"id": "x"}
    )
    ledger.save("wandb", progress)
    reporting = options_from({"report_to": ["wandb", "aim"], "wandb_project": "p"})
    ledger.report(reporting)
    assert ledger.reporting() == reporting
    assert ledger.progress("wandb") == progress


def test_sink_of_a_living_process_is_not_taken_over(
    ledger: Ledger, other_process: subprocess.Popen[bytes]
) -> None:
    owner = process_identity(other_process.pid)
    ledger.save("aim", SinkProgress(owner=owner, phase="waiting"))
    with pytest.raises(SinkBusyError, match=f"process {other_process.pid} "):
        ledger.claim("aim")
    assert ledger.claim("wandb").owner == process_identity()


def test_sink_of_a_dead_or_done_process_is_taken_over(
    ledger: Ledger, other_process: subprocess.Popen[bytes]
) -> None:
    owner = process_identity(other_process.pid)
    ledger.save("aim", SinkProgress(owner=owner, phase="closed"))
    assert ledger.claim("aim").owner == process_identity()
    ledger.save("aim", SinkProgress(owner=owner, phase="sending", num_sent=3))
    other_process.kill()
    other_process.wait()
    assert ledger.claim("aim").num_sent == 3


def test_sink_of_another_machine_is_held_while_its_entry_is_young(ledger: Ledger) -> None:
    elsewhere = {"host": "another", "pid": os.getpid()}
    young = replace(ledger.claim("aim"), owner=elsewhere, phase="waiting")
    ledger.save("aim", young)
    with pytest.raises(SinkBusyError, match="on another"):
        ledger.claim("aim")
    ledger.save("aim", replace(young, updated=1.0))
    assert ledger.claim("aim").owner == process_identity()


def test_entry_that_is_none_is_named(ledger: Ledger) -> None:
    write_json(ledger.path, {"sinks": {"aim": {"sent": {"loop": [1]}}}})
    with pytest.raises(FormatError, match=r"sinks\.json"):
        ledger.progress_by_sink()
