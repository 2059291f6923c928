"""Hugging Face's Trainer with report_to="wandb"."""

# mypy: ignore-errors

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)


class Data(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict:
        return {"input_ids": torch.tensor([index % 7, 1, 2]), "labels": index % 2}


size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
config = BertConfig(vocab_size=10, intermediate_size=8, max_position_embeddings=8, **size)
trainer = Trainer(
    BertForSequenceClassification(config),
    TrainingArguments(
        output_dir="out",
        run_name="trainer",
        report_to="wandb",
        max_steps=6,
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=3,
        per_device_train_batch_size=4,
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        seed=0,
    ),
    train_dataset=Data(),
    eval_dataset=Data(),
)
trainer.train()
