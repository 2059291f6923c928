"""The models that optimizers train: one scan of Python's objects finds them, nothing is hooked."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Container, Iterable
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from epochal.torch.structure import named_parameters


class TrainedModels:
    """Models and their parameters by name, all of them referred to weakly."""

    def __init__(self) -> None:
        self._models: list[weakref.ref[nn.Module]] = []
        self.parameters: weakref.WeakValueDictionary[str, Tensor] = weakref.WeakValueDictionary()
        self._names: dict[int, str] = {}

    def add_trained_by(self, optimizer: Any) -> None:
        """Search the models of an optimizer, unless all of its parameters are known."""
        ids = {id(one) for group in optimizer.param_groups for one in group["params"]}
        if not ids <= self._names.keys():
            for model in models_with(ids - self._names.keys()):
                self._add(model)

    def name_of(self, parameter: Tensor) -> str | None:
        """The name of a parameter; None if no model has it."""
        name = self._names.get(id(parameter))
        return name if name is not None and self.parameters.get(name) is parameter else None

    def models(self) -> list[nn.Module]:
        """The models that still exist."""
        return [one for ref in self._models if (one := ref()) is not None]

    def fields(self) -> dict[str, Any]:
        """What an event ``model`` records."""
        whole = [one for one in self.parameters.values() if not is_lazy(one)]
        return {
            "parameters": len(whole),
            "trainable": sum(one.requires_grad for one in whole),
            "elements": sum(one.numel() for one in whole),
        }

    def _add(self, model: nn.Module) -> None:
        prefix = f"{type(model).__name__}." if self._models else ""
        self._models.append(weakref.ref(model))
        for name, one in named_parameters(model):
            self.parameters[prefix + name] = one
            self._names[id(one)] = prefix + name


def models_with(ids: Container[int]) -> list[nn.Module]:
    """Return the outermost modules that contain these parameters, those with most of them first.

    Types are compared, because ``isinstance`` would run code of lazy objects.
    """
    modules = _modules()
    parents: dict[int, list[nn.Module]] = {}
    for module in modules:
        for child in module.__dict__.get("_modules", {}).values():
            parents.setdefault(id(child), []).append(module)
    tops: dict[int, nn.Module] = {}
    for module in modules:
        own = module.__dict__.get("_parameters", {}).values()
        if any(id(one) in ids for one in own):
            tops |= {id(top): top for top in _outermost(module, parents)}
    return _fewest(tops.values(), ids)


def _modules() -> list[nn.Module]:
    is_module: dict[type, bool] = {}
    modules = []
    for one in gc.get_objects():
        kind = type(one)
        known = is_module.get(kind)
        if known is None:
            known = is_module[kind] = issubclass(kind, nn.Module)
        if known:
            modules.append(one)
    return modules


def _outermost(module: nn.Module, parents: dict[int, list[nn.Module]]) -> list[nn.Module]:
    seen, left, tops = {id(module)}, [module], []
    while left:
        one = left.pop()
        above = parents.get(id(one), [])
        if not above:
            tops.append(one)
        for parent in above:
            if id(parent) not in seen:
                seen.add(id(parent))
                left.append(parent)
    return tops


def _fewest(tops: Iterable[nn.Module], ids: Container[int]) -> list[nn.Module]:
    """As few of the modules as contain all; of equal ones, the one with the fewest parameters."""
    owned = {top: {id(one) for one in top.parameters()} for top in tops}
    trained = {top: {one for one in own if one in ids} for top, own in owned.items()}
    chosen: list[nn.Module] = []
    covered: set[int] = set()
    for top in sorted(owned, key=lambda one: (-len(trained[one]), len(owned[one]))):
        if trained[top] - covered:
            chosen.append(top)
            covered |= trained[top]
    return chosen
