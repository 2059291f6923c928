"""Reinforcement learning: a policy earns rewards, by itself or as a language model (PPO, GRPO).

The loss of a policy starts at about zero and may rise while the policy improves: it says nothing.
"""

from __future__ import annotations

from types import MappingProxyType

from epochal.health.families.family import Facts, Family, logged

_LAST = frozenset(("policy_loss", "policy_gradient_loss", "approx_kl"))
_WORDS = frozenset(
    "reward rewards return returns episode critic critic_loss actor actor_loss".split()
)


def _recognise(facts: Facts) -> str | None:
    return logged(facts.series(last=_LAST, word=_WORDS))


FAMILY = Family(
    name="rl",
    title="reinforcement learning",
    recognise=_recognise,
    curves=("reward", "spread of rewards", "KL", "entropy", "share of equal rewards", "length"),
    normal=MappingProxyType(
        {
            "reward": "rises, with noise; the loss may rise with it",
            "spread of rewards": "above 0: equal rewards in a group give no gradient",
            "KL": "below 0.05 per update, and below 10 to the reference policy",
            "entropy": "falls slowly, and not to 0 before the reward has risen",
            "share of equal rewards": "below 0.9",
            "length": "does not grow without the reward",
        }
    ),
    loss_falls=False,
)
