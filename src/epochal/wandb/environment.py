"""Reads the ``WANDB_*`` variables that scripts and clusters set already.

Variables of W&B's own machinery (keys, servers, timeouts, caches) are ignored: nothing is sent.
"""

from __future__ import annotations

import os
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
