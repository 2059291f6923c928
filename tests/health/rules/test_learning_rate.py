"""Rules on a learning rate that is too high, too low, or ends before the training."""

from collections.abc import Mapping

import pytest

from epochal.health.rules.learning_rate import LearningRateTooHigh, LearningRateTooLow, RateEnded
from epochal.records import Record
from tests.health.curve_records import evals, falling, flat, in_order, noise, steps
from tests.health.machine_records import event, metrics, opened, updated

REWARD = metrics(0, {"reward": 1.0})
STAYS = flat(200, 2.3)


def watched(ratios: Mapping[int, float], *, norm: float = 5.0) -> list[Record]:
    """Watched steps: the updates of three weights as a share of their norms, and of a bias."""
    names = ("0.weight", "2.weight", "4.weight")
    return [
        metrics(
            step,
            {
                **{f"update_ratio/{name}": ratio for name in names},
                **{f"params/{name}/norm": norm for name in names},
                "update_ratio/0.bias": 2.0,
                "params/0.bias/norm": 0.01,
            },
        )
        for step, ratio in ratios.items()
    ]


def optimizer(name: str, **group: float) -> Record:
    return event("optimizer", at_step=0, optimizer=name, parameters=6, groups=[group])


@pytest.mark.parametrize(
    ("updates", "step", "warm_up"),
    [
        ({0: 0.1, 1: 0.4}, 1, 0),
        ({0: 0.1, 1: 0.1, 5: 0.15}, 5, 0),
        ({0: 0.01, 20: 0.06, 50: 0.07}, 50, 30),
    ],
    ids=["first steps", "early steps", "warm-up"],
)
def test_large_updates_and_a_loss_that_does_not_fall_are_a_warning(
    updates: dict[int, float], step: int, warm_up: int
) -> None:
    rates = [0.5 * min(1.0, (n + 1) / max(1, warm_up)) for n in range(200)]
    (found,) = opened(LearningRateTooHigh, in_order(watched(updates), steps(STAYS, lr=rates)))
    assert (found.rule, found.severity, found.series) == ("lr-too-high", "warning", "train/loss")
    assert (found.steps, found.evidence["ratio"]) == ((0, step), updates[step])
    assert "of 0.5" in found.sentence
    # The loss is the second piece of evidence: with one that falls fast it is a note.
    fast = steps([2.3 * 0.95**n for n in range(200)], lr=rates)
    (note,) = opened(LearningRateTooHigh, in_order(watched(updates), fast))
    assert note.severity == "info"


@pytest.mark.parametrize(("last", "severity"), [(2.8, "error"), (0.5, "info")])
def test_a_step_as_large_as_the_weights_is_an_error_unless_the_model_learns(
    last: float, severity: str
) -> None:
    losses = [last + (10.8 - last) * 0.9**n for n in range(200)]
    updates = watched({0: 0.6, 1: 2.83})
    (found,) = opened(LearningRateTooHigh, in_order(updates, steps(losses, lr=0.3)))
    assert (found.severity, found.evidence["ratio"]) == (severity, 2.83)
    assert "by about 100:" in found.advice


def test_the_rate_that_is_named_is_the_peak_not_the_end_of_a_schedule() -> None:
    rates = [0.3 * max(0.001, 1 - n / 60) for n in range(200)]
    (found,) = opened(LearningRateTooHigh, in_order(watched({0: 0.6}), steps(STAYS, lr=rates)))
    assert "learning rate of 0.3" in found.sentence


def test_a_resume_in_which_nothing_is_measured_resolves_nothing() -> None:
    resume = {"log": "resume", "t": 1.7e9 + 200, "attempt": 2, "step": 200}
    again = steps(flat(100, 2.3), first=200, lr=0.5)
    records = in_order(watched({0: 0.1, 1: 0.4}), steps(STAYS, lr=0.5))
    said = updated(LearningRateTooHigh, [*records, resume, *again])
    assert [finding.state for finding in said] == ["open"]


def test_updates_of_a_usual_size_are_fine() -> None:
    updates = {0: 0.15, 1: 0.1, 5: 0.08, 20: 0.03, 50: 0.06, 100: 0.05}
    assert opened(LearningRateTooHigh, in_order(watched(updates), steps(STAYS, lr=0.1))) == []


def test_a_table_of_vectors_may_take_large_steps() -> None:
    records = watched({0: 0.9, 1: 0.9})
    for record in records:
        record["m"] |= {f"grads/{n}.weight/zeros": 0.95 for n in (0, 2, 4)}
    assert opened(LearningRateTooHigh, in_order(records, steps(STAYS, lr=0.1))) == []


def test_the_first_step_of_rmsprop_is_ten_times_as_large() -> None:
    records = in_order(watched({0: 0.9}), steps(STAYS))
    assert opened(LearningRateTooHigh, [optimizer("RMSprop"), *records]) == []
    assert len(opened(LearningRateTooHigh, [optimizer("AdamW"), *records])) == 1


def thrown(high: float) -> list[float]:
    return [2.3, 2.4, 3.0, high, *flat(96, 2.3)]


def test_a_loss_that_the_first_steps_throw_up_is_a_warning() -> None:
    (found,) = opened(LearningRateTooHigh, steps(thrown(30.0), lr=0.3))
    assert (found.severity, found.steps, found.evidence["high"]) == ("warning", (0, 3), 30.0)


def test_a_bump_and_batches_that_come_again_are_fine() -> None:
    assert opened(LearningRateTooHigh, steps(thrown(5.0))) == []
    rare = [30.0 if n % 20 == 3 else 2.3 for n in range(100)]
    assert opened(LearningRateTooHigh, steps(rare)) == []


STUCK = [2.3 - 0.02 * min(n, 20) for n in range(400)]


@pytest.mark.parametrize(
    ("name", "group", "rate", "highest", "severity"),
    [
        ("AdamW", {}, 0.15, 0.01, "warning"),
        ("AdamW", {}, 0.03, 0.01, "info"),
        ("SGD", {"momentum": 0.9}, 1.0, 0.3, "info"),
        ("Lion", {}, 0.01, 0.003, "info"),
    ],
    ids=["far above", "above and stuck", "momentum", "Lion"],
)
def test_a_rate_above_the_usual_ones_of_the_optimizer_is_a_note_and_far_above_a_warning(
    name: str, group: dict[str, float], rate: float, highest: float, severity: str
) -> None:
    records = steps(
        [one + around for one, around in zip(STUCK, noise(400, 0.01), strict=True)], lr=rate
    )
    (found,) = opened(LearningRateTooHigh, [optimizer(name, **group), *records])
    assert (found.severity, found.evidence["rate"]) == (severity, rate)
    assert found.evidence["highest"] == highest


def test_a_usual_rate_a_loss_that_falls_and_plain_sgd_are_fine() -> None:
    assert opened(LearningRateTooHigh, [optimizer("AdamW"), *steps(STUCK, lr=1e-3)]) == []
    falls = steps(falling(400), lr=0.03)
    assert opened(LearningRateTooHigh, [optimizer("AdamW"), *falls]) == []
    plain = optimizer("SGD", momentum=0.0)
    assert opened(LearningRateTooHigh, [plain, *steps(STUCK, lr=5.0)]) == []


def test_the_configuration_names_the_optimizer_of_a_model_that_is_not_watched() -> None:
    records = steps(STUCK, lr=1.0)
    for config in ({"optimizer": "adamw"}, {"optimizer": "sgd", "momentum": 0.9}):
        assert len(opened(LearningRateTooHigh, records, config=config)) == 1
    # The class is a fact, the configuration only a word.
    assert (
        opened(LearningRateTooHigh, [optimizer("SGD"), *records], config={"optimizer": "adam"})
        == []
    )


EVEN = {0: 1e-5, 1: 1e-5, 20: 1e-5, 50: 1e-5, 100: 1e-5, 200: 1e-5}


def test_steps_that_change_next_to_nothing_are_a_warning() -> None:
    records = in_order(watched(EVEN), steps(flat(300, 2.3), lr=1e-7))
    (found,) = opened(LearningRateTooLow, [optimizer("AdamW"), *records])
    assert (found.rule, found.severity, found.steps) == ("lr-too-low", "warning", (0, 100))
    assert found.evidence["ratio"] == pytest.approx(1e-5)
    assert "about 1,000 times" in found.advice
    # The steps of plain SGD are as small as its gradients.
    (note,) = opened(LearningRateTooLow, [optimizer("SGD"), *records])
    assert note.severity == "info"


def test_small_steps_are_fine_while_the_loss_learns() -> None:
    small = dict.fromkeys(EVEN, 3e-4)
    assert (
        opened(
            LearningRateTooLow, in_order(watched(small), steps([0.5 + 0.97**n for n in range(300)]))
        )
        == []
    )
    assert len(opened(LearningRateTooLow, in_order(watched(small), steps(flat(300, 2.3))))) == 1
    usual = dict.fromkeys(EVEN, 2e-3)
    assert opened(LearningRateTooLow, in_order(watched(usual), steps(flat(300, 2.3)))) == []


def test_a_loss_that_falls_a_little_in_a_straight_line_is_a_warning() -> None:
    straight = [2.3 * (1 - 0.04 * n / 500) + one for n, one in enumerate(noise(500, 0.003))]
    (found,) = opened(LearningRateTooLow, steps(straight, lr=1e-6))
    assert found.severity == "warning"
    assert found.evidence["share"] == pytest.approx(0.04, rel=0.2)
    assert opened(LearningRateTooLow, steps(falling(500), lr=1e-3)) == []
    warms_up = [1e-6 * n for n in range(500)]
    assert opened(LearningRateTooLow, steps(straight, lr=warms_up)) == []
    assert opened(LearningRateTooLow, [REWARD, *steps(straight, lr=1e-6)]) == []


def test_evaluations_that_fall_evenly_are_a_note() -> None:
    losses = steps(flat(650, 2.3, width=0.1), lr=1e-5)
    even = evals([2.3 - 0.05 * n for n in range(13)], every=50)
    (found,) = opened(LearningRateTooLow, in_order(losses, even))
    assert (found.severity, found.evidence["first"]) == ("info", 2.3)
    bent = evals([2.3 * 0.8**n for n in range(13)], every=50)
    assert opened(LearningRateTooLow, in_order(losses, bent)) == []


def test_a_rate_below_the_usual_ones_is_a_note_while_the_loss_falls() -> None:
    falls = [3.0 - 0.002 * n + one for n, one in enumerate(noise(500, 0.01))]
    (found,) = opened(LearningRateTooLow, [optimizer("Adam"), *steps(falls, lr=1e-6)])
    assert (found.severity, found.evidence["lowest"], found.evidence["rate"]) == (
        "info",
        1e-4,
        1e-6,
    )
    assert opened(LearningRateTooLow, [optimizer("Adam"), *steps(falls, lr=1e-4)]) == []


def test_a_fine_tuning_that_has_settled_is_fine() -> None:
    settled = [0.8 + 0.7 * 0.9**n + one for n, one in enumerate(noise(600, 0.01))]
    assert opened(LearningRateTooLow, [optimizer("AdamW"), *steps(settled, lr=1e-5)]) == []


@pytest.mark.parametrize(
    ("rates", "since", "word"),
    [
        ([1e-3] * 40 + [0.0] * 200, 40, "has been 0"),
        ([0.1 * 0.1 ** (n // 8) for n in range(200)], 32, "fell from"),
        ([0.0] * 60, 0, "has been 0"),
    ],
    ids=["0 for most of the run", "a schedule in epochs that steps by batches", "never above 0"],
)
def test_a_rate_that_has_ended_is_a_warning(rates: list[float], since: int, word: str) -> None:
    (found,) = opened(RateEnded, steps(flat(len(rates), 2.0), lr=rates))
    assert (found.rule, found.severity, found.series) == ("rate-ended", "warning", "train/lr")
    assert found.evidence["since_step"] == since
    assert found.steps is not None
    assert found.steps[0] == since
    assert word in found.sentence


def test_a_schedule_that_ends_with_the_run_and_a_warm_up_from_0_are_fine() -> None:
    ends = [max(0.0, 1e-3 * (1 - n / 950)) for n in range(1000)]
    assert opened(RateEnded, steps(flat(1000, 2.0), lr=ends)) == []
    assert opened(RateEnded, steps(flat(120, 2.0), lr=[0.0] * 20 + [1e-3] * 100)) == []
