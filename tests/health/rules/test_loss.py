"""Rules on a loss that jumps, stops falling, or never falls."""

import math
from collections.abc import Sequence

import pytest

from epochal.health.rules.loss import LossSpike, NeverFell, Plateau
from epochal.records import Record
from tests.health.curve_records import evals, falling, flat, in_order, noise, steps
from tests.health.machine_records import metrics, opened, updated

REWARD = metrics(0, {"reward": 1.0})


def spiked(losses: Sequence[float], at: int, *, count: int = 8, times: float = 2.5) -> list[float]:
    return [loss * times if at <= n < at + count else loss for n, loss in enumerate(losses)]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_lasting_jump_is_a_note_at_any_scale(scale: float) -> None:
    losses = [scale * loss for loss in spiked(falling(600), 400, times=2)]
    (note,) = opened(LossSpike, steps(losses))
    assert (note.rule, note.severity, note.steps) == ("loss-spike", "info", (400, 400))
    assert note.evidence["value"] == losses[400]


def test_one_bad_batch_is_a_note_that_closes() -> None:
    note, closed = updated(LossSpike, steps(spiked(falling(600), 300, count=1, times=3)))
    assert (note.severity, note.evidence["points"], closed.state) == ("info", 1, "closed")
    assert "One unusual batch can" in note.advice


def test_a_batch_of_a_loss_that_is_learned_is_no_spike() -> None:
    losses = [2.3 * 0.98**n + 0.04 for n in range(600)]
    losses[450] = 0.24
    assert opened(LossSpike, steps(losses)) == []
    losses[500] = 1.2
    assert len(opened(LossSpike, steps(losses))) == 1


def test_a_warm_restart_is_no_spike() -> None:
    losses = falling(500) + [loss * 1.3 for loss in flat(500, falling(500)[-1])]
    rates = [1e-3 * (1 - n / 500) + 1e-6 for n in range(500)] * 2
    assert opened(LossSpike, steps(losses, lr=rates)) == []


def test_a_jump_of_the_rate_is_named() -> None:
    losses = falling(500) + flat(10, 20.0)
    rates = [1e-3] * 500 + [4e-3] * 10
    assert "rose 4.0 times at step 500" in opened(LossSpike, steps(losses, lr=rates))[0].sentence


def test_a_resume_makes_no_spike_at_its_seam() -> None:
    resume = {"log": "resume", "t": 1.7e9 + 700, "attempt": 2, "step": 200}
    again = steps(falling(600)[200:], first=200)
    assert opened(LossSpike, [*steps(falling(600)), resume, *again]) == []


def test_spikes_where_epochs_begin_are_an_order_of_the_data() -> None:
    losses = flat(1000, 0.5)
    for epoch in range(1, 4):
        for n in range(250 * epoch, 250 * epoch + 4):
            losses[n] = 30.0 + epoch * 30
    records = steps(losses, epoch=[n / 250 for n in range(1000)])
    assert "Shuffle" in opened(LossSpike, records)[-1].advice
    elsewhere = steps(losses, epoch=[(n + 100) / 250 for n in range(1000)])
    assert "Shuffle" not in opened(LossSpike, elsewhere)[-1].advice


def test_batches_that_were_known_by_heart_and_then_are_not_have_an_order() -> None:
    losses = [max(1e-4, 2.3 * 0.9**n) for n in range(100)] + flat(20, 15.0)
    assert "has memorised the batches" in opened(LossSpike, steps(losses))[-1].advice
    assert "by heart" not in opened(LossSpike, steps(falling(100) + flat(20, 15.0)))[-1].advice


STOPPED = falling(600) + flat(1200, falling(600)[-1])


def test_a_loss_that_stopped_falling_is_a_note() -> None:
    (found,) = opened(Plateau, steps(STOPPED, lr=1e-3))
    assert (found.rule, found.severity, found.evidence["lr"]) == ("plateau", "info", 1e-3)
    assert "Lower the learning rate" in found.advice


def test_a_rate_that_has_come_down_is_no_reason_for_it() -> None:
    rates = [1e-3] * 600 + [1e-4] * 1200
    (found,) = opened(Plateau, steps(STOPPED, lr=rates))
    assert found.advice.startswith("Stop here")


def test_it_closes_when_the_loss_falls_again() -> None:
    losses = STOPPED + [falling(600)[-1] * 0.999**n for n in range(900)]
    assert [finding.state for finding in updated(Plateau, steps(losses))] == ["open", "closed"]


FALL = [5.0 - 3 * n / 300 for n in range(300)]
TURNS = FALL + [2.0 + 0.2 * (n // 75 % 2) + one for n, one in enumerate(noise(1500, 0.01))]
HIDDEN = [0.69 - 0.0016 * min(n, 100) + (n > 100) * one for n, one in enumerate(noise(1500, 0.1))]


OTHERS = {
    "falls": steps([10 * 0.9995**n for n in range(3000)]),
    "never fell": steps(flat(2000, 2.3)),
    "noise hides a fall": steps(HIDDEN, lr=1e-2),
    "other data by turns": steps(TURNS, lr=1e-3),
    "a game": [REWARD, *steps(STOPPED)],
}


@pytest.mark.parametrize("records", OTHERS.values(), ids=OTHERS)
def test_it_is_no_plateau(records: list[Record]) -> None:
    assert opened(Plateau, records) == []


FLAT = flat(1500, 2.303, width=0.01)


def test_a_loss_that_stays_where_it_began_is_a_warning() -> None:
    found = opened(NeverFell, steps(FLAT))
    assert [(one.rule, one.severity) for one in found] == [("never-fell", "warning")]
    assert found[0].evidence["now"] == pytest.approx(2.303, rel=0.02)


def test_it_is_a_note_while_noise_may_hide_a_little() -> None:
    assert opened(NeverFell, steps(flat(300, 2.3, width=0.1)))[0].severity == "info"


FELL = {
    "fell": steps(falling(2000)),
    "fell at once": steps([6 - n / 5 for n in range(20)] + flat(2000, 2.0)),
    "fell and rose again": steps(falling(200) + [2.5 + n * 0.02 for n in range(400)]),
    "falls just now": steps(flat(260, 0.13, width=0.01) + [0.13 * 0.99**n for n in range(60)]),
    "has risen far": steps([0.7 + 1.6 * min(1.0, n / 300) for n in range(700)]),
    "around zero": steps(noise(1000, 0.3)),
    "a game": [REWARD, *steps(FLAT)],
    "learns": in_order(steps(FLAT), evals([2.0 * 0.97**n for n in range(20)], every=50)),
}


@pytest.mark.parametrize("records", FELL.values(), ids=FELL)
def test_it_fell_or_need_not(records: list[Record]) -> None:
    assert opened(NeverFell, records) == []


@pytest.mark.parametrize("floor", [0.001, 0.3])
@pytest.mark.parametrize("per_step", [0.6, 0.96, 0.99])
def test_a_regression_falls_however_fast_it_does(per_step: float, floor: float) -> None:
    """Squared errors of small batches scatter by a quarter of their level."""
    around = noise(600, 0.25)
    losses = [(5 * per_step**n + floor) * math.exp(share) for n, share in enumerate(around)]
    assert opened(NeverFell, steps(losses)) == []
