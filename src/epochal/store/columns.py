"""Any fields of runs as the columns of a table: what ``epochal ls`` prints and agents read.

A name alone is a metric's last value or what the program set in its summary, else a value of the
configuration. ``best.loss``, ``config.lr``, ``summary.loss.mean`` and the fields of a run, such as
``notes``, are as in queries; ``age`` exists as well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from epochal.errors import UsageError
from epochal.journal.metrics import NOT_THERE
from epochal.journal.row import RunRow
from epochal.query import filter as q
from epochal.records.format import UNKNOWN
from epochal.records.values import as_float
from epochal.series.trend import Goal
from epochal.store.lookup import near_names
from epochal.store.run import RunView
from epochal.store.selection import FIELDS, Subject, field_reading, metric_name
from epochal.store.status import format_age
from epochal.store.words import format_value, progress_text, state_text

# In place of what nobody has summarised yet.
_PENDING = "…"
# Similar names are searched in so many runs.
_NEAR_IN = 200


class Column(msgspec.Struct, frozen=True, dict=True):
    """One field of several runs; None for a run that does not have it.

    ``goal`` says which values of a metric are better. ``hint`` suggests another name where no run
    has the field.
    """

    name: str
    values: list[Any]
    is_metric: bool = False
    goal: Goal | None = None
    hint: str | None = None

    @cached_property
    def best(self) -> int | None:
        """The position of the best of several values; None where the goal is unknown."""
        known = [(one, at) for at, one in enumerate(self.values) if _is_finite(one)]
        if self.goal is None or len(known) < 2:
            return None
        sign = 1 if self.goal == "min" else -1
        return min(known, key=lambda pair: (sign * pair[0], pair[1]))[1]

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers; then a table aligns them to the right."""
        known = [value for value in self.values if value is not None]
        are_numbers = bool(known) and all(isinstance(value, (int, float)) for value in known)
        return are_numbers or self.name in ("step", "age", "loss")

    def text(self, at: int, row: RunRow, *, marks: bool) -> str:
        """The value of a run for people; with ``marks`` the best one has an asterisk."""
        mark = "* " if marks and at == self.best else ""
        return f"{mark}{self._text(self.values[at], row)}"

    def _text(self, value: Any, row: RunRow) -> str:
        if self.name == "status":
            return row.status.text
        if self.name == "step":
            return progress_text(row) or UNKNOWN
        if value is None or value in ("", []):
            return UNKNOWN if row.is_summarised or value is not None else _PENDING
        if self.name == "diagnosis":
            return state_text(row) or UNKNOWN
        if self.name == "age":
            return format_age(value)
        if self.is_metric and isinstance(value, float):
            return format_value(self.name, value)
        many = isinstance(value, list)
        return ", ".join(map(str, value)) if many else " ".join(str(value).split())


class RunTable(msgspec.Struct, frozen=True):
    """Runs and the chosen fields of each."""

    runs: list[RunRow]
    columns: list[Column]

    def records(self) -> list[dict[str, Any]]:
        """One mapping per run: what identifies it, then its fields."""
        return [
            {
                "id": row.id,
                "name": row.name,
                "project": row.project,
                **{column.name: column.values[at] for column in self.columns},
            }
            for at, row in enumerate(self.runs)
        ]


def parse_columns(names: Iterable[str]) -> list[q.Field]:
    """The fields that people name; a name that is none of the query language is a metric's."""
    found: list[q.Field] = []
    for name in names:
        try:
            field = q.parse_field(name)
        except UsageError:
            field = q.Field((name,), 0)
        found.append(field)
    return list({field.path: field for field in found}.values())


def run_table(
    views: Iterable[RunView], fields: Sequence[q.Field], *, whole: bool = True
) -> RunTable:
    """Fields of runs; unless they are to be ``whole``, runs without a summary are not read."""
    subjects = [Subject(view.info if whole else view.outline(), view) for view in views]
    columns = [_column(field, subjects) for field in fields]
    return RunTable([subject.row for subject in subjects], columns)


def _column(field: q.Field, subjects: Sequence[Subject]) -> Column:
    name = str(field)
    reading = _OWN.get(name) or field_reading(field, name)
    values = [_plain(reading(subject)) for subject in subjects]
    having = [one for one, value in zip(subjects, values, strict=True) if value is not None]
    if name == "loss":
        return Column(name, values, True, "min")
    if not having and field.path[0] not in (*_OWN, *FIELDS):
        known = [*FIELDS, *(name for one in subjects[:_NEAR_IN] for name in one.names())]
        hint = f"No run here has {name!r}.{near_names(name, known, most=1)}"
        return Column(name, values, hint=hint if subjects else None)
    of = metric_name(field) if having and name not in _OWN else None
    metric = None if of is None else having[0].metric(of)
    return Column(name, values, metric is not None, None if metric is None else metric.goal)


def _age(subject: Subject) -> float | None:
    created = subject.row.created
    return None if created is None else time.time() - created


# A list on another machine has the last loss, so that no run is fetched for it.
_OWN: Mapping[str, Callable[[Subject], Any]] = {
    "age": _age,
    "loss": lambda subject: subject.view.latest("loss"),
}


def _plain(value: Any) -> Any:
    if value is NOT_THERE:
        return None
    return list(value) if isinstance(value, tuple) else value


def _is_finite(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(as_float(value))
