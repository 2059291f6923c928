"""A real TRL trainer writes a run through the integration of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

import epochal
import epochal.integrations.transformers
from tests.frameworks.reading import config, points, run_folders, status

pytestmark = pytest.mark.filterwarnings("ignore")


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"<pad>": 0, "<eos>": 1, "<unk>": 2, **{f"w{i}": i + 3 for i in range(20)}}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def trainer(**options: Any) -> SFTTrainer:
    sizes = {"vocab_size": 23, "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
    texts = [{"text": " ".join(f"w{(i + k) % 20}" for k in range(8))} for i in range(16)]
    given = {
        "output_dir": "out",
        "report_to": "epochal",
        "run_name": "sft",
        "max_steps": 4,
        "logging_steps": 1,
        "save_steps": 2,
        "per_device_train_batch_size": 2,
        "max_length": 16,
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        **options,
    }
    return SFTTrainer(
        GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=1, eos_token_id=1)),
        args=SFTConfig(**given),
        train_dataset=Dataset.from_list(texts),
        processing_class=tokenizer(),
    )


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
