"""FLOPs of a step, counted, and the speed of light that follows from them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from epochal.errors import UsageError
from epochal.torch.flops import (
    DTYPES,
    Peak,
    count_flops,
    dtype_name,
    peak_of,
    peak_table,
    speed_of_light,
)
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

# -- counting -------------------------------------------------------------------------------------

WIDTH, HEADS, LENGTH, VOCABULARY = 32, 4, 16, 97
# By hand: a block has WIDTH * WIDTH weights four times in attention and eight times in the MLP.
BLOCKS = 6 * 2 * 12 * WIDTH * WIDTH
CONFIG: Any = {"n_layer": 2}
LM_HEAD = 6 * VOCABULARY * WIDTH
ATTENTION = 6 * 2 * WIDTH * LENGTH


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pairs, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = self.pairs(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + torch.as_tensor(self.drop(self.down(F.gelu(self.up(x)))))


class Decoder(nn.Module):
    def __init__(self, *, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return torch.as_tensor(self.head(x))


TOKENS = torch.randint(0, VOCABULARY, (2, LENGTH))


def test_a_decoder_by_hand() -> None:
    for model in (Decoder(), nn.DataParallel(Decoder())):
        flops = count_flops(model, TOKENS)
        assert [part.total for part in flops.parts] == [BLOCKS, LM_HEAD, ATTENTION]


def test_recomputation_is_counted_separately() -> None:
    plain, again = count_flops(Decoder(), TOKENS), count_flops(Decoder(recompute=True), TOKENS)
    assert again.useful == plain.useful
    assert again.attention.recomputed == plain.attention.forward
    assert 0 < again.blocks.recomputed <= plain.blocks.forward


def test_frozen_weights_get_no_gradient() -> None:
    model = Decoder()
    model.blocks.requires_grad_(False)
    frozen, trained = count_flops(model, TOKENS), count_flops(Decoder(), TOKENS)
    assert frozen.blocks.backward == trained.blocks.backward / 2
    model.embed.requires_grad_(False)
    assert count_flops(model, TOKENS).blocks.backward == 0


def test_nothing_of_the_model_or_the_generators_has_changed() -> None:
    model = Decoder().train()
    model(TOKENS).sum().backward()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    gradients = [None if one.grad is None else one.grad.clone() for one in model.parameters()]
    state = torch.get_rng_state()
    with torch.no_grad():
        count_flops(model, TOKENS)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
    for old, one in zip(gradients, model.parameters(), strict=True):
        assert old is not None
        assert one.grad is not None
        assert torch.equal(old, one.grad)


# -- the speed of light ---------------------------------------------------------------------------


@pytest.fixture
def on_an_h200(monkeypatch: pytest.MonkeyPatch) -> Peak:
    """As if the device were one; the rest of the estimate is arithmetic."""
    peak = peak_of("NVIDIA H200")
    assert peak is not None
    monkeypatch.setattr("epochal.torch.flops._device_peak", lambda device: peak)
    return peak


def test_a_decoder_on_an_h200_by_hand(on_an_h200: Peak, start_run: StartRun) -> None:
    sol = speed_of_light(Decoder(), (TOKENS,), dtype=torch.bfloat16)
    assert sol.tps == pytest.approx(989.5e12 / (BLOCKS + LM_HEAD + ATTENTION))
    assert sol.useful_tps == pytest.approx(sol.tps)
    eight = speed_of_light(Decoder(), (TOKENS,), world_size=8)
    assert eight.useful_tps == pytest.approx(8 * 989.5e12 / (BLOCKS + LM_HEAD + ATTENTION))
    run = start_run()
    run.log_sol_estimate(sol)
    (record,) = of_kind(run.dir, "sol")
    assert (record["bf16_peak"], record["peak_clock"], record["dtype"]) == (989.5, 1830, "bf16")
    assert "H200" in record["source"]


def test_parts_run_at_their_own_rates(on_an_h200: Peak) -> None:
    sol = speed_of_light(Decoder(), (TOKENS,), dtype="fp8")
    assert sol.dtypes == ("fp8", "bf16", "bf16")
    seconds = BLOCKS / 1979e12 + (LM_HEAD + ATTENTION) / 989.5e12
    assert sol.tps == pytest.approx(1 / seconds)
    assert sol.fields()["attention_dtype"] == "bf16"
    missing = speed_of_light(Decoder(), (TOKENS,), dtype="fp4")
    assert (missing.tps, missing.useful_tps) == (None, None)
    assert "The fp4 speed of this device is unknown" in missing.fields()["note"]


def test_any_model_is_counted_with_inputs() -> None:
    # the input needs no gradient: forward and the weight's
    for inputs in ((torch.randn(16, 8),), {"input": torch.randn(16, 8)}):
        sol = speed_of_light(nn.Linear(8, 4), inputs=inputs, dtype="fp32", device="cpu")
        assert sol.flops.total == 2 * 2 * 8 * 4
    assert sol.tps is None
    assert "is unknown" in sol.fields()["note"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: speed_of_light(CONFIG, (TOKENS,)), "must be a torch module, got dict"),
        (lambda: speed_of_light(Decoder(), "batch"), "a tuple of what the model"),
        (lambda: speed_of_light(Decoder(), (TOKENS,), dtype="int8"), "int8"),
        (
            lambda: speed_of_light(Decoder(), (TOKENS,), world_size=0),
            "world_size must be at least 1, got 0",
        ),
        (lambda: count_flops(Decoder()), "at least one tensor"),
    ],
)
def test_misuse_is_named(call: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()


@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("NVIDIA H100 80GB HBM3", 989.5),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA B200", 2250),
        ("AMD Instinct MI300X", 1307.4),
    ],
)
def test_the_names_drivers_use_are_known(name: str, bf16: float) -> None:
    peak = peak_of(name)
    assert peak is not None
    assert peak.of("bf16") == pytest.approx(bf16, rel=0.01)


def test_peaks_of_slices_and_unknown_gpus() -> None:
    part = peak_of("NVIDIA H100 80GB HBM3 MIG 1g.10gb", sm_count=16)
    assert part is not None
    assert part.of("bf16") == pytest.approx(989.5 * 16 / 132, rel=1e-3)
    assert part.note == "16 of 132 multiprocessors"
    assert peak_of("Voodoo 2") is None
    v100, t4 = peak_of("Tesla V100-SXM2-16GB"), peak_of("Tesla T4")
    assert v100 is not None
    assert t4 is not None
    assert (v100.of("bf16"), v100.of("fp32"), t4.of("fp16")) == (None, 15.7, 65)


def test_every_row_names_its_source_and_has_no_sparse_figure() -> None:
    for row in peak_table():
        assert row["source"]
        rates = {dtype: float(row[dtype]) for dtype in DTYPES if row[dtype]}
        if "fp8" in rates:
            assert rates["fp8"] == pytest.approx(2 * rates["bf16"], rel=0.02)


def test_dtypes_have_one_name() -> None:
    names = [torch.bfloat16, "bfloat16", "BF16", "torch.bfloat16"]
    assert {dtype_name(one) for one in names} == {"bf16"}
