"""What the routers of a mixture of experts did, as a few figures, without waiting for the device.

With ``E`` experts, ``k`` of them for each of ``N`` tokens, ``f`` an expert's share of the ``N k``
assignments and ``P`` its mean probability, a layer has

- ``aux_loss``: ``aux_coef E sum(f P)``, which is ``aux_coef`` when the load is even,
- ``z_loss``: ``z_coef`` times the mean of the squared log-sum-exp of the logits,
- ``expert_utilization``: the share of experts with one token or more; ``active_experts`` counts
  them,
- ``load_imbalance``: the busiest expert's tokens over the mean, 1 when even, ``E / k`` at most,
- ``max_expert_fraction`` and ``min_active_expert_fraction``: the largest ``f``, and the smallest
  that is not 0,
- ``load_cv``: the standard deviation of the counts over their mean,
- ``router_entropy``: mean entropy of a token's probabilities over ``ln E``, from 0 to 1,
- ``router_confidence``: mean of a token's largest probability.

Over several layers the two losses are added up, as they are in training; the others are means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from epochal.errors import UsageError, ValueTypeError

# Switch Transformers (Fedus and others, 2021) and ST-MoE (Zoph and others, 2022).
AUX_COEF = 0.01
Z_COEF = 0.001
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
_SUMMED = frozenset({"aux_loss", "z_loss"})

Layers = Tensor | Sequence[Tensor]
Scoring = Literal["softmax", "sigmoid"]


@dataclass(frozen=True, slots=True)
class MoeStats:
    """Figures of one layer or of several.

    ``load`` has each expert's share of the assignments and ``table`` the figures above, one row per
    layer. ``valid`` is False when a layer saw no token, dropped all of them or had logits that are
    not numbers; its figures are NaN then.
    """

    table: Tensor
    load: Tensor
    valid: Tensor

    def fields(self) -> dict[str, Tensor]:
        """Return the figures by name, as ``log_step(moe=)`` takes them: 0-d tensors."""
        totals, means = self.table.sum(0), self.table.mean(0)
        return {n: (totals if n in _SUMMED else means)[i] for i, n in enumerate(COLUMNS)}

    def get(self) -> dict[str, Any]:
        """Return the figures as numbers, None where there are none, and ``valid``; waits."""
        if not bool(self.valid):
            return {**dict.fromkeys(COLUMNS), "valid": False}
        numbers = torch.stack(list(self.fields().values())).tolist()
        return {**dict(zip(COLUMNS, numbers, strict=True)), "valid": True}


def moe_stats(
    router_logits: Layers,
    top_k: int | None = None,
    *,
    expert_index: Layers | None = None,
    mask: Tensor | None = None,
    aux_coef: float = AUX_COEF,
    z_coef: float = Z_COEF,
) -> MoeStats:
    """Return the figures of a forward pass from its router logits.

    These are the (tokens, experts) or (batch, tokens, experts) tensor of one layer, or a list of
    such, one for each layer. ``expert_index`` (…, k), or (…) for one expert each, says where tokens
    went, if that is not simply to the top ``top_k``. An index that is no expert's stands for a
    dropped token. ``mask`` is True (or 1) for the tokens that count. No gradient flows.

    Args:
        router_logits: The logits of one layer, or a list with those of each layer.
        top_k: How many experts each token is sent to.
        expert_index: The experts that each token was sent to.
        mask: True for the tokens that count.
        aux_coef: The weight of the load-balancing loss.
        z_coef: The weight of the z loss.
    """
    sums = MoeAccumulator(aux_coef=aux_coef, z_coef=z_coef)
    sums.add(router_logits, top_k, expert_index=expert_index, mask=mask)
    return sums.stats()


class MoeAccumulator:
    """Figures of several forward passes, as if their tokens had been one batch.

    Call ``add`` in each micro-step, then ``reduce`` over the ranks where there are several,
    ``stats`` once a step, and ``reset``. Neither loss grows with the number of micro-steps.

    Args:
        aux_coef: The weight of the load-balancing loss.
        z_coef: The weight of the z loss.
    """

    def __init__(self, *, aux_coef: float = AUX_COEF, z_coef: float = Z_COEF) -> None:
        self._coefs = aux_coef, z_coef
        self._sums: Tensor | None = None

    def add(
        self,
        router_logits: Layers,
        top_k: int | None = None,
        *,
        expert_index: Layers | None = None,
        mask: Tensor | None = None,
    ) -> None:
        """Add a forward pass; the arguments are those of :func:`moe_stats`.

        Args:
            router_logits: The logits of one layer, or a list with those of each layer.
            top_k: How many experts each token is sent to.
            expert_index: The experts that each token was sent to.
            mask: True for the tokens that count.
        """
        layers = _layers(router_logits, name="router_logits")
        if top_k is None and expert_index is None:
            raise UsageError("give top_k, how many experts each token goes to, or expert_index.")
        chosen: Sequence[Tensor | None] = [None] * len(layers)
        if expert_index is not None:
            chosen = _layers(expert_index, name="expert_index")
        rows = [
            routing_sums(layer, top_k=top_k or 0, expert_index=index, mask=mask)
            for layer, index in zip(layers, chosen, strict=True)
        ]
        # A model may be on several devices; its figures meet on one.
        sums = torch.stack([row.to(rows[0].device, non_blocking=True) for row in rows])
        if self._sums is not None and self._sums.shape != sums.shape:
            raise UsageError("the number of layers or experts differs from what was added before.")
        self._sums = sums if self._sums is None else self._sums + sums

    def reduce(self, group: Any = None) -> None:
        """Add up what all ranks have seen, with one all_reduce; every rank must call it.

        Args:
            group: The process group; the default one if you give none.
        """
        if self._sums is None:
            raise UsageError("nothing was added yet, so there is nothing to reduce.")
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(self._sums, group=group)

    def stats(self) -> MoeStats:
        """Return the figures of everything added since the last reset."""
        if self._sums is None:
            raise UsageError("nothing was added yet, so there are no figures.")
        table, load = statistics_table(self._sums, *self._coefs)
        return MoeStats(table, load, rows_known(self._sums).all())

    def get_moe_stats(self) -> dict[str, Any]:
        """Return the figures as numbers; ``valid`` is False while there are none; waits."""
        if self._sums is None:
            return {**dict.fromkeys(COLUMNS), "valid": False}
        return self.stats().get()

    def reset(self) -> None:
        """Start again."""
        self._sums = None


# -- sums that micro-steps and ranks can add up ---------------------------------------------------
# For each of E experts the number of assignments, for each the sum of its probabilities, then the
# sums over tokens of the squared log-sum-exp of the logits, of the entropy and of the largest
# probability, and the number of tokens: 2 E + 4 numbers, on the router's device.


@torch.no_grad()
def routing_sums(
    logits: Tensor,
    *,
    top_k: int,
    expert_index: Tensor | None = None,
    mask: Tensor | None = None,
    scoring: Scoring = "softmax",
) -> Tensor:
    """Return the sums of one layer's tokens from its logits, (…, experts)."""
    if logits.dim() < 2 or logits.shape[-1] < 2:
        raise UsageError("router_logits must be (tokens, experts), with two or more experts.")
    table = logits.detach().reshape(-1, logits.shape[-1]).to(torch.float32)
    tokens = len(table)
    if scoring == "sigmoid":
        scores = table.sigmoid()
        probs = scores / scores.sum(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)
    else:
        probs = table.softmax(-1)
    per_token = [
        table.logsumexp(-1).square(),
        torch.special.entr(probs).sum(-1),
        probs.amax(-1) if tokens else probs.new_zeros(0),
        probs.new_ones(tokens),
    ]
    assigned = _assigned(probs, top_k=top_k, expert_index=expert_index)
    everything = torch.cat([assigned, probs, torch.stack(per_token, dim=1)], dim=1)
    if mask is not None:
        counts = mask.detach().reshape(-1, 1).to(torch.bool)
        # Not by multiplying: what is masked out may not be a number.
        everything = torch.where(counts, everything, 0.0)
    return everything.sum(0, dtype=wide_dtype(everything.device))


def wide_dtype(device: torch.device) -> torch.dtype:
    """Return what sums are kept in: 64 bits, except on Apple's GPUs."""
    return torch.float32 if device.type == "mps" else torch.float64


@torch.no_grad()
def statistics_table(sums: Tensor, aux_coef: float, z_coef: float) -> tuple[Tensor, Tensor]:
    """Return a row of statistics for each row of sums, in the order of ``COLUMNS``, and the load.

    A layer that saw no token, sent none to any expert, or had logits that are not numbers, has NaN
    everywhere.
    """
    experts = (sums.shape[-1] - 4) // 2
    counts, probs = sums[:, :experts], sums[:, experts : 2 * experts]
    square, entropy, top, tokens = sums[:, 2 * experts :].unbind(1)
    is_known = rows_known(sums).unsqueeze(1)
    load = torch.where(is_known, counts / counts.sum(1, keepdim=True), torch.nan)
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
    table = torch.where(is_known, torch.stack(columns, dim=1), torch.nan)
    return table.to(torch.float32), load.to(torch.float32)


def rows_known(sums: Tensor) -> Tensor:
    """Return which layers have statistics: those whose tokens went somewhere.

    What is not a number is not above 0 either.
    """
    return sums[:, : (sums.shape[-1] - 4) // 2].sum(1) > 0


def _assigned(probs: Tensor, *, top_k: int, expert_index: Tensor | None) -> Tensor:
    """Count how often each token goes to each expert, row by row, where no two threads meet."""
    tokens, experts = probs.shape
    if expert_index is None:
        if not 1 <= top_k <= experts:
            raise UsageError(f"top_k={top_k} must be between 1 and the {experts} experts.")
        index = probs.topk(top_k, dim=-1, sorted=False).indices
    else:
        is_one_each = expert_index.numel() == tokens
        width = 1 if is_one_each else expert_index.shape[-1]
        index = expert_index.detach().reshape(-1, width).long()
        # An index beyond the table would end the process on a GPU.
        index = torch.where((index < 0) | (index > experts), experts, index)
    # A place more, for what went nowhere.
    counts = probs.new_zeros(tokens, experts + 1)
    counts.scatter_add_(1, index, torch.ones_like(index, dtype=probs.dtype))
    # The largest of several NaN is any of them: where such a token went means nothing.
    is_lost = probs.isnan().any(-1, keepdim=True)
    return torch.where(is_lost, torch.nan, counts[:, :experts])


def _layers(values: Any, *, name: str) -> list[Tensor]:
    layers = [values] if isinstance(values, Tensor) else values
    layers = list(layers) if isinstance(layers, Iterable) else []
    if not layers or not all(isinstance(layer, Tensor) for layer in layers):
        raise ValueTypeError(f"{name} must be a tensor or a list of them, one for each layer.")
    return layers
