"""Rules on a loss that rises and does not come back."""

import math

import pytest

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


def test_a_restart_of_the_learning_rate_is_no_recovery() -> None:
    rates = [1e-3 * (1 - n / 800) for n in range(700)] + [1e-3] * 900
    stays = falling(600) + flat(1000, 12.0)
    assert [one.state for one in updated(Divergence, steps(stays, lr=rates))] == ["open"]
    back = falling(600) + flat(300, 12.0) + flat(700, 2.5)
    assert [one.state for one in updated(Divergence, steps(back, lr=rates))] == ["open", "closed"]


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


def course(*levels: tuple[int, float], width: float) -> list[float]:
    """Straight lines from level to level, over so many points each, with noise."""
    ends = [levels[0][1], *(level for _, level in levels)]
    line = [
        begin + (end - begin) * n / count
        for begin, (count, end) in zip(ends, levels, strict=False)
        for n in range(count)
    ]
    return [a + b for a, b in zip(line, noise(len(line), width), strict=True)]


def rewarded(losses: list[float], rewards: list[float]) -> list[Record]:
    both = zip(steps(losses), rewards, strict=True)
    return [{**record, "m": {"train/reward": reward}} for record, reward in both]


POLICY = [abs(loss) for loss in course((20, 8e-5), (180, 0.004), (200, 0.004), width=3e-4)]
# With advantages that are not centred in each batch, the loss has both signs.
NOISY = course((20, 0.0), (180, 0.3), (200, 0.3), width=0.02)
LEARNS = course((20, 0.08), (180, 1.0), (200, 1.0), width=0.03)


@pytest.mark.parametrize("losses", [POLICY, NOISY], ids=["above zero", "of both signs"])
def test_the_loss_of_a_policy_rises_from_about_zero(losses: list[float]) -> None:
    assert opened(Divergence, rewarded(losses, LEARNS)) == []
    assert opened(Divergence, steps(losses)) == []


def test_no_loss_diverges_while_the_reward_is_at_its_best() -> None:
    losses = course((20, 0.5), (180, 30.0), (200, 30.0), width=0.05)  # values of larger returns
    assert opened(Divergence, rewarded(losses, LEARNS)) == []
    (found,) = opened(Divergence, rewarded(losses, flat(400, 0.08)))
    assert found.series == "train/loss"


@pytest.mark.parametrize(
    "losses",
    [
        course((100, 0.008), (200, 1e-3), (100, 0.2), (150, 0.2), width=1e-4),
        course((100, 5e-4), (200, 5e-5), (100, 0.01), (150, 0.01), width=5e-6),
        [0.005 * 1.04**n for n in range(300)],
        [0.05 * 1.02**n for n in range(200)],
    ],
    ids=["small", "very small", "without end", "from near zero"],
)
def test_small_losses_diverge_too(losses: list[float]) -> None:
    assert [found.severity for found in opened(Divergence, steps(losses))][-1:] == ["error"]


@pytest.mark.parametrize(
    "levels",
    [
        [(20, 0.08), (180, 1.0), (60, 0.2), (140, 0.2)],
        [(50, 0.6), (150, 0.6), (60, 0.1), (140, 0.1)],
        [(20, -30.0), (180, -4.0), (60, -25.0), (140, -25.0)],
    ],
    ids=["learned before", "never rose", "negative"],
)
def test_a_reward_that_falls_and_stays_low_is_found(levels: list[tuple[int, float]]) -> None:
    size = max(abs(level) for _, level in levels)
    rewards = course(*levels, width=0.03 * size)
    (found,) = opened(Divergence, rewarded(POLICY, rewards))
    assert (found.severity, found.series) == ("warning", "train/reward")
    assert found.steps is not None
    assert 100 < found.steps[0] <= 210 < found.steps[1]
    back = [
        *rewards,
        *course((20, levels[-1][1]), (80, levels[1][1]), (100, levels[1][1]), width=0),
    ]
    losses = [*POLICY, *POLICY[200:]]
    said = updated(Divergence, rewarded(losses, back))
    assert [one.state for one in said] == ["open", "closed"]


@pytest.mark.parametrize(
    "levels",
    [
        [(20, -0.18), (100, -0.65), (280, -0.65)],  # with episodes that last longer
        [(20, 0.08), (180, 1.0), (60, 0.7), (140, 0.7)],
        [(20, 0.08), (130, 1.0), (30, 0.2), (30, 1.0), (190, 1.0)],
    ],
    ids=["never better", "a little lost", "comes back"],
)
def test_other_rewards_are_fine(levels: list[tuple[int, float]]) -> None:
    assert opened(Divergence, rewarded(POLICY, course(*levels, width=0.03))) == []
