"""Rules on a loss that rises and does not come back."""

import math

from epochal.health.rules.loss import Divergence
from epochal.records import Record
from tests.health.curve_records import evals, falling, flat, in_order, noise, steps
from tests.health.machine_records import opened, updated

BEST = falling(600)[-1]
LOST = falling(600) + [BEST * (1 + n / 20) for n in range(60)] + flat(100, BEST * 4)


def test_a_loss_that_rises_and_stays_up_is_an_error() -> None:
    (found,) = opened(Divergence, steps(LOST))
    assert (found.rule, found.severity, found.series) == ("divergence", "error", "train/loss")
    assert found.steps is not None
    assert found.steps[0] < 600 < found.steps[1] < 720
    assert float(found.evidence["level"]) > 2 * float(found.evidence["best"])
    assert "resume from a checkpoint" in found.advice


def test_it_closes_when_the_loss_has_come_back() -> None:
    losses = falling(600) + flat(100, 12.0) + flat(200, 2.5)
    assert [finding.state for finding in updated(Divergence, steps(losses))] == ["open", "closed"]


def test_a_loss_that_rises_from_the_first_step_on_names_the_sign() -> None:
    found = opened(Divergence, steps([2.3 * 1.02**n for n in range(200)]))[0]
    assert (found.severity, "sign" in found.advice) == ("error", True)


def test_what_is_lost_in_the_first_steps_is_not_resumed() -> None:
    losses = [3.0 - 0.05 * n for n in range(20)] + [2.0 * 1.02**n for n in range(280)]
    found = opened(Divergence, steps(losses))[-1]
    assert (found.severity, "zero_grad" in found.advice) == ("error", True)


def test_a_jump_of_the_rate_is_named() -> None:
    losses = falling(500) + flat(40, 6.0) + [6.0 + n / 4 for n in range(100)] + flat(100, 31.0)
    rates = [1e-3] * 500 + [3e-2] * 240
    found = opened(Divergence, steps(losses, lr=rates))[-1]
    assert found.severity == "error"
    assert found.sentence.startswith("The learning rate rose 30 times at step 500")


def test_a_warm_restart_does_not_diverge() -> None:
    losses = falling(500) + [loss * 1.5 for loss in flat(500, falling(500)[-1])]
    rates = [1e-3 * (1 - n / 500) + 1e-6 for n in range(500)] * 2
    assert opened(Divergence, steps(losses, lr=rates)) == []


def test_a_spike_that_is_over_is_none() -> None:
    losses = falling(800)
    losses[400:408] = [30.0] * 8
    assert opened(Divergence, steps(losses)) == []


def test_a_harder_stage_of_the_data_is_learned_in_turn() -> None:
    stage = [4.5 * (1 - n / 600) for n in range(300)]
    losses = falling(600) + [a + b for a, b in zip(stage, noise(300, 0.1), strict=True)]
    assert opened(Divergence, steps(losses)) == []


def test_a_rise_needs_noise_and_gradients_that_grow_with_it() -> None:
    """A term whose weight grows lifts the loss evenly; steps too large make it rough."""
    fallen = falling(400, start=9.0)
    risen = [fallen[-1] * (1 + 0.6 * min(1.0, n / 200)) for n in range(400)]
    calm = [a * (1 + b) for a, b in zip(risen, noise(400, 0.02), strict=True)]
    assert opened(Divergence, steps(fallen + calm, norm=1.0)) == []
    rough = [a * (1 + b) for a, b in zip(risen, noise(400, 0.06), strict=True)]
    norms = [1.0] * 450 + [2.0] * 350
    (found,) = opened(Divergence, steps(fallen + rough, norm=norms))
    assert found.severity == "warning"


def test_harder_data_that_the_evaluation_does_not_suffer_from_is_fine() -> None:
    losses = falling(400) + flat(400, 7.0, width=0.06)
    norms = [1.0] * 400 + [3.0] * 400
    fine = evals([5.0 * 0.8 ** min(n, 7) for n in range(16)], every=50)
    assert opened(Divergence, in_order(steps(losses, norm=norms), fine)) == []
    suffers = evals([5.0 * 0.8**n if n < 8 else 6.0 for n in range(16)], every=50)
    assert opened(Divergence, in_order(steps(losses, norm=norms), suffers)) != []


def test_a_loss_of_several_terms_finds_their_balance_before_it_falls() -> None:
    up = [1.0 + 3.0 * min(1.0, n / 60) for n in range(180)]
    back = [4.0 * 0.995**n for n in range(220)]
    levels = [a * (1 + b) for a, b in zip(up + back, noise(400, 0.01), strict=True)]
    alike = [0.2 * one for one in up + back]  # a codebook that its encoder runs away from
    assert opened(Divergence, steps(levels, norm=alike)) == []
    more = [0.2 * one**2 for one in up + back]
    (found,) = opened(Divergence, steps(levels, norm=more))
    assert found.severity == "error"


def played(losses: list[float]) -> list[Record]:
    return [{**record, "m": {"reward": 1.0}} for record in steps(losses)]


def test_the_loss_of_a_game_may_rise_with_what_the_players_learn() -> None:
    losses = [1.0 + min(1.5, n / 60) + around for n, around in enumerate(noise(300, 0.05))]
    assert opened(Divergence, steps(losses)) != []
    assert opened(Divergence, played(losses)) == []
    (lost,) = opened(
        Divergence, played([loss * 1.03 ** max(0, n - 100) for n, loss in enumerate(losses)])
    )
    assert lost.severity == "warning"


def test_a_loss_that_swings_does_not_diverge() -> None:
    losses = [
        1 + 0.3 * min(1, n / 200) * math.sin(n / 20) + around
        for n, around in enumerate(noise(4000, 0.05))
    ]
    assert opened(Divergence, steps(losses)) == []
