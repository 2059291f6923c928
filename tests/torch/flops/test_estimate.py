from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from epochal.errors import UsageError
from epochal.torch.flops.estimate import SpeedOfLight, speed_of_light, trained_of
from epochal.torch.flops.formulas import Trained, flops_per_token
from epochal.torch.flops.peaks import Peak, peak_of
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

GPT2 = {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257}
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@pytest.fixture
def on_an_h200(monkeypatch: pytest.MonkeyPatch) -> Peak:
    """As if the device were one; the rest of the estimate is arithmetic."""
    peak = peak_of("NVIDIA H200")
    assert peak is not None
    monkeypatch.setattr("epochal.torch.flops.estimate.device_peak", lambda device: peak)
    return peak


class Small(nn.Module):
    """A transformer's parameters with its configuration, and no forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(
            hidden_size=8, num_hidden_layers=1, num_attention_heads=2, vocab_size=11
        )
        self.embed = nn.Embedding(11, 8)
        self.block = nn.Linear(8, 8)
        self.lora_a = nn.Linear(8, 2, bias=False)
        self.lm_head = nn.Linear(8, 11, bias=False)


def test_gpt2_on_an_h200_by_hand(on_an_h200: Peak) -> None:
    sol = speed_of_light(GPT2, sequence_length=1024)
    work = 509_607_936 + 231_584_256 + 56_623_104
    assert sol.tps == pytest.approx(989.5e12 / work)
    assert sol.useful_tps == pytest.approx(sol.tps)
    assert sol.sol(tokens=16_384, duration_ms=45.9) == pytest.approx(28.78, abs=0.01)


def test_devices_add_up_and_recomputing_counts_as_work_but_not_for_mfu(on_an_h200: Peak) -> None:
    one = speed_of_light(GPT2, sequence_length=1024)
    eight = speed_of_light(GPT2, sequence_length=1024, world_size=8, recompute="full")
    assert one.tps is not None
    assert eight.tps is not None
    assert eight.useful_tps == pytest.approx(8 * one.tps)
    assert eight.tps < 8 * one.tps
    mfu, sol = eight.mfu(1e6, 1000.0), eight.sol(1e6, 1000.0)
    assert mfu is not None
    assert sol is not None
    assert mfu < sol


def test_parts_run_at_their_own_rates(on_an_h200: Peak) -> None:
    sol = speed_of_light(GPT2, sequence_length=1024, dtype="fp8")
    assert sol.dtypes == ("fp8", "bf16", "bf16")
    seconds = 509_607_936 / 1979e12 + (231_584_256 + 56_623_104) / 989.5e12
    assert sol.tps == pytest.approx(1 / seconds)
    assert sol.fields()["attention_dtype"] == "bf16"
    same = speed_of_light(GPT2, sequence_length=1024, dtype="fp8", lm_head_dtype="fp8")
    assert same.dtypes == ("fp8", "fp8", "bf16")


def test_a_dtype_the_device_lacks_has_no_speed(on_an_h200: Peak) -> None:
    sol = speed_of_light(GPT2, sequence_length=1024, dtype="fp4")
    assert sol.tps is None
    assert sol.sol(1, 1.0) is None
    assert "tps" not in sol.fields()
    assert "no rate of fp4" in sol.fields()["note"]


def test_the_record_carries_what_explains_it(on_an_h200: Peak, start_run: StartRun) -> None:
    run = start_run()
    run.log_sol_estimate(speed_of_light(GPT2, sequence_length=1024, dtype=torch.bfloat16))
    (record,) = of_kind(run.dir, "sol")
    assert record["bf16_peak"] == 989.5
    assert record["peak_clock"] == 1830
    assert record["dtype"] == "bf16"
    assert record["blocks"] == 509_607_936
    assert "H200" in record["source"]


def test_a_cpu_is_known_only_as_measured() -> None:
    plain = speed_of_light(GPT2, sequence_length=64, dtype="fp32", device="cpu")
    assert plain.tps is None
    assert "calibrate=True measures it" in plain.fields()["note"]
    measured = speed_of_light(GPT2, sequence_length=64, dtype="fp32", device="cpu", calibrate=True)
    assert measured.measured is not None
    assert measured.tps == pytest.approx(measured.measured.tflops * 1e12 / measured.flops.total)
    assert measured.fields()["source"] == "measured here"


def test_which_weights_are_trained_is_seen_on_the_model() -> None:
    model = Small()
    assert trained_of(model) == Trained(adapters=16)
    for name, weight in model.named_parameters():
        weight.requires_grad_("lora" in name)
    assert trained_of(model) == Trained(blocks=0.0, lm_head=False, embeddings=False, adapters=16)
    sol = speed_of_light(model, sequence_length=4)
    config = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 11}
    expected = flops_per_token(config, sequence_length=4, trained=trained_of(model))
    assert sol.flops == expected


def test_any_model_is_counted_with_inputs() -> None:
    sol = speed_of_light(nn.Linear(8, 4), inputs=(torch.randn(16, 8),), dtype="fp32")
    # the input needs no gradient: forward and the weight's
    assert sol.flops.total == 2 * 2 * 8 * 4


def test_named_inputs_are_counted_by_their_names() -> None:
    named = speed_of_light(nn.Linear(8, 4), inputs={"input": torch.randn(16, 8)}, dtype="fp32")
    assert named.flops.total == 2 * 2 * 8 * 4


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.norm = nn.LayerNorm(8)
        self.lm_head = nn.Linear(8, 11, bias=False)


@pytest.mark.parametrize(
    ("trained", "passed"),
    [
        ("lm_head", 0.0),
        ("norm", 0.0),
        ("layers.3", 0.25),
        ("layers.1.bias", 0.75),
        ("embed", 1.0),
        ("", 1.0),
    ],
)
def test_how_deep_gradients_go_is_seen_on_the_model(trained: str, passed: float) -> None:
    model = Stack()
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith(trained))
    assert trained_of(model).passed == passed


def test_a_trained_output_layer_that_is_tied_is_an_embedding_below_all_layers() -> None:
    model = Stack()
    model.lm_head.weight = model.embed.weight
    for name, weight in model.named_parameters():
        weight.requires_grad_(name == "embed.weight")
    assert trained_of(model).passed == 1.0


@pytest.mark.parametrize(
    ("what", "named", "word"),
    [
        (nn.Linear(2, 2), {"inputs": torch.ones(1, 2)}, r"inputs=\(batch,\)"),
        (GPT2, {}, "sequence_length"),
        (GPT2, {"sequence_length": 8, "world_size": 0}, "world_size"),
        (GPT2, {"sequence_length": 8, "dtype": "int8"}, "dtype"),
        (GPT2, {"inputs": (1,)}, "inputs"),
        (nn.Linear(2, 2), {"sequence_length": 8}, "inputs="),
        ({"n_layer": 2}, {"sequence_length": 8}, "none of"),
    ],
)
def test_misuse_is_named(what: Any, named: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        speed_of_light(what, **named)


@needs_gpu
@pytest.mark.cuda
def test_the_gpu_that_is_here_is_known_and_measured() -> None:
    sol = speed_of_light(GPT2, sequence_length=1024, calibrate=True)
    assert isinstance(sol, SpeedOfLight)
    assert sol.measured is not None
    assert sol.measured.tflops > 1
    if sol.peak is not None and sol.peak.note is None and sol.measured.share is not None:
        assert 40 < sol.measured.share < 115
