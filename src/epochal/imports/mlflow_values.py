"""What MLflow's words mean in ours, in a database and from a server."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from epochal.imports.foreign import Identity
from epochal.imports.values import unix_seconds
from epochal.records import Record

_FINISH = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "terminated"}


def identity_of(
    run_id: str,
    *,
    name: Any,
    experiment: Any,
    start: Any,
    params: Mapping[str, Any],
    tags: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> Identity:
    """A run with its parameters as configuration; MLflow's own tags are facts."""
    own = {key: value for key, value in tags.items() if not key.startswith("mlflow.")}
    return Identity(
        id=run_id,
        name=str(name or tags.get("mlflow.runName") or run_id),
        project=str(experiment or "mlflow"),
        created=unix_seconds(start),
        config={key: _number_or_text(value) for key, value in params.items()},
        tags=tuple(f"{key}={value}" if value else key for key, value in own.items()),
        notes=tags.get("mlflow.note.content"),
        facts={**facts, "mlflow_tags": dict(tags)},
    )


def finish_record(status: Any, *, end: Any, latest: float) -> Record | None:
    """The end of a run; None while it goes on."""
    finish = _FINISH.get(str(status))
    return None if finish is None else _finish(finish, unix_seconds(end) or latest)


def restored(value: Any) -> float:
    """A value as it was logged: MLflow's databases keep infinities as the largest floats."""
    number = float(value)
    return math.copysign(math.inf, number) if abs(number) >= sys.float_info.max else number


def _finish(status: str, t: float) -> Record:
    return {"log": "finish", "t": t, "status": status}


def _number_or_text(value: Any) -> Any:
    """A parameter, which MLflow keeps as text, as what it was."""
    if value in ("True", "False"):
        return value == "True"
    for kind in (int, float):
        try:
            number = kind(value)
        except (TypeError, ValueError):
            continue
        return number if abs(number) < 2**63 else value
    return value
