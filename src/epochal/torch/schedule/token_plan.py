"""How many tokens a model is worth, by the rule of twenty tokens to a parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass

from epochal.errors import UsageError
from epochal.format import format_count

# Hoffmann et al. 2022, "Training Compute-Optimal Large Language Models": about 20 tokens a
# parameter spend a compute budget best. More is not wrong: a smaller model that is used much pays
# for longer training.
TOKENS_PER_PARAMETER = 20.0
_NEAR = 0.2


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """A plan held against the compute-optimal number of tokens.

    ``epochs`` is how often the data would have to be seen for it; None when its size is unknown.
    """

    num_parameters: int
    planned_tokens: int
    optimal_tokens: int
    dataset_tokens: int | None = None

    @property
    def ratio(self) -> float:
        """Planned over optimal."""
        return self.planned_tokens / self.optimal_tokens

    @property
    def epochs(self) -> float | None:
        """Passes over the data that the optimal number takes."""
        return None if not self.dataset_tokens else self.optimal_tokens / self.dataset_tokens

    def steps(self, tokens_per_step: int) -> int:
        """Steps to the optimal number of tokens."""
        if tokens_per_step < 1:
            raise UsageError(f"tokens_per_step must be at least 1, got {tokens_per_step!r}.")
        return math.ceil(self.optimal_tokens / tokens_per_step)

    @property
    def advice(self) -> str:
        """The comparison in a sentence or two."""
        planned, optimal = format_count(self.planned_tokens), format_count(self.optimal_tokens)
        head = (
            f"{planned} tokens planned for {format_count(self.num_parameters)} parameters, which"
            f" are worth about {optimal} ({self.ratio:.2f} of it)."
        )
        if abs(self.ratio - 1) <= _NEAR:
            return f"{head} The plan fits."
        if self.ratio < 1:
            return f"{head} Train longer, or a smaller model: this one will be undertrained."
        return (
            f"{head} The same compute would reach a lower loss with a larger model; for a model"
            " that is used much, training on is right."
        )


def token_budget(
    num_parameters: int,
    *,
    planned_tokens: int,
    dataset_tokens: int | None = None,
    tokens_per_parameter: float = TOKENS_PER_PARAMETER,
) -> TokenBudget:
    """Hold a plan against the optimal number of tokens; ``num_parameters`` without embeddings."""
    for name, value in (("num_parameters", num_parameters), ("planned_tokens", planned_tokens)):
        if value < 1:
            raise UsageError(f"{name} must be at least 1, got {value!r}.")
    if not tokens_per_parameter > 0:
        raise UsageError(f"tokens_per_parameter must be above 0, got {tokens_per_parameter!r}.")
    optimal = round(num_parameters * tokens_per_parameter)
    return TokenBudget(num_parameters, planned_tokens, optimal, dataset_tokens)
