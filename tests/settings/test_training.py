"""Real trainings use their project's epochal.toml, and so do the processes that they start."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.doubles.companions import wait_for_the_end
from tests.doubles.journals import of_kind
from tests.settings.places import Places

FILE = """
project = "from-file"
dir = "out"
tags = ["a"]
git = false
capture = true
line_every_s = 0
telemetry_every_s = 1
grace_s = 20

[sinks]
report_to = ["json_log"]
log_file = "log.json"

[rules]
silence = ["nonfinite"]

[rules.log-order]
repeats = 7
"""
TRAINING = """
import os, sys, time
import epochal

run = epochal.init(name="x")
os.chdir("/")
print("printed by the program")
for step in range(30):
    run.log({"loss": float("nan") if step > 9 else 1.0}, step=step)
while sum(p.read_bytes().count(b'"log":"system"') for p in run.dir.glob("journal/telemetry*")) < (
    int(sys.argv[1])
):
    time.sleep(0.05)
run.finish()
"""


def trained(places: Places, *, companion: str, num_measured: int = 0) -> Path:
    places.write(FILE)
    (places.project / "scripts").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", TRAINING, str(num_measured)],
        cwd=places.project / "scripts",
        env={**os.environ, "EPOCHAL_COMPANION": companion},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "became NaN" not in done.stderr
    return places.project / "out" / "from-file" / "x"


def test_a_training_takes_what_it_is_not_told_from_its_project(places: Places) -> None:
    folder = trained(places, companion="0")
    said = json.loads((folder / "run.json").read_text())
    assert said["tags"] == ["a"]
    assert said["rules"] == {"silence": ["nonfinite"], "log-order": {"repeats": 7}}
    assert "git" not in said
    assert any("printed by the program" in str(one) for one in of_kind(folder, "message"))


def test_the_companion_works_with_the_same_settings_in_another_folder(places: Places) -> None:
    folder = trained(places, companion="1", num_measured=2)
    wait_for_the_end(folder)
    assert [one for one in of_kind(folder, "finding") if one["rule"] == "nonfinite"] == []
    # Without the setting, the first record would stand for ten seconds.
    assert len(of_kind(folder, "system")) >= 2
    assert (places.project / "log.json").exists()


def test_readers_judge_a_run_as_it_was_recorded(places: Places, tmp_path: Path) -> None:
    folder = trained(places, companion="0")
    assert doctor(folder, cwd=tmp_path) == []
    said = json.loads((folder / "run.json").read_text())
    del said["rules"]
    (folder / "run.json").write_text(json.dumps(said))
    assert doctor(folder, cwd=tmp_path) == ["nonfinite"]
    assert doctor(folder, cwd=places.project) == []


def doctor(folder: Path, *, cwd: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "epochal", "doctor", str(folder), "--json"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    return [cause["rule"] for cause in json.loads(done.stdout)["causes"]]


def test_the_page_beside_a_training_uses_the_projects_port(places: Places) -> None:
    places.write("git = false\nconsole = false\n[server]\nport = 0")
    program = (
        "import os, epochal\n"
        "run = epochal.init(name='x')\n"
        "os.chdir('/')\n"
        "print(run.serve())\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=places.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        port = re.search(r"127\.0\.0\.1:(\d+)", said)
        assert port is not None, said
        with closing(http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=120)) as asked:
            asked.request("GET", "/healthz")
            pid = json.loads(asked.getresponse().read())["pid"]
        process.communicate("\n", timeout=120)
    os.kill(pid, signal.SIGKILL)
    assert not 6060 <= int(port[1]) < 6110
