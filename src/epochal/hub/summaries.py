"""Checks what a sender says of its run: ``summary.json`` and ``metrics.json`` of its companion.

Readers believe these files without reading the records, so they must have the types that readers
expect. They are redacted again, because nobody knows what their sender was told to keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from epochal.errors import FormatError, UsageError
from epochal.journal.diagnosis import Diagnosis, shortened
from epochal.journal.fold import RunMetrics
from epochal.journal.layout import parse_part_name
from epochal.journal.line import MAX_DEPTH, nests_too_deeply
from epochal.journal.row import SUMMARY_VERSION, Mark, RunRow, SeriesSummary
from epochal.journal.summaries import MOST_BYTES
from epochal.records.redact import Redactor

MOST_SUMMARY_BYTES = 4 * MOST_BYTES
MOST_METRICS_BYTES = 8 << 20
_NONFINITE = (None, "nan", "inf", "-inf")
_MOST_COUNT = 2**63


def checked_summary(run_id: str, body: bytes, *, names: Mapping[str, Any] | None = None) -> RunRow:
    """The row of a run as its sender has it; ``names`` are fields that the hub knows better.

    ``summary_bytes`` drops what only a reader knows. Raises ``FormatError``, and ``UsageError`` for
    the summary of another run.
    """
    row: RunRow = _decoded(body, RunRow, "summary.json", MOST_SUMMARY_BYTES)
    if row.id != run_id:
        raise UsageError(f"summary.json is of the run {row.id!r}, not of {run_id!r}.")
    _check_marks(row.positions)
    _check_series(row.headline)
    redactor = Redactor()
    return msgspec.structs.replace(
        row,
        **(names or {}),
        config=redactor.config(row.config),
        summary=redactor.config(row.summary),
        diagnosis=_redacted(redactor, row.diagnosis),
        notes=None if row.notes is None else redactor.text(row.notes),
        vanished=None if row.vanished is None else redactor.text(row.vanished),
        ending=None if row.ending is None else _without_secrets(redactor, row.ending),
    )


def checked_metrics(body: bytes) -> RunMetrics:
    """The series of a run and its facts as its sender has them; raises ``FormatError``."""
    known: RunMetrics = _decoded(body, RunMetrics, "metrics.json", MOST_METRICS_BYTES)
    _check_marks(known.marks)
    _check_series(known.metrics)
    redactor = Redactor()
    for facts in known.writers:
        if parse_part_name(f"{facts.name.stem}.jsonl", ".jsonl") is None:
            raise FormatError(f"metrics.json has facts of {facts.name.stem!r}, which is no part.")
        facts.config = redactor.config(facts.config)
        facts.summary = redactor.config(facts.summary)
        facts.findings = {name: redactor.config(one) for name, one in facts.findings.items()}
        if facts.header is not None:
            facts.header = _without_secrets(redactor, facts.header)
        if facts.finish is not None:
            facts.finish = _without_secrets(redactor, facts.finish)
        if facts.vanished is not None:
            facts.vanished = redactor.text(facts.vanished)
    return known


def _decoded(body: bytes, kind: type[Any], name: str, most_bytes: int) -> Any:
    if len(body) > most_bytes:
        raise FormatError(f"{name} must have at most {most_bytes:,} bytes.")
    try:
        if nests_too_deeply(msgspec.json.decode(body)):
            raise FormatError(f"{name} has more than {MAX_DEPTH} nested levels.")
        found = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{name} cannot be read: {error}.") from error
    if found.v != SUMMARY_VERSION:
        raise FormatError(f"{name} has the version {found.v}, not {SUMMARY_VERSION}.")
    return found


def _check_marks(marks: Mapping[str, Mark]) -> None:
    for stem, mark in marks.items():
        name = parse_part_name(f"{stem}.jsonl", ".jsonl")
        is_counted = 0 <= mark.records < _MOST_COUNT and 0 <= mark.bytes < _MOST_COUNT
        if name is None or name.part != mark.part or not is_counted:
            raise FormatError(f"{mark} is no position in {stem!r}.")


def _check_series(series: Iterable[SeriesSummary]) -> None:
    for one in series:
        if one.first_is not in _NONFINITE or one.last_is not in _NONFINITE:
            raise FormatError(f"{one.name!r} has a value that is neither a number nor infinite.")


def _redacted(redactor: Redactor, diagnosis: Diagnosis) -> Diagnosis:
    """A diagnosis whose texts are redacted, and no longer than a companion writes them."""
    plain = redactor.config(msgspec.to_builtins(shortened(diagnosis)))
    return msgspec.convert(plain, Diagnosis)


def _without_secrets(redactor: Redactor, record: Mapping[str, Any]) -> dict[str, Any]:
    """A record whose texts are redacted."""
    return {
        name: redactor.text(value) if isinstance(value, str) else value
        for name, value in record.items()
    }
