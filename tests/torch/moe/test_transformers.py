"""Real mixtures of Hugging Face's transformers, at a size that trains in a moment."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from epochal.torch.moe import find_routers, moe_stats, watch_moe
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
    "FlexOlmo": {"num_experts": 8},
    "GptOss": {"num_local_experts": 8, "head_dim": 8},
}
# These score by sigmoids and choose among them.
_SIGMOID = ("DeepseekV3",)


def small_model(name: str) -> Any:
    torch.manual_seed(0)
    if not hasattr(transformers, f"{name}Config"):
        pytest.skip(f"this version of transformers has no {name}")
    config = getattr(transformers, f"{name}Config")(**_SHAPE, **_MODELS[name])
    model = getattr(transformers, f"{name}ForCausalLM")(config).train()
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith(("gate.weight", "router.weight")):
            # Some start from 0, where logits and scores of every kind are the same.
            torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.mark.parametrize(
    ("name", "recompute"), [*((name, False) for name in _MODELS), ("Mixtral", True)]
)
def test_the_routers_of_a_model_are_found_and_counted_once(
    start_run: StartRun, name: str, recompute: bool
) -> None:
    model = small_model(name)
    if recompute:
        model.gradient_checkpointing_enable()
    run = start_run()
    watching = watch_moe(model, run)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    words = torch.randint(3, 97, (2, 12))
    for _ in range(2):
        optimizer.zero_grad()
        model(words, labels=words).loss.backward()
        optimizer.step()
    run.finish()
    assert len(watching.layers) == 2
    assert [one["step"] for one in of_kind(run.dir, "moe")] == [0, 1]
    (experts,) = of_kind(run.dir, "experts")
    assert experts["top_k"] == 2
    assignments = 2 * words.numel()
    for row in experts["load"]:
        assert len(row) == 8
        assert sum(row) == pytest.approx(1.0, abs=1e-4)
        counts = [share * assignments for share in row]
        assert counts == pytest.approx([round(count) for count in counts], abs=1e-2)


@pytest.mark.parametrize("name", list(_MODELS))
def test_the_figures_are_those_of_the_logits(start_run: StartRun, name: str) -> None:
    model = small_model(name)
    run = start_run()
    watch_moe(model, run)
    logits: list[torch.Tensor] = []

    def compute(module: torch.nn.Module, inputs: Any) -> None:
        weight, bias = linear_of(module)
        hidden = inputs[0].detach().reshape(-1, weight.shape[-1])
        logits.append(torch.nn.functional.linear(hidden, weight, bias))

    for router in find_routers(model):
        router.module.register_forward_pre_hook(compute)
    words = torch.randint(3, 97, (2, 12))
    model(words, labels=words).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    run.finish()
    (record,) = of_kind(run.dir, "moe")
    shares = [one.sigmoid() if name in _SIGMOID else one.softmax(-1) for one in logits]
    expected = moe_stats([one.log() for one in shares], top_k=2).get()
    square = sum(one.logsumexp(-1).square().mean().item() for one in logits)
    assert record["z_loss"] == pytest.approx(0.001 * square, rel=1e-3)
    for figure in ("router_entropy", "router_confidence"):
        assert record[figure] == pytest.approx(expected[figure], rel=1e-3)


def linear_of(router: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A router's weight and bias, its own or those of the linear layer in it."""
    for part in (router, *router.children()):
        weight = getattr(part, "weight", None)
        if isinstance(weight, torch.Tensor) and weight.dim() == 2:
            bias = getattr(part, "bias", None)
            return weight.detach(), bias if bias is None else bias.detach()
    raise AssertionError(f"{type(router).__name__} has no weight")
