"""A policy that gets no signal from its rewards, or that has left what it knew."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median

from epochal.health.context import Context, reward_name
from epochal.health.curve import is_usable
from epochal.health.observation import Observation
from epochal.health.rule import CurveRule, Message, RuleThresholds, Verdict

_RL = frozenset({"rl"})
_POINTS = 10  # of a level
_SPREADS = frozenset(("reward_std", "rewards_std", "reward_stddev", "reward/std", "rewards/std"))
_EQUAL = frozenset(("frac_reward_zero_std", "frac_zero_std", "zero_std_ratio"))
_KLS = frozenset(("kl", "kl_div", "kl_divergence", "mean_kl", "kl_mean", "ref_kl"))
_ENTROPIES = frozenset(("entropy", "policy_entropy", "mean_entropy", "entropy_mean"))


class _Level:
    """The level of a series now, at first, and its range; None as long as there is none."""

    def __init__(self) -> None:
        self.now: float | None = None
        self.first = self.lowest = self.highest = 0.0
        self._recent: deque[float] = deque(maxlen=_POINTS)

    def push(self, value: float) -> None:
        self._recent.append(value)
        if len(self._recent) < _POINTS:
            return
        level = median(self._recent)
        if self.now is None:
            self.first = self.lowest = self.highest = level
        self.now = level
        self.lowest, self.highest = min(self.lowest, level), max(self.highest, level)

    def rank(self, level: float | None) -> float:
        """Return where a level lies between the lowest, 0, and the highest, 1."""
        size = self.highest - self.lowest
        return 1.0 if level is None or size <= 0 else (level - self.lowest) / size

    def has_lost(self, share: float) -> bool:
        """Return True if it is below its best level by a share of its range."""
        return self.rank(self.now) < 1 - share


class PolicyRule(CurveRule):
    """What rules about the rewards of a policy have in common."""

    group = "loss"
    only_in = _RL
    kinds = frozenset({"step", "metrics"})

    def reset(self) -> None:
        self._reward = _Level()
        self._levels: dict[str, _Level] = {}

    def note(self, observation: Observation) -> bool:
        """Follow the reward; False for a record that is no point."""
        if observation.step is None or observation.is_extreme:
            return False
        name = reward_name(tuple(observation.values), observation.kind)
        if name is not None and is_usable(observation.values[name]):
            self._reward.push(observation.values[name])
        return True


def _given(observation: Observation, names: frozenset[str]) -> tuple[str, float] | None:
    """Return the first series of training that ends in one of some names, and its value."""
    for name, value in observation.values.items():
        parts = name.lower().removesuffix("/mean").rsplit("/", 2)
        is_named = parts[-1] in names or "/".join(parts[-2:]) in names
        if is_named and is_usable(value) and name not in observation.evaluations:
            return name, value
    return None


class EqualRewards(PolicyRule):
    """All rewards that are compared with each other are equal. The policy gets no gradient.

    The spread of rewards is 0, or almost all groups of answers have none.

    A policy that solves its task has equal rewards as well: then its reward is at its best.
    """

    name = "equal-rewards"
    healthy = "The spread of rewards is above 0 until the task is solved."
    reports = {
        "warning": (
            "For {points} points in a row the spread is 0, or {share:percent} of the groups have "
            "none, from the first point on or while the reward is below its best level."
        )
    }
    needs = "A metric such as `reward_std` or `frac_reward_zero_std`."
    causes = frozenset({"standstill"})
    messages = {
        "equal": Message(
            "All rewards of a group have been equal since step {since_step} ({series}): their "
            "advantages are 0, and the policy gets no gradient from them.",
            "Check that the reward function tells answers apart and reads the right field. Give "
            "partial rewards, choose other tasks, or sample at a higher temperature.",
        )
    }

    class Thresholds(RuleThresholds):
        points: int = 20
        share: float = 0.95
        # Of the range of the reward: so far below its best level it has not solved the task.
        lost: float = 0.1

    thresholds: Thresholds

    def reset(self) -> None:
        super().reset()
        self._in_row = self._since = 0
        self._had_spread = False

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Count the points in a row at which rewards are equal."""
        limits, step = self.thresholds, observation.step
        share, spread = _given(observation, _EQUAL), _given(observation, _SPREADS)
        given = share or spread
        if not self.note(observation) or given is None or step is None:
            return ()
        is_equal = spread[1] == 0 if share is None and spread else given[1] >= limits.share
        self._had_spread = self._had_spread or not is_equal
        self._in_row = self._in_row + 1 if is_equal else 0
        self._since = step if self._in_row == 1 else self._since
        if not is_equal or (self._had_spread and not self._reward.has_lost(limits.lost)):
            return (Verdict("reward", False),)
        if self._in_row < limits.points:
            return ()
        return (
            self.found(
                "equal",
                "reward",
                steps=(self._since, step),
                words={"series": given[0]},
                extent=self._in_row,
                since_step=self._since,
                value=given[1],
            ),
        )


class PolicyCollapse(PolicyRule):
    """The policy has left what it was before, and its reward does not show a gain.

    A KL to the reference policy far above usual, or an entropy of almost 0, beside a lost reward.

    A policy that earns more may be as far away and as certain: that is what it learned.
    """

    name = "policy-collapse"
    healthy = "The KL stays below {kl:plain}, and the entropy falls slowly while rewards rise."
    reports = {
        "warning": (
            "The KL is above {kl:plain}, or the entropy below {entropy:percent} of its first "
            "level, and the reward is {lost:percent} of its range below its best level. After "
            "{points} points."
        )
    }
    needs = "A reward, and a metric such as `kl` or `entropy`."
    symptom_of = frozenset({"lost values"})
    release = 20
    messages = {
        "kl": Message(
            "The KL to the reference policy ({series}) is {level} at step {step}, and the reward "
            "has fallen from {best} to {reward}: the policy has left what it knew.",
            "Resume from a checkpoint before the rise with half the learning rate or a stronger "
            "KL penalty.",
        ),
        "entropy": Message(
            "The entropy of the policy ({series}) fell from {first} to {level} by step {step}, and "
            "the reward from {best} to {reward}: the policy no longer explores.",
            "Resume from a checkpoint before the fall with a larger entropy bonus, a lower "
            "learning rate or a higher temperature.",
        ),
    }

    class Thresholds(RuleThresholds):
        # Nats, per token or per answer: healthy policies end below a third of it.
        kl: float = 30.0
        # Of the first level.
        entropy: float = 0.02
        lost: float = 0.5
        points: int = 50

    thresholds: Thresholds

    def reset(self) -> None:
        super().reset()
        self._count = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the levels of KL and entropy with their bounds, and the reward with its best."""
        if not self.note(observation):
            return
        self._count += 1
        for message, names in (("kl", _KLS), ("entropy", _ENTROPIES)):
            given = _given(observation, names)
            if given is not None:
                level = self._levels.setdefault(given[0], _Level())
                level.push(given[1])
                yield from self._judge(message, given[0], level, observation.step or 0)

    def _judge(self, message: str, series: str, level: _Level, step: int) -> Iterable[Verdict]:
        limits, reward = self.thresholds, self._reward
        if level.now is None or reward.now is None or self._count < limits.points:
            return
        bound = limits.entropy * level.first
        is_far = level.now > limits.kl if message == "kl" else 0 <= level.now < bound
        if not (is_far and reward.has_lost(limits.lost)):
            yield Verdict(series, False)
            return
        yield self.found(
            message,
            series,
            words={"series": series},
            step=step,
            first=level.first,
            level=level.now,
            best=reward.highest,
            reward=reward.now,
        )
