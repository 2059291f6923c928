"""``import epochal.wandb as wandb``: the interface of W&B, recorded by Epochal on this machine.

A script keeps its calls. Runs lie in the folder of Epochal's runs; nothing is sent. What cannot be
done is accepted and said once. ``docs/migrate/wandb.md`` lists every name. ``python -m
epochal.wandb script.py`` runs a script that has ``import wandb`` unchanged.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from epochal.wandb.active import ACTIVE, BeforeInit

__version__ = "0.31.0"

# Where each name is defined.
_HOMES = {
    "init": "starting",
    **dict.fromkeys(
        (
            *("AlertLevel", "attach", "ensure_configured", "finish", "login", "pin_config_keys"),
            *("require", "setup", "teardown", "termerror", "termlog", "termsetup", "termwarn"),
        ),
        "session",
    ),
    **dict.fromkeys(("Error", "CommError", "UsageError"), "errors"),
    **dict.fromkeys(
        (
            *("Audio", "Classes", "EvalTable", "Graph", "Histogram", "Html", "Image", "Molecule"),
            *("JoinedTable", "Object3D", "Plotly", "Table", "Video", "box3d"),
        ),
        "data_types",
    ),
    **dict.fromkeys(("plot_table", "visualize"), "plot"),
    **dict.fromkeys(("agent", "controller", "sweep"), "sweeps"),
    "Api": "public_api",
    "Artifact": "artifacts",
    "Config": "run_config",
    "Run": "wandb_run",
    "Settings": "settings",
}
# Calls of the current run.
_OF_RUN = (
    *("alert", "define_metric", "link_model", "log", "log_artifact", "log_code", "log_model"),
    *("mark_preempting", "restore", "save", "unwatch", "use_artifact", "use_model", "watch"),
)
_MODULES = ("data_types", "errors", "plot", "tensorboard")
# Modules of the real package, made of names of this one.
_SUBMODULES = ("apis", "env", "sdk", "util")
_NAMES = {"join": "finish"}

__all__ = sorted({*_HOMES, *_OF_RUN, *_MODULES, *_NAMES, "config", "run", "summary"})


def __getattr__(name: str) -> Any:
    if name == "run":
        return ACTIVE.current
    if name in ("config", "summary"):
        run = ACTIVE.current
        return BeforeInit(f"wandb.{name}") if run is None else getattr(run, name)
    if name in _OF_RUN:
        return _call_of_run(name)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    name = _NAMES.get(name, name)
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
    raise AttributeError(f"epochal.wandb has no {name!r}: docs/migrate/wandb.md lists what it has.")


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
