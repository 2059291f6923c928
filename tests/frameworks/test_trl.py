"""A real TRL trainer writes a run through the integration of transformers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import (
    GRPOConfig,
    GRPOTrainer,
    LogCompletionsCallback,
    RLOOConfig,
    RLOOTrainer,
    SFTConfig,
    SFTTrainer,
)

import epochal
from epochal.integrations.transformers import EpochalCallback
from tests.frameworks.reading import config, points, records, run_folders, status

pytestmark = pytest.mark.filterwarnings("ignore")


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"<pad>": 0, "<eos>": 1, "<unk>": 2, **{f"w{i}": i + 3 for i in range(20)}}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def small_model() -> Any:
    sizes = {"vocab_size": 23, "n_positions": 32, "n_embd": 8, "n_layer": 1, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=1, eos_token_id=1))


def arguments(**options: Any) -> dict[str, Any]:
    return {
        "output_dir": "out",
        "report_to": "epochal",
        "max_steps": 4,
        "logging_steps": 1,
        "save_steps": 2,
        "per_device_train_batch_size": 2,
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        **options,
    }


def trainer(**options: Any) -> SFTTrainer:
    texts = [" ".join(f"w{(i + k) % 20}" for k in range(8)) for i in range(16)]
    return SFTTrainer(
        small_model(),
        args=SFTConfig(**arguments(run_name="sft", max_length=16, **options)),
        train_dataset=Dataset.from_list([{"text": text} for text in texts]),
        processing_class=tokenizer(),
    )


def short(completions: list[str], **kwargs: Any) -> list[float]:
    return [-float(len(completion)) for completion in completions]


def has_w1(completions: list[str], **kwargs: Any) -> list[float]:
    return [float("w1" in completion.split()) for completion in completions]


def rollouts(kind: Any = GRPOTrainer, settings: Any = GRPOConfig, **options: Any) -> Any:
    """A trainer of rollouts, which logs its completions."""
    own = {"num_generations": 2, "max_completion_length": 6, "log_completions": True, "beta": 0.0}
    return kind(
        small_model(),
        reward_funcs=[short, has_w1],
        args=settings(**arguments(**own, **options)),
        train_dataset=Dataset.from_list([{"prompt": f"w{i} w{i + 1}"} for i in range(16)]),
        eval_dataset=Dataset.from_list([{"prompt": "w5 w6"}] * 2),
        processing_class=tokenizer(),
    )


def completions(folder: Path, name: str = "completions") -> dict[int, dict[str, Any]]:
    """The tables of a run by step; one for each step."""
    found = [r for r in records(folder) if r["log"] == "blob" and r["name"] == name]
    assert len({record["step"] for record in found}) == len(found)
    return {r["step"]: json.loads((folder / "blobs" / r["file"]).read_bytes()) for r in found}


COLUMNS = ["prompt", "completion", "length_chars", "short", "has_w1", "advantage"]


@pytest.mark.parametrize(
    ("kind", "settings"), [(GRPOTrainer, GRPOConfig), (RLOOTrainer, RLOOConfig)]
)
def test_the_completions_of_every_step_are_kept(kind: Any, settings: Any, runs: Path) -> None:
    done = rollouts(kind, settings, run_name="r", eval_strategy="steps", eval_steps=2)
    done.train()
    epochal.finish()
    (folder,) = run_folders(runs)
    tables = completions(folder)
    assert list(tables) == [1, 2, 3, 4]
    for table in tables.values():
        assert table["columns"] == COLUMNS
        for _, completion, length, shortness, has, _ in table["data"]:
            assert (length, shortness) == (len(completion), -len(completion))
            assert has == has_w1([completion])[0]
    assert list(completions(folder, "eval/completions")) == [2, 4]
    logged = {log["step"]: log["reward"] for log in done.state.log_history if "reward" in log}
    assert points(folder, "train/reward") == logged


def test_a_callback_that_is_given_the_trainer_records_them_too(runs: Path) -> None:
    done = rollouts(report_to="none", max_steps=3, logging_steps=2)
    done.add_callback(EpochalCallback(done, name="mine"))
    done.train()
    epochal.finish()
    (folder,) = run_folders(runs)
    assert folder.name == "mine"
    assert list(completions(folder)) == [2, 3]


def test_the_callback_of_trl_for_other_trainers(runs: Path) -> None:
    done = trainer()
    done.eval_dataset = Dataset.from_list([{"prompt": "w0 w1"}])
    done.add_callback(LogCompletionsCallback(done, freq=2))
    done.train()
    epochal.finish()
    (folder,) = run_folders(runs)
    tables = completions(folder)
    assert list(tables) == [2, 4]
    assert [table["columns"] for table in tables.values()] == [COLUMNS[:3]] * 2
    assert tables[4]["data"][0][0] == "w0 w1"


def test_the_drop_in_of_wandb_keeps_every_step(runs: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from tests.frameworks.test_trl import rollouts\n"
        "rollouts(report_to='wandb', run_name='w', max_steps=3).train()\n"
    )
    paths = [str(Path(__file__).parents[2]), *filter(None, sys.path)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "WANDB_PROJECT": "p"}
    subprocess.run(
        [sys.executable, "-m", "epochal.wandb", str(script)], cwd=tmp_path, env=environ, check=True
    )
    (folder,) = run_folders(runs)
    tables = list(completions(folder).values())
    assert [table["columns"] for table in tables] == [["step", *COLUMNS]] * 4  # the last one twice
    assert [table["data"][0][0] for table in tables] == [1, 2, 3, 3]


def test_supervised_tuning_is_recorded(runs: Path) -> None:
    done = trainer()
    done.train()
    epochal.finish()
    (folder,) = run_folders(runs)
    logged = {log["step"]: log["loss"] for log in done.state.log_history if "loss" in log}
    assert points(folder, "train/loss") == logged
    assert len(logged) == 4
    assert config(folder)["max_length"] == 16
    assert status(folder) == "finished"


def test_a_resumed_training_continues_its_run(runs: Path) -> None:
    trainer(max_steps=2).train()
    epochal.finish()
    trainer().train(resume_from_checkpoint=True)
    epochal.finish()
    (folder,) = run_folders(runs)
    assert list(points(folder, "train/loss")) == [1, 2, 3, 4]
