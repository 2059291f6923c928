"""The Trainer of transformers with `report_to="epochal"`.

    pip install epochal transformers accelerate torch
    python examples/with_transformers.py

The model is a tiny GPT-2 with random weights, and the text is made here, so that nothing is
downloaded. Losses, evaluations, checkpoints and every training argument are recorded:

    epochal show
    epochal doctor
    epochal serve
"""

import os
import random
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import epochal
import epochal.integrations.transformers  # registers "epochal"

STEPS = int(os.environ.get("STEPS", "60"))


def sentences(count: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Return sums such as `12+30=42`, as one token for each character."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        a, b = rng.randrange(50), rng.randrange(50)
        text = f"{a:02}+{b:02}={a + b:02}" * 4
        tokens = torch.tensor(["0123456789+=".index(character) for character in text])
        rows.append({"input_ids": tokens, "labels": tokens})
    return rows


model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=12,
        n_positions=32,
        n_embd=64,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        report_to="epochal",
        project="examples",
        run_name="transformers",
        max_steps=STEPS,
        learning_rate=3e-3,
        per_device_train_batch_size=16,
        logging_steps=5,
        eval_strategy="steps",
        eval_steps=20,
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model, arguments, train_dataset=sentences(2000, 0), eval_dataset=sentences(200, 1)
    )
    trainer.train()
epochal.finish()  # until here, `evaluate` and `predict` would write into the same run
