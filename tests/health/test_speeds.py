"""The same records give the same findings, however fast they were written."""

import math
import random
from collections.abc import Callable, Sequence

import pytest

from epochal.health import diagnose
from epochal.health.engine import Health
from epochal.health.finding import Finding
from epochal.health.rule import Rule
from epochal.health.rules.gradients import GradientExplosion
from epochal.health.rules.loss import LossSpike
from epochal.health.rules.values import NonFinite
from epochal.records import Record
from tests.health.curve_records import START, falling, noise

at_any_speed = pytest.mark.parametrize("speed", [20, 100_000], ids="{:,} a second".format)


def replayed(losses: Sequence[float], speed: float, **columns: Sequence[float]) -> list[Record]:
    """Records of some losses and other columns, so many of them a second."""
    return [
        {
            "log": "metrics",
            "t": START + n / speed,
            "step": n,
            "m": {"loss": loss, **{name: values[n] for name, values in columns.items()}},
        }
        for n, loss in enumerate(losses)
    ]


def found(rule: type[Rule], records: list[Record]) -> list[Finding]:
    diagnosis = Health(rules=[rule])
    for record in records:
        diagnosis.feed(record)
    diagnosis.close()
    return diagnosis.latest()


@at_any_speed
@pytest.mark.parametrize("at", [4_003, 7_999], ids=["in the middle", "at the end"])
def test_a_spike_of_one_step_is_found(speed: float, at: int) -> None:
    losses = [0.2 + around for around in noise(8_000, 0.01)]
    losses[at] = 50.0
    (spike,) = (f for f in diagnose(replayed(losses, speed)) if f.rule == "loss-spike")
    assert (spike.steps, spike.evidence["value"]) == ((at, at), 50.0)


@at_any_speed
def test_a_spike_of_the_gradient_norm_has_its_true_size(speed: float) -> None:
    norms = [math.exp(around) for around in noise(8_000, 0.1)]
    norms[5_001:5_040] = [494.0 * 0.9**n for n in range(39)]
    spike = found(GradientExplosion, replayed(falling(8_000), speed, grad_norm=norms))[0]
    assert spike.evidence["ratio"] == pytest.approx(494, rel=0.1)
    assert spike.steps is not None
    assert spike.steps[0] == 5_001


def skewed(chance: random.Random) -> float:
    return 0.02 * (math.exp(chance.gauss(0.0, 0.8)) - 1)


def heavy_tailed(chance: random.Random) -> float:
    return 0.03 * chance.gauss(0.0, 1.0) / math.sqrt(chance.gammavariate(3.0, 1 / 3))


@at_any_speed
@pytest.mark.parametrize("shape", [skewed, heavy_tailed])
def test_healthy_noise_gives_no_warning(
    shape: Callable[[random.Random], float], speed: float
) -> None:
    chance, count = random.Random(3), 6_000
    losses = [(0.5 + 2 * math.exp(-5 * n / count)) * (1 + shape(chance)) for n in range(count)]
    norms = [math.exp(0.3 * chance.gauss(0.0, 1.0)) for _ in range(count)]
    rates = [1e-3 * (1 - n / count) for n in range(count)]
    findings = diagnose(replayed(losses, speed, grad_norm=norms, lr=rates))
    assert [finding for finding in findings if finding.severity != "info"] == []
    assert {finding.rule for finding in findings} <= {"loss-spike", "plateau"}


@at_any_speed
def test_a_warm_restart_is_no_spike(speed: float) -> None:
    losses = [loss * 1.3 if n >= 4_000 else loss for n, loss in enumerate(falling(8_000))]
    rates = [1e-3 * (1 - n / 4_000) + 1e-6 for n in range(4_000)] * 2
    assert found(LossSpike, replayed(losses, speed, lr=rates)) == []


@at_any_speed
def test_a_jump_of_the_rate_does_not_excuse_a_loss_that_was_never_as_high(speed: float) -> None:
    losses = falling(8_000)
    losses[5_000:5_030] = [20.0] * 30
    rates = [1e-3 if n < 5_000 else 4e-3 for n in range(8_000)]
    spike = found(LossSpike, replayed(losses, speed, lr=rates))[0]
    assert spike.evidence["value"] == 20.0
    assert "The learning rate rose 4.0 times at step 5,000" in spike.sentence


@at_any_speed
def test_single_norms_without_a_number_are_no_row_of_them(speed: float) -> None:
    norms = [math.nan if n % 10 == 9 else 1.0 for n in range(8_000)]
    findings = found(NonFinite, replayed(falling(8_000), speed, grad_norm=norms))
    assert {finding.severity for finding in findings} == {"info"}


def test_a_series_that_gets_its_role_in_a_flood_begins_with_a_point() -> None:
    records = replayed(falling(8_000), 100_000, energy=[0.5 + n % 7 for n in range(8_000)])
    records.insert(5_000, {"log": "define", "t": START, "name": "energy", "role": "loss"})
    health = Health()
    for record in records:
        for sample in health.thin([record]):
            health.judge(sample)
            assert all(curve.points for curve in health.context.curves.values())
    assert health.context.curves["loss"].name == "energy"
    assert not health.guard.faults
