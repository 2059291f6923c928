"""A real Trainer trains a small GPT-2 with ``report_to="epochal"``, is resumed and crashes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import epochal
from epochal.integrations.transformers import EpochalCallback
from epochal.journal.layout import RunFolder
from epochal.run.run import Run
from tests.doubles.journals import of_kind
from tests.members.faults import raising

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    monkeypatch.setenv("EPOCHAL_COMPANION", "0")
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "runs"
    epochal.finish()


def examples(count: int = 32) -> list[dict[str, torch.Tensor]]:
    made = torch.Generator().manual_seed(0)
    rows = [torch.randint(0, 32, (8,), generator=made) for _ in range(count)]
    return [{"input_ids": row, "labels": row} for row in rows]


class Model(GPT2LMHeadModel):  # type: ignore[misc]
    """A GPT-2 of two layers whose loss can be made NaN for one batch."""

    nan_at: int | None = None
    num_batches = 0

    def forward(self, input_ids: Any, labels: Any = None, **kwargs: Any) -> Any:
        output = super().forward(input_ids, labels=labels, **kwargs)
        if self.training:
            self.num_batches += 1
            if self.num_batches == self.nan_at:
                output.loss = output.loss + math.nan * output.loss.detach()
        return output


def small_model() -> Model:
    torch.manual_seed(0)
    sizes = {"vocab_size": 32, "n_positions": 8, "n_embd": 8, "n_layer": 2, "n_head": 2}
    return Model(GPT2Config(**sizes, bos_token_id=0, eos_token_id=1))


def arguments(**options: Any) -> TrainingArguments:
    return TrainingArguments(
        **{
            "output_dir": "out",
            "report_to": "epochal",
            "max_steps": 6,
            "logging_steps": 2,
            "save_steps": 3,
            "per_device_train_batch_size": 4,
            "use_cpu": True,
            **options,
        }
    )


def trainer(model: Any = None, callbacks: Any = None, **options: Any) -> Trainer:
    return Trainer(
        model or small_model(),
        arguments(**options),
        train_dataset=examples(),
        eval_dataset=examples(8),
        callbacks=callbacks,
    )


def points(folder: Path, name: str) -> dict[int, float]:
    series = epochal.load(folder).series(name)
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def attempts(folder: Path) -> int:
    return RunFolder(folder).last_attempt()


def run_folders(runs: Path) -> list[Path]:
    return sorted(path.parent for path in runs.glob("*/*/run.json"))


def test_a_training_is_recorded_under_the_names_of_other_trackers(runs: Path) -> None:
    done = trainer(eval_strategy="steps", eval_steps=3, run_name="small")
    done.train()
    test = done.predict(examples(8)).metrics
    epochal.finish()
    (folder,) = run_folders(runs)
    logged = {log["step"]: log["loss"] for log in done.state.log_history if "loss" in log}
    assert folder.name == "small"
    assert points(folder, "train/loss") == logged
    assert list(points(folder, "train/learning_rate")) == [2, 4, 6]
    assert points(folder, "eval/loss") == {
        log["step"]: log["eval_loss"] for log in done.state.log_history if "eval_loss" in log
    }
    assert list(points(folder, "eval/samples_per_second")) == [3, 6]
    assert points(folder, "test/loss") == {6: test["test_loss"]}
    assert epochal.load(folder).info.status.state == "finished"


def test_arguments_model_generation_and_checkpoints_are_recorded(runs: Path) -> None:
    done = trainer(learning_rate=1e-3)
    done.train()
    epochal.finish()
    (folder,) = run_folders(runs)
    run = epochal.load(folder)
    assert run.config["learning_rate"] == 1e-3
    assert run.config["model"]["n_layer"] == 2
    assert run.config["generation"]["eos_token_id"] == 1
    assert run.config["num_parameters"] == done.model.num_parameters()
    assert "hub_token" not in run.config
    saved = [dict(entry.record) for entry in run.view.entries("event", name="checkpoint")]
    assert [(event["step"], Path(event["path"]).name) for event in saved] == [
        (3, "checkpoint-3"),
        (6, "checkpoint-6"),
    ]


def test_completions_as_trl_has_them_are_kept_once_for_each_step(runs: Path) -> None:
    """``tests/frameworks/test_trl.py`` has the same with real TRL, where it is installed."""

    class Rollouts(Trainer):  # type: ignore[misc]
        """Has the completions of the last step when it logs, as GRPOTrainer has."""

        log_completions = True

        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            texts = {"prompt": deque(["2 + 2"]), "completion": deque([f"{self.state.global_step}"])}
            rewards = {"correct": deque([1.0])}
            self._logs = {**texts, "rewards": rewards, "advantages": deque([0.5])}
            return super().training_step(*args, **kwargs)

    done = Rollouts(small_model(), arguments(max_steps=3, logging_steps=1), None, examples())
    done.train()
    epochal.finish()
    (folder,) = run_folders(runs)
    kept = [record for record in of_kind(folder, "blob") if record["name"] == "completions"]
    tables = [json.loads((folder / "blobs" / record["file"]).read_bytes()) for record in kept]
    assert [record["step"] for record in kept] == [1, 2, 3]
    assert tables[2]["columns"] == ["prompt", "completion", "length_chars", "correct", "advantage"]
    assert tables[2]["data"] == [["2 + 2", "2", 1, 1.0, 0.5]]


def test_a_loss_that_the_trainer_hides_is_shown(runs: Path) -> None:
    class SkipStep(TrainerCallback):  # type: ignore[misc]
        """Drops gradients that are not finite, so that the next losses are finite again."""

        def on_pre_optimizer_step(self, *args: Any, model: Any, **kwargs: Any) -> None:
            for parameter in model.parameters():
                parameter.grad.nan_to_num_(0.0)

    model = small_model()
    model.nan_at = 3
    done = trainer(model, callbacks=[SkipStep()], max_grad_norm=0.0)
    done.train()
    epochal.finish()
    (folder,) = run_folders(runs)
    hidden = [log["loss"] for log in done.state.log_history if "loss" in log]
    assert all(map(math.isfinite, hidden))
    losses = points(folder, "train/loss")
    assert math.isnan(losses[4])
    assert math.isfinite(losses[2])
    assert math.isfinite(losses[6])
    assert points(folder, "train/nonfinite_losses") == {4: 1}


def test_a_training_from_a_checkpoint_continues_its_run(runs: Path) -> None:
    trainer(max_steps=4, save_steps=3).train()
    epochal.finish()
    more = trainer(max_steps=8, save_steps=100)
    more.train(resume_from_checkpoint="out/checkpoint-3")
    epochal.finish()
    (folder,) = run_folders(runs)
    assert attempts(folder) == 2
    losses = points(folder, "train/loss")
    assert list(losses) == [2, 4, 6, 8]
    assert losses[4] == next(
        log["loss"] for log in more.state.log_history if log["step"] == 4 and "loss" in log
    )


def test_a_checkpoint_of_another_tracker_can_be_resumed(runs: Path) -> None:
    trainer(report_to="none", max_steps=3).train()
    trainer(max_steps=6).train(resume_from_checkpoint=True)
    epochal.finish()
    (folder,) = run_folders(runs)
    assert list(points(folder, "train/loss")) == [4, 6]
    state = json.loads(Path("out/checkpoint-6/trainer_state.json").read_text())
    assert state["stateful_callbacks"]["EpochalCallback"]["run"]["dir"] == str(folder)


def test_each_training_of_a_process_has_a_run(runs: Path) -> None:
    first = trainer(max_steps=2)
    first.train()
    trainer(max_steps=2).train()
    first.evaluate()
    epochal.finish()
    one, two = run_folders(runs)
    assert list(points(one, "train/loss")) == list(points(two, "train/loss")) == [2]
    assert attempts(one) == 2
    assert list(points(one, "eval/loss")) == [2]


def test_a_run_that_is_open_is_written_to_and_stays_open(runs: Path) -> None:
    with epochal.init("mine", "given", config={"seed": 3}, console=False) as run:
        trainer(report_to="none", max_steps=2, callbacks=[EpochalCallback()]).train()
        assert run.state != "finished"
        run.log({"own": 1.0}, 3)
    (folder,) = run_folders(runs)
    assert folder.parent.name == "mine"
    assert list(points(folder, "train/loss")) == [2]
    assert {"seed", "max_steps"} <= set(epochal.load(folder).config)


def test_options_of_the_callback_are_those_of_init(runs: Path) -> None:
    callback = EpochalCallback(project="gpt", name="a", tags=["small"], config={"note": "x"})
    trainer(report_to="none", max_steps=2, callbacks=[callback]).train()
    epochal.finish()
    (folder,) = run_folders(runs)
    assert (folder.parent.name, folder.name) == ("gpt", "a")
    assert epochal.load(folder).config["note"] == "x"


def test_other_processes_write_nothing(runs: Path) -> None:
    callback = EpochalCallback()
    done = trainer(report_to="none", max_steps=2, callbacks=[callback])
    done.is_world_process_zero = lambda: False
    done.train()
    assert callback.run is None
    assert run_folders(runs) == []


_CRASH = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from transformers import TrainerCallback
from tests.integrations import test_transformers as own

class Fail(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 5:
            raise RuntimeError("no more memory")

own.trainer(callbacks=[Fail()]).train()
"""


def test_a_training_that_crashes_keeps_what_was_logged(runs: Path) -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", _CRASH, root], capture_output=True, text=True, check=False
    )
    assert "no more memory" in done.stderr
    (folder,) = run_folders(runs)
    run = epochal.load(folder)
    assert run.info.status.state == "failed"
    assert list(points(folder, "train/loss")) == [2, 4]
    trainer().train(resume_from_checkpoint=True)
    epochal.finish()
    assert run_folders(runs) == [folder]
    assert list(points(folder, "train/loss")) == [2, 4, 6]
    assert epochal.load(folder).info.status.state == "finished"


_TWO_RANKS = """
import sys
sys.path.insert(0, sys.argv[1])
import torch.distributed as dist
from tests.integrations.test_transformers import examples, small_model
import epochal.integrations.transformers
from transformers import Trainer, TrainingArguments

args = TrainingArguments(
    "out", report_to="epochal", run_name="two", max_steps=2, logging_steps=1,
    per_device_train_batch_size=2, use_cpu=True, disable_tqdm=True, ddp_backend="gloo",
)
trainer = Trainer(small_model(), args, train_dataset=examples())
trainer.train()
dist.destroy_process_group()  # the Trainer does not, and a thread of gloo's may abort the exit
"""


def test_two_ranks_write_one_run(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_TWO_RANKS)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=2", "train.py", str(Path(__file__).parents[2])]
    subprocess.run(command, capture_output=True, text=True, check=True)
    (folder,) = run_folders(runs)
    run = epochal.load(folder)
    assert run.info.status.state == "finished"
    assert list(points(folder, "train/loss")) == [1, 2]
    assert {rank for metric in run.metrics() for rank in metric.ranks} == {0}


def test_a_fault_of_the_callback_changes_no_training(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = trainer(report_to="none")
    expected.train()
    with monkeypatch.context() as patch:
        broken = raising(ValueError("broken on purpose"))
        patch.setattr(Run, "log", broken)
        patch.setattr(EpochalCallback, "_hidden_losses", broken)
        patch.setattr("epochal.integrations.transformers.write_checkpoint", broken)
        done = trainer()
        done.train()
    epochal.finish()
    for name, weight in done.model.state_dict().items():
        assert torch.equal(weight, expected.model.state_dict()[name])
    (folder,) = run_folders(runs)
    (event,) = [one for one in of_kind(folder, "event") if one["name"] == "internal-error"]
    assert event["member"] == "integration transformers"
    assert epochal.load(folder).info.status.state == "finished"


def test_a_mistake_in_the_options_is_said(runs: Path) -> None:
    with pytest.raises(epochal.EpochalError, match="projekt"):
        trainer(callbacks=[EpochalCallback(projekt="x")], report_to="none").train()
