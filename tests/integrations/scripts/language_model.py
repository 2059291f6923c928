"""Trains a small language model with transformers' Trainer, in the style of its examples."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


def main() -> None:
    set_seed(42)
    sizes = {"vocab_size": 64, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=1))
    texts = torch.randint(0, 64, (48, 16), generator=torch.Generator().manual_seed(0))
    examples = [{"input_ids": text, "labels": text} for text in texts]
    args = TrainingArguments(
        output_dir="out",
        run_name="gpt2-small",
        max_steps=8,
        per_device_train_batch_size=4,
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=4,
        save_strategy="no",
        use_cpu=True,
        report_to="wandb",
    )
    trainer = Trainer(
        model=model, args=args, train_dataset=examples[:40], eval_dataset=examples[40:]
    )
    trainer.train()
    trainer.evaluate()


if __name__ == "__main__":
    main()
