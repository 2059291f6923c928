from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import UsageError, ValueTypeError
from epochal.torch.moe import COLUMNS, MoeAccumulator, moe_stats, routing_sums
from tests.conftest import StartRun
from tests.doubles.journals import of_kind


def by_hand(logits: torch.Tensor, top_k: int, keep: list[bool] | None = None) -> dict[str, float]:
    """The formulas once more, token by token."""
    rows = [row for i, row in enumerate(logits.double().tolist()) if keep is None or keep[i]]
    experts = logits.shape[-1]
    counts, probs = [0] * experts, [0.0] * experts
    square = entropy = top = 0.0
    for row in rows:
        total = math.log(sum(math.exp(value) for value in row))
        shares = [math.exp(value - total) for value in row]
        for number in sorted(range(experts), key=lambda e: -shares[e])[:top_k]:
            counts[number] += 1
        probs = [old + new for old, new in zip(probs, shares, strict=True)]
        square += total**2
        entropy -= sum(share * math.log(share) for share in shares)
        top += max(shares)
    load = [count / sum(counts) for count in counts]
    mean = sum(counts) / experts
    deviation = math.sqrt(sum((count - mean) ** 2 for count in counts) / experts)
    tokens = len(rows)
    return {
        "aux_loss": 0.01 * experts * sum(f * p / tokens for f, p in zip(load, probs, strict=True)),
        "z_loss": 0.001 * square / tokens,
        "expert_utilization": sum(count > 0 for count in counts) / experts,
        "load_imbalance": max(counts) / mean,
        "active_experts": sum(count > 0 for count in counts),
        "max_expert_fraction": max(load),
        "min_active_expert_fraction": min(share for share in load if share),
        "load_cv": deviation / mean,
        "router_entropy": entropy / tokens / math.log(experts),
        "router_confidence": top / tokens,
    }


def drawn(tokens: int, experts: int, *, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tokens, experts, generator=generator) * 2


@given(
    tokens=st.integers(1, 40),
    experts=st.integers(2, 9),
    chosen=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_the_figures_are_those_of_the_formulas(
    tokens: int, experts: int, chosen: int, seed: int
) -> None:
    top_k = min(chosen, experts)
    logits = drawn(tokens, experts, seed=seed)
    figures = moe_stats(logits, top_k).get()
    assert figures.pop("valid") is True
    assert figures == pytest.approx(by_hand(logits, top_k), rel=1e-4, abs=1e-7)


@given(keep=st.lists(st.booleans(), min_size=6, max_size=6).filter(any))
def test_masked_tokens_do_not_count(keep: list[bool]) -> None:
    logits = drawn(6, 4)
    mask = torch.tensor(keep)
    logits[~mask] = math.nan
    figures = moe_stats(logits, 2, mask=mask.long().reshape(2, 3)).get()
    del figures["valid"]
    assert figures == pytest.approx(by_hand(logits, 2, keep), rel=1e-4, abs=1e-7)


def test_an_even_router_has_the_coefficient_as_its_loss() -> None:
    logits = torch.zeros(8, 4)
    index = torch.tensor([[0, 1], [2, 3]] * 4)
    figures = moe_stats(logits, 2, expert_index=index, aux_coef=0.02).get()
    assert figures["aux_loss"] == pytest.approx(0.02)
    assert (figures["load_imbalance"], figures["load_cv"]) == (1.0, 0.0)
    assert figures["router_entropy"] == pytest.approx(1.0)


def test_ties_give_each_token_exactly_top_k_experts() -> None:
    counts = routing_sums(torch.zeros(5, 8), top_k=3)[:8]
    assert counts.sum().item() == 15
    assert counts.max().item() <= 5


def test_tokens_that_were_dropped_are_no_load() -> None:
    index = torch.tensor([[0, 1], [0, -1], [0, 4]])
    assert moe_stats(torch.zeros(3, 4), expert_index=index).load.tolist() == [[0.75, 0.25, 0, 0]]


def test_every_expert_for_every_token_is_even() -> None:
    stats = moe_stats(drawn(7, 4), 4)
    assert stats.load.tolist() == [[0.25] * 4]
    assert stats.get()["expert_utilization"] == 1.0


def test_a_collapsed_router_is_seen() -> None:
    logits = torch.zeros(16, 8)
    logits[:, 3] = 50.0
    figures = moe_stats(logits, 1).get()
    assert figures["active_experts"] == 1
    assert figures["load_imbalance"] == 8
    assert figures["router_entropy"] == pytest.approx(0.0, abs=1e-6)


def test_without_a_token_nothing_is_valid() -> None:
    stats = moe_stats(drawn(4, 4), 2, mask=torch.zeros(4))
    assert stats.get() == {**dict.fromkeys(COLUMNS), "valid": False}
    assert moe_stats(torch.empty(0, 4), 2).valid.item() is False


def test_a_batch_is_one_layer() -> None:
    logits = drawn(12, 4)
    batch, mask = logits.reshape(3, 4, 4), torch.ones(3, 4)
    stats = moe_stats(batch, 2, mask=mask)
    assert stats.get() == moe_stats(logits, 2).get()
    assert stats.load.shape == (1, 4)
    assert moe_stats([batch, batch], 2).load.shape == (2, 4)


def test_one_expert_each_needs_no_dimension() -> None:
    logits = drawn(12, 4)
    index = logits.argmax(-1)
    expected = moe_stats(logits, 1).get()
    assert moe_stats(logits, expert_index=index).get() == expected
    batch = logits.reshape(3, 4, 4)
    assert moe_stats(batch, expert_index=index.reshape(3, 4)).get() == expected
    assert moe_stats(batch, expert_index=index).get() == expected


@pytest.mark.parametrize("num_broken", [1, 4])
def test_logits_that_are_no_numbers_have_no_figures(num_broken: int) -> None:
    logits = drawn(4, 4)
    logits[:num_broken, 1] = math.nan
    stats = moe_stats(logits, 2)
    assert stats.get() == {**dict.fromkeys(COLUMNS), "valid": False}
    assert stats.load.isnan().all()
    assert all(value.isnan() for value in stats.fields().values())


def test_experts_that_are_ruled_out_have_figures() -> None:
    logits = drawn(8, 4)
    logits[:, 3] = -math.inf
    assert moe_stats(logits, 2).get()["expert_utilization"] == 0.75


def test_a_layer_that_dropped_all_its_tokens_has_no_figures() -> None:
    stats = moe_stats(drawn(3, 4), expert_index=torch.full((3, 2), -1))
    assert stats.get() == {**dict.fromkeys(COLUMNS), "valid": False}


def test_losses_add_up_over_layers_and_the_rest_is_a_mean() -> None:
    layers = [drawn(12, 4, seed=seed) for seed in range(3)]
    stats, alone = moe_stats(layers, 2), [moe_stats(layer, 2) for layer in layers]
    for name, share in (("aux_loss", 1), ("z_loss", 1), ("load_imbalance", 3)):
        expected = sum(one.get()[name] for one in alone) / share
        assert stats.get()[name] == pytest.approx(expected)
    assert stats.load.shape == (3, 4)


def test_micro_steps_are_one_batch_and_the_losses_do_not_grow() -> None:
    logits = drawn(32, 8)
    whole = moe_stats(logits, 2).get()
    sums = MoeAccumulator()
    for part in logits.split(8):  # type: ignore[no-untyped-call]
        sums.add(part, 2)
    assert sums.get_moe_stats() == pytest.approx(whole, rel=1e-5)
    sums.reset()
    assert sums.get_moe_stats()["valid"] is False


def test_the_figures_are_logged_with_a_step_or_alone(start_run: StartRun) -> None:
    run, stats = start_run(), moe_stats(drawn(16, 4), 2)
    run.log_step(1, 0.1, 64, 10.0, 1.0, 2.0, 1e-3, moe=stats.fields())
    run.log_moe_stats(2, stats)
    expected = {k: v for k, v in stats.get().items() if k != "valid"}
    assert {k: of_kind(run.dir, "step")[0][f"moe_{k}"] for k in expected} == expected
    assert {k: of_kind(run.dir, "moe")[0][k] for k in expected} == expected


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"router_logits": torch.zeros(4, 4)}, "give top_k"),
        ({"router_logits": torch.zeros(4, 4), "top_k": 5}, "between 1 and the 4 experts"),
        ({"router_logits": torch.zeros(4, 1), "top_k": 1}, "two or more experts"),
        ({"router_logits": 3.0, "top_k": 1}, "a tensor or a list"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises((UsageError, ValueTypeError), match=sentence):
        moe_stats(**arguments)


_RANK = """
import sys, torch, torch.distributed as dist
from epochal.torch.moe import MoeAccumulator, moe_stats

torch.set_num_threads(1)
rank, meeting = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
logits = torch.randn(20, 4, generator=torch.Generator().manual_seed(5))
sums = MoeAccumulator()
sums.add(logits[:6] if rank == 0 else logits[6:], 2)
sums.reduce()
whole, reduced = moe_stats(logits, 2).get(), sums.get_moe_stats()
assert all(abs(whole[name] - reduced[name]) < 1e-5 for name in whole), (whole, reduced)
dist.destroy_process_group()
"""


def test_ranks_are_added_up(tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _RANK, str(rank), str(tmp_path / "meeting")],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in ranks:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_figures_are_made_and_logged_without_waiting_for_the_gpu(start_run: StartRun) -> None:
    run, logits = start_run(), drawn(64, 8)
    on_gpu, mask = logits.cuda(), torch.ones(64, device="cuda")
    run.log_moe_stats(0, moe_stats(on_gpu, 2, mask=mask))  # what is made once is made here
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        stats = moe_stats([on_gpu, on_gpu], 2, mask=mask, expert_index=[on_gpu.topk(2).indices] * 2)
        run.log_moe_stats(1, stats)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    run.finish()
    expected = moe_stats([logits, logits], 2).get()["load_cv"]
    assert of_kind(run.dir, "moe")[1]["load_cv"] == pytest.approx(expected, rel=1e-3)
