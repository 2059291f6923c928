"""``import epochal.wandb as wandb``: the interface of W&B, recorded by Epochal on this machine.

A script keeps its calls. Runs lie in the folder of Epochal's runs; nothing is sent. What cannot be
done is accepted and said once. ``docs/how-to/from-wandb.md`` lists every name. ``python -m
epochal.wandb script.py`` runs a script that has ``import wandb`` unchanged.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from epochal.wandb import session
from epochal.wandb.session import ACTIVE, BeforeInit

__version__ = "0.31.0"

# The names that each module defines.
_NAMES_OF = {
    "files": "Artifact",
    "data_types": (
        "Audio Classes EvalTable Graph Histogram Html Image Molecule Object3D Plotly"
        " Table Video box3d"
    ),
    "errors": "CommError Error UsageError",
    "plot": "plot_table visualize",
    "public_api": "Api",
    "metrics": "Config",
    "settings": "Settings",
    "starting": "init",
    "sweeps": "agent sweep",
    "wandb_run": "Run",
}
# These need no import, which fails while Python shuts down.
_OF_SESSION = frozenset(
    "AlertLevel attach ensure_configured finish join login pin_config_keys require setup"
    " teardown termerror termlog termsetup termwarn".split()
)
_HOMES = {name: module for module, names in _NAMES_OF.items() for name in names.split()}
# Calls of the current run.
_OF_RUN = (
    *("alert", "define_metric", "link_model", "log", "log_artifact", "log_code", "log_model"),
    *("mark_preempting", "restore", "save", "unwatch", "use_artifact", "use_model", "watch"),
)
_MODULES = ("data_types", "errors", "plot", "tensorboard")
# Modules of the real package, made of names of this one.
_SUBMODULES = ("apis", "env", "sdk", "util")

__all__ = sorted({*_HOMES, *_OF_SESSION, *_OF_RUN, *_MODULES, "config", "run", "summary"})


def __getattr__(name: str) -> Any:
    if name == "run":
        return ACTIVE.current
    if name in ("config", "summary"):
        run = ACTIVE.current
        return BeforeInit(f"wandb.{name}") if run is None else getattr(run, name)
    if name in _OF_SESSION:
        return getattr(session, name)
    if name in _OF_RUN:
        return _call_of_run(name)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name == "api":
        return import_module(f"{__name__}.public_api").Api()
    if name == "patched":
        return {"tensorboard": [], "keras": [], "gym": []}
    submodules = import_module(f"{__name__}.submodules")
    if name in _SUBMODULES:
        return submodules.submodule(name)
    if name in ("integration", "sklearn", *submodules.INTEGRATIONS):
        return submodules.integration(name)
    raise AttributeError(
        f"epochal.wandb has no {name!r}: docs/how-to/from-wandb.md lists what it has."
    )


def _call_of_run(name: str) -> Any:
    """A call of the current run; one that says what is missing where there is none."""
    run = ACTIVE.current
    if run is not None:
        return getattr(run, name)

    def call(*args: Any, **options: Any) -> Any:
        return getattr(ACTIVE.needed(f"wandb.{name}()"), name)(*args, **options)

    call.__name__ = name
    return call


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
