"""What routers did with some tokens, as sums that micro-steps and ranks can add up.

One row per layer, where the router is, and nothing waits for it: for each of ``E`` experts the
number of assignments, for each the sum of its probabilities, then the sums over tokens of the
squared log-sum-exp of the logits, of the entropy and of the largest probability, and the number of
tokens: ``2 E + 4`` numbers. The first of those four is NaN where no logits are known; all but the
last are when a token's logits are no numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from epochal.errors import UsageError

Scoring = Literal["softmax", "sigmoid"]

# The columns of a table of statistics, one row per layer.
COLUMNS = (
    "aux_loss",
    "z_loss",
    "expert_utilization",
    "load_imbalance",
    "active_experts",
    "max_expert_fraction",
    "min_active_expert_fraction",
    "load_cv",
    "router_entropy",
    "router_confidence",
)
# Added up over layers; every other column is a mean.
SUMMED = frozenset({"aux_loss", "z_loss"})
# What the rows of a 16-bit softmax add up to strays by less than this from 1.
_ROUNDING = 0.03


@dataclass(frozen=True, slots=True)
class Routing:
    """One layer's tokens as its router saw them, all as (tokens, experts) tables."""

    probs: Tensor
    assigned: Tensor
    logits: Tensor | None = None
    mask: Tensor | None = None


@torch.no_grad()
def routing_of_logits(
    logits: Tensor,
    *,
    top_k: int,
    expert_index: Tensor | None = None,
    mask: Tensor | None = None,
    scoring: Scoring = "softmax",
) -> Routing:
    """A layer's routing from what its router computed, (…, experts)."""
    table = _table(logits, name="router_logits")
    probs = _probs(table, scoring)
    assigned = _assigned(probs, top_k=top_k, expert_index=expert_index)
    return Routing(probs, assigned, logits=table, mask=_flat_mask(mask, len(table)))


@torch.no_grad()
def routing_of_probs(
    probs: Tensor, *, top_k: int, expert_index: Tensor | None = None, mask: Tensor | None = None
) -> Routing:
    """A layer's routing where only the probabilities are at hand."""
    table = _shares(_table(probs, name="probs"))
    assigned = _assigned(table, top_k=top_k, expert_index=expert_index)
    return Routing(table, assigned, mask=_flat_mask(mask, len(table)))


@torch.no_grad()
def routing_of_either(
    table: Tensor,
    *,
    logits: Tensor | None,
    top_k: int,
    expert_index: Tensor | None = None,
    mask: Tensor | None = None,
    scoring: Scoring = "softmax",
) -> Routing:
    """A layer's routing from what may be its logits, or scores that were made of them.

    ``logits`` are those known from elsewhere. The values tell which it is: scores lie between 0 and
    1. That is found out where the router is, so that nothing waits for it.
    """
    given = _table(table, name="router_logits")
    is_score = ((given >= 0) & (given <= 1)).all()
    if logits is not None:
        known = _table(logits, name="logits")
        return routing_of_logits(
            torch.where(is_score, known, given),
            top_k=top_k,
            expert_index=expert_index,
            mask=mask,
            scoring=scoring,
        )
    # Few small logits may lie there as well; they neither add up to 1, nor are most of them 0.
    is_whole = ((given.sum(-1) - 1).abs() < _ROUNDING).all()
    is_sparse = (((given > 0).sum(-1) <= top_k) & (given.amax(-1) > 0)).all()
    is_score = is_score & (is_whole | (is_sparse if top_k < given.shape[-1] else is_whole))
    probs = torch.where(is_score, _shares(given), _probs(given, scoring))
    assigned = _assigned(probs, top_k=top_k, expert_index=expert_index)
    known = torch.where(is_score, torch.nan, given)
    return Routing(probs, assigned, logits=known, mask=_flat_mask(mask, len(given)))


@torch.no_grad()
def routing_of_weights(weights: Tensor) -> Routing:
    """A layer that mixes all its experts: the weights are the assignments."""
    table = _shares(_table(weights, name="weights"))
    return Routing(table, table)


@torch.no_grad()
def routing_sums(routing: Routing) -> Tensor:
    """The sums of one layer's tokens: ``2 E + 4`` numbers on its own device."""
    probs, logits = routing.probs, routing.logits
    tokens = len(probs)
    per_token = torch.stack(
        [
            probs.new_full((tokens,), torch.nan)
            if logits is None
            else logits.logsumexp(-1).square(),
            torch.special.entr(probs).sum(-1),
            probs.amax(-1) if tokens else probs.new_zeros(0),
            probs.new_ones(tokens),
        ],
        dim=1,
    )
    everything = torch.cat([routing.assigned, probs, per_token], dim=1)
    if routing.mask is not None:
        # Not by multiplying: what is masked out may not be a number.
        everything = torch.where(routing.mask.unsqueeze(1), everything, 0.0)
    return everything.sum(0, dtype=wide_dtype(everything.device))


def wide_dtype(device: torch.device) -> torch.dtype:
    """What sums are kept in: 32 bits, where counts stop at 16.8 million, only on Apple's GPUs."""
    return torch.float32 if device.type == "mps" else torch.float64


@torch.no_grad()
def statistics_table(
    sums: Tensor, *, experts: int, aux_coef: float, z_coef: float
) -> tuple[Tensor, Tensor]:
    """A row of statistics for each row of sums, in the order of ``COLUMNS``, and the load shares.

    A layer that saw no token, sent none to any expert, or had logits that are no numbers, has NaN
    everywhere: it has no statistics.
    """
    counts, probs = sums[:, :experts], sums[:, experts : 2 * experts]
    square, entropy, top, tokens = sums[:, 2 * experts :].unbind(1)
    is_known = rows_known(sums)
    load = torch.where(is_known.unsqueeze(1), counts / counts.sum(1, keepdim=True), torch.nan)
    mean_probs = probs / tokens.unsqueeze(1)
    used = counts > 0
    active = used.sum(1).to(sums.dtype)
    highest = load.amax(1)
    columns = [
        aux_coef * experts * (load * mean_probs).sum(1),
        z_coef * square / tokens,
        active / experts,
        highest * experts,
        active,
        highest,
        torch.where(used, load, torch.inf).amin(1),
        load.std(1, correction=0) * experts,
        entropy / tokens / math.log(experts),
        top / tokens,
    ]
    table = torch.where(is_known.unsqueeze(1), torch.stack(columns, dim=1), torch.nan)
    return table.to(torch.float32), load.to(torch.float32)


def recorded_figures(table: Tensor) -> dict[str, float]:
    """The figures of all layers of a table as a record has them; waits for the GPU."""
    totals, means = table.sum(0).tolist(), table.mean(0).tolist()
    # A float32 has seven digits; the others would only make the record longer.
    figures = {
        name: float(f"{totals[number] if name in SUMMED else means[number]:.7g}")
        for number, name in enumerate(COLUMNS)
    }
    if math.isnan(figures["router_entropy"]):
        # One figure says that logits are no numbers; the others have no value.
        return {"router_entropy": math.nan}
    if math.isnan(figures["z_loss"]):
        del figures["z_loss"]
    return figures


def rows_known(sums: Tensor) -> Tensor:
    """Which layers have statistics: those whose tokens went somewhere, by logits that are numbers.

    What is not a number is not above 0 either.
    """
    return sums[:, : experts_of(sums)].sum(1) > 0


def experts_of(sums: Tensor) -> int:
    """How many experts a row of sums is of."""
    return (sums.shape[-1] - 4) // 2


def _table(values: Tensor, *, name: str) -> Tensor:
    if values.dim() < 2 or values.shape[-1] < 2:
        raise UsageError(
            f"{name} of shape {tuple(values.shape)} must be (tokens, experts), with two or more "
            "experts."
        )
    return values.detach().reshape(-1, values.shape[-1]).to(torch.float32)


def _assigned(probs: Tensor, *, top_k: int, expert_index: Tensor | None) -> Tensor:
    """How often each token goes to each expert: counted row by row, where no two threads meet."""
    tokens, experts = probs.shape
    if expert_index is None:
        if not 1 <= top_k <= experts:
            raise UsageError(f"top_k={top_k} must be between 1 and the {experts} experts.")
        index = probs.topk(top_k, dim=-1, sorted=False).indices
    else:
        index = expert_index.detach().reshape(-1, expert_index.shape[-1]).long()
        if len(index) != tokens:
            raise UsageError(f"expert_index is of {len(index)} tokens, the router of {tokens}.")
        # An index beyond the table would end the process on a GPU.
        index = torch.where((index < 0) | (index > experts), experts, index)
    # A place more, for what went nowhere.
    counts = probs.new_zeros(tokens, experts + 1)
    counts.scatter_add_(1, index, torch.ones_like(index, dtype=probs.dtype))
    # The largest of several NaN is any of them: where such a token went means nothing.
    is_lost = probs.isnan().any(-1, keepdim=True)
    return torch.where(is_lost, torch.nan, counts[:, :experts])


def _probs(logits: Tensor, scoring: Scoring) -> Tensor:
    return _shares(logits.sigmoid()) if scoring == "sigmoid" else logits.softmax(-1)


def _flat_mask(mask: Tensor | None, tokens: int) -> Tensor | None:
    if mask is None:
        return None
    if mask.numel() != tokens:
        raise UsageError(f"mask is of {mask.numel()} tokens, the router of {tokens}.")
    return mask.detach().reshape(-1).to(torch.bool)


def _shares(table: Tensor) -> Tensor:
    tiny = torch.finfo(table.dtype).tiny
    return table / table.sum(-1, keepdim=True).clamp(min=tiny)
