"""Rows of runs as hubs share them: each is what the local engine derived from a run's lines.

A row depends on the lines and the identity of its run, on the rules of its reader and on the layout
of rows. Labels are applied when it is read, so a new name needs no new row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from epochal.health.rule_settings import RuleSettings
from epochal.store.answers import Labels
from epochal.store.clickhouse.tables import RowColumns
from epochal.store.local.index import VERSION
from epochal.store.local.row import names_of
from epochal.store.metrics import set_number
from epochal.store.packed import pack, packed_decoder
from epochal.store.row import Row

_DECODER = packed_decoder(Row)


def kind_of(rules: RuleSettings) -> str:
    """Which rows can be used: those of this layout and of a reader with these rules."""
    return f"{VERSION}.{rules.digest}"


def encode_row(row: Row) -> bytes | None:
    """A row as it is stored; None for one that cannot be stored."""
    try:
        row.pack()
        return pack(row)
    except RecursionError:
        return None


def decode_row(data: bytes) -> Row | None:
    """A row that was stored; None for one that cannot be read, which is derived again."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def columns_of(row: Row) -> RowColumns:
    """What people find in the table of runs."""
    prefix = "step/0/"
    last = {
        key.removeprefix(prefix): summary.last
        for key, summary in row.summaries.items()
        if key.startswith(prefix)
    } or dict(row.latest)
    names = [*last, *(metric.name for metric in row.details.set_metrics)]
    values = {name: set_number(row.summary_set, name) for name in names}
    last |= {name: value for name, value in values.items() if value is not None}
    return RowColumns(
        project=row.project,
        name=row.name,
        created=row.created,
        updated=math.nan if row.updated is None else row.updated,
        step=-1 if row.step is None else row.step,
        config=_json(row.config),
        last=_json(last),
    )


def _json(value: Mapping[str, Any]) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, OverflowError, RecursionError):
        return "{}"


def with_labels(row: Row, run_json: Mapping[str, Any], labels: Labels, place: str) -> Row:
    """A row with other labels than it was derived with."""
    names = names_of(run_json.get, labels, place)
    return msgspec.structs.replace(
        row,
        name=names.name,
        tags=names.tags,
        notes=names.notes if isinstance(names.notes, str) else None,
        labels_set=None if labels == Labels() else replace(labels),
    )
