"""Real mixtures of Hugging Face's transformers, at a size that trains in a moment."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from epochal.torch.moe_watch import watch_moe
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

transformers: Any = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers' own, which vary by version

_SHAPE = {
    "vocab_size": 97,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "num_experts_per_tok": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LATENT = {
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 0,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4,
    "v_head_dim": 8,
    "moe_intermediate_size": 16,
}
_MODELS: dict[str, dict[str, Any]] = {
    "Mixtral": {"num_local_experts": 8},
    "Qwen2Moe": {
        "num_experts": 8,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    },
    "Qwen3Moe": {"num_experts": 8, "moe_intermediate_size": 16, "head_dim": 8},
    "Olmoe": {"num_experts": 8},
    "DeepseekV2": {"n_routed_experts": 8, "topk_method": "greedy", **_LATENT},
    "DeepseekV3": {"n_routed_experts": 8, **_LATENT},
    "GraniteMoe": {"num_local_experts": 8},
    "Phimoe": {"num_local_experts": 8},
}


@pytest.mark.parametrize("name", list(_MODELS))
@pytest.mark.parametrize("recompute", [False, True])
def test_the_routers_of_a_model_are_found_and_counted_once(
    start_run: StartRun, name: str, recompute: bool
) -> None:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**_SHAPE, **_MODELS[name])
    model = getattr(transformers, f"{name}ForCausalLM")(config).train()
    if recompute:
        model.gradient_checkpointing_enable()
    run = start_run()
    watching = watch_moe(model, run)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    words = torch.randint(3, 97, (2, 12))
    mask = torch.ones_like(words)
    mask[1, 6:] = 0
    for _ in range(2):
        optimizer.zero_grad()
        model(words, attention_mask=mask, labels=words).loss.backward()
        optimizer.step()
    run.finish()
    assert len(watching.layers) == 2
    assert [one["step"] for one in of_kind(run.dir, "moe")] == [0, 1]
    (experts,) = of_kind(run.dir, "experts")
    assert experts["top_k"] == 2
    assignments = 2 * int(mask.sum())
    for row in experts["load"]:
        assert len(row) == 8
        assert sum(row) == pytest.approx(1.0, abs=1e-4)
        counts = [share * assignments for share in row]
        assert counts == pytest.approx([round(count) for count in counts], abs=1e-2)
