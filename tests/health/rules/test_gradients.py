"""Rules on the gradient norm: it explodes, vanishes, is clipped, or adds up."""

import random

import pytest

from epochal.health.rules.gradients import (
    AlwaysClipped,
    GradientExplosion,
    GradientsAddUp,
    GradientVanishing,
)
from epochal.records import Record
from tests.health.curve_records import falling, flat, noise, steps
from tests.health.machine_records import event, metrics, opened

REWARD = metrics(0, {"reward": 1.0})
USUAL = flat(400, 1.0, width=0.2)


def exploded(times: float, loss: float, *, count: int = 50) -> list[Record]:
    """A norm that jumps while the loss jumps to a level."""
    norms = USUAL + flat(count, times, width=0.2)
    return steps(falling(400) + flat(count, loss), norm=norms)


@pytest.mark.parametrize(
    ("times", "loss", "severity"),
    [(50.0, 5.0, "warning"), (1000.0, 9.0, "error"), (300.0, falling(400)[-1], "info")],
    ids=["the loss has risen", "and is above its start", "and is as low as ever"],
)
def test_a_norm_many_times_the_usual_is_found(times: float, loss: float, severity: str) -> None:
    found = opened(GradientExplosion, exploded(times, loss))
    assert (found[0].rule, found[0].steps) == ("gradient-explosion", (400, 400))
    assert (found[-1].severity, found[-1].t - found[0].t <= 20) == (severity, True)
    assert found[-1].evidence["ratio"] == pytest.approx(times, rel=0.7)


def test_a_single_batch_is_a_note() -> None:
    norms = [*USUAL, 30.0, *USUAL]
    (found,) = opened(GradientExplosion, steps(falling(801), norm=norms))
    assert (found.severity, "One unusual batch can" in found.advice) == ("info", True)
    rates = [1e-3] * 400 + [4e-3] * 401
    (found,) = opened(GradientExplosion, steps(falling(801), norm=norms, lr=rates))
    assert "rose 4.0 times at step 400" in found.sentence


def test_a_jump_of_the_rate_is_named() -> None:
    rates = [1e-3] * 400 + [1e-2] * 50
    records = [{**one, "lr": rate} for one, rate in zip(exploded(50, 9.0), rates, strict=True)]
    assert "rose 10 times at step 400" in opened(GradientExplosion, records)[-1].advice


def test_a_growth_without_a_jump_is_found_in_the_end() -> None:
    norms = USUAL + [1.05**n for n in range(120)]
    lost = falling(400) + flat(120, 9.0)
    assert opened(GradientExplosion, steps(lost, norm=norms))[-1].severity == "error"
    slow = USUAL + [1.05 ** min(n, 80) for n in range(120)]
    assert opened(GradientExplosion, steps(falling(520), norm=slow)) == []


def test_natural_batches_and_the_norms_of_the_first_steps_are_fine() -> None:
    wide = [2.0 ** (2 * around) for around in noise(4000, 0.5)]
    found = opened(GradientExplosion, steps(falling(4000), norm=wide))
    assert {finding.severity for finding in found} <= {"info"}
    fallen = [30.0 * 0.97**n for n in range(300)] + flat(300, 0.003, width=0.2)
    back = fallen + flat(20, 0.6, width=0.2)
    assert opened(GradientExplosion, steps(falling(620), norm=back)) == []


@pytest.mark.parametrize("norm", [1e-4, 0.0])
def test_a_norm_that_falls_away_is_a_warning(norm: float) -> None:
    norms = USUAL + flat(100, norm, width=0.2)
    (found,) = opened(GradientVanishing, steps(flat(500, 2.3), norm=norms))
    assert (found.rule, found.severity) == ("gradient-vanishing", "warning")
    assert float(found.evidence["norm"]) < 0.001 < float(found.evidence["usual"])
    assert opened(GradientVanishing, [REWARD, *steps(flat(500, 2.3), norm=norms)]) == []


def test_a_norm_that_was_never_above_0_did_not_fall() -> None:
    (found,) = opened(GradientVanishing, steps(flat(500, 2.3), norm=[0.0] * 500))
    assert "has been 0 from the first steps on" in found.sentence


MET = [2.3 - 0.05 * min(max(0, n - 380), 30) for n in range(460)]


@pytest.mark.parametrize(
    ("losses", "norms"),
    [
        (flat(400, 2.3) + flat(200, 1e-3), USUAL + flat(200, 1e-3, width=0.2)),
        (falling(1000), [0.3 + 5 * 0.99**n for n in range(1000)]),
        ([1.0 + 0.6 * 0.98**n for n in range(600)], [2.0 * 0.98**n for n in range(600)]),
        (MET, USUAL + flat(60, 0.01, width=0.2)),
    ],
    ids=["learned all", "settles", "a whole dataset at its lowest loss", "a margin that is met"],
)
def test_a_norm_may_fall_as_a_model_learns(losses: list[float], norms: list[float]) -> None:
    assert opened(GradientVanishing, steps(losses, norm=norms)) == []


def clipped(norm: float, *, width: float = 0.2) -> list[Record]:
    norms = flat(800, norm, width=width)
    kept = [min(one, 1.0) for one in norms]
    return steps(falling(800), norm=norms, norm_clipped=kept)


def optimizer(name: str) -> Record:
    return event("optimizer", at_step=0, optimizer=name, parameters=4, groups=[{"lr": 0.1}])


def test_norms_far_above_the_limit_are_noted_then_warned_of() -> None:
    found = opened(AlwaysClipped, clipped(10.0))
    assert [(one.rule, one.severity) for one in found] == [
        ("always-clipped", "info"),
        ("always-clipped", "warning"),
    ]
    assert (found[0].evidence["clipped"], found[0].evidence["limit"]) == (1.0, 1.0)


def test_less_is_a_note_or_fine() -> None:
    assert {one.severity for one in opened(AlwaysClipped, clipped(3.5))} == {"info"}
    assert opened(AlwaysClipped, clipped(0.8, width=0.25)) == []


def test_an_optimizer_that_divides_by_the_size_of_gradients_gets_a_note() -> None:
    for adaptive in ([optimizer("Adafactor")], [optimizer("FusedAdam")]):
        found = opened(AlwaysClipped, [*adaptive, *clipped(20.0)])
        assert {one.severity for one in found} == {"info"}
    assert opened(AlwaysClipped, [optimizer("SGD"), *clipped(20.0)])[-1].severity == "warning"
    config = {"optimizer": "adamw"}
    assert {one.severity for one in opened(AlwaysClipped, clipped(20), config=config)} == {"info"}


KEPT = event("gradients-kept", at_step=9, parameter="0.weight", steps=5)


def summed(count: int, *, agree: float = 0.6) -> list[float]:
    """The norms of sums of gradients that agree in a direction and are noise in twenty others."""
    chance = random.Random(0)
    total = [0.0] * 21
    norms = []
    for _ in range(count):
        total = [t + chance.gauss(agree * (n == 0), 0.15) for n, t in enumerate(total)]
        norms.append(sum(t * t for t in total) ** 0.5)
    return norms


def test_a_norm_that_grows_as_a_sum_does_is_a_warning() -> None:
    (found,) = opened(GradientsAddUp, steps(flat(100, 2.0), norm=summed(100)))
    assert (found.rule, found.severity) == ("gradients-add-up", "warning")
    assert float(found.evidence["ratio"]) > 5


def test_the_event_of_a_watched_model_is_the_one_finding() -> None:
    by_norm = steps(flat(100, 2.0), norm=summed(100))
    (found,) = opened(GradientsAddUp, [KEPT, *by_norm])
    assert (found.severity, found.steps, found.evidence["kept_steps"]) == ("warning", (4, 9), 5)
    assert len(opened(GradientsAddUp, [*by_norm, KEPT])) == 1
    assert opened(GradientsAddUp, [event("no-optimizer-step", passes=200)]) == []


def test_a_long_sum_is_smoother_than_the_loss_of_its_batches() -> None:
    losses = flat(300, 2.0, width=0.05)
    grown = [1.0 + 0.05 * max(0, n - 60) for n in range(300)]  # no sum by its first steps
    norms, rough = (
        [norm * around for norm, around in zip(grown, flat(300, 1.0, width=width), strict=True)]
        for width in (1e-4, 0.1)
    )
    assert len(opened(GradientsAddUp, steps(losses, norm=norms))) == 1
    assert opened(GradientsAddUp, steps(losses, norm=rough)) == []
    # One batch for ever is smooth in both.
    assert opened(GradientsAddUp, steps(flat(300, 2.0, width=1e-4), norm=norms)) == []


BEGINS = [0.113, 0.165, 0.208, 0.229, 0.274, 0.354, 0.467, 0.522, 0.443, 0.326, 0.256, 0.68, 0.234]


@pytest.mark.parametrize(
    "norms",
    [
        flat(200, 1.0, width=0.2),
        [0.05 * (1 + 0.4 * n) * one for n, one in enumerate(flat(100, 1.0, width=0.2))],
        [1.0] * 100,
        BEGINS,
        [0.02 * (1 + 0.8 * n**2) for n in range(60)],
    ],
    ids=["single batches", "batches that grow", "one value", "begins to learn", "explodes"],
)
def test_other_norms_are_no_sum(norms: list[float]) -> None:
    assert opened(GradientsAddUp, steps(flat(len(norms), 2.0), norm=norms)) == []
