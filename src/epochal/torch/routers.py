"""Finds the routers of a mixture of experts in a model, and reads what they give.

A router is a module named ``gate`` or ``router`` that knows, or whose parent or configuration
knows, how many experts there are and how many a token goes to. That holds for Mixtral, Qwen MoE,
OLMoE, DeepSeek, GPT-OSS, Granite and their kin, whether the router is a linear layer, a module that
gives logits with what it chose, or one that gives only what it chose; and for the gates that
:class:`FlowBuilder` builds.
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
from epochal.torch.graph.choice import Gate
from epochal.torch.names import plain_name
from epochal.torch.routing_sums import (
    Routing,
    Scoring,
    routing_of_logits,
    routing_of_probs,
    routing_of_weights,
)

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
    def has_logits(self) -> bool:
        """Whether logits are at hand, and with them a z-loss."""
        return not (self.gives_probs or self.mixes_all)

    def read(self, inputs: Any, output: Any, *, mask: Tensor | None) -> Routing | None:
        """What the router did in one forward pass; None when its output tells nothing."""
        given = list(_tensors(output))
        tables = [t for t in given if t.is_floating_point() and t.shape[-1:] == (self.experts,)]
        if self.mixes_all:
            return routing_of_weights(tables[0]) if tables else None
        if len(tables) != 1:
            tables = [logits for logits in (self._logits_again(inputs),) if logits is not None]
        if not tables:
            return None
        (table,) = tables
        tokens = table.numel() // self.experts
        facts: dict[str, Any] = {
            "top_k": self.top_k,
            "expert_index": self._chosen(given, tokens),
            "mask": mask if mask is not None and mask.numel() == tokens else None,
        }
        if self.gives_probs:
            return routing_of_probs(table, **facts)
        return routing_of_logits(table, scoring=self.scoring, **facts)

    def _chosen(self, given: Sequence[Tensor], tokens: int) -> Tensor | None:
        for tensor in given:
            is_whole = tensor.dtype in (torch.int64, torch.int32) and tensor.dim() > 1
            if is_whole and tensor.shape[-1] == self.top_k < self.experts:
                return tensor if tensor.numel() == tokens * self.top_k else None
        return None

    def _logits_again(self, inputs: Any) -> Tensor | None:
        """The logits of a router that keeps them to itself: one small product."""
        source = _linear_of(self.module, self.experts)
        hidden = next(iter(_tensors(inputs)), None)
        if source is None or hidden is None or hidden.shape[-1] != source[0].shape[-1]:
            return None
        weight, bias = source
        with torch.no_grad():
            return nn.functional.linear(
                hidden.detach().to(torch.float32),
                weight.detach().to(torch.float32),
                None if bias is None else bias.detach().to(torch.float32),
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
        raise UsageError(
            f"no router was found in {type(model).__name__}: name them in routers=, for example "
            "routers=['layers.*.gate'], and give top_k=, how many experts each token goes to."
        )
    return routers


def _is_wanted(name: str, names: Sequence[str] | None) -> bool:
    if names is not None:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in names)
    return _NAMES.search(name.rpartition(".")[2]) is not None


def _router(
    name: str, modules: dict[str, nn.Module], *, top_k: int | None, is_named: bool
) -> Router | None:
    module, parent = modules[name], modules.get(name.rpartition(".")[0])
    layer = name.rpartition(".")[0] or name
    if isinstance(parent, Gate):
        experts = len(parent.experts)
        return Router(layer, module, experts, experts, mixes_all=True) if experts > 1 else None
    places = list(_places(module, parent, modules[""]))
    width = _width(module)
    counts = [count for count in (_number(places, _EXPERTS), width) if count is not None]
    chosen = top_k or _number(places, _TOP_K) or _CHOOSERS.get(_chooser(module))
    is_plausible = is_named or hasattr(parent, "experts") or hasattr(module, "num_experts")
    if not counts or chosen is None or not is_plausible:
        return None
    # A layer as wide as nothing is a gate of another kind: of a shared expert, or of attention.
    if counts[0] < 2 or chosen > counts[0] or (width is not None and width != counts[0]):
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


def _linear_of(module: nn.Module, experts: int) -> tuple[Tensor, Tensor | None] | None:
    for part in (module, *module.children()):
        weight, bias = getattr(part, "weight", None), getattr(part, "bias", None)
        if not isinstance(weight, Tensor) or hasattr(weight, "to_local"):
            continue  # one that is sharded would have to be gathered first
        if weight.dim() == 2 and weight.shape[0] == experts:
            return weight, bias if isinstance(bias, Tensor) else None
    return None


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
