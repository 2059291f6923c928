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
# Name of a submodule: where each of its names is defined in this package.
_MADE: dict[str, dict[str, str]] = {
    "apis": {"PublicApi": "public_api.Api"},
    "apis.public": {
        "Api": "public_api.Api",
        "Run": "public_api.ApiRun",
        "Runs": "public_api.ApiRuns",
    },
    "env": {},
    "errors.errors": {name: f"errors.{name}" for name in ("Error", "CommError", "UsageError")},
    "sdk": {
        "Settings": "settings.Settings",
        "Config": "run_config.Config",
        "Artifact": "artifacts.Artifact",
        "init": "starting.init",
        "login": "session.login",
        "finish": "session.finish",
        "setup": "session.setup",
        "AlertLevel": "session.AlertLevel",
    },
    "sdk.artifacts": {},
    "sdk.artifacts.artifact": {"Artifact": "artifacts.Artifact"},
    "sdk.data_types": {},
    "sdk.data_types.audio": {"Audio": "data_types.Audio"},
    "sdk.data_types.base_types": {},
    "sdk.data_types.base_types.media": {"Media": "data_types.Media"},
    "sdk.data_types.base_types.wb_value": {"WBValue": "data_types.WBValue"},
    "sdk.data_types.histogram": {"Histogram": "data_types.Histogram"},
    "sdk.data_types.html": {"Html": "data_types.Html"},
    "sdk.data_types.image": {"Image": "data_types.Image"},
    "sdk.data_types.molecule": {"Molecule": "data_types.Molecule"},
    "sdk.data_types.object_3d": {"Object3D": "data_types.Object3D", "box3d": "data_types.box3d"},
    "sdk.data_types.plotly": {"Plotly": "data_types.Plotly"},
    "sdk.data_types.table": {"Table": "data_types.Table"},
    "sdk.data_types.video": {"Video": "data_types.Video"},
    "sdk.lib": {"RunDisabled": "wandb_run.Run"},
    "sdk.lib.config_util": {"ConfigError": "errors.ConfigError"},
    "sdk.lib.disabled": {"RunDisabled": "wandb_run.Run"},
    "sdk.lib.runid": {"generate_id": "sweeps.generate_id"},
    "sdk.wandb_alerts": {"AlertLevel": "session.AlertLevel"},
    "sdk.wandb_config": {"Config": "run_config.Config"},
    "sdk.wandb_init": {"init": "starting.init"},
    "sdk.wandb_login": {"login": "session.login"},
    "sdk.wandb_metric": {"Metric": "metric_definition.Metric"},
    "sdk.wandb_run": {"Run": "wandb_run.Run", "finish": "session.finish"},
    "sdk.wandb_settings": {"Settings": "settings.Settings"},
    "sdk.wandb_setup": {"setup": "session.setup", "teardown": "session.teardown"},
    "sdk.wandb_summary": {"Summary": "run_summary.Summary"},
    "sdk.wandb_sweep": {"sweep": "sweeps.sweep", "controller": "sweeps.controller"},
    "util": {"generate_id": "sweeps.generate_id"},
    "viz": {"CustomChart": "plot.CustomChart", "visualize": "plot.visualize"},
}
# Modules of this package that the real one has too.
_OWN = frozenset({"data_types", "errors", "plot", "tensorboard", "wandb_run"})
_WHY = (
    "is not part of epochal.wandb: leave the import out, or run the script with W&B's own package."
)


def submodule(name: str, *, of: str = _HERE) -> ModuleType:
    """A submodule by the name that the real package gives it; raises ``ModuleNotFoundError``."""
    if name.partition(".")[0] in _OWN and name not in _MADE:
        if find_spec(f"{_HERE}.{name}") is None:
            raise ModuleNotFoundError(f"wandb.{name} {_WHY}", name=f"wandb.{name}")
        return import_module(f"{_HERE}.{name}")
    if name not in _MADE:
        raise ModuleNotFoundError(f"wandb.{name} {_WHY}", name=f"wandb.{name}")
    made = _MODULES.get(name)
    if made is None:
        made = _MODULES[name] = _Made(f"{of}.{name}", name)
    return made


def has_submodule(name: str) -> bool:
    """Whether there is something under this name."""
    return name in _MADE or name in _OWN


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
        place = _MADE[self._name].get(attribute)
        if place is not None:
            module, _, found = place.rpartition(".")
            return getattr(import_module(f"{_HERE}.{module}"), found)
        if self._name == "env" and attribute.isupper():
            return f"WANDB_{attribute}"  # the names of variables
        inner = f"{self._name}.{attribute}"
        if has_submodule(inner):
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
