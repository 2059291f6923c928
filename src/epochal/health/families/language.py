"""Language models: pre-training, fine-tuning with frozen or added weights, and preferences.

Losses are nats per token. An untrained model has the logarithm of the size of its vocabulary, one
that knows how frequent tokens are has the entropy of the labels.
"""

from __future__ import annotations

from types import MappingProxyType

from epochal.health.families.family import Facts, Family, in_config, logged

_PREFERENCES = frozenset(("chosen", "rejected", "margins"))
_NATS = frozenset(
    "perplexity ppl bits_per_byte bpb bits_per_token loss_per_token hellaswag_accuracy".split()
)
_ADDED = ("lora_r", "lora_alpha", "lora_rank", "peft_config")
_TEXT = (
    *("vocab_size", "n_vocab", "block_size", "context_length", "n_ctx", "n_positions"),
    *("max_seq_len", "max_seq_length", "seq_len", "sequence_length", "tokenizer"),
)
_CLASSES = ("num_classes", "num_labels", "n_classes", "nb_classes")


def _recognise(facts: Facts) -> str | None:
    if (name := facts.series(last=_NATS)) is not None:
        return logged(name)
    # A text classifier has a vocabulary as well.
    return None if facts.key(*_CLASSES) else in_config(facts.key(*_TEXT, *_ADDED))


def _recognise_preference(facts: Facts) -> str | None:
    name = facts.series(last=_PREFERENCES)
    return logged(name) if name is not None and "reward" in name.lower() else None


FAMILY = Family(
    name="language",
    title="a language model",
    recognise=_recognise,
    curves=("evaluation loss", "training loss", "gradient norm", "learning rate"),
    normal=MappingProxyType(
        {
            "training loss": (
                "starts at log(vocabulary), or far below with pretrained weights, falls to the "
                "entropy of the labels within hundreds of steps, and then slowly"
            ),
            "evaluation loss": "3 to 8 nats per token early on: less means that labels are given",
            "gradient norm": "clipped in many steps; falls after the warm-up",
            "learning rate": "warmed up; 10 to 100 times lower for fine-tuning",
        }
    ),
)
PREFERENCE = Family(
    name="preference",
    title="a language model that learns preferences",
    recognise=_recognise_preference,
    curves=("reward margin", "reward accuracy", "KL", "loss"),
    normal=MappingProxyType(
        {
            "reward margin": "rises above 0",
            "reward accuracy": "starts at 0.5, and rises to 0.6 to 0.9",
            "loss": "starts at log 2 = 0.693 and falls little: the margin says more",
        }
    ),
    loss_falls=False,
)
