"""``summary.json`` and ``metrics.json``: a run carries its own answers.

The first says how a run stands in at most 8 kB, which is what a list reads. The second has the
summary of every series, and what a fold needs to go on. Both are made again where they are missing
or cannot be read, so neither is ever waited for.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from epochal.base.atomic_file import replaced_file
from epochal.errors import FormatError
from epochal.journal.diagnosis import Diagnosis, diagnose, observed_areas, shortened, without_last
from epochal.journal.facts import unix_time
from epochal.journal.fold import Fold, RunMetrics
from epochal.journal.layout import MAX_JSON_BYTES, PartName, RunFolder, json_or_empty
from epochal.journal.line import encode_json, without_surrogates
from epochal.journal.metrics import headline_order, set_number
from epochal.journal.process import PROCESS_FIELDS
from epochal.journal.reader import ShorterFileError
from epochal.journal.regular_file import read_regular
from epochal.journal.row import SUMMARY_VERSION, FindingCounts, Fork, Mark, RunRow, SeriesSummary
from epochal.records import whole_number
from epochal.series.importance import Importance

MOST_BYTES = 8 * 1024
_MOST_CONFIG_BYTES = 4 * 1024
_MOST_SUMMARY_BYTES = 1024
MOST_HEADLINE = 12
# So many metrics stay in a summary that is too long before its diagnosis is cut.
_LEAST_HEADLINE = 4
# A part may be sealed between a listing and the reading; each try finds at least one settled.
_TRIES = 100
# Longer than any id that was ever made here; links and positions have to hold it.
_MAX_ID = 200
# A hundred thousand series take a quarter of this.
_MOST_METRICS_BYTES = 256 * 1024 * 1024
# What only a reader knows: it is not stored.
_OF_READERS = frozenset(
    "folder status labels hidden tracker errors warnings open_errors open_warnings written"
    " is_partly_watched summaries ends_at host phase unfinished problem is_unreadable".split()
)
_STORED = {
    field.encode_name: field.default
    for field in msgspec.structs.fields(RunRow)
    if field.name not in _OF_READERS
}
# What the settings of a run say of its rules where it has none.
_NO_RULES = {"enabled": False}
_NOTHING_READ = Mark(-1, 0, 0)
T = TypeVar("T")
# Gives a field of run.json, or of the journal's header where run.json is missing.
FieldOf = Callable[[str], Any]


# -- what a row is made of -------------------------------------------------------------------------


def summarise(known: RunMetrics, run_json: Mapping[str, Any], *, place: str) -> RunRow:
    """The row of a run from its facts and series, and from what ``run.json`` says of it."""
    facts = known.facts
    header, finish = facts.header, facts.finish
    told = run_json or header or {}
    totals, given = told.get("totals"), told.get("config")
    totals = totals if isinstance(totals, dict) else {}
    process, origin = header or run_json or None, told.get("source")
    if "pid" in (process or {}) or not isinstance(origin, dict):
        origin = None  # of our own, or continued here, whoever began it
    findings = facts.findings
    headline = _headline(known.metrics)
    loss = next((one for one in headline if one.role == "loss"), None)
    created = unix_time(told.get("created"))
    return RunRow(
        id=recorded_id(told.get) or os.path.basename(place),
        **names_of(told.get, place),
        created=unix_time((header or {}).get("t")) if created is None else created,
        updated=facts.updated,
        attempts=facts.attempts,
        step=facts.reached("step"),
        epoch=facts.reached("epoch"),
        total_steps=whole_number(totals.get("steps")),
        num_epochs=facts.num_epochs or whole_number(totals.get("epochs")),
        records=facts.num_records,
        damaged=facts.num_damaged,
        config={**(given if isinstance(given, dict) else {}), **facts.config},
        summary=facts.summary,
        nonfinite=loss is not None and loss.last_is is not None,
        fork=fork_of(run_json),
        recorded=tuple(known.kinds),
        diagnosis=diagnosis_of(known, told, findings.values(), is_judged=facts.is_judged),
        counts=count_findings(findings.values()) if facts.is_judged else None,
        unwatched=facts.num_unwatched,
        vanished=facts.vanished if finish is None else None,
        ending=None if finish is None else chosen_fields(finish, ("status", "reason")),
        process=None if process is None else chosen_fields(process, PROCESS_FIELDS),
        source=None if origin is None else chosen_fields(origin, ("format", "in_place")),
        has_companion=facts.has_companion,
        is_ended=facts.is_ended,
        headline=headline,
        positions=known.marks,
    )


def names_of(field: FieldOf, place: str) -> dict[str, Any]:
    """What a run recorded of its names."""
    return {
        "name": _text(field("name")) or os.path.basename(place),
        "project": _text(field("project")) or os.path.basename(os.path.dirname(place)),
        "tags": _texts(field("tags")),
        **{name: _text(field(name)) for name in ("notes", "group", "job_type", "owner")},
    }


def recorded_id(field: FieldOf) -> str | None:
    """The id that a run recorded; None where it has none that can be used."""
    recorded = _text(field("id")) or ""
    return recorded if 0 < len(recorded) <= _MAX_ID else None


def fork_of(run_json: Mapping[str, Any]) -> Fork | None:
    """The parent that run.json names; None for a run that is not a fork."""
    try:
        return msgspec.convert(run_json["fork"], Fork)
    except (KeyError, msgspec.ValidationError):
        return None


def chosen_fields(record: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Some of a record's fields, as far as it has them."""
    return {field: record[field] for field in fields if field in record}


def count_findings(findings: Iterable[Mapping[str, Any]]) -> FindingCounts:
    """How many errors and warnings there are, and how many of them hold: the one count for all."""
    listed = list(findings)
    every = [finding.get("severity") for finding in listed]
    held = [finding.get("severity") for finding in listed if finding.get("state") == "open"]
    return FindingCounts(
        every.count("error"), every.count("warning"), held.count("error"), held.count("warning")
    )


def diagnosis_of(
    known: RunMetrics,
    run_json: Mapping[str, Any],
    findings: Iterable[Mapping[str, Any]],
    *,
    is_judged: bool,
) -> Diagnosis:
    """How a run is by the newest statement of each of its findings, and by what was observed."""
    facts = known.facts
    step = facts.reached("step")
    loss = next((one for one in _headline(known.metrics) if one.role == "loss"), None)
    progress = None
    if loss is not None and loss.first is not None and loss.last is not None:
        progress = (loss.first, loss.last)
    return diagnose(
        findings,
        observed=observed_areas(known.areas, kinds=known.kinds, events=facts.events, step=step),
        is_judged=is_judged and run_json.get("rules") != _NO_RULES,
        step=step,
        family=facts.family,
        progress=progress,
    )


def _headline(metrics: Iterable[SeriesSummary]) -> tuple[SeriesSummary, ...]:
    """The most important metrics, each on the lowest rank that has it."""
    lowest: dict[tuple[str, str], SeriesSummary] = {}
    for one in metrics:
        other = lowest.setdefault((one.name, one.axis), one)
        if one.rank < other.rank:
            lowest[one.name, one.axis] = one
    known = [
        one for one in lowest.values() if one.is_known and not Importance(one.importance).is_detail
    ]
    chosen = sorted(known, key=headline_order)[:MOST_HEADLINE]
    return tuple(sorted(chosen, key=lambda one: one.importance))


def last_value(row: RunRow, role: str) -> float | None:
    """The last value of the metric that plays a role, on rank 0; None where there is none.

    A number that the program set replaces the last value that was logged.
    """
    found = row.of_role(role)
    if found is None or found.rank != 0 or found.summary is None:
        return None
    said = set_number(row.summary, found.name)
    return found.summary.last if said is None else said


def _text(value: Any) -> str | None:
    """A text, or a number as people write it in a name; None for anything else."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...]:
    if value is None or not isinstance(value, (list, tuple)):
        return ()
    return tuple(text for item in value if (text := _text(item)) is not None)


# -- the files ------------------------------------------------------------------------------------


def covers(
    marks: Mapping[str, Mark], sizes: Mapping[PartName, int], sealed: Collection[PartName]
) -> bool:
    """Whether nothing was written since: ``sizes`` are of the parts that are not sealed."""
    newest: dict[tuple[str, int], Mark] = {}
    for stem, mark in marks.items():
        writer, attempt, _ = stem.rsplit(".", 2)
        newest[writer, int(attempt)] = mark
    for name, size in sizes.items():
        mark = newest.get(name[:2], _NOTHING_READ)
        if mark.part < name.part or (mark.part == name.part and mark.bytes != size):
            return False
    for name in sealed:
        mark = newest.get(name[:2], _NOTHING_READ)
        is_open = mark.part == name.part and not mark.is_whole and name not in sizes
        if mark.part < name.part or is_open:
            return False
    return True


class IdentityMark(NamedTuple):
    """Which ``run.json`` a summary was made of: its size, when it was written, and its content."""

    size: int
    mtime_ns: int
    crc32: int


class _Made(msgspec.Struct):
    identity: IdentityMark | None = None


def identity_mark(place: str) -> IdentityMark | None:
    """Which ``run.json`` a folder has; None where it cannot be read."""
    path = f"{place}/run.json"
    try:
        status = os.stat(path)
        text = read_regular(path, max_bytes=MAX_JSON_BYTES)
    except (OSError, FormatError):
        return None
    return IdentityMark(status.st_size, status.st_mtime_ns, zlib.crc32(text))


def is_summarised(folder: RunFolder) -> bool:
    """Whether both files of a run are there and say all that was written."""
    row, known = carried_summary(str(folder.path)), read_metrics(str(folder.path))
    if row is None or known is None:
        return False
    sizes = {name: folder.part_path(name).stat().st_size for name in folder.parts()}
    return covers(row.positions or known.marks, sizes, folder.sealed_parts())


def read_summary(place: str) -> RunRow | None:
    """What a run says of itself; None where it says nothing that can be read here."""
    return _row_in(_text_of(f"{place}/summary.json", 4 * MOST_BYTES))


def carried_summary(place: str, seen: tuple[int, int] | None = None) -> RunRow | None:
    """What a run says of itself; None too where that was made of another ``run.json``.

    No clock decides that: the file is read, unless ``seen``, its size and when it was written, is
    what the summary says.
    """
    text = _text_of(f"{place}/summary.json", 4 * MOST_BYTES)
    row, made = _row_in(text), _decoded(text, _Made)
    if row is None or made is None:
        return None
    then = made.identity
    if then is not None and then[:2] == seen:
        return row
    now = identity_mark(place)
    return row if (now and now.crc32) == (then and then.crc32) else None


def read_metrics(place: str) -> RunMetrics | None:
    """The summaries of all series, and what a fold goes on from; None where there are none."""
    return metrics_in(_text_of(f"{place}/metrics.json", _MOST_METRICS_BYTES))


def metrics_in(text: bytes) -> RunMetrics | None:
    """What a ``metrics.json`` says; None for one that is damaged, or of another version."""
    found = _decoded(text, RunMetrics)
    return found if found is not None and found.v == SUMMARY_VERSION else None


def _row_in(text: bytes) -> RunRow | None:
    found = _decoded(text, RunRow)
    return found if found is not None and found.v == SUMMARY_VERSION else None


def _text_of(path: str, most_bytes: int) -> bytes:
    """The bytes of a file; none where it cannot be read."""
    try:
        return read_regular(path, max_bytes=most_bytes)
    except (OSError, FormatError):
        return b""


def _decoded(text: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except (ValueError, RecursionError):
        return None


def write_summary(folder: RunFolder, known: RunMetrics) -> bool:
    """Replace ``summary.json`` by what is known; False where that is not possible now."""
    place = str(folder.path)
    mark = identity_mark(place)  # first: a file that takes its place from here on has another
    row = summarise(known, json_or_empty(folder.identity), place=place)
    return _write(folder.summary, summary_bytes(row, mark))


def write_metrics(folder: RunFolder, known: RunMetrics) -> bool:
    """Replace ``metrics.json``; False where that is not possible now."""
    return _write(folder.metrics, metrics_bytes(known))


def write_summaries(folder: RunFolder) -> bool:
    """Read all of a run again and write both of its summaries; False where one was not written.

    Raises ``FormatError`` and ``OSError`` where the run cannot be read.
    """
    from epochal.journal.part import read_parts  # loads numpy, which a companion does without
    from epochal.journal.state import RunState, run_metrics

    for tries_left in reversed(range(_TRIES)):
        try:
            known = run_metrics(RunState(read_parts(folder)))
            break
        except (FileNotFoundError, ShorterFileError):  # sealed or repaired meanwhile
            if not tries_left:
                raise
    return write_metrics(folder, known) and write_summary(folder, known)


def fold_and_write(folder: RunFolder, *, most_bytes: int) -> bool:
    """Fold a run and write both files, unless that would take long; whether they were written."""
    parts = {name: folder.part_path(name) for name in folder.parts()}
    sealed, place = folder.sealed_parts(), str(folder.path)
    try:
        if sum(path.stat().st_size for path in parts.values()) > most_bytes:
            return False
        fold = Fold(read_metrics(place) if sealed else None)
        fold.read(parts, sealed)
    except (FormatError, OSError):  # a part was sealed before it was folded, or cannot be read
        return False
    if not fold.is_known or not write_metrics(folder, known := fold.known()):
        return False
    return write_summary(folder, known)


def _write(path: Path, text: bytes) -> bool:
    # Nobody can replace a file that a reader holds open on Windows, or write to a full disk. Both
    # files can be made again, so nobody is told; the training reports what its disk refuses.
    with contextlib.suppress(OSError), replaced_file(path) as temporary:
        temporary.write_bytes(text)
        return True
    return False


def summary_bytes(row: RunRow, identity: IdentityMark | None = None) -> bytes:
    """A row as ``summary.json`` has it: at most 8 kB, of the configuration the first 4 kB."""
    config = _cut(row.config, _MOST_CONFIG_BYTES)
    summary = _cut(row.summary, _MOST_SUMMARY_BYTES)
    is_cut = row.is_cut or len(config) < len(row.config) or len(summary) < len(row.summary)
    fields = {name: getattr(row, name) for name in _STORED}
    diagnosis = shortened(row.diagnosis)
    fields |= {"config": config, "summary": summary, "diagnosis": diagnosis, "is_cut": is_cut}
    fields = {
        name: value for name, value in fields.items() if name == "v" or value != _STORED[name]
    }
    fields["identity"] = identity
    text = _encoded(fields)
    if len(text) > MOST_BYTES:  # a thousand ranks: readers ask metrics.json how far it was read
        fields.pop("positions", None)
        text = _encoded(fields)
    headline = list(row.headline)
    while len(text) > MOST_BYTES and len(headline) > _LEAST_HEADLINE:
        headline.pop()
        text = _encoded({**fields, "headline": headline})
    while len(text) > MOST_BYTES and (headline or fields["diagnosis"].causes):
        headline = headline[:-1]
        fields |= {"headline": headline, "diagnosis": without_last(fields["diagnosis"])}
        text = _encoded(fields)
    return text


def metrics_bytes(known: RunMetrics) -> bytes:
    """Series and facts as ``metrics.json`` has them."""
    return _encoded(known)


def _cut(values: Mapping[str, Any], most_bytes: int) -> Mapping[str, Any]:
    """The first entries of a mapping that take at most so many bytes."""
    if len(_encoded(values)) <= most_bytes:
        return values
    kept: dict[str, Any] = {}
    left = most_bytes
    for name, value in values.items():
        left -= len(_encoded({name: value}))
        if left < 0:
            break
        kept[name] = value
    return kept


def _encoded(value: Any) -> bytes:
    try:
        return encode_json(value)
    except UnicodeEncodeError:  # a path or an argument that is not UTF-8
        return _encoded(without_surrogates(msgspec.to_builtins(value)))
    except OverflowError:  # a whole number beyond 64 bits
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()
