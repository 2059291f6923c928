"""Mixtures of experts: what their routers did, as a few figures, and a watch that records them.

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

A watch writes a ``moe`` record each step, and the loads of experts now and then. A router is a
module named ``gate`` or ``router`` that knows, or whose parent or configuration knows, how many
experts there are and how many a token goes to. Forward hooks add up what routers do, over
micro-steps, on the device of the routers. The optimizer's step ends the count, and the sums travel
to the host while training continues. Evaluation is left out, and so is the second forward pass of
activation checkpointing.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from epochal.errors import UsageError, ValueTypeError
from epochal.journal.line import now
from epochal.records import KINDS
from epochal.run.current import given_or_current
from epochal.run.run import Run
from epochal.torch.checks import check_module, check_whole
from epochal.torch.guarded import exclude_from_compile, guarded_hook
from epochal.torch.measure import HostCopy, copied_to_host
from epochal.torch.step_count import StepCount, owns
from epochal.torch.structure import named_parameters, plain_name, tensors_in, unwrapped

# Switch Transformers (Fedus and others, 2021) and ST-MoE (Zoph and others, 2022).
AUX_COEF = 0.01
Z_COEF = 0.001
# The columns of a table of statistics, one row per layer: the fields of a ``moe`` record.
COLUMNS = KINDS["moe"].scalars
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


# -- routers in a model ----------------------------------------------------------------------------


_NAMES = re.compile(r"(^|_)(gate|router|gating)$")
_EXPERTS = (
    "num_experts num_local_experts n_routed_experts num_routed_experts moe_num_experts "
    "num_moe_experts n_experts"
).split()
_TOP_K = (
    "top_k topk num_experts_per_tok num_experts_per_token experts_per_token num_selected_experts "
    "n_activated_experts moe_top_k moe_topk moe_k"
).split()
_SCORING = ("scoring_func", "score_func", "score_function", "moe_router_score_function")
_AUX_NAMES = ("router_aux_loss_coef", "aux_loss_alpha", "moe_aux_loss_coeff")
_Z_NAMES = ("router_z_loss_coef", "z_loss_coef", "moe_z_loss_coeff")
# What the rows of a 16-bit softmax add up to strays by less than this from 1.
_ROUNDING = 0.03
_DECIMALS = 5  # of a share; more would only make the record longer


@dataclass(frozen=True, slots=True)
class Router:
    """One router: the layer it belongs to, how many experts it chooses from, and how many."""

    layer: str
    module: nn.Module
    experts: int
    top_k: int
    scoring: Scoring = "softmax"

    def sums(self, inputs: Any, output: Any) -> Tensor | None:
        """Return the sums of one forward pass; None when its output has no logits."""
        given = tensors_in(output)
        logits = self._logits(inputs, given)
        if logits is None:
            return None
        tokens = logits.numel() // self.experts
        index = next((t for t in given if self._is_choice(t, tokens)), None)
        return routing_sums(logits, top_k=self.top_k, expert_index=index, scoring=self.scoring)

    def _logits(self, inputs: Any, given: Sequence[Tensor]) -> Tensor | None:
        tables = [t for t in given if t.is_floating_point() and t.shape[-1:] == (self.experts,)]
        if type(self.module).forward is nn.Linear.forward:
            return tables[0] if tables else None
        module: Any = self.module
        hidden = next(iter(tensors_in(inputs)), None)
        if self._makes_logits and hidden is not None:
            # A router that keeps its logits to itself: they are one small product.
            weight, bias = module.weight, getattr(module, "bias", None)
            is_near = weight.device == hidden.device and not hasattr(hidden, "to_local")
            if is_near and hidden.shape[-1] == weight.shape[-1]:
                with torch.no_grad():
                    own = bias.detach().to(weight.dtype) if isinstance(bias, Tensor) else None
                    return nn.functional.linear(
                        hidden.detach().to(weight.dtype), weight.detach(), own
                    )
        return _without_softmax(tables[0]) if len(tables) == 1 else None

    @property
    def _makes_logits(self) -> bool:
        """Whether the router's own weight can make logits of hidden states now."""
        weight = getattr(self.module, "weight", None)
        if not isinstance(weight, Tensor) or weight.dim() != 2 or weight.shape[0] != self.experts:
            return False
        # One that is sharded would have to be gathered first, one of 8 bits or less be scaled.
        is_whole = not hasattr(weight, "to_local")
        return is_whole and weight.is_floating_point() and weight.element_size() > 1

    def _is_choice(self, tensor: Tensor, tokens: int) -> bool:
        is_whole = tensor.dtype in (torch.int64, torch.int32) and tensor.dim() > 1
        fits = tensor.shape[-1:] == (self.top_k,) and tensor.numel() == tokens * self.top_k
        return is_whole and fits and self.top_k < self.experts


def find_routers(
    model: nn.Module, *, names: Sequence[str] | None = None, top_k: int | None = None
) -> list[Router]:
    """Return every router of a model, in its order; raises ``UsageError`` when there is none.

    ``names`` are names of modules, with ``*`` for any part of one.
    """
    modules = {plain_name(name): module for name, module in model.named_modules()}
    found = [
        _router(name, modules, top_k=top_k, is_named=names is not None)
        for name in modules
        if (
            any(fnmatch.fnmatchcase(name, pattern) for pattern in names)
            if names is not None
            else _NAMES.search(name.rpartition(".")[2])
        )
    ]
    routers = [router for router in found if router is not None]
    # A router's own linear layer is often called a gate as well.
    inner = {id(part) for one in routers for part in one.module.modules() if part is not one.module}
    routers = [router for router in routers if id(router.module) not in inner]
    if not routers:
        raise UsageError(
            f"no router was found in {type(model).__name__}: name them in routers=, for example "
            "routers=['layers.*.gate'], and give top_k=, how many experts each token goes to."
        )
    return routers


def _router(
    name: str, modules: dict[str, nn.Module], *, top_k: int | None, is_named: bool
) -> Router | None:
    module, parent = modules[name], modules.get(name.rpartition(".")[0])
    places = list(_places(module, parent, modules[""]))
    weight = getattr(module, "weight", None)
    width = int(weight.shape[0]) if isinstance(weight, Tensor) and weight.dim() == 2 else None
    experts = _number(places, _EXPERTS) or width
    top_k = top_k or _number(places, _TOP_K)
    is_plausible = is_named or hasattr(parent, "experts") or hasattr(module, "num_experts")
    if experts is None or top_k is None or not is_plausible:
        return None
    # A layer of another width is a gate of another kind: of a shared expert, or of attention.
    if experts < 2 or not 1 <= top_k <= experts or width not in (None, experts):
        return None
    layer = name.rpartition(".")[0] or name
    return Router(layer, module, experts, top_k, scoring=_scoring(places))


def _places(*holders: Any) -> Iterator[Any]:
    for holder in holders:
        if holder is None:
            continue
        yield holder
        yield getattr(holder, "config", None)


def _number(places: Iterable[Any], names: Iterable[str]) -> int | None:
    for place in places:
        for name in names:
            value = getattr(place, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def _scoring(places: Iterable[Any]) -> Scoring:
    for place in places:
        if isinstance(getattr(place, "e_score_correction_bias", None), Tensor):
            return "sigmoid"  # DeepSeek-V3 and what follows it
        if any(getattr(place, name, None) == "sigmoid" for name in _SCORING):
            return "sigmoid"
    return "softmax"


@torch.no_grad()
def _without_softmax(table: Tensor) -> Tensor:
    """Return logits; probabilities become their logarithms, found out on the device."""
    given = table.detach().to(torch.float32)
    is_share = ((given >= 0) & (given <= 1)).all() & ((given.sum(-1) - 1).abs() < _ROUNDING).all()
    return torch.where(is_share, given.clamp(min=torch.finfo(given.dtype).tiny).log(), given)


# -- watching -------------------------------------------------------------------------------------


# What one step's sums say: the figures by name, and the load of the experts by layer.
_Figures = tuple[dict[str, float], dict[str, list[float]]]


@dataclass(frozen=True, slots=True)
class _Taken:
    """The sums of one step on their way."""

    step: int
    at: float
    sums: HostCopy


class MoeWatch:
    """What :func:`watch_moe` returns; ``remove`` removes every hook."""

    def __init__(
        self,
        model: nn.Module,
        run: Run,
        routers: Sequence[Router],
        *,
        every: int,
        experts_every: int,
        coefs: tuple[float, float],
    ) -> None:
        self._run = run
        self._routers = tuple(routers)
        self._every = every
        self._experts_every = experts_every
        self._coefs = coefs
        self._ids = {id(parameter) for _, parameter in named_parameters(model)}
        self._count = StepCount(run)
        self._is_guessing = self._count.is_guess
        self._sums: dict[int, Tensor] = {}
        self._pending: list[_Taken] = []
        self._held: list[tuple[_Taken, _Figures]] = []
        self._latest: dict[str, float] = {}
        self._is_told = False
        self._handles: list[Any] = [register_optimizer_step_post_hook(self._after_step)]
        for number, router in enumerate(self._routers):
            self._handles.append(router.module.register_forward_hook(self._hook(number)))
        exclude_from_compile(MoeWatch._add)
        run.on_finish(self.remove)

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers whose routers are watched."""
        return tuple(router.layer for router in self._routers)

    def fields(self) -> dict[str, float]:
        """Return the newest figures that have arrived, for ``log_step(moe=…)``."""
        self._write_arrived(wait=False)
        return dict(self._latest)

    def get_moe_stats(self) -> dict[str, Any]:
        """Return the newest figures, and ``valid`` whether there are any; waits for them."""
        self._write_arrived(wait=True)
        is_valid = bool(self._latest) and all(map(math.isfinite, self._latest.values()))
        known = self._latest if is_valid else {}
        return {**dict.fromkeys(COLUMNS), **known, "valid": is_valid}

    def remove(self) -> None:
        """Write what is still on its way, and remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._sums.clear()
        self._count.end()
        self._settle()
        self._write_arrived(wait=True)

    # -- hooks ------------------------------------------------------------------------------------

    def _hook(self, number: int) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            self._add(number, module, inputs, output)

        exclude_from_compile(hook)
        return hook

    @guarded_hook("watch_moe")
    def _add(self, number: int, module: nn.Module, inputs: Any, output: Any) -> None:
        # As torch's own checkpointing tells; torch has no public name for it.
        is_recomputing = bool(torch._C._current_graph_task_id() != -1)
        if is_recomputing or not module.training or not self._is_due(self._count.upcoming):
            return
        sums = self._routers[number].sums(inputs, output)
        if sums is not None:
            known = self._sums.get(number)
            self._sums[number] = sums if known is None else known.add_(sums)

    @guarded_hook("watch_moe")
    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not owns(optimizer, self._ids) or not self._count.begins_with(optimizer):
            return
        self._settle()
        if self._is_due(self._count.step):
            self._take()
        if self._pending:
            self._write_arrived(wait=False)

    @guarded_hook("watch_moe")
    def _settle(self) -> None:
        """Number what was taken while the run's step was a guess, and write what has arrived."""
        if self._count.is_guess or not self._is_guessing:
            return
        self._is_guessing = False
        shift = self._count.shift
        self._pending = [replace(taken, step=taken.step + shift) for taken in self._pending]
        held, self._held = self._held, []
        for taken, figures in held:
            self._record(replace(taken, step=taken.step + shift), figures)

    def _is_due(self, step: int) -> bool:
        """Return whether a step is recorded; every one may be while its number is a guess."""
        return self._count.is_guess or step % self._every == 0

    @torch.no_grad()
    def _take(self) -> None:
        sums, self._sums = self._sums, {}
        if not sums:
            self._report_unseen()
            return
        device = next(iter(sums.values())).device
        rows = [
            sums[number].to(device, non_blocking=True)
            if number in sums
            else torch.zeros(2 * router.experts + 4, dtype=wide_dtype(device), device=device)
            for number, router in enumerate(self._routers)
        ]
        packed = copied_to_host({"sums": torch.cat(rows)})
        self._pending.append(_Taken(self._count.step, now(), packed))

    def _report_unseen(self) -> None:
        if not self._is_told:
            self._is_told = True
            self._run.message(
                "watch_moe: none of the watched routers ran in this step. A model that was compiled"
                " and run before does not call new hooks: call watch_moe() before its first step. A"
                " layer that uses its router's weight without calling it cannot be watched.",
                level="warning",
            )

    # -- writing ----------------------------------------------------------------------------------

    @guarded_hook("watch_moe")
    def _write_arrived(self, *, wait: bool) -> None:
        while self._pending and (wait or self._pending[0].sums.has_arrived()):
            taken = self._pending.pop(0)
            found = self._figures(taken.sums.ready()["sums"])
            if found is None:
                self._report_unseen()
                continue
            self._latest = found[0]
            if self._count.is_guess:
                self._held.append((taken, found))
            else:
                self._record(taken, found)

    def _record(self, taken: _Taken, found: _Figures) -> None:
        if taken.step % self._every != 0:
            return
        place = {"t": taken.at, "step": taken.step}
        figures, load = found
        self._run.write({"log": "moe", **place, **figures})
        if taken.step % self._experts_every == 0 and load:
            top_k = max(router.top_k for router in self._routers)
            facts = {"layers": list(load), "load": list(load.values()), "top_k": top_k}
            self._run.write({"log": "experts", **place, **facts})

    def _figures(self, packed: Tensor) -> _Figures | None:
        """Return the figures of a step from its sums; layers that routed no token are left out.

        One whose logits are not numbers takes the figures of all with it, but not their load.
        """
        tables: list[Tensor] = []
        load: dict[str, list[float]] = {}
        sizes = [2 * router.experts + 4 for router in self._routers]
        rows = torch.split(packed.unsqueeze(0), sizes, dim=1)
        for router, row in zip(self._routers, rows, strict=True):
            if row[0, -1] == 0 or row[0, : router.experts].sum() == 0:
                continue
            table, shares = statistics_table(row, *self._coefs)
            tables.append(table)
            if rows_known(row)[0]:
                load[router.layer] = [round(share, _DECIMALS) for share in shares[0].tolist()]
        if not tables:
            return None
        stats = MoeStats(torch.cat(tables), packed, packed)
        # A float32 has seven digits; the others would only make the record longer.
        figures = {name: float(f"{float(value):.7g}") for name, value in stats.fields().items()}
        if math.isnan(figures["router_entropy"]):
            # One figure says that logits are not numbers; the others have no value.
            figures = {"router_entropy": math.nan}
        return figures, load


def watch_moe(
    model: nn.Module,
    run: Run | None = None,
    *,
    every: int = 1,
    experts_every: int = 100,
    routers: Sequence[str] | None = None,
    top_k: int | None = None,
    aux_coef: float | None = None,
    z_coef: float | None = None,
) -> MoeWatch:
    """Record what a model's routers do every ``every`` optimizer steps, from the first on.

    Each rank records its own tokens. Call it before a compiled model runs for the first time.
    Raises when no router is found.

    Args:
        model: The model with the routers.
        run: The run that records them, by default the current one.
        every: The interval, in optimizer steps.
        experts_every: The interval at which the loads of all experts are recorded.
        routers: The names of the routers, in which ``*`` stands for any part. By default they are
            found by their names.
        top_k: How many experts each token is sent to, for routers that you list.
        aux_coef: The weight of the load-balancing loss, by default that of the model's ``config``.
        z_coef: The weight of the z loss, by default that of the model's ``config``.

    Returns:
        The watch, whose ``remove()`` ends it.
    """
    check_module(model)
    check_whole(every, name="every", least=1)
    check_whole(experts_every, name="experts_every", least=1)
    config = getattr(unwrapped(model), "config", None)
    return MoeWatch(
        model,
        given_or_current(run, "watch_moe()"),
        find_routers(model, names=routers, top_k=top_k),
        every=every,
        experts_every=experts_every,
        coefs=(
            _coefficient(config, _AUX_NAMES, AUX_COEF) if aux_coef is None else aux_coef,
            _coefficient(config, _Z_NAMES, Z_COEF) if z_coef is None else z_coef,
        ),
    )


def _coefficient(config: Any, names: Sequence[str], otherwise: float) -> float:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, (int, float)) and value > 0:
            return float(value)
    return otherwise
