"""Whole trainings of the GPT-2 example: what they record, and how they continue."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from epochal.api.reading import open as open_store
from epochal.cli.main import main as epochal_command
from epochal.journal.layout import RunFolder, read_json
from epochal.torch.checkpoint.manifest import list_manifests
from sample import main as write_text
from tests.examples.gpt2.trainings import (
    SMALL,
    command,
    environment,
    finish,
    losses,
    records,
    run_here,
    start,
    wait_for,
)

needs_gloo = pytest.mark.skipif(not dist.is_gloo_available(), reason="torch without gloo")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that nobody interrupts, with what it printed in a file."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "printed.txt").write_text(finish(folder, run_name="run"), encoding="utf-8")
    return folder


def kill(process: Any) -> None:
    """SIGKILL to a training and whatever it has started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def plain_log(root: Path, name: str, *, folder: Path | None = None) -> list[str]:
    """The lines of a run's plain log, as a companion would have written them."""
    assert epochal_command(["sync", name, "--to", "plain_log", "--dir", str(root / "runs")]) == 0
    file = root / "runs" / "gpt2" / name / "training.txt" if folder is None else folder / "run.txt"
    return file.read_text().splitlines()


def config_of(folder: Path, name: str) -> dict[str, Any]:
    identity = read_json(RunFolder(folder / "runs" / "gpt2" / name).identity)
    return dict(identity["config"])


def test_the_loss_falls_and_every_step_is_whole(whole: Path) -> None:
    steps = records(whole, "run", "step")
    assert [step["step"] for step in steps] == list(range(20))
    assert steps[-1]["loss"] < steps[0]["loss"]
    for step in steps:
        assert step["norm_clipped"] <= min(step["norm"], 1.0) * (1 + 1e-6)
        assert step["step_tokens"] == 64
        rate = step["step_tokens"] / step["duration_ms"] * 1000
        assert step["tokens_per_second"] == pytest.approx(rate)
    assert [steps[0]["lr"], steps[1]["lr"], steps[2]["lr"]] == [5e-4, 1e-3, 1e-3]
    assert steps[-1]["epoch"] == 2.0


def test_a_step_line_has_epoch_loss_learning_rate_norm_time_and_speed(whole: Path) -> None:
    printed = (whole / "printed.txt").read_text(encoding="utf-8")
    lines = re.findall(
        r"^step +(\d+) \| epoch +([\d.]+) \| loss +([\d.]+) \| lr ([\d.e+-]+) \| norm +([\d.]+)"
        r" \| +\d+ ms \| [\d,]+ tok/s$",
        printed,
        flags=re.MULTILINE,
    )
    steps = {step["step"]: step for step in records(whole, "run", "step")}
    assert lines
    for number, *shown in lines:
        step = steps[int(number)]
        expected = [step[name] for name in ("epoch", "loss", "lr", "norm")]
        assert [float(value) for value in shown] == pytest.approx(expected, rel=1e-2, abs=1e-4)
    assert ":: step" not in printed


def test_it_is_evaluated_at_the_start_regularly_and_at_the_end(whole: Path) -> None:
    assert [r["step"] for r in records(whole, "run", "eval")] == [0, 4, 9, 14, 19]
    texts = records(whole, "run", "text")
    assert [r["step"] for r in texts] == [0, 4, 9, 14, 19]
    assert texts[0]["text"].count("Hello, I am a language model,") == 5
    assert {r["eval_tokens"] for r in records(whole, "run", "eval")} == {32}


def test_parameters_and_gradients_are_watched_and_the_data_is_described(whole: Path) -> None:
    histograms = records(whole, "run", "histogram")
    assert {r["step"] for r in histograms} == {0, 8, 16}
    assert {"Parameters/wte.weight", "Gradients/h.1.mlp.c_fc.bias"} <= {
        r["name"] for r in histograms
    }
    assert [r["split"] for r in records(whole, "run", "dataset")] == ["train", "eval"]
    config = config_of(whole, "run")
    assert (config["max_lr"], config["vocab_size"], config["world_size"]) == (1e-3, 384, 1)


def test_checkpoints_are_made_as_asked(whole: Path) -> None:
    manifests = list_manifests(whole / "runs" / "gpt2" / "run" / "checkpoints")
    kinds = {m.step: m.kind for m in manifests}
    assert {3, 7, 9, 11, 15, 19} <= kinds.keys()
    assert (kinds[9], kinds[19]) == ("epoch", "epoch")
    assert all(m.external["run_name"] == "run" for m in manifests)


def test_the_plain_log_has_a_line_for_every_value(whole: Path) -> None:
    rows = [line.split() for line in plain_log(whole, "run")]
    assert [int(step) for step, kind, _ in rows if kind == "train"] == list(range(20))
    assert [int(step) for step, kind, _ in rows if kind == "val"] == [0, 4, 9, 14, 19]
    written = {int(step): float(value) for step, kind, value in rows if kind == "train"}
    assert written[7] == pytest.approx(losses(whole, "run")[7], abs=1e-6)


def test_killed_and_resumed_it_is_the_same_training_to_the_last_bit(
    whole: Path, tmp_path: Path
) -> None:
    with start(tmp_path, run_name="run") as process:
        wait_for(process, tmp_path, step=10)
        kill(process)
    shown = finish(tmp_path, "--resume", "latest", run_name="run")
    assert "resumed as attempt" in shown
    assert losses(tmp_path, "run") == losses(whole, "run")
    (resume,) = records(tmp_path, "run", "resume")
    assert 0 < resume["step"] <= 12
    series = open_store(str(tmp_path / "runs")).runs()[0].series("train/loss")
    assert list(series.steps) == list(range(20))
    evaluations = open_store(str(tmp_path / "runs")).runs()[0].series("eval/loss")
    expected = open_store(str(whole / "runs")).runs()[0].series("eval/loss")
    assert list(evaluations.steps) == list(expected.steps)
    assert list(evaluations.values) == list(expected.values)
    assert plain_log(tmp_path, "run") == plain_log(whole, "run")


def test_the_command_of_epochal_resume_continues_exactly(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with start(tmp_path, run_name="run", checkpoint_dir=tmp_path / "saved") as process:
        wait_for(process, tmp_path, step=10)
        kill(process)
    assert epochal_command(["resume", "run", "--json", "--dir", str(tmp_path / "runs")]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["next_step"] > 0
    assert tmp_path / "saved" in Path(plan["checkpoint"]).parents
    given = environment(tmp_path, **plan["environment"])
    subprocess.run(plan["command"], env=given, cwd=plan["cwd"], check=True, capture_output=True)
    assert records(tmp_path, "run", "resume")[0]["step"] == plan["next_step"]
    assert losses(tmp_path, "run") == losses(whole, "run")


@pytest.mark.parametrize("cadence", [4, 1000])
def test_killed_under_epochal_run_it_goes_on_by_itself(
    whole: Path, tmp_path: Path, cadence: int
) -> None:
    words = command(tmp_path, run_name="run", checkpoint_freq=cadence, eval_freq=cadence)
    launcher = [sys.executable, "-m", "epochal", "run", "--restarts", "1", "--restart-wait", "0s"]
    with subprocess.Popen(
        [*launcher, "--dir", str(tmp_path / "runs"), "--", *words],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        wait_for(process, tmp_path, step=5)
        os.kill(read_json(RunFolder(tmp_path / "runs" / "gpt2" / "run").identity)["pid"], 9)
        shown, _ = process.communicate(timeout=240)
    assert process.returncode == 0, shown
    (resume,) = records(tmp_path, "run", "resume")
    assert (resume["step"] > 0) == (cadence == 4)
    assert losses(tmp_path, "run") == losses(whole, "run")


def test_a_signal_saves_and_no_step_is_lost(whole: Path, tmp_path: Path) -> None:
    with start(tmp_path, run_name="run", checkpoint_freq=1000, eval_freq=1000) as process:
        wait_for(process, tmp_path, step=5)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    (saved,) = list_manifests(tmp_path / "runs" / "gpt2" / "run" / "checkpoints")
    assert saved.kind == "emergency"
    assert saved.step == max(losses(tmp_path, "run"))
    # The flags are the checkpoint's but for those given anew.
    finish(tmp_path, "--resume", "latest", run_name="run")
    assert losses(tmp_path, "run") == losses(whole, "run")
    lines = [line for line in plain_log(tmp_path, "run") if " train " in line]
    assert [line.split()[0] for line in lines] == [str(n) for n in range(20)]


def test_another_name_starts_a_run_that_knows_where_it_was_forked(
    whole: Path, tmp_path: Path
) -> None:
    checkpoint = whole / "runs" / "gpt2" / "run" / "checkpoints" / "step-11"
    finish(tmp_path, "--resume", str(checkpoint), run_name="fork", data=whole / "text.txt")
    assert losses(tmp_path, "fork") == {s: v for s, v in losses(whole, "run").items() if s > 11}
    forked = config_of(tmp_path, "fork")["forked_from"]
    assert (forked["run"], forked["step"]) == ("run", 11)
    assert forked["checkpoint"] == str(checkpoint)
    assert {r["step"] for r in records(tmp_path, "fork", "histogram")} == {16}
    assert records(tmp_path, "fork", "resume") == []
    assert "forked" in {r["name"] for r in records(tmp_path, "fork", "event")}


def test_the_best_can_be_gone_on_from_and_folders_can_be_chosen(tmp_path: Path) -> None:
    names = ("checkpoint_dir", "logdir", "tensorboard_dir")
    places: dict[str, Any] = {name: tmp_path / name for name in names}
    finish(tmp_path, run_name="run", max_steps=8, **places)
    assert [p.name for p in places["checkpoint_dir"].iterdir()] == ["run"]
    assert plain_log(tmp_path, "run", folder=places["logdir"])[0].startswith("0 val ")
    listed = finish(tmp_path, "--list_checkpoints", **places)
    assert "run: 3 checkpoints" in listed
    assert "latest" in listed
    best = (places["checkpoint_dir"] / "run" / "best").read_text().strip()
    finish(tmp_path, "--resume", "best", max_steps=9, **places)
    (resume,) = records(tmp_path, "run", "resume")
    assert f"step-{resume['step'] - 1}" == best


def test_examples_of_hellaswag_are_measured_where_there_are_some(tmp_path: Path) -> None:
    rows = [{"ctx": "the quick", "endings": ["a", "brown fox", "b", "c"], "label": 1}] * 3
    text = "\n".join(json.dumps(row) for row in rows)
    (tmp_path / "hellaswag_val.jsonl").write_text(text, encoding="utf-8")
    finish(tmp_path, run_name="run", max_steps=5, hellaswag_examples=2)
    first, last = records(tmp_path, "run", "eval")
    assert "m" not in first
    assert {name: 0 <= value <= 1 for name, value in last["m"].items()} == {
        "Gradient/clip_rate": True,
        "hellaswag_accuracy": True,
        "hellaswag_acc": True,
    }


def test_without_data_and_without_hellaswag_it_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = {name: value for name, value in SMALL.items() if name != "num_epochs"}
    words = [word for name, value in small.items() for word in (f"--{name}", str(value))]
    code, shown = run_here(tmp_path, [*words, "--max_steps", "1"])
    assert code == 0, shown
    assert "HellaSwag is left out" in shown
    (run,) = (tmp_path / "runs" / "gpt2").iterdir()
    assert run.name.startswith("gpt2_train_")


def test_what_cannot_be_done_is_one_sentence(tmp_path: Path) -> None:
    code, shown = run_here(tmp_path, ["--resume", "nowhere"])
    assert code == 2
    assert shown.count("\n") == 1
    assert "--resume nowhere is neither a run nor a checkpoint" in shown


def test_an_estimate_trains_nothing_and_says_what_a_run_takes(tmp_path: Path) -> None:
    shown = finish(tmp_path, "--estimate", "--use_tensorboard")
    for word in ("step ", "time ", "tokens ", "disk ", "memory ", "TensorBoard events"):
        assert word in shown
    assert not (tmp_path / "runs").exists()


def test_instructions_are_learned_from_the_weights_of_another_run(
    whole: Path, tmp_path: Path
) -> None:
    file = tmp_path / "instructions.jsonl"
    rows = [{"instruction": f"say {n}", "output": f"{n} {n}"} for n in range(20)]
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    weights = whole / "runs" / "gpt2" / "run"
    finish(tmp_path, run_name="tuned", finetune=file, init_from=weights, max_steps=6)
    steps = records(tmp_path, "tuned", "step")
    assert all(0 < s["m"]["Finetune/answer_tokens"] < s["step_tokens"] for s in steps)
    assert records(tmp_path, "tuned", "eval")[-1]["m"]["Finetune/perplexity"] > 1
    assert config_of(tmp_path, "tuned")["forked_from"]["run"] == "run"


@needs_gloo
def test_two_ranks_killed_and_resumed_are_the_same_to_the_last_bit(
    whole: Path, tmp_path: Path
) -> None:
    with start(tmp_path, run_name="whole", ranks=2) as process:
        shown, _ = process.communicate(timeout=240)
    assert process.returncode == 0, shown
    printed = re.findall(r"^step +(\d+) ", shown, re.MULTILINE)
    assert len(set(printed)) == len(printed) > 0, "only rank 0 prints"
    with start(tmp_path, run_name="run", ranks=2) as process:
        wait_for(process, tmp_path, step=9)
        kill(process)
    with start(tmp_path, "--resume", "latest", run_name="run", ranks=2) as process:
        shown, _ = process.communicate(timeout=240)
    assert process.returncode == 0, shown
    expected = losses(tmp_path, "whole")
    assert expected == pytest.approx(losses(whole, "run"), rel=1e-3)  # one rank, more passes
    assert losses(tmp_path, "run") == expected
    assert losses(tmp_path, "run", writer="rank-0001") == expected
    words = ["--resume", "latest", "--run_name", "run", "--dir", str(tmp_path / "runs")]
    code, shown = run_here(tmp_path, words)
    assert code == 2
    assert "Start it with --nproc_per_node=2" in shown


def test_a_run_is_resumed_by_its_name_and_the_latest_is_one_of_the_same_plan(
    tmp_path: Path,
) -> None:
    place = ["--dir", str(tmp_path / "runs")]
    finish(tmp_path, run_name="first", max_steps=4)
    finish(tmp_path, run_name="wide", max_steps=4, embd_size=16)
    for which in ("first", "gpt2/first", str(tmp_path / "runs" / "gpt2" / "first")):
        code, shown = run_here(tmp_path, [*place, "--resume", which, "--max_steps", "4"])
        assert (code, "step-3 of first is the last of 4 steps" in shown) == (0, True), shown
    finish(tmp_path, "--resume", "latest", max_steps=6)
    assert max(losses(tmp_path, "first")) == 5
    assert max(losses(tmp_path, "wide")) == 3
    code, shown = run_here(tmp_path, [*place, "--resume", "latest", "--preset", "tiny"])
    assert code == 2
    assert "no run of the project 'gpt2' has the sizes and the data of this command" in shown
    assert "--resume first or wide" in shown


def test_more_steps_than_the_plan_has_are_explained(tmp_path: Path) -> None:
    shown = finish(tmp_path, run_name="run", max_steps=25, steps_per_epoch=4, warmup_steps=2)
    assert "--max_steps 25 is beyond the 8 steps of this run (2 epochs of 4)" in shown
    assert "use --num_epochs 7" in shown
    assert max(losses(tmp_path, "run")) == 7
    assert "read more than once" not in shown
    shown = finish(tmp_path, run_name="again", max_steps=1, steps_per_epoch=100)
    assert "The data has 2.6k tokens for training" in shown
    assert "--steps_per_epoch 41 reads it once" in shown


def sample(folder: Path, *words: str) -> tuple[int, str]:
    """Run the sampler; returns its exit code and what it printed."""
    return run_here(folder, [*words, "--dir", str(folder / "runs"), "--device", "cpu"], write_text)


def test_a_trained_model_writes_text(tmp_path: Path) -> None:
    finish(tmp_path, run_name="run", max_steps=8)
    code, shown = sample(tmp_path, "run", "--prompt", "the quick", "--tokens", "12")
    assert code == 0
    heading, text = shown.split("\n", 1)
    assert heading.startswith("step-7 of run: ")
    assert text.startswith("the quick")
    assert len(text) > len("the quick\n\n")
    assert sample(tmp_path, "latest", "--prompt", "the quick", "--tokens", "12")[1] == shown
    likely = ("--temperature", "0", "--seed")
    assert sample(tmp_path, "run", *likely, "1") == sample(tmp_path, "gpt2/run", *likely, "2")
    # A damaged checkpoint is left out.
    (tmp_path / "runs" / "gpt2" / "run" / "checkpoints" / "step-7" / "model.safetensors").unlink()
    _, shown = sample(tmp_path, "run")
    assert "step-7 is left out because it is damaged: model.safetensors is missing." in shown
    assert "step-4 of run: " in shown
    code, shown = sample(tmp_path, "other")
    assert (code, shown.count("\n")) == (2, 2)
    assert "other is neither a run nor a checkpoint" in shown


def test_a_training_that_is_done_says_how_to_train_longer(tmp_path: Path) -> None:
    finish(tmp_path, run_name="run", num_epochs=1, max_steps=8)
    again = ["--run_name", "run", "--dir", str(tmp_path / "runs"), "--resume", "latest"]
    shown = run_here(tmp_path, again)[1]
    assert "step-7 of run is the last of 8 steps, so there is nothing left to train." in shown
    assert "a larger --max_steps, up to 10." in shown
    assert run_here(tmp_path, [*again, "--max_steps", "10"])[0] == 0
    assert max(losses(tmp_path, "run")) == 9
    assert "a larger --num_epochs" in run_here(tmp_path, again)[1]
    assert run_here(tmp_path, [*again, "--max_steps", "12", "--num_epochs", "2"])[0] == 0
    assert max(losses(tmp_path, "run")) == 11
    totals = read_json(RunFolder(tmp_path / "runs" / "gpt2" / "run").identity)["totals"]
    assert totals == {"steps": 12, "epochs": 1.2}


def test_a_run_without_a_checkpoint_starts_again_with_auto_only(
    whole: Path, tmp_path: Path
) -> None:
    with start(tmp_path, run_name="run", checkpoint_freq=100, eval_freq=100) as process:
        wait_for(process, tmp_path, step=1)
        kill(process)
    assert list((tmp_path / "runs" / "gpt2" / "run").glob("checkpoints/step-*")) == []
    code, shown = run_here(
        tmp_path, ["--run_name", "run", "--dir", str(tmp_path / "runs"), "--resume", "latest"]
    )
    assert (code, shown.count("\n")) == (2, 1)
    assert "there is no checkpoint yet" in shown
    assert "starts at step 0" in finish(tmp_path, "--resume", "auto", run_name="run")
    assert losses(tmp_path, "run") == losses(whole, "run")
    assert records(tmp_path, "run", "resume")[0]["step"] == 0
    with pytest.raises(AssertionError, match="--resume auto needs --run_name"):
        finish(tmp_path, "--resume", "auto")
