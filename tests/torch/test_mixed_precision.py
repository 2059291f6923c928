from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from epochal.errors import UsageError
from epochal.store.local.store import LocalStore
from epochal.torch.checkpoint.state import load_state, save_state
from epochal.torch.checkpoint.training_state import TrainingState
from epochal.torch.clip import ClipStats
from epochal.torch.mixed_precision import GradScaler, autocast, autocast_dtype
from tests.conftest import StartRun


class Training:
    """A small float16 training on the CPU whose gradients can be made to overflow."""

    def __init__(self, **arguments: Any) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        self.scaler = GradScaler(self.model, **{"dtype": torch.float16, **arguments})

    def step(self, *, overflows: bool = False, max_norm: float = 1.0) -> Tensor:
        self.optimizer.zero_grad()
        loss = self.model(torch.ones(2, 4)).square().mean() * (torch.inf if overflows else 1.0)
        self.scaler.scale(loss).backward()
        norm = self.scaler.clip_grad_norm(self.model, max_norm, optimizer=self.optimizer)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return norm

    def state(self) -> TrainingState:
        return TrainingState(self.model, optimizer=self.optimizer, scaler=self.scaler)

    def weights(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.model.parameters()]


def test_products_run_in_the_dtype_of_the_device() -> None:
    model = nn.Linear(4, 2)
    with autocast(model):
        assert model(torch.ones(1, 4)).dtype is autocast_dtype("cpu") is torch.bfloat16
    with autocast("cpu", dtype=torch.float16):
        assert model(torch.ones(1, 4)).dtype is torch.float16
    with autocast("cpu", enabled=False):
        assert model(torch.ones(1, 4)).dtype is torch.float32


def test_a_device_without_bfloat16_gets_float16() -> None:
    assert autocast_dtype("mps") is torch.float16


@pytest.mark.parametrize("call", [autocast, GradScaler])
def test_what_cannot_be_is_refused_with_a_sentence(call: Any) -> None:
    with pytest.raises(UsageError, match=r"dtype must be torch\.float16 or torch\.bfloat16"):
        call("cpu", dtype=torch.float64)
    with pytest.raises(UsageError, match="device must be a device"):
        call("nowhere")


@pytest.mark.parametrize(
    "wrong", [{"init_scale": 0.0}, {"backoff_factor": 2.0}, {"growth_interval": 0}]
)
def test_a_scale_that_cannot_adapt_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        GradScaler("cpu", **wrong)


def test_the_norm_is_the_true_one_and_clipping_heeds_it() -> None:
    scaled, plain = Training(init_scale=1024.0), Training(enabled=False)
    assert scaled.step(max_norm=0.5).item() == pytest.approx(plain.step(max_norm=0.5).item())
    for one, other in zip(scaled.weights(), plain.weights(), strict=True):
        torch.testing.assert_close(one, other)


def test_an_overflow_skips_the_step_halves_the_scale_and_is_counted() -> None:
    training = Training()
    training.step()
    before = training.weights()
    training.step(overflows=True)
    assert training.scaler.was_skipped
    assert all(map(torch.equal, before, training.weights()))
    assert (training.scaler.steps, training.scaler.skipped_steps) == (2, 1)
    assert training.scaler.get_scale() == 32768.0
    training.step()
    assert not training.scaler.was_skipped


def test_clipping_after_an_explicit_unscale_scales_only_once() -> None:
    training = Training(init_scale=1024.0)
    training.scaler.scale(training.model(torch.ones(1, 4)).sum()).backward()
    training.scaler.unscale_(training.optimizer)
    norm = training.scaler.clip_grad_norm(training.model, 100.0, optimizer=training.optimizer)
    assert norm.item() == pytest.approx(5**0.5)


def test_overflows_are_not_counted_as_clipped() -> None:
    training, stats = Training(), ClipStats()
    training.scaler.scale(training.model(torch.ones(1, 4)).sum() * torch.inf).backward()
    training.scaler.clip_grad_norm(training.model, 1.0, optimizer=training.optimizer, stats=stats)
    assert (stats.steps, stats.clipped_steps) == (1, 0)


def test_bfloat16_needs_no_scaler_and_gets_none() -> None:
    training = Training(dtype=torch.bfloat16)
    training.step()
    assert not training.scaler.is_enabled()
    assert training.scaler.metrics() == training.scaler.state_dict() == {}


def test_scale_and_skipped_steps_are_series_of_the_run(start_run: StartRun) -> None:
    training, run = Training(), start_run()
    for step, overflows in enumerate((False, True, False)):
        training.step(overflows=overflows)
        run.log(training.scaler.metrics(), step=step)
    run.finish()
    view = LocalStore(run.dir.parents[1]).run(run.id)
    assert view.series("loss_scale").values.tolist() == [65536.0, 32768.0, 32768.0]
    assert view.series("skipped_steps").values.tolist() == [0.0, 1.0, 1.0]


def test_a_restored_training_goes_on_exactly(tmp_path: Path) -> None:
    first = Training(growth_interval=3)
    pattern = (False, True, False, False, False, True, False)
    for overflows in pattern[:4]:
        first.step(overflows=overflows)
    save_state(tmp_path, first.state(), step=3)
    second = Training(growth_interval=3, init_scale=2.0)
    load_state(tmp_path, second.state())
    for training in (first, second):
        for overflows in pattern[4:]:
            training.step(overflows=overflows)
    assert first.scaler.state_dict() == second.scaler.state_dict()
    assert second.scaler.skipped_steps == 2
    assert all(map(torch.equal, first.weights(), second.weights()))


def test_a_state_of_torchs_own_scaler_is_taken() -> None:
    scaler = GradScaler("cpu", dtype=torch.float16)
    scaler.load_state_dict(torch.amp.GradScaler("cpu", init_scale=8.0).state_dict())
    assert (scaler.get_scale(), scaler.steps) == (8.0, 0)


def test_a_disabled_scalers_state_is_refused_by_an_enabled_one() -> None:
    with pytest.raises(UsageError, match="was disabled"):
        GradScaler("cpu", dtype=torch.float16).load_state_dict({})
