"""Submodules of the real ``wandb`` that scripts import from.

Under the name ``wandb`` each is a module of this package, made of the names below, or a module of
the installed W&B: integrations (``wandb.integration.keras``, ``wandb.sklearn``) are its own files,
whose ``import wandb`` finds Epochal. Anything else is refused with one sentence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import Any

from epochal.wandb.errors import Error

_HERE = "epochal.wandb"
# Submodules of the real package, beside all below ``sdk``, whose names are looked up in this one.
_MADE = frozenset(
    {"apis", "apis.public", "env", "errors.errors", "errors.term", "sdk", "util", "viz"}
)
# Names in them that mean something else than in this package, or nothing: where each is defined.
_NAMES = {
    "apis.public.Run": "public_api.ApiRun",
    "apis.public.Runs": "public_api.ApiRuns",
    "ConfigError": "errors.ConfigError",
    "CustomChart": "plot.CustomChart",
    "InternalApi": "public_api.Api",
    "Media": "data_types.Media",
    "Metric": "metrics.Metric",
    "PublicApi": "public_api.Api",
    "RunDisabled": "wandb_run.Run",
    "Summary": "metrics.Summary",
    "WBValue": "data_types.WBValue",
    "add_import_hook": "session.accept",
    "generate_id": "sweeps.generate_id",
    "get_module": "submodules.get_module",
    "telemetry": "submodules.TELEMETRY",
}
# Modules of this package that the real one has too.
_OWN = frozenset({"data_types", "errors", "plot", "tensorboard", "wandb_run"})
# Modules that are loaded from the real package, and integrations that have a shorter name.
_REAL = frozenset({"integration", "plot.utils", "sklearn"})
INTEGRATIONS = "catboost fastai gym keras lightgbm sacred sb3 tensorflow xgboost".split()
_WHY = (
    "is not part of epochal.wandb: leave the import out, or run the script with W&B's own package."
)


def submodule(name: str, *, of: str = _HERE) -> ModuleType:
    """A submodule by the name that the real package gives it; raises ``ModuleNotFoundError``."""
    if name in _OWN:
        return import_module(f"{_HERE}.{name}")
    if name in INTEGRATIONS:
        return import_module(f"wandb.integration.{name}")
    if not _is_made(name):
        raise ModuleNotFoundError(f"wandb.{name} {_WHY}", name=f"wandb.{name}")
    if name not in _MODULES:
        _MODULES[name] = _Made(f"{of}.{name}", name)
    return _MODULES[name]


def _is_made(name: str) -> bool:
    return name in _MADE or name.startswith("sdk.")


def integration(name: str) -> ModuleType:
    """A module of the real package, for ``wandb.sklearn``; needs ``python -m epochal.wandb``."""
    if sys.modules.get("wandb") is not sys.modules[_HERE]:
        raise AttributeError(f"wandb.{name} needs python -m epochal.wandb SCRIPT and W&B itself.")
    return import_module(f"wandb.{name}")


def stand_in_for(name: str) -> None:
    """Make ``epochal.wandb`` the module of another name, submodules included."""
    sys.modules[name] = import_module(_HERE)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name))


def get_module(name: str, required: str | None = None, lazy: bool = True) -> ModuleType | None:
    """A module, or None where it is not installed; raises with ``required`` as the message."""
    try:
        return import_module(name)
    except ImportError as error:
        if required:
            raise Error(required) from error
        return None


def _ignored(*args: Any, **options: Any) -> AbstractContextManager[Any]:
    return nullcontext(SimpleNamespace(feature=SimpleNamespace(), env=SimpleNamespace()))


# Takes what integrations tell W&B about their use, and does nothing with it.
TELEMETRY = SimpleNamespace(context=_ignored)


class _Made(ModuleType):
    """A module whose names are defined elsewhere in this package."""

    def __init__(self, full_name: str, name: str) -> None:
        super().__init__(full_name, f"Names of wandb.{name}, as far as they exist.")
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
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = fullname.removeprefix(f"{self._name}.")
        if name == fullname:
            return None
        if name.startswith("integration."):
            return PathFinder.find_spec(fullname, path)
        if name in _REAL:
            found = PathFinder.find_spec(fullname, _real_folders(self._name, name))
            if found is not None:
                return found
        return ModuleSpec(fullname, _Loader(name), is_package=True)


def _real_folders(package: str, name: str) -> list[str]:
    """Where the installed W&B has a module."""
    stand_in = os.path.join(os.path.dirname(__file__), "stand_in")
    paths = [path for path in sys.path if os.path.abspath(path) != stand_in]
    found = PathFinder.find_spec(package, paths)
    folders = (found.submodule_search_locations or []) if found is not None else []
    return [os.path.join(folder, *name.split(".")[:-1]) for folder in folders]


class _Loader(Loader):
    """Gives a module that is there already, and leaves it as it is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = submodule(self._name, of=spec.name.partition(".")[0])
        self._spec = module.__spec__
        if not hasattr(module, "__path__"):
            module.__path__ = []  # so that modules below it can be imported
        return module

    def exec_module(self, module: ModuleType) -> None:
        if self._spec is not None:
            module.__spec__ = self._spec
