"""Members of every kind fail beside a real training, and everything else is done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.companions import wait_for, wait_for_the_end
from tests.doubles.journals import of_kind
from tests.doubles.scripts import run_folder, run_script, start_script

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")

BREAK = """
def broken(*_args, **_kwargs):
    raise ValueError("broken on purpose")

def hangs(*_args, **_kwargs):
    import time
    time.sleep(600)

import epochal.companion.timeline, epochal.companion.telemetry_journal
import epochal.health.rules.loss as divergence, epochal.health.rules.loss as plateau
import epochal.telemetry.host as host
divergence.Divergence.observe = broken
plateau.Plateau.observe = hangs
host.HostSource.sample = broken
epochal.companion.timeline.Timeline.look = broken
epochal.companion.timeline.Timeline.take = broken
epochal.companion.telemetry_journal.Telemetry.begin = broken
"""
TRAINING = """
run = start(report_to=["json_log"], log_file=os.environ["FOLDER"] + "/log.json")
deadline = time.monotonic() + 120
step = 0
while time.monotonic() < deadline and not os.path.exists(os.environ["FOLDER"] + "/stop"):
    run.log({"loss": float("nan") if step == 3 else 1.0}, step=step)
    step += 1
    time.sleep(0.05)
run.finish()
print(step)
"""


def errors_in(folder: Path) -> list[dict[str, Any]]:
    return [event for event in of_kind(folder, "event") if event["name"] == "internal-error"]


def test_a_training_with_broken_members_is_recorded_sent_and_diagnosed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BREAK)
    expected = {"rule divergence", "rule plateau", "source host", "task timeline"}
    expected |= {"callback on_records", "task telemetry"}
    folder = run_folder(tmp_path)
    environment = {"EPOCHAL_COMPANION": "1", "PYTHONPATH": str(tmp_path)}
    with start_script(tmp_path, TRAINING, **environment) as process:
        wait_for(lambda: expected <= {event["member"] for event in errors_in(folder)})
        (tmp_path / "stop").touch()
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "loss became NaN" in err
    wait_for_the_end(folder)
    num_steps = int(out)
    companions = [event["name"] for event in of_kind(folder, "event")]
    assert not {"companion-restarted", "companion-lost", "companion-failed"} & set(companions)
    sent = json.loads((tmp_path / "log.json").read_text())
    assert len([record for record in sent if record["log"] == "metrics"]) == num_steps
    recorded = [event["member"] for event in errors_in(folder) if "companion" in event["traceback"]]
    assert len(recorded) == len(set(recorded))
    hung = next(event for event in errors_in(folder) if event["member"] == "rule plateau")
    assert "BudgetExceeded" in hung["reason"]
    assert "time.sleep" in hung["traceback"]
    assert {found["rule"] for found in of_kind(folder, "finding")} == {"nonfinite"}
    text = _doctor(folder, tmp_path)
    for member in expected:
        assert member in text
    assert "Epochal had internal errors" in text


def _doctor(folder: Path, elsewhere: Path) -> str:
    command = [sys.executable, "-m", "epochal", "doctor", str(folder)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(elsewhere)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")  # the loss is a number again
    return done.stdout


def test_the_record_that_overflowed_a_rule_is_an_ordinary_one(tmp_path: Path) -> None:
    source = """
    run = start()
    run.log_moe_stats(0, 0.01, utilization=5e-324, active_experts=8)
    run.finish()
    """
    code, _, err = run_script(tmp_path, source, EPOCHAL_COMPANION="1")
    assert (code, err) == (0, "")
    folder = run_folder(tmp_path)
    wait_for_the_end(folder)
    assert errors_in(folder) == []
