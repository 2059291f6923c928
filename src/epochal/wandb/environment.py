"""Reads the ``WANDB_*`` variables that scripts and clusters set already.

Variables of W&B's own machinery (keys, servers, timeouts, caches) are ignored: nothing is sent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

# Argument of ``init`` or setting: the variables that give it, in order.
VARIABLES: Mapping[str, tuple[str, ...]] = {
    "mode": ("WANDB_MODE",),
    "project": ("WANDB_PROJECT",),
    "entity": ("WANDB_ENTITY", "WANDB_TEAM"),
    "name": ("WANDB_NAME", "WANDB_RUN_NAME"),
    "id": ("WANDB_RUN_ID",),
    "resume": ("WANDB_RESUME",),
    "resume_from": ("WANDB_RESUME_FROM",),
    "fork_from": ("WANDB_FORK_FROM",),
    "group": ("WANDB_RUN_GROUP",),
    "job_type": ("WANDB_JOB_TYPE",),
    "tags": ("WANDB_TAGS", "WANDB_RUN_TAGS"),
    "notes": ("WANDB_NOTES", "WANDB_RUN_NOTES"),
    "dir": ("WANDB_DIR",),
    "reinit": ("WANDB_REINIT",),
    "console": ("WANDB_CONSOLE",),
    "sweep_id": ("WANDB_SWEEP_ID",),
    "disable_git": ("WANDB_DISABLE_GIT",),
    "disabled": ("WANDB_DISABLED",),
    "save_code": ("WANDB_SAVE_CODE",),
}
_LISTS = frozenset({"tags"})
_SWITCHES = frozenset({"disable_git", "disabled", "save_code"})
_MAYBE_SWITCHES = frozenset({"resume", "reinit"})
_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})
_FALSE = frozenset({"", "0", "false", "no", "off", "n", "f"})


def read_environment() -> dict[str, Any]:
    """The values that variables give; those that are not set are absent."""
    found: dict[str, Any] = {}
    for name, variables in VARIABLES.items():
        text = next((os.environ[one] for one in variables if os.environ.get(one)), None)
        if text is not None:
            found[name] = _value(name, text)
    return found


def is_silent() -> bool:
    """Whether nothing is to be printed."""
    return os.environ.get("WANDB_SILENT", "").lower() in _TRUE


def is_quiet() -> bool:
    """Whether only what is wrong is to be printed."""
    return is_silent() or os.environ.get("WANDB_QUIET", "").lower() in _TRUE


def _value(name: str, text: str) -> Any:
    if name in _LISTS:
        return [part.strip() for part in text.split(",") if part.strip()]
    if name in _SWITCHES:
        return text.strip().lower() in _TRUE
    if name in _MAYBE_SWITCHES and text.strip().lower() in _TRUE | _FALSE:
        return text.strip().lower() in _TRUE
    return text
