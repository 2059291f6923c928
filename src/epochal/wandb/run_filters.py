"""The filters and orders of ``Api().runs``: W&B takes those of MongoDB."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from epochal.values import as_float
from epochal.wandb.errors import UsageError

if TYPE_CHECKING:
    from epochal.wandb.public_api import ApiRun

_MISSING = object()
# Names of W&B for the attributes of a run.
_FIELDS = {
    "display_name": "name",
    "displayName": "name",
    "name": "id",
    "id": "id",
    "state": "state",
    "tags": "tags",
    "group": "group",
    "job_type": "job_type",
    "jobType": "job_type",
    "entity": "entity",
    "username": "entity",
    "project": "project",
    "notes": "notes",
    "created_at": "created",
    "createdAt": "created",
    "heartbeat_at": "updated",
    "sweep": "sweep_name",
    "sweep_name": "sweep_name",
}


def matches(run: ApiRun, filters: Mapping[str, Any] | None) -> bool:
    """Whether a run has what filters ask for; raises ``UsageError`` for an unknown operator."""
    for key, wanted in (filters or {}).items():
        if key == "$and":
            found = all(matches(run, one) for one in wanted)
        elif key == "$or":
            found = any(matches(run, one) for one in wanted)
        elif key == "$nor":
            found = not any(matches(run, one) for one in wanted)
        elif key == "$not":
            found = not matches(run, wanted)
        else:
            found = _has(value_of(run, key), wanted)
        if not found:
            return False
    return True


def ordered(runs: Iterable[ApiRun], order: str | None) -> list[ApiRun]:
    """Runs by a field, ascending with ``+`` and descending with ``-``; those without it last."""
    found = list(runs)
    for key in reversed([part.strip() for part in (order or "+created_at").split(",")]):
        is_down = key.startswith("-")
        name = key.lstrip("+-")
        values = [(run, value_of(run, name)) for run in found]
        known = [pair for pair in values if _rank(pair[1]) is not None]
        known.sort(key=lambda pair: _rank(pair[1]), reverse=is_down)  # type: ignore[arg-type, return-value]
        found = [run for run, _ in known] + [run for run, v in values if _rank(v) is None]
    return found


def value_of(run: ApiRun, key: str) -> Any:
    """The value of a field by its name in a filter; a marker where the run has none."""
    if key in _FIELDS:
        return getattr(run, _FIELDS[key])
    for prefix, values in (
        ("config.", run.config),
        ("summary_metrics.", run.summary),
        ("summary.", run.summary),
    ):
        if key.startswith(prefix):
            return _inner(values, key.removeprefix(prefix))
    raise UsageError(
        f"the filter {key!r} is not known: use config.NAME, summary_metrics.NAME or one of"
        f" {', '.join(_FIELDS)}."
    )


def _inner(values: Any, path: str) -> Any:
    """The value at a path with dots; ``.value`` at its end is W&B's own."""
    for name in (path, path.removesuffix(".value")):
        if isinstance(values, Mapping) and name in values:
            return values[name]
    head, dot, rest = path.partition(".")
    if dot and isinstance(values, Mapping) and head in values:
        return values[head] if rest == "value" else _inner(values[head], rest)
    return _MISSING


def _has(value: Any, wanted: Any) -> bool:
    is_query = isinstance(wanted, Mapping) and any(str(key).startswith("$") for key in wanted)
    if not is_query:
        return _equals(value, wanted)
    for operator, operand in wanted.items():
        test = _OPERATORS.get(operator)
        if test is None:
            raise UsageError(f"{operator!r} is not known: use {', '.join(_OPERATORS)}.")
        if not test(value, operand):
            return False
    return True


def _equals(value: Any, wanted: Any) -> bool:
    if value is _MISSING:
        return wanted is None
    if isinstance(value, (list, tuple)) and not isinstance(wanted, (list, tuple)):
        return wanted in value
    if isinstance(value, (list, tuple)):
        return list(value) == list(wanted)
    return bool(value == _comparable(value, wanted))


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(value: Any, operand: Any) -> bool:
        if value is _MISSING or value is None:
            return False
        try:
            return test(value, _comparable(value, operand))
        except TypeError:
            return False

    return compare


def _comparable(value: Any, operand: Any) -> Any:
    """A time in ISO form as a number, where the value is one."""
    if isinstance(value, float) and isinstance(operand, str):
        try:
            at = datetime.fromisoformat(operand.replace("Z", "+00:00"))
        except ValueError:
            return operand
        return (at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp()
    return operand


def _in(value: Any, operand: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(one in operand for one in value)
    return value is not _MISSING and value in operand


def _regex(value: Any, operand: Any) -> bool:
    texts = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(text, str) and re.search(str(operand), text) for text in texts)


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": _equals,
    "$ne": lambda value, operand: not _equals(value, operand),
    "$gt": _compare(lambda value, operand: bool(value > operand)),
    "$gte": _compare(lambda value, operand: bool(value >= operand)),
    "$lt": _compare(lambda value, operand: bool(value < operand)),
    "$lte": _compare(lambda value, operand: bool(value <= operand)),
    "$in": _in,
    "$nin": lambda value, operand: not _in(value, operand),
    "$exists": lambda value, operand: (value is not _MISSING) == bool(operand),
    "$regex": _regex,
    "$not": lambda value, operand: not _has(value, operand),
}


def _rank(value: Any) -> tuple[int, Any] | None:
    if value is _MISSING or value is None:
        return None
    if isinstance(value, (bool, int, float)):
        return (0, as_float(value)) if value == value else None
    return 1, str(value)
