"""Rules on the rewards of a policy."""

from collections.abc import Callable

import pytest

from epochal.health.rules.reward import EqualRewards, PolicyCollapse
from epochal.records import Record
from tests.health.machine_records import metrics, opened, updated

Values = Callable[[int], dict[str, float]]


def run(values: Values, count: int = 200) -> list[Record]:
    return [metrics(n, values(n)) for n in range(count)]


def learned(n: int) -> float:
    return min(1.0, 0.1 + n / 100)


@pytest.mark.parametrize(
    "values",
    [
        lambda n: {"reward": 0.0, "reward_std": 0.0},
        lambda n: {"train/reward": 0.2, "train/frac_reward_zero_std": 1.0},
        lambda n: {"reward": 0.5 - 0.5 * (n > 100), "reward_std": 0.2 * (n <= 100)},
    ],
    ids=["from the first step on", "all groups", "after the reward is lost"],
)
def test_equal_rewards_are_a_warning(values: Values) -> None:
    (found,) = opened(EqualRewards, run(values))
    assert (found.severity, found.series) == ("warning", "reward")
    assert "no gradient" in found.sentence


def test_a_solved_task_and_different_rewards_are_fine() -> None:
    solved = run(lambda n: {"reward": learned(n), "reward_std": 0.3 * (n < 95)})
    assert opened(EqualRewards, solved) == []
    some = run(lambda n: {"reward": 0.1, "reward_std": 0.0 if n % 10 else 0.2})
    assert opened(EqualRewards, some) == []


def test_equal_rewards_that_differ_again_close_the_finding() -> None:
    again = run(lambda n: {"reward": 0.0, "reward_std": 0.0 if n < 50 else 0.2})
    assert updated(EqualRewards, again)[-1].state == "closed"


@pytest.mark.parametrize(
    ("name", "level"), [("train/kl", lambda n: n), ("entropy", lambda n: 2 * 0.95**n)]
)
def test_a_policy_that_left_and_earns_less_is_a_warning(
    name: str, level: Callable[[int], float]
) -> None:
    lost = run(lambda n: {"reward": learned(n) * (n < 120), name: level(n)})
    (found,) = opened(PolicyCollapse, lost)
    assert (found.severity, found.series) == ("warning", name)
    earns = run(lambda n: {"reward": learned(n), name: level(n)})
    assert opened(PolicyCollapse, earns) == []


def test_the_bounds_hold_in_reinforcement_learning_only() -> None:
    assert EqualRewards.only_in == PolicyCollapse.only_in == {"rl"}
