"""The configuration that a sweep chose for the run that is about to start."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PARAMETERS_FILE = "WANDB_SWEEP_PARAM_PATH"
SWEEP_ID = "WANDB_SWEEP_ID"

_CHOSEN: list[Mapping[str, Any]] = []


def sweep_parameters() -> dict[str, Any]:
    """What the agent of this process chose, or the agent that started this process."""
    if _CHOSEN:
        return dict(_CHOSEN[-1])
    path = os.environ.get(PARAMETERS_FILE)
    if not path or not Path(path).is_file():
        return {}
    from epochal.wandb.run_config import config_file

    return config_file(Path(path))


@contextlib.contextmanager
def chosen(parameters: Mapping[str, Any], sweep_id: str) -> Iterator[None]:
    """Have every run that starts inside get these parameters."""
    before = os.environ.get(SWEEP_ID)
    os.environ[SWEEP_ID] = sweep_id
    _CHOSEN.append(parameters)
    try:
        yield
    finally:
        _CHOSEN.pop()
        if before is None:
            os.environ.pop(SWEEP_ID, None)
        else:
            os.environ[SWEEP_ID] = before
