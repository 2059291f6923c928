"""What the routers of a mixture of experts did, as a few figures: where they are, without waiting.

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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from epochal.errors import UsageError, ValueTypeError
from epochal.torch.moe.routing_sums import (
    COLUMNS,
    SUMMED,
    Routing,
    experts_of,
    routing_of_logits,
    routing_of_probs,
    routing_sums,
    rows_known,
    statistics_table,
)

# Switch Transformers (Fedus and others, 2021) and ST-MoE (Zoph and others, 2022).
AUX_COEF = 0.01
Z_COEF = 0.001

Layers = Tensor | Sequence[Tensor]


@dataclass(frozen=True, slots=True)
class MoeStats:
    """Figures of one layer or of several, each a 0-d float32 tensor where the routers are.

    ``load`` has each expert's share of the assignments, one row per layer; ``table`` the figures of
    each layer in the order above. ``valid`` is False when a layer saw no token, dropped all of them
    or had logits that are no numbers; its figures are NaN then. ``z_loss`` is None without logits.
    """

    aux_loss: Tensor
    z_loss: Tensor | None
    expert_utilization: Tensor
    load_imbalance: Tensor
    active_experts: Tensor
    max_expert_fraction: Tensor
    min_active_expert_fraction: Tensor
    load_cv: Tensor
    router_entropy: Tensor
    router_confidence: Tensor
    load: Tensor
    valid: Tensor
    table: Tensor

    @property
    def layers(self) -> tuple[MoeStats, ...]:
        """The figures of each layer alone."""
        has_logits = self.z_loss is not None
        seen = self.table[:, COLUMNS.index("active_experts")].isnan().logical_not()
        return tuple(
            _stats(self.table[i : i + 1], self.load[i : i + 1], seen[i], has_logits=has_logits)
            for i in range(len(self.table))
        )

    def fields(self) -> dict[str, Tensor]:
        """The figures by name, as ``log_step(moe=)`` takes them; those that are None are absent."""
        named = {name: getattr(self, name) for name in COLUMNS}
        return {name: value for name, value in named.items() if value is not None}

    def get(self) -> dict[str, Any]:
        """The figures as numbers, None where there are none, and ``valid``; waits for the GPU."""
        present = self.fields()
        packed = torch.stack([*present.values(), self.valid.to(torch.float32)]).tolist()
        figures: dict[str, Any] = dict.fromkeys(COLUMNS)
        figures.update(zip(present, packed, strict=False))
        is_valid = bool(packed[-1])
        return {**(figures if is_valid else dict.fromkeys(COLUMNS)), "valid": is_valid}


def moe_stats(
    router_logits: Layers | None = None,
    top_k: int | None = None,
    *,
    probs: Layers | None = None,
    expert_index: Layers | None = None,
    mask: Tensor | None = None,
    aux_coef: float = AUX_COEF,
    z_coef: float = Z_COEF,
) -> MoeStats:
    """The figures of a forward pass from its router logits, or from its probabilities.

    Either is the (tokens, experts) or (batch, tokens, experts) tensor of one layer, or a list of
    such, one for each layer. ``expert_index`` (…, k), or (…) for one expert each, says where tokens
    went, if that is not simply to the top ``top_k``. An index that is no expert's stands for a
    dropped token. ``mask`` is True (or 1) for the tokens that count. No gradient flows.
    """
    sums = MoeAccumulator(aux_coef=aux_coef, z_coef=z_coef)
    sums.add(router_logits, top_k, probs=probs, expert_index=expert_index, mask=mask)
    return sums.stats()


class MoeAccumulator:
    """Figures of several forward passes, as if their tokens had been one batch.

    Neither loss grows with the number of micro-steps: ``add`` in each, then ``reduce`` over the
    ranks where there are several, ``stats`` once a step, and ``reset``.
    """

    def __init__(self, *, aux_coef: float = AUX_COEF, z_coef: float = Z_COEF) -> None:
        self._aux_coef = aux_coef
        self._z_coef = z_coef
        self._has_logits = True
        self._sums: Tensor | None = None

    def add(
        self,
        router_logits: Layers | None = None,
        top_k: int | None = None,
        *,
        probs: Layers | None = None,
        expert_index: Layers | None = None,
        mask: Tensor | None = None,
    ) -> None:
        """Add a forward pass; the arguments are those of :func:`moe_stats`."""
        if (router_logits is None) == (probs is None):
            raise UsageError("give either router_logits or probs.")
        has_logits = router_logits is not None
        values, name = (router_logits, "router_logits") if has_logits else (probs, "probs")
        route: Callable[..., Routing] = routing_of_logits if has_logits else routing_of_probs
        layers = _layers(values, name=name)
        chosen = [None] * len(layers) if expert_index is None else _chosen(expert_index, layers)
        if top_k is None and expert_index is None:
            raise UsageError("give top_k, how many experts each token goes to, or expert_index.")
        rows = [
            routing_sums(route(layer, top_k=top_k or 0, expert_index=index, mask=mask))
            for layer, index in zip(layers, chosen, strict=True)
        ]
        self._add(_stacked(rows))
        self._has_logits = self._has_logits and has_logits

    def reduce(self, group: Any = None) -> None:
        """Add up what all ranks have seen, with one all_reduce; every rank must come here."""
        if self._sums is None:
            raise UsageError("nothing was added yet, so there is nothing to reduce.")
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(self._sums, group=group)

    def stats(self) -> MoeStats:
        """The figures of everything added since the last reset."""
        if self._sums is None:
            raise UsageError("nothing was added yet, so there are no figures.")
        return stats_of_sums(
            self._sums, aux_coef=self._aux_coef, z_coef=self._z_coef, has_logits=self._has_logits
        )

    def get_moe_stats(self) -> dict[str, Any]:
        """The figures as numbers, with ``valid`` False while there are none; waits for the GPU."""
        if self._sums is None:
            return {**dict.fromkeys(COLUMNS), "valid": False}
        return self.stats().get()

    def reset(self) -> None:
        """Begin anew."""
        self._sums, self._has_logits = None, True

    def _add(self, sums: Tensor) -> None:
        if self._sums is None:
            self._sums = sums
        elif self._sums.shape != sums.shape:
            layers, experts = len(self._sums), experts_of(self._sums)
            raise UsageError(
                f"{len(sums)} layers of {experts_of(sums)} experts cannot be added to {layers} of "
                f"{experts}."
            )
        else:
            self._sums += sums


def stats_of_sums(
    sums: Tensor, *, aux_coef: float, z_coef: float, has_logits: bool = True
) -> MoeStats:
    """The figures of a table of sums, one row per layer."""
    table, load = statistics_table(sums, experts=experts_of(sums), aux_coef=aux_coef, z_coef=z_coef)
    return _stats(table, load, rows_known(sums).all(), has_logits=has_logits)


def _stats(table: Tensor, load: Tensor, valid: Tensor, *, has_logits: bool) -> MoeStats:
    totals, means = table.sum(0), table.mean(0)
    figures: dict[str, Any] = {
        name: totals[number] if name in SUMMED else means[number]
        for number, name in enumerate(COLUMNS)
    }
    if not has_logits:
        figures["z_loss"] = None
    return MoeStats(**figures, load=load, valid=valid, table=table)


def _layers(values: Any, *, name: str) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    if not isinstance(values, Iterable):
        raise ValueTypeError(f"{name} must be a tensor or a list of them, one for each layer.")
    layers = list(values)
    if not layers or not all(isinstance(layer, Tensor) for layer in layers):
        raise ValueTypeError(f"{name} must be a tensor or a list of them, one for each layer.")
    return layers


def _chosen(expert_index: Layers, layers: Sequence[Tensor]) -> list[Tensor]:
    is_stacked = isinstance(expert_index, Tensor) and len(layers) > 1
    chosen = list(expert_index) if is_stacked else _layers(expert_index, name="expert_index")
    if len(chosen) != len(layers):
        raise UsageError(f"expert_index is of {len(chosen)} layers, the router of {len(layers)}.")
    return [_with_choices(index, layer) for index, layer in zip(chosen, layers, strict=True)]


def _with_choices(index: Tensor, layer: Tensor) -> Tensor:
    """The experts of each token along the last dimension, also where there is one and none."""
    is_one_each = index.dim() == 1 or index.shape == layer.shape[:-1]
    return index.unsqueeze(-1) if is_one_each else index


def _stacked(rows: Sequence[Tensor]) -> Tensor:
    if len({row.numel() for row in rows}) > 1:
        raise UsageError("the layers must all have the same number of experts.")
    device = rows[0].device  # a model may be spread over several; its figures meet on one
    return torch.stack([row.to(device, non_blocking=True) for row in rows])
