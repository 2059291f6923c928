from __future__ import annotations

import json
import math
import os
import re
import shlex
import socket
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
from epochal.cli.main import COMMANDS, main
from epochal.journal.layout import RunFolder, read_json
from epochal.journal.reader import PartReader
from epochal.recipes.demo import text as demo_text
from epochal.recipes.demo.every_kind import scenario
from epochal.recipes.demo.every_kind.loop import ODD_NAMES
from epochal.recipes.demo.every_kind.write import write_every_kind
from epochal.recipes.demo.model import Adam, Model, Shape, clip
from epochal.recipes.demo.pictures import colour_matrix
from epochal.recipes.demo.training import FAST, WATCHED, Trainer, learning_rate, train
from epochal.records import KINDS, Record, scalars_of


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(FAST, seed=1, directory=tmp_path_factory.mktemp("runs")).dir


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_every_kind(tmp_path_factory.mktemp("runs"), seed=1, ended=1.8e9)


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


def test_it_learns_what_it_was_not_shown(trained: Path) -> None:
    losses = values(trained, kind="eval", field="loss")
    assert losses[-1] < 0.6 * losses[0]


def test_it_writes_what_a_training_has_to_say(trained: Path) -> None:
    written = {record["log"] for record in records(trained)}
    assert written >= {"step", "eval", "epoch", "text", "histogram", "blob", "graph", "dataset"}
    assert written >= {"option", "define", "message", "finish"}


def test_every_epoch_is_written(trained: Path) -> None:
    assert values(trained, kind="epoch", field="epoch") == [1, 2, 3]


def test_steps_carry_rate_norm_and_tokens(trained: Path) -> None:
    step = next(records(trained, kind="step"))
    assert {"loss", "norm", "norm_clipped", "lr", "step_tokens", "duration_ms"} <= step.keys()


def test_hyperparameters_are_kept(trained: Path) -> None:
    config = read_json(RunFolder(trained).identity)["config"]
    assert config["seed"] == 1
    assert config["hidden"] == FAST.hidden


def test_the_same_seed_gives_the_same_losses(trained: Path, tmp_path: Path) -> None:
    again = train(FAST, seed=1, directory=tmp_path).dir
    expected = values(trained, kind="step", field="loss")
    assert values(again, kind="step", field="loss") == pytest.approx(expected, rel=1e-3)


def test_it_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError(f"the demonstration tried to connect: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    train(FAST, directory=tmp_path)
    write_every_kind(tmp_path)


def test_the_watched_training_is_paced_to_about_twenty_seconds() -> None:
    sentences = demo_text.write_text(
        np.random.default_rng(0), num_sentences=WATCHED.train_sentences
    )
    steps = WATCHED.num_epochs * (len(sentences) // WATCHED.batch_size)
    assert 15 < steps * WATCHED.pace_s < 25


def test_the_learning_rate_warms_up_and_falls() -> None:
    rates = [learning_rate(step, plan=FAST, num_steps=60) for step in range(1, 61)]
    assert max(rates) == pytest.approx(FAST.lr)
    assert rates[0] < rates[FAST.warmup_steps - 1]
    assert rates[-1] < 0.1 * FAST.lr


def test_gradients_agree_with_finite_differences() -> None:
    rng = np.random.default_rng(3)
    model = Model(Shape(vocabulary=5, context=2, embedding=3, hidden=4), rng=rng)
    for name, parameter in model.parameters.items():
        model.parameters[name] = parameter.astype(np.float64)
    contexts, targets = rng.integers(5, size=(6, 2)), rng.integers(5, size=6)
    gradients = model.measure_with_gradients(contexts, targets).gradients
    for name, parameter in model.parameters.items():
        place = tuple(rng.integers(size) for size in parameter.shape)
        parameter[place] += 1e-5
        above = model.measure(contexts, targets)[0]
        parameter[place] -= 2e-5
        below = model.measure(contexts, targets)[0]
        parameter[place] += 1e-5
        assert gradients[name][place] == pytest.approx((above - below) / 2e-5, rel=1e-3, abs=1e-6)


def test_clipping_bounds_the_norm_and_tells_the_one_before() -> None:
    clipped, norm = clip({"a": np.full(4, 3.0, dtype=np.float32)}, largest_norm=1.0)
    assert norm == pytest.approx(6.0)
    assert float(np.linalg.norm(clipped["a"])) == pytest.approx(1.0, rel=1e-4)


def test_the_first_step_of_adam_is_as_long_as_the_rate() -> None:
    parameters = {"a": np.zeros(3, dtype=np.float32)}
    Adam(parameters).step({"a": np.array([5.0, -0.1, 0.0], dtype=np.float32)}, lr=0.01)
    assert parameters["a"].tolist() == pytest.approx([-0.01, 0.01, 0.0], rel=1e-3)


def test_only_words_of_the_grammar_count_as_real() -> None:
    assert demo_text.share_of_real_words("the quiet xqz fin") == pytest.approx(2 / 3)
    assert demo_text.share_of_real_words("") == 0.0


def test_the_lowest_loss_is_the_entropy_of_the_text() -> None:
    text = demo_text.write_text(np.random.default_rng(0), num_sentences=2000)
    nats_per_sentence = sum(math.log(n) for n in (4, 12, 12, 11, 2, 12, 11, 6))
    measured = 2000 * nats_per_sentence / len(text)
    assert demo_text.lowest_possible_loss() == pytest.approx(measured, rel=0.01)


def test_text_survives_its_codes() -> None:
    text = demo_text.write_text(np.random.default_rng(0), num_sentences=3)
    assert demo_text.decode(demo_text.encode(text)) == text


def test_weights_are_drawn_in_red_white_and_blue() -> None:
    pixels = colour_matrix(np.array([[1.0, 0.0, -1.0]], dtype=np.float32))
    assert pixels[0, 1].tolist() == [255, 255, 255]
    assert pixels[0, 0, 0] > pixels[0, 0, 2]
    assert pixels[0, 2, 2] > pixels[0, 2, 0]


def test_the_drawing_of_the_model_is_well_formed(trained: Path) -> None:
    drawing = ElementTree.fromstring(values(trained, kind="graph", field="svg")[0])
    assert "hidden, tanh" in "".join(drawing.itertext())


def test_every_kind_of_record_is_present(made_up: Path) -> None:
    assert {record["log"] for record in records(made_up)} == set(KINDS)


def test_every_field_of_the_made_up_run_is_declared(made_up: Path) -> None:
    common = {"log", "t", "step", "m", "nonfinite"}
    found = {
        (kind.name, field)
        for record in records(made_up)
        if (kind := KINDS[record["log"]]).name not in ("event", "graph")
        for field in record
        if field not in common and not field.startswith(tuple(kind.families))
    }
    declared = {(kind.name, field) for kind in KINDS.values() for field in kind.by_name}
    assert found - declared == set()


def test_the_made_up_run_says_that_it_is(made_up: Path) -> None:
    identity = read_json(RunFolder(made_up).identity)
    assert "made up" in identity["tags"]
    assert "made up" in identity["notes"]


def test_two_ranks_two_gpus_and_all_writers(made_up: Path) -> None:
    writers = {name.writer for name in RunFolder(made_up).parts()}
    assert writers == {"loop", "rank-0001", "telemetry-demo-node", "findings"}
    assert set(values(made_up, kind="gpu", field="id")) == {0, 1}


def test_the_second_attempt_overlaps_the_first(made_up: Path) -> None:
    resume = next(records(made_up, kind="resume"))
    steps = [r["step"] for r in records(made_up, kind="step", writer="loop")]
    assert resume["step"] == scenario.SECOND.first < scenario.FIRST.end
    assert len(steps) - len(set(steps)) == scenario.FIRST.end - scenario.SECOND.first


def test_one_step_is_not_a_number(made_up: Path) -> None:
    broken = [r for r in records(made_up, kind="step", writer="loop") if "nonfinite" in r]
    assert [r["step"] for r in broken] == [scenario.NAN_STEP]
    assert broken[0]["nonfinite"] == {"norm": "inf", "loss": "nan"}


def test_one_loss_sticks_out(made_up: Path) -> None:
    losses = {r["step"]: r["loss"] for r in records(made_up, kind="step", writer="loop")}
    late = {step: loss for step, loss in losses.items() if step > 200}
    assert max(late, key=late.__getitem__) == scenario.SPIKE_STEP


def test_one_metric_appears_late(made_up: Path) -> None:
    steps = [r["step"] for r in records(made_up, kind="metrics") if "late/score" in r["m"]]
    assert min(steps) == scenario.LATE_METRIC_FROM


def test_odd_names_come_back_as_they_were(made_up: Path) -> None:
    names = {name for record in records(made_up) for name, _ in scalars_of(record)}
    assert names >= set(ODD_NAMES)


def test_messages_hold_every_level_and_markup(made_up: Path) -> None:
    assert {"debug", "info", "warning", "error"} <= set(
        values(made_up, kind="message", field="level")
    )
    assert any("<script>" in text for text in values(made_up, kind="message", field="text"))


def test_findings_are_whole_and_end_open_or_closed(made_up: Path) -> None:
    found = list(records(made_up, kind="finding", writer="findings"))
    wanted = {"id", "rule", "severity", "sentence", "series", "steps", "evidence", "advice"}
    assert all(wanted | {"state"} <= finding.keys() for finding in found)
    assert {finding["severity"] for finding in found} == {"info", "warning", "error"}
    last = {finding["id"]: finding["state"] for finding in found}
    assert sorted(last.values()) == ["closed", "closed", "open", "open"]


def test_pictures_lie_beside_the_journal(made_up: Path) -> None:
    for name in values(made_up, kind="blob", field="file"):
        assert (RunFolder(made_up).blobs / name).read_bytes().startswith(b"\x89PNG")


def test_times_never_run_backwards_and_end_when_asked(made_up: Path) -> None:
    for writer in {name.writer for name in RunFolder(made_up).parts()}:
        times = [record["t"] for record in records(made_up, writer=writer)]
        assert times == sorted(times)
    assert max(record["t"] for record in records(made_up)) == pytest.approx(1.8e9, abs=0.01)


def test_the_same_seed_makes_the_same_run_up(made_up: Path, tmp_path: Path) -> None:
    again = write_every_kind(tmp_path, seed=1, ended=1.8e9)
    assert list(records(again)) == list(records(made_up))


def test_a_second_made_up_run_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    first, second = (write_every_kind(tmp_path, ended=1.8e9) for _ in range(2))
    ids = {read_json(RunFolder(path).identity)["id"] for path in (first, second)}
    assert second.name == "every-kind-2"
    assert len(ids) == 2


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
    assert {shlex.split(line)[1] for line in lines} <= set(COMMANDS)


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


def test_the_command_writes_every_kind(tmp_path: Path) -> None:
    assert main(["demo", "--all-kinds", "--seed", "5", "--dir", str(tmp_path)]) == 0
    folder = tmp_path / "demo" / "every-kind"
    assert {record["log"] for record in records(folder)} == set(KINDS)


def test_a_negative_seed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--fast", "--seed", "-1", "--dir", str(tmp_path)]) == 1
    assert "--seed" in capsys.readouterr().err


def test_nothing_is_suggested_when_nothing_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_MODE", "off")
    assert main(["demo", "--fast", "--dir", str(tmp_path)]) == 0
    assert "Nothing was recorded" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
