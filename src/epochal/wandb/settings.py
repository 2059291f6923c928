"""``wandb.Settings`` and the ``WANDB_*`` variables that scripts and clusters set already.

Every setting is taken. Those of W&B's own machinery (keys, servers, timeouts, caches) have no
effect: nothing is sent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

# Arguments of ``init`` and settings that variables give, and the variables of another name.
ARGUMENTS = (
    *("mode", "project", "entity", "name", "id", "resume", "resume_from", "fork_from", "group"),
    *("job_type", "tags", "notes", "dir", "reinit", "console", "sweep_id", "disable_git"),
    *("disabled", "save_code"),
)
_OTHERWISE = {"id": "RUN_ID", "group": "RUN_GROUP"}
VARIABLES = {name: f"WANDB_{_OTHERWISE.get(name, name.upper())}" for name in ARGUMENTS}
_SWITCHES = frozenset({"disable_git", "disabled", "save_code", "resume", "reinit"})
_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})
_FALSE = frozenset({"", "0", "false", "no", "off", "n", "f"})


def read_environment() -> dict[str, Any]:
    """The values that variables give; those that are not set are absent."""
    found: dict[str, Any] = {}
    for name, variable in VARIABLES.items():
        text = os.environ.get(variable, "").strip()
        if text and name == "tags":
            found[name] = [part.strip() for part in text.split(",") if part.strip()]
        elif text and name in _SWITCHES and text.lower() in _TRUE | _FALSE:
            found[name] = text.lower() in _TRUE
        elif text:
            found[name] = text
    return found


def is_silent() -> bool:
    """Whether nothing is to be printed."""
    return os.environ.get("WANDB_SILENT", "").lower() in _TRUE


def is_quiet() -> bool:
    """Whether only what is wrong is to be printed."""
    return is_silent() or os.environ.get("WANDB_QUIET", "").lower() in _TRUE


# Settings that are called otherwise than the argument of ``init`` that they stand for.
RENAMED = {
    "run_name": "name",
    "run_id": "id",
    "run_group": "group",
    "run_job_type": "job_type",
    "run_tags": "tags",
    "run_notes": "notes",
    "root_dir": "dir",
}


class Settings(SimpleNamespace):
    """Settings by name. All names are accepted; one that was not given is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """A setting, or a default where it was not given."""
        return self.__dict__.get(name, default)

    def update(self, values: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Set several settings."""
        self.__dict__.update({**(values or {}), **more})

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``init`` that these settings stand for."""
        given = self.__dict__.items()
        return {RENAMED.get(name, name): value for name, value in given if value is not None}


def as_settings(settings: Any) -> Settings:
    """What ``init(settings=...)`` was given, as settings of ours."""
    if settings is None or isinstance(settings, Settings):
        return settings or Settings()
    given = settings if isinstance(settings, Mapping) else vars(settings)
    return Settings(**{name: value for name, value in given.items() if value is not None})
