from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import epochal
from epochal.cli.main import main, program
from epochal.demo import text as demo_text
from epochal.demo.training import FAST, WATCHED, Trainer, train
from epochal.journal.layout import RunFolder
from epochal.journal.reader import PartReader
from epochal.records import Record


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(FAST, seed=1, directory=tmp_path_factory.mktemp("runs")).dir


def records(path: Path, *, kind: str | None = None, writer: str | None = None) -> Iterator[Record]:
    folder = RunFolder(path)
    for name in folder.parts():
        if writer in (None, name.writer):
            reader = PartReader(folder.part_path(name), name)
            yield from (r for _, r in reader.read() if kind in (None, r["log"]))
            assert reader.damaged == 0


def values(path: Path, *, kind: str, field: str) -> list[Any]:
    return [record[field] for record in records(path, kind=kind) if field in record]


def test_the_demonstration_learns(trained: Path) -> None:
    losses = values(trained, kind="step", field="loss")
    assert losses[0] == pytest.approx(math.log(len(demo_text.ALPHABET)), rel=0.05)
    assert losses[-1] < 0.6 * losses[0]


def test_it_writes_what_a_training_has_to_say(trained: Path) -> None:
    written = {record["log"] for record in records(trained)}
    assert written >= {"step", "eval", "epoch", "text", "histogram", "blob", "graph", "dataset"}
    assert written >= {"option", "define", "message", "finish"}


def test_the_samples_panel_has_pictures_continuations_and_a_confusion_matrix(trained: Path) -> None:
    samples: dict[str, list[Record]] = {}
    for record in records(trained, kind="blob"):
        samples.setdefault(record["name"], []).append(record)
    assert {name: len(found) for name, found in samples.items()} == {
        "hidden.weight": FAST.num_epochs + 1,
        "continuations": FAST.num_epochs,
        "vowels": FAST.num_epochs,
    }
    assert samples["vowels"][0]["chart"]["kind"] == "matrix"
    table = json.loads((trained / "blobs" / samples["continuations"][-1]["file"]).read_bytes())
    assert table["columns"] == ["prompt", "completion", "real words", "length", "temperature"]


def test_steps_carry_rate_norm_and_tokens(trained: Path) -> None:
    step = next(records(trained, kind="step"))
    assert {"loss", "norm", "norm_clipped", "lr", "step_tokens", "duration_ms"} <= step.keys()


def test_the_same_seed_gives_the_same_losses(trained: Path, tmp_path: Path) -> None:
    again = train(FAST, seed=1, directory=tmp_path).dir
    expected = values(trained, kind="step", field="loss")
    assert values(again, kind="step", field="loss") == pytest.approx(expected, rel=1e-3)


def test_the_watched_training_is_paced_to_about_twenty_seconds() -> None:
    sentences = demo_text.write_text(
        np.random.default_rng(0), num_sentences=WATCHED.train_sentences
    )
    steps = WATCHED.num_epochs * (len(sentences) // WATCHED.batch_size)
    assert 15 < steps * WATCHED.pace_s < 25


def test_the_lowest_loss_is_the_entropy_of_the_text() -> None:
    text = demo_text.write_text(np.random.default_rng(0), num_sentences=2000)
    nats_per_sentence = sum(math.log(n) for n in (4, 12, 12, 11, 2, 12, 11, 6))
    measured = 2000 * nats_per_sentence / len(text)
    assert demo_text.lowest_possible_loss() == pytest.approx(measured, rel=0.01)


def test_the_drawing_of_the_model_is_well_formed(trained: Path) -> None:
    drawing = ElementTree.fromstring(values(trained, kind="graph", field="svg")[0])
    assert "hidden, tanh" in "".join(drawing.itertext())


def suggested(output: str) -> list[str]:
    lines = output.split("Next:\n")[1].split("\n\n")[0].splitlines()
    return [line.strip().split("   ")[0] for line in lines]


def findings_of(folder: Path) -> list[tuple[str, str, list[int]]]:
    with epochal.open(folder.parent.parent) as runs:
        view = runs.run(str(folder)).view
        figures = {entry.record["id"]: entry.record for entry in view.findings(most=None)}
    return [(one["rule"], one["severity"], one["steps"]) for one in figures.values()]


def test_it_finds_the_damaged_batches_and_nothing_else(trained: Path) -> None:
    damaged = Trainer(FAST, seed=1).damaged_steps
    assert findings_of(trained) == [("loss-spike", "info", [damaged[0], damaged[-1]])]


def test_the_time_of_a_step_is_all_of_it(trained: Path) -> None:
    """Else a busy machine would look like a loop that waits for its data."""
    steps = list(records(trained, kind="step"))
    per_epoch = len(steps) // FAST.num_epochs
    middle = steps[1 : per_epoch // 2]
    wall_ms = 1000 * (middle[-1]["t"] - middle[0]["t"])
    assert sum(step["duration_ms"] for step in middle[1:]) == pytest.approx(wall_ms, rel=0.5)


def epochal_demo(folder: Path, *words: str, **variables: str) -> tuple[list[str], dict[str, str]]:
    """The command as it was installed, and an environment in which nothing of ours is on PATH."""
    program = Path(sys.executable).parent / "epochal"
    plain = {k: v for k, v in os.environ.items() if k not in ("CI", "VIRTUAL_ENV")}
    own = {"PATH": "/usr/bin:/bin", "EPOCHAL_COMPANION": "0", "EPOCHAL_GIT": "0"}
    return [str(program), "demo", *words], {**plain, **own, **variables}


def test_the_commands_that_it_ends_with_work_as_they_are_printed(tmp_path: Path) -> None:
    command, environment = epochal_demo(tmp_path, "--fast", "--dir", "some runs", CI="1")
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "Live page" not in done.stdout
    *lines, archive = suggested(done.stdout)
    assert (tmp_path / archive).read_text().startswith("<!doctype html>")
    for line in lines:
        if " serve " not in line:  # which does not return
            subprocess.run(line, shell=True, env=environment, cwd=tmp_path, check=True)
    assert {shlex.split(line)[1] for line in lines} <= set(program.summaries)


def test_on_a_terminal_the_page_is_served_first_and_stays_until_enter(tmp_path: Path) -> None:
    command, environment = epochal_demo(tmp_path, "--fast")
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = read_until(ours, "Press Enter to end.")
    url = re.search(r"Live page: (http://127\.0\.0\.1:\d+/)", shown)
    assert url is not None
    assert shown.index("Live page: ") < shown.index(":: step")
    with urllib.request.urlopen(url[1]) as answer:
        assert b"Epochal" in answer.read()
    assert process.poll() is None
    os.write(ours, b"\n")
    assert process.wait(120) == 0
    os.close(ours)


def read_until(descriptor: int, words: str) -> str:
    text = b""
    while words.encode() not in text:
        text += os.read(descriptor, 65536)
    return text.decode("utf-8", "replace")


def test_the_command_names_the_run_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--fast", "--json", "--dir", str(tmp_path)]) == 0
    named = json.loads(capsys.readouterr().out)
    assert named["name"] == "sentences"
    assert RunFolder(Path(named["folder"])).identity.exists()


def test_a_negative_seed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--fast", "--seed", "-1", "--dir", str(tmp_path)]) == 2
    assert "--seed" in capsys.readouterr().err


def test_nothing_is_suggested_when_nothing_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_MODE", "off")
    assert main(["demo", "--fast", "--dir", str(tmp_path)]) == 0
    assert "Nothing was recorded" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
