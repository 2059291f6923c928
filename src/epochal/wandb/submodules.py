"""Submodules of the real ``wandb`` that scripts import from: those that exist, and a sentence.

Under the name ``wandb`` each is either a module of this package, or made of the names below.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_HERE = "epochal.wandb"
# Submodules of the real package, beside all below ``sdk``, whose names are looked up in this one.
_MADE = frozenset({"apis", "apis.public", "env", "errors.errors", "sdk", "util", "viz"})
# Names in them that mean something else than in this package, or nothing: where each is defined.
_NAMES = {
    "apis.public.Run": "public_api.ApiRun",
    "apis.public.Runs": "public_api.ApiRuns",
    "ConfigError": "errors.ConfigError",
    "CustomChart": "plot.CustomChart",
    "Media": "data_types.Media",
    "Metric": "metric_definition.Metric",
    "PublicApi": "public_api.Api",
    "RunDisabled": "wandb_run.Run",
    "Summary": "run_summary.Summary",
    "WBValue": "data_types.WBValue",
    "generate_id": "sweeps.generate_id",
}
# Modules of this package that the real one has too.
_OWN = frozenset({"data_types", "errors", "plot", "tensorboard", "wandb_run"})
_WHY = (
    "is not part of epochal.wandb: leave the import out, or run the script with W&B's own package."
)


def submodule(name: str, *, of: str = _HERE) -> ModuleType:
    """A submodule by the name that the real package gives it; raises ``ModuleNotFoundError``."""
    if not has_submodule(name):
        raise ModuleNotFoundError(f"wandb.{name} {_WHY}", name=f"wandb.{name}")
    if not _is_made(name):
        return import_module(f"{_HERE}.{name}")
    if name not in _MODULES:
        _MODULES[name] = _Made(f"{of}.{name}", name)
    return _MODULES[name]


def has_submodule(name: str) -> bool:
    """Whether there is something under this name."""
    is_own = name.partition(".")[0] in _OWN and find_spec(f"{_HERE}.{name}") is not None
    return _is_made(name) or is_own


def _is_made(name: str) -> bool:
    return name in _MADE or name.startswith("sdk.")


def stand_in_for(name: str) -> None:
    """Make ``epochal.wandb`` the module of another name, submodules included."""
    sys.modules[name] = import_module(_HERE)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name))


class _Made(ModuleType):
    """A module whose names are defined elsewhere in this package."""

    def __init__(self, full_name: str, name: str) -> None:
        super().__init__(full_name, f"Names of wandb.{name}, as far as they exist.")
        self.__path__: list[str] = []
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        inner = f"{self._name}.{attribute}"
        place = _NAMES.get(inner) or _NAMES.get(attribute)
        if place is not None:
            module, _, found = place.rpartition(".")
            return getattr(import_module(f"{_HERE}.{module}"), found)
        if self._name == "env" and attribute.isupper():
            return f"WANDB_{attribute}"  # the names of variables
        package = import_module(_HERE)
        if attribute in package.__all__ and attribute not in _OWN:
            return getattr(package, attribute)
        if _is_made(inner):
            return submodule(inner)
        raise AttributeError(f"wandb.{inner} {_WHY}")


_MODULES: dict[str, ModuleType] = {}


class _Finder(MetaPathFinder):
    """Finds the submodules of the module that ``epochal.wandb`` stands in for."""

    def __init__(self, name: str) -> None:
        self._prefix = f"{name}."

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(self._prefix):
            return None
        name = fullname.removeprefix(self._prefix)
        return ModuleSpec(fullname, _Loader(name), is_package=True)


class _Loader(Loader):
    """Gives a module that is there already, and leaves it as it is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = submodule(self._name, of=spec.name.partition(".")[0])
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        if self._spec is not None:
            module.__spec__ = self._spec
