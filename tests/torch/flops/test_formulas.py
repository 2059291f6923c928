"""Counts worked out by hand, and the sizes makers publish of their models."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import UsageError
from epochal.torch.flops.formulas import Trained, flops_per_token
from epochal.torch.flops.transformer_shape import Experts, shape_of

GPT2 = {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_inner": None}
LLAMA_3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "hidden_act": "silu",
}
QWEN_3_30B_A3B = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "hidden_act": "silu",
}
QWEN_2_MOE = {
    **QWEN_3_30B_A3B,
    "model_type": "qwen2_moe",
    "shared_expert_intermediate_size": 5632,
    "num_hidden_layers": 24,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 1408,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
}
DEEPSEEK_3 = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "vocab_size": 129280,
    "hidden_act": "silu",
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


def test_gpt2_by_hand() -> None:
    flops = flops_per_token(GPT2, sequence_length=1024)
    # a block has 768 * 768 weights four times in attention and eight times in the MLP
    assert flops.blocks.total == 6 * 12 * 12 * 768 * 768 == 509_607_936
    assert flops.lm_head.total == 6 * 50257 * 768 == 231_584_256
    assert flops.attention.total == 6 * 12 * 768 * 1024 == 56_623_104


def test_a_llama_by_hand() -> None:
    flops = flops_per_token(LLAMA_3_8B, sequence_length=8192)
    attention = 4096 * 4096 * 2 + 4096 * 1024 * 2
    assert flops.blocks.total == 6 * 32 * (attention + 3 * 4096 * 14336)
    assert flops.lm_head.total == 6 * 128256 * 4096
    assert flops.attention.total == 6 * 32 * 4096 * 8192


def test_a_mixture_by_hand() -> None:
    flops = flops_per_token(QWEN_3_30B_A3B, sequence_length=4096)
    attention = 2048 * 4096 * 2 + 2048 * 512 * 2
    router = 2048 * 128
    experts = 8 * 3 * 2048 * 768
    assert flops.blocks.total == 6 * 48 * (attention + router + experts)
    assert flops.attention.total == 6 * 48 * (32 * 128) * 4096


def test_shared_experts_and_their_gate_are_passed_by_every_token() -> None:
    flops = flops_per_token(QWEN_2_MOE, sequence_length=1)
    attention = 4 * 2048 * 2048
    mlp = 2048 * 60 + 4 * 3 * 2048 * 1408 + 3 * 2048 * 5632 + 2048
    assert flops.blocks.total == 6 * 24 * (attention + mlp)


@pytest.mark.parametrize(
    ("config", "embeddings", "published"),
    [(GPT2, 1, 124e6), (LLAMA_3_8B, 2, 8.03e9), (QWEN_3_30B_A3B, 2, 3.3e9), (DEEPSEEK_3, 1, 37e9)],
)
def test_weights_a_token_meets_are_those_the_makers_publish(
    config: dict[str, Any], embeddings: int, published: float
) -> None:
    shape = shape_of(config)
    active = shape.block_weights() + embeddings * shape.vocabulary * shape.width
    assert active == pytest.approx(published, rel=0.02)


def test_dense_layers_of_a_mixture_are_dense() -> None:
    assert shape_of(DEEPSEEK_3).experts == Experts(256, 8, 2048, layers=58, shared_width=2048)
    every_other = {**QWEN_3_30B_A3B, "decoder_sparse_step": 2, "mlp_only_layers": [1]}
    experts = shape_of(every_other).experts
    assert experts is not None
    assert experts.layers == 23


def test_backward_is_twice_forward_when_everything_is_trained() -> None:
    flops = flops_per_token(LLAMA_3_8B, sequence_length=2048)
    assert flops.backward == 2 * flops.forward
    assert flops.total == flops.useful == flops.forward + flops.backward


def test_frozen_weights_cost_four_and_adapters_six() -> None:
    lora = Trained.lora(GPT2, rank=8, targets=("q", "v"))
    assert lora.adapters == 12 * 2 * 8 * (768 + 768)
    flops = flops_per_token(GPT2, sequence_length=1024, trained=lora)
    weights = 12 * 12 * 768 * 768
    assert flops.blocks.total == 4 * weights + 6 * lora.adapters
    assert flops.lm_head.total == 4 * 50257 * 768
    assert flops.attention.total == 6 * 12 * 768 * 1024


def test_nothing_is_propagated_below_the_lowest_trained_weight() -> None:
    only_head = Trained(blocks=0.0, embeddings=False)
    flops = flops_per_token(GPT2, sequence_length=1024, trained=only_head)
    assert flops.blocks.backward == flops.attention.backward == 0
    assert flops.lm_head.total == 4 * 50257 * 768


def test_gradients_pass_the_layers_from_the_first_trained_one_on() -> None:
    last_layer = Trained(blocks=1 / 12, lm_head=False, embeddings=False, passed=1 / 12)
    windows = {**GPT2, "sliding_window": 8, "layer_types": ["sliding"] * 11 + ["full"]}
    flops = flops_per_token(windows, sequence_length=1024, trained=last_layer)
    assert flops.blocks.backward == pytest.approx(flops.blocks.forward / 6)
    assert flops.attention.backward == 2 * 4 * 768 * 512
    assert flops.lm_head.backward == flops.lm_head.forward


def test_layers_without_gradients_are_not_computed_again() -> None:
    half = Trained(blocks=0.5, embeddings=False, passed=0.5)
    whole = flops_per_token(GPT2, sequence_length=64, recompute="full")
    flops = flops_per_token(GPT2, sequence_length=64, recompute="full", trained=half)
    assert flops.blocks.recomputed == whole.blocks.recomputed / 2
    assert flops.attention.recomputed == whole.attention.recomputed / 2


def test_recomputing_is_work_but_not_useful_work() -> None:
    plain = flops_per_token(GPT2, sequence_length=1024)
    full = flops_per_token(GPT2, sequence_length=1024, recompute="full")
    some = flops_per_token(GPT2, sequence_length=1024, recompute="attention")
    assert full.useful == some.useful == plain.total
    last = 2 * 12 * 4 * 768 * 768  # the down-projection's result is only added
    assert full.total == plain.total + plain.blocks.forward - last + plain.attention.forward
    assert some.total == plain.total + plain.attention.forward


def test_not_causal_attention_is_twice_as_much() -> None:
    causal = flops_per_token(GPT2, sequence_length=512)
    dense = flops_per_token(GPT2, sequence_length=512, causal=False)
    assert dense.attention.total == 2 * causal.attention.total
    assert dense.blocks == causal.blocks


def test_a_window_limits_what_a_token_sees() -> None:
    mistral = {**LLAMA_3_8B, "model_type": "mistral", "sliding_window": 4096}
    flops = flops_per_token(mistral, sequence_length=8192)
    # the first half sees 2048 on average, the second 4096
    assert flops.attention.forward == 32 * 4 * 4096 * 3072
    mixed = {**mistral, "layer_types": ["sliding_attention", "full_attention"] * 16}
    halves = flops_per_token(mixed, sequence_length=8192).attention.forward
    assert halves == 16 * 4 * 4096 * (3072 + 4096)


def test_tied_embeddings_change_no_work() -> None:
    tied = flops_per_token({**LLAMA_3_8B, "tie_word_embeddings": True}, sequence_length=64)
    assert tied == flops_per_token(LLAMA_3_8B, sequence_length=64)


def test_objects_nested_configurations_and_shapes_are_read_alike() -> None:
    shape = shape_of(LLAMA_3_8B)
    assert shape_of(SimpleNamespace(**LLAMA_3_8B)) == shape
    assert shape_of({"text_config": LLAMA_3_8B}) == shape
    assert shape_of(replace(shape, layers=2)).layers == 2


@pytest.mark.parametrize(
    ("config", "is_gated"),
    [
        (GPT2, False),
        (LLAMA_3_8B, True),
        ({**GPT2, "num_key_value_heads": 4}, True),
        ({**LLAMA_3_8B, "model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh"}, True),
        ({**LLAMA_3_8B, "model_type": "opt", "hidden_act": "relu"}, False),
        ({**LLAMA_3_8B, "gated": False}, False),
    ],
)
def test_gated_mlps_are_told_apart(config: dict[str, Any], is_gated: bool) -> None:
    assert shape_of(config).gated is is_gated


def test_a_missing_size_is_named() -> None:
    with pytest.raises(UsageError, match="vocab_size"):
        shape_of({"n_layer": 2, "n_embd": 8, "n_head": 2})


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({"sequence_length": 0}, "sequence_length"), ({"recompute": "some"}, "recompute")],
)
def test_misuse_is_named(arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        flops_per_token(GPT2, **{"sequence_length": 8, **arguments})
    with pytest.raises(UsageError, match="targets"):
        Trained.lora(GPT2, rank=4, targets=("qkv",))


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"blocks": 2.0}, "blocks"), ({"passed": -1}, "passed"), ({"adapters": -1}, "adapters")],
)
def test_shares_outside_their_range_are_refused(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        Trained(**fields)


@pytest.mark.parametrize("rank", [0, -4, 2.5])
def test_an_adapter_needs_a_rank(rank: Any) -> None:
    with pytest.raises(UsageError, match="rank"):
        Trained.lora(GPT2, rank=rank)


@given(st.integers(1, 1 << 17), st.integers(1, 1 << 17))
def test_a_window_never_adds_work_and_longer_sequences_never_take_it_away(
    length: int, window: int
) -> None:
    free = flops_per_token(GPT2, sequence_length=length).attention.total
    held = flops_per_token({**GPT2, "sliding_window": window}, sequence_length=length)
    longer = flops_per_token(GPT2, sequence_length=length + 1).attention.total
    assert 0 < held.attention.total <= free < longer
