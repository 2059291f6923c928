"""Small models of Transformers, each with a healthy batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.torch.preflight.trainings import Training

VOCABULARY = 40


def _text(n: int = 3, length: int = 10) -> Tensor:
    return torch.randint(5, VOCABULARY, (n, length))


def _padded(text: Tensor, labels: Tensor) -> dict[str, Tensor]:
    mask = torch.ones_like(text)
    mask[0, -3:] = 0
    text[mask == 0] = 1
    return {
        "input_ids": text,
        "attention_mask": mask,
        "labels": labels.masked_fill(mask == 0, -100),
    }


def gpt2(transformers: Any) -> Training:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=2, n_positions=16, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    text = _text()
    return Training(transformers.GPT2LMHeadModel(config), _padded(text, text.clone()))


def mixtral(transformers: Any) -> Training:
    config = transformers.MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, num_local_experts=8, num_experts_per_tok=1,
        max_position_embeddings=16, use_cache=False, output_router_logits=True,
    )  # fmt: skip
    text = _text(2, 6)
    return Training(transformers.MixtralForCausalLM(config), _padded(text, text.clone()))


def bert(transformers: Any) -> Training:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=16,
    )  # fmt: skip
    text = _text()
    is_masked = torch.rand(text.shape) < 0.3
    is_masked[:, 2] = True
    batch = _padded(text.masked_fill(is_masked, 4), text.masked_fill(~is_masked, -100))
    return Training(transformers.BertForMaskedLM(config), batch)


def t5(transformers: Any) -> Training:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    text = _text()
    return Training(transformers.T5ForConditionalGeneration(config), _padded(text, _text()))


def bart(transformers: Any) -> Training:
    config = transformers.BartConfig(
        vocab_size=VOCABULARY, d_model=16, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32,
        decoder_ffn_dim=32, max_position_embeddings=16, encoder_layerdrop=0.5,
    )  # fmt: skip
    return Training(transformers.BartForConditionalGeneration(config), _padded(_text(), _text()))


HUGGING_FACE = (gpt2, mixtral, bert, t5, bart)
