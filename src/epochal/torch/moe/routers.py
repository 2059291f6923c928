"""Finds the routers of a mixture of experts in a model, and reads what they give.

A router is a module named ``gate`` or ``router`` that knows, or whose parent or configuration
knows, how many experts there are and how many a token goes to. That holds for Mixtral, Qwen MoE,
OLMoE, DeepSeek, GPT-OSS, Granite and similar models, and for the gates that :class:`FlowBuilder`
builds. The router may be a linear layer, a module that returns logits with its choice, or one that
returns only its choice. In some models the logits of a router are scores, dense or 0 where a token
does not go. Then the logits are those of the linear layer inside it, or are computed once more from
its weight.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from epochal.errors import UsageError
from epochal.torch.moe.routing_sums import (
    Routing,
    Scoring,
    routing_of_either,
    routing_of_logits,
    routing_of_probs,
    routing_of_weights,
)
from epochal.torch.names import plain_name

_NAMES = re.compile(r"(^|_)(gate|router|gating)$")
_EXPERTS = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "num_routed_experts",
    "moe_num_experts",
    "num_moe_experts",
    "n_experts",
)
_TOP_K = (
    "top_k",
    "topk",
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "num_selected_experts",
    "n_activated_experts",
    "moe_top_k",
    "moe_topk",
    "moe_k",
)
_SCORING = ("scoring_func", "score_func", "score_function", "moe_router_score_function")
_INNER_CONFIGS = ("text_config", "ffn_config", "moe_config")
# Routers named after the number of experts they choose, which stand for it nowhere else.
_CHOOSERS = {"Top1Router": 1, "Top2Router": 2}


@dataclass(frozen=True, slots=True)
class Router:
    """One router: the layer it belongs to, how many experts it chooses from, and how many."""

    layer: str
    module: nn.Module
    experts: int
    top_k: int
    scoring: Scoring = "softmax"
    gives_probs: bool = False
    mixes_all: bool = False

    @property
    def inner(self) -> nn.Module | None:
        """The linear layer inside the router whose output is its logits; None where none is."""
        if self.mixes_all or self.gives_probs or _makes_logits(self.module, self.experts):
            return None
        linear = (part for part in self.module.children() if isinstance(part, nn.Linear))
        return next((part for part in linear if part.out_features == self.experts), None)

    def read(
        self, inputs: Any, output: Any, *, mask: Tensor | None, logits: Tensor | None = None
    ) -> Routing | None:
        """What the router did in one forward pass; None when its output tells nothing.

        ``logits`` is what :attr:`inner` gave in it.
        """
        given = list(_tensors(output))
        tables = [t for t in given if t.is_floating_point() and t.shape[-1:] == (self.experts,)]
        if self.mixes_all:
            return routing_of_weights(tables[0]) if tables else None
        if logits is None and not self._gives_logits:
            logits = self._logits_again(inputs)
        table = tables[0] if len(tables) == 1 else logits
        if table is None:
            return None
        tokens = table.numel() // self.experts
        facts: dict[str, Any] = {
            "top_k": self.top_k,
            "expert_index": self._chosen(given, tokens),
            "mask": mask if mask is not None and mask.numel() == tokens else None,
        }
        if self.gives_probs:
            return routing_of_probs(table, **facts)
        if table is logits or self._gives_logits:
            return routing_of_logits(table, scoring=self.scoring, **facts)
        known = logits if logits is not None and _are_alike(logits, table) else None
        return routing_of_either(table, logits=known, scoring=self.scoring, **facts)

    @property
    def _gives_logits(self) -> bool:
        """Whether the output is a linear layer's and nothing else's."""
        return type(self.module).forward is nn.Linear.forward

    def _chosen(self, given: Sequence[Tensor], tokens: int) -> Tensor | None:
        for tensor in given:
            is_whole = tensor.dtype in (torch.int64, torch.int32) and tensor.dim() > 1
            if is_whole and tensor.shape[-1] == self.top_k < self.experts:
                return tensor if tensor.numel() == tokens * self.top_k else None
        return None

    def _logits_again(self, inputs: Any) -> Tensor | None:
        """The logits of a router that keeps them to itself: one small product."""
        parts = () if self.gives_probs else (self.module, *self.module.children())
        part: Any = next((one for one in parts if _makes_logits(one, self.experts)), None)
        hidden = next(iter(_tensors(inputs)), None)
        if part is None or hidden is None or hidden.shape[-1:] != part.weight.shape[-1:]:
            return None
        weight, bias = part.weight, getattr(part, "bias", None)
        if weight.device != hidden.device or hasattr(hidden, "to_local"):
            return None  # offloaded, or sharded: not one small product any more
        with torch.no_grad():
            return nn.functional.linear(
                hidden.detach().to(weight.dtype),
                weight.detach(),
                bias.detach().to(weight.dtype) if isinstance(bias, Tensor) else None,
            )


def find_routers(
    model: nn.Module, *, names: Sequence[str] | None = None, top_k: int | None = None
) -> list[Router]:
    """Every router of a model, in its order; raises ``UsageError`` when there is none.

    ``names`` are names of modules, with ``*`` for any part of one, instead of looking for them.
    """
    modules = {plain_name(name): module for name, module in model.named_modules()}
    wanted = [name for name in modules if _is_wanted(name, names)]
    found = [_router(name, modules, top_k=top_k, is_named=names is not None) for name in wanted]
    routers = _outermost([router for router in found if router is not None])
    if not routers:
        raise UsageError(_why_none(model, modules, wanted, names=names, top_k=top_k))
    return routers


def _why_none(
    model: nn.Module,
    modules: dict[str, nn.Module],
    wanted: Sequence[str],
    *,
    names: Sequence[str] | None,
    top_k: int | None,
) -> str:
    kind = type(model).__name__
    if names is not None and not wanted:
        given = ", ".join(repr(name) for name in names)
        some = ", ".join(repr(name) for name in list(modules)[1:4])
        return f"routers=[{given}] names no module of {kind}; it has modules like {some}."
    if top_k is not None:
        for name in wanted:
            fits = _router(name, modules, top_k=1, is_named=names is not None)
            if fits is not None and not 1 <= top_k <= fits.experts:
                most = fits.experts
                return f"top_k={top_k} must be between 1 and the {most} experts of {name!r}."
    return (
        f"no router was found in {kind}: name them in routers=, for example "
        "routers=['layers.*.gate'], and give top_k=, how many experts each token goes to."
    )


def _is_wanted(name: str, names: Sequence[str] | None) -> bool:
    if names is not None:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in names)
    return _NAMES.search(name.rpartition(".")[2]) is not None


def _router(
    name: str, modules: dict[str, nn.Module], *, top_k: int | None, is_named: bool
) -> Router | None:
    module, parent = modules[name], modules.get(name.rpartition(".")[0])
    layer = name.rpartition(".")[0] or name
    places = list(_places(module, parent, modules[""]))
    width = _width(module)
    counts = [count for count in (_number(places, _EXPERTS), width) if count is not None]
    chosen = (
        top_k if top_k is not None else _number(places, _TOP_K) or _CHOOSERS.get(_chooser(module))
    )
    is_plausible = is_named or hasattr(parent, "experts") or hasattr(module, "num_experts")
    if not counts or chosen is None or not is_plausible:
        return None
    # A layer as wide as nothing is a gate of another kind: of a shared expert, or of attention.
    if counts[0] < 2 or not 1 <= chosen <= counts[0] or (width is not None and width != counts[0]):
        return None
    return Router(
        layer,
        module,
        counts[0],
        chosen,
        scoring=_scoring(places),
        gives_probs=_ends_with_softmax(module),
    )


def _outermost(routers: Sequence[Router]) -> list[Router]:
    """Without those inside another: a router's own linear layer is often called a gate as well."""
    inner = {
        id(part)
        for router in routers
        for part in router.module.modules()
        if part is not router.module
    }
    return [router for router in routers if id(router.module) not in inner]


def _places(*holders: Any) -> Iterator[Any]:
    for holder in holders:
        if holder is None:
            continue
        yield holder
        config = getattr(holder, "config", None)
        if config is not None:
            yield from (getattr(config, name, None) for name in _INNER_CONFIGS)
            yield config


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
        for name in _SCORING:
            if getattr(place, name, None) == "sigmoid":
                return "sigmoid"
    return "softmax"


def _chooser(module: nn.Module) -> str:
    kind = type(module).__name__
    return next((name for name in _CHOOSERS if kind.endswith(name)), "")


def _width(module: nn.Module) -> int | None:
    """How many numbers a router gives for each token, where its weight tells."""
    last = list(module)[-1] if isinstance(module, nn.Sequential) and len(module) else module
    if isinstance(last, nn.Softmax) and isinstance(module, nn.Sequential) and len(module) > 1:
        last = module[-2]
    weight = getattr(last, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        return None
    return int(weight.shape[0])


def _makes_logits(module: nn.Module, experts: int) -> bool:
    """Whether a module's own weight can make logits of hidden states now."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2 or weight.shape[0] != experts:
        return False
    # One that is sharded would have to be gathered first, one of 8 bits or less be scaled.
    is_whole = not hasattr(weight, "to_local")
    return is_whole and weight.is_floating_point() and weight.element_size() > 1


def _are_alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tables are of the same tokens and experts, in the same place."""
    is_sharded = [hasattr(table, "to_local") for table in (one, other)]
    return (
        one.numel() == other.numel()
        and one.device == other.device
        and is_sharded[0] == is_sharded[1]
    )


def _ends_with_softmax(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential) and isinstance(list(module)[-1:][0], nn.Softmax)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
