"""One real step, counted, agrees with the formulas; and nothing of the model has changed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from epochal.errors import UsageError
from epochal.torch.flops.count import count_flops
from epochal.torch.flops.estimate import trained_of
from epochal.torch.flops.formulas import Trained, flops_per_token

WIDTH, HEADS, KV_HEADS, LENGTH, VOCABULARY = 32, 4, 2, 16, 97
HEAD = WIDTH // HEADS


class Attention(nn.Module):
    def __init__(self, *, is_fused: bool = True) -> None:
        super().__init__()
        self.is_fused = is_fused
        self.query = nn.Linear(WIDTH, WIDTH)
        self.pair = nn.Linear(WIDTH, 2 * KV_HEADS * HEAD)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        query = self.query(x).view(batch, length, HEADS, HEAD).transpose(1, 2)
        pair = self.pair(x).view(batch, length, 2, KV_HEADS, HEAD).permute(2, 0, 3, 1, 4)
        key, value = (one.repeat_interleave(HEADS // KV_HEADS, dim=1) for one in pair)
        if self.is_fused:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            mixed = (query @ key.transpose(-1, -2)).softmax(-1) @ value
        return torch.as_tensor(self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH)))


class Gated(nn.Module):
    def __init__(self, inner: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, inner), nn.Linear(WIDTH, inner)
        self.down = nn.Linear(inner, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.down(F.silu(self.gate(x)) * self.up(x)))


class Mixture(nn.Module):
    """Two of four experts, each token given to both by turns so that the load is even."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 4, bias=False)
        self.experts = nn.ModuleList(Gated(24) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, WIDTH)
        weights = self.router(flat).softmax(-1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            mine = torch.arange(len(flat)) % 2 == number % 2
            out[mine] = out[mine] + expert(flat[mine]) * weights[mine, number : number + 1]
        return out.view_as(x)


class Decoder(nn.Module):
    def __init__(
        self,
        *,
        is_mixed: bool = False,
        is_fused: bool = True,
        recompute: bool = False,
        inner: int = 56,
    ) -> None:
        super().__init__()
        self.recompute = recompute
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(
            nn.ModuleList([Attention(is_fused=is_fused), Mixture() if is_mixed else Gated(inner)])
            for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def block(self, x: Tensor, attention: nn.Module, mlp: nn.Module) -> Tensor:
        x = x + attention(x)
        return torch.as_tensor(x + mlp(x))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            assert isinstance(block, nn.ModuleList)
            if self.recompute:
                x = checkpoint(self.block, x, *block, use_reentrant=False)
            else:
                x = self.block(x, *block)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


CONFIG = {
    "num_hidden_layers": 2,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "intermediate_size": 56,
    "vocab_size": VOCABULARY,
    "hidden_act": "silu",
}
MIXED = {**CONFIG, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


def tokens() -> Tensor:
    return torch.randint(VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("is_mixed", [False, True])
def test_the_counter_agrees_with_the_formula(is_mixed: bool) -> None:
    counted = count_flops(Decoder(is_mixed=is_mixed), tokens())
    expected = flops_per_token(MIXED if is_mixed else CONFIG, sequence_length=LENGTH)
    assert counted.tokens == 2 * LENGTH
    assert counted.per_token() == expected


def test_an_inner_layer_as_wide_as_the_vocabulary_is_not_the_output_layer() -> None:
    config = {**CONFIG, "intermediate_size": VOCABULARY}
    counted = count_flops(Decoder(inner=VOCABULARY), tokens())
    assert counted.per_token() == flops_per_token(config, sequence_length=LENGTH)


@pytest.mark.parametrize("wrap", ["compiled", "autocast"])
def test_wrapped_models_are_counted_as_they_are(wrap: str) -> None:
    model: nn.Module = Decoder()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=wrap == "autocast"):
        whole = torch.compile(model, backend="eager") if wrap == "compiled" else model
        assert isinstance(whole, nn.Module)
        counted = count_flops(whole, tokens())
    assert counted.per_token() == flops_per_token(CONFIG, sequence_length=LENGTH)


def test_attention_that_is_written_out_is_dense() -> None:
    counted = count_flops(Decoder(is_fused=False), tokens())
    expected = flops_per_token(CONFIG, sequence_length=LENGTH, causal=False)
    assert counted.per_token() == expected


def test_frozen_weights_get_no_gradient() -> None:
    model = Decoder()
    for name, weight in model.named_parameters():
        weight.requires_grad_("embed" in name)
    frozen = Trained(blocks=0.0, lm_head=False)
    expected = flops_per_token(CONFIG, sequence_length=LENGTH, trained=frozen)
    assert count_flops(model, tokens()).per_token() == expected


@pytest.mark.parametrize("is_mixed", [False, True])
def test_what_checkpointing_computes_again_is_told_apart(is_mixed: bool) -> None:
    counted = count_flops(Decoder(is_mixed=is_mixed, recompute=True), tokens())
    config = MIXED if is_mixed else CONFIG
    # torch stops a recomputation after the last tensor that is needed: the last product is spared.
    expected = flops_per_token(config, sequence_length=LENGTH, recompute="full")
    assert counted.per_token() == expected
    assert counted.recomputed > 0
    assert counted.per_token().useful == flops_per_token(config, sequence_length=LENGTH).total


def test_checkpointing_that_cannot_be_counted_is_named() -> None:
    class Reentrant(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return torch.as_tensor(
                checkpoint(super().forward, super().forward(x), use_reentrant=True)
            )

    with pytest.raises(UsageError, match="use_reentrant"):
        count_flops(Reentrant(4, 4), torch.randn(3, 4))


def test_gradients_stop_at_the_first_trained_layer_in_formula_and_count() -> None:
    model = Decoder()
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith("blocks.1"))
    frozen = trained_of(model)
    assert frozen == Trained(blocks=0.5, lm_head=False, embeddings=False, passed=0.5)
    formula = flops_per_token(CONFIG, sequence_length=LENGTH, trained=frozen)
    counted = count_flops(model, tokens()).per_token()
    assert counted.attention == formula.attention
    assert counted.lm_head == formula.lm_head
    # queries, keys and values of the first trained layer hand no gradient further down
    spared = 2 * (WIDTH * WIDTH + WIDTH * 2 * KV_HEADS * HEAD)
    assert counted.blocks.total == formula.blocks.total - spared


def test_experts_in_one_stack_are_blocks_and_not_attention() -> None:
    class Stacked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.Parameter(torch.randn(4, 8, 16))

        def forward(self, x: Tensor) -> Tensor:
            return torch.bmm(x, self.weights)

    counted = count_flops(Stacked(), torch.randn(4, 3, 8))
    assert counted.blocks.forward == 2 * 4 * 3 * 8 * 16
    assert counted.attention.total == 0


def test_a_convolution_counts_samples() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Flatten(), nn.Linear(8 * 36, 10))
    counted = count_flops(model, torch.randn(5, 3, 6, 6))
    assert counted.tokens == 5
    assert counted.forward == 5 * (2 * 36 * 8 * 27 + 2 * 288 * 10)


def test_nothing_of_the_model_or_the_generators_has_changed() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    model[3].eval()
    model[0].weight.grad = torch.ones(8, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    running, random = model[1].running_mean, torch.random.get_rng_state()
    count_flops(model, torch.randn(6, 4, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(torch.random.get_rng_state(), random)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model[1].running_mean is running
    assert torch.equal(model[0].weight.grad, torch.ones(8, 4))
    assert model[3].weight.grad is None
    assert [module.training for module in model] == [True, True, True, False]


def test_an_optimizer_that_acts_on_gradients_as_they_come_does_not_act() -> None:
    model = nn.Linear(4, 2)
    acted: list[Tensor] = []
    model.weight.register_post_accumulate_grad_hook(acted.append)  # type: ignore[no-untyped-call]
    count_flops(model, torch.randn(3, 4))
    assert acted == []


def test_it_counts_where_gradients_are_switched_off() -> None:
    with torch.no_grad():
        assert count_flops(nn.Linear(4, 2), torch.randn(3, 4)).backward > 0


def test_answers_of_many_forms_are_trained_on() -> None:
    class Answering(nn.Linear):
        def forward(self, x: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
            out = super().forward(x)
            return {"loss": out.mean(), "logits": out}

    one = count_flops(Answering(4, 2), torch.randn(3, 4))
    other = count_flops(nn.Linear(4, 2), torch.randn(3, 4), loss=lambda out: out.mean())
    assert one == other


def test_misuse_is_named() -> None:
    with pytest.raises(UsageError, match="inputs"):
        count_flops(nn.Linear(4, 2))
    with pytest.raises(UsageError, match="tokens"):
        count_flops(nn.Linear(4, 2), torch.randn(3, 4), tokens=0)
    with pytest.raises(UsageError, match="loss="):
        count_flops(nn.Linear(4, 2), torch.randn(3, 4), loss=lambda out: out.argmax(-1))
