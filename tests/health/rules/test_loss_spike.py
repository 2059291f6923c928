import pytest

from epochal.health.rules.loss import LossSpike
from tests.health.curve_records import falling, flat, noise, steps
from tests.health.machine_records import opened, updated


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_lasting_jump_is_a_note_at_any_scale(scale: float) -> None:
    losses = [scale * loss for loss in falling(600)]
    for n in range(400, 408):
        losses[n] *= 2
    (note,) = opened(LossSpike, steps(losses))
    assert (note.severity, note.steps) == ("info", (400, 400))


def test_one_bad_batch_is_a_note_that_closes() -> None:
    losses = falling(600)
    losses[300] *= 3
    note, closed = updated(LossSpike, steps(losses))
    assert (note.severity, closed.state) == ("info", "closed")


def test_a_spike_does_not_hide_the_next() -> None:
    losses = falling(900)
    for begin in (300, 500, 700):
        for n in range(begin, begin + 6):
            losses[n] *= 2.5
    assert len({finding.id for finding in opened(LossSpike, steps(losses))}) == 3


def test_heavy_tails_make_no_warning() -> None:
    losses = [abs(1 / (around or 1)) ** 0.5 for around in noise(5000, 1.0)]
    found = opened(LossSpike, steps(losses))
    assert [finding for finding in found if finding.severity != "info"] == []


def test_a_warm_restart_is_no_spike() -> None:
    losses = falling(500) + [loss * 1.3 for loss in flat(500, falling(500)[-1])]
    rates = [1e-3 * (1 - n / 500) + 1e-6 for n in range(500)] * 2
    assert opened(LossSpike, steps(losses, lr=rates)) == []


def test_a_loss_below_zero_is_judged_too() -> None:
    losses = [-50 + around for around in noise(400, 0.5)]
    losses[300:306] = [-20.0] * 6
    assert opened(LossSpike, steps(losses))[-1].severity == "info"


def test_a_resume_makes_no_spike_at_its_seam() -> None:
    before = falling(600)
    after = falling(600)[200:]
    resume = {"log": "resume", "t": 1.7e9 + 700, "attempt": 2, "step": 200}
    assert opened(LossSpike, [*steps(before), resume, *steps(after, first=200)]) == []


def test_the_moving_targets_of_a_game_make_a_note() -> None:
    losses = falling(600)
    for n in range(400, 408):
        losses[n] *= 4
    records = steps(losses)
    for record in records:
        record["m"] = {**record.get("m", {}), "episode/return": 1.0}
    found = opened(LossSpike, records)
    assert [finding.severity for finding in found] == ["info"]


def test_spikes_where_epochs_begin_are_an_order_of_the_data() -> None:
    losses = flat(1000, 0.5)
    for epoch in range(1, 4):
        for n in range(250 * epoch, 250 * epoch + 4):
            losses[n] = 30.0 + epoch * 30
    records = steps(losses, epoch=[n / 250 for n in range(1000)])
    *_, last = opened(LossSpike, records)
    assert "Shuffle" in last.advice
    elsewhere = steps(losses, epoch=[(n + 100) / 250 for n in range(1000)])
    assert "Shuffle" not in opened(LossSpike, elsewhere)[-1].advice


def test_batches_that_were_known_by_heart_and_then_are_not_have_an_order() -> None:
    losses = [max(1e-4, 2.3 * 0.9**n) for n in range(100)] + flat(20, 15.0)
    assert "shuffle" in opened(LossSpike, steps(losses))[-1].advice
    usual = falling(100) + flat(20, 15.0)
    assert "shuffle" not in opened(LossSpike, steps(usual))[-1].advice


def test_small_losses_are_told_with_three_digits() -> None:
    losses = [*flat(200, 0.0003, width=0.02), 0.00105883, *flat(20, 0.0003, width=0.02)]
    assert "to 0.00106 at step 200" in opened(LossSpike, steps(losses))[0].sentence
