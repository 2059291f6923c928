"""Writes the records of the typed calls, from the declarations in ``records/kinds``.

Each call passes its arguments under the names of the record's fields; its first argument may be the
whole record as a mapping, as the JSON log has it. A shape that is wrong raises: an unknown field, a
missing one, a list in place of a mapping. A *value* that cannot be recorded is left out and noted
by the :class:`~epochal.run.accepted.CallValues` of the call. None is absent, and absent is never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from epochal.base.guard import attempt
from epochal.errors import UsageError, ValueTypeError
from epochal.journal.line import now
from epochal.records import ALLOCATOR_PLACES, KINDS, Field, Kind, Record
from epochal.records.values import Scalar, as_list, plain_json, shown_text, single
from epochal.run.accepted import CallValues
from epochal.run.recorder import Recorder

# One number of a typed call, and its first argument, which may be the whole record.
Value: TypeAlias = Scalar | None
Whole: TypeAlias = Scalar | Mapping[str, Any] | None

# What a record cannot do without: missing it raises, and unreadable it leaves the record out.
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "step": ("step",),
    "epoch": ("epoch",),
    "gpu": ("id",),
    "sol": ("blocks", "lm_head", "attention"),
    "allocator": ("stats",),
    "dataset": ("split",),
    "abs-maxes": ("values",),
}
# Of a record that was logged before; ``valid`` is what trainers add to router statistics.
_IGNORED = frozenset({"log", "t", "time", "v", "nonfinite", "valid"})
_NUMBER = Field("")  # a field of an open family


class HasFields(Protocol):
    """A result that gives the fields of its record: router statistics, a speed of light."""

    def fields(self) -> Mapping[str, Any]:
        """The fields by name."""


def write(recorder: Recorder, kind: str, name: str, first: Any, others: dict[str, Any]) -> None:
    """Append the record of a typed call, and the texts and arrays among its metrics.

    ``name`` is the field that ``first`` is, unless ``first`` is the whole record.
    """
    call, declared = recorder.call(kind), KINDS[kind]
    fields = _fields(declared, name, first, others)
    if kind == "dataset":
        _read_dataset(fields)
    head: Record = {}
    step = fields.pop("step", None)
    if kind == "step":
        head["step"] = recorder.next_step(step)
    elif declared.axis == "step" or step is not None:
        head["step"] = recorder.sample_step(step)
    elif kind == "epoch":
        number = call.field(declared["epoch"], fields.pop("epoch"))
        head["epoch"] = recorder.epoch = recorder.epoch + 1 if number is None else number
    made = record(kind, now(), call, fields, **head)
    if _missing(kind, made) is None:
        recorder.write(made)
    if call.samples:
        recorder.write_samples(call, head.get("step"))


def write_definition(recorder: Recorder, name: str, given: Mapping[str, Any]) -> None:
    """Append what a metric means; a word that is not one of its choices raises."""
    own = {key: shown_text(value) for key, value in given.items() if value is not None}
    for key, value in own.items():
        choices = KINDS["define"][key].choices
        if choices and value not in choices:
            known, of = ", ".join(choices), shown_text(name)
            raise UsageError(f"{key}={value!r} of {of!r} is not known: use one of {known}.")
    call = recorder.call("define")
    if (metric := call.name(name)) is not None:
        recorder.write({"log": "define", "t": now(), "name": metric, **own})


def write_graph(recorder: Recorder, picture: Any, name: str, facts: Mapping[str, Any]) -> None:
    """Append a picture of a model; what is no text is left out and noted."""
    call = recorder.call("graph")
    known = call.name(name)
    if not isinstance(picture, str):
        wrong = ValueTypeError("log_graph takes the text of an SVG picture.")
        call.policy.drop("graph", picture, wrong)
    elif known is not None:
        own = plain_json(call.own(facts))
        recorder.write({"log": "graph", "t": now(), "name": known, "svg": picture, **own})


def record(
    kind: str, at: float, call: CallValues, fields: Mapping[str, Any], /, **head: Any
) -> Record:
    """Build a record: ``head`` as it is, then each field by its declared type."""
    made: Record = {"log": kind, "t": at, **head}
    declared = KINDS[kind].by_name
    for name, value in fields.items():
        if value is None:
            if name == "tokens_per_second":
                value = _rate(made.get(f"{kind}_tokens"), made.get("duration_ms"))
        elif name == "stats":
            value = _segments(call, declared[name], value)
        elif type(value) is not float or declared.get(name, _NUMBER).type != "number":
            value = call.field(declared.get(name) or Field(name), value)
        if value is not None:
            made[name] = value
    if kind == "epoch":
        made.setdefault("m", {})
    return made


def as_fields(value: Any) -> Mapping[str, Any] | None:
    """A mapping, or the fields of a result that has ``fields()``; None for anything else."""
    if isinstance(value, (int, float, str)):
        return None
    if isinstance(value, Mapping):
        return value
    fields = attempt(getattr, value, "fields", None)[0]
    return attempt(lambda: dict(fields()))[0] if callable(fields) else None


def _fields(kind: Kind, name: str, first: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Add the first argument of a call, or the whole record that it is; raise for a wrong shape."""
    if name and type(first) is int:
        given: Mapping[str, Any] | None = None
    elif (given := as_fields(first)) is not None:
        if given.get("log", kind.name) != kind.name:
            raise UsageError(f"this is a record of {given['log']!r}, not of {kind.name!r}.")
        fields |= _with_words(given)
    elif isinstance(first, (list, tuple, set)) or (not name and first is not None):
        raise ValueTypeError(
            f"pass the fields of a {kind.name} record one by one, or all of them in one mapping,"
            f" not a {type(first).__name__}. {_known(kind)}"
        )
    for field in [field for field in fields if field not in kind.by_name]:
        is_step = field == "step" and kind.axis in ("step", "time")
        if field in _IGNORED:
            del fields[field]
        elif not is_step and not str(field).startswith(tuple(kind.families)):
            raise UsageError(f"a {kind.name} record has no field {field!r}. {_known(kind)}")
    if name and given is None:
        fields[name] = first
    if (missing := _missing(kind.name, fields)) is not None:
        raise UsageError(f"a {kind.name} record needs the field {missing!r}. {_known(kind)}")
    return fields


def _missing(kind: str, fields: Mapping[str, Any]) -> str | None:
    return next((name for name in _REQUIRED.get(kind, ()) if name not in fields), None)


def _read_dataset(fields: dict[str, Any]) -> None:
    """Check the name of the split; a list of files becomes their names and their count."""
    split, files = fields["split"], fields.get("files")
    if not isinstance(split, str) or not split:
        known = _known(KINDS["dataset"])
        raise ValueTypeError(
            f"split must be a text such as 'train', not {shown_text(split)!r:.80}. {known}"
        )
    if isinstance(files, Sequence) and not isinstance(files, (str, bytes)):
        names = [shown_text(file) for file in as_list(files, argument="files")]
        fields.update(files=len(names), names=names)


def _known(kind: Kind) -> str:
    step = ("step",) if kind.axis in ("step", "time") else ()
    return f"Its fields are {', '.join((*step, *kind.by_name))}."


def _with_words(given: Mapping[str, Any]) -> dict[str, Any]:
    """A record from a JSON log, with the numbers that JSON cannot hold."""
    fields = dict(given)
    words = given.get("nonfinite")
    for key, word in words.items() if isinstance(words, Mapping) else ():
        holder = "m" if isinstance(given.get("m"), Mapping) else "values"
        if key in fields:
            fields[key] = float(word)
        elif holder in fields:
            fields[holder] = {**fields[holder], key.removeprefix("m."): float(word)}
    return fields


def _rate(tokens: float | None, duration_ms: float | None) -> float | None:
    try:
        is_known = tokens is not None and duration_ms is not None and duration_ms > 0
        return single(tokens / duration_ms * 1000.0) if is_known else None  # type: ignore[operator]
    except OverflowError:  # a whole number beyond every float
        return None


def _segments(call: CallValues, field: Field, stats: Any) -> list[dict[str, Any]] | None:
    """The segments of memory; a place that none of them mentions is absent, 0 bytes are not."""
    if isinstance(stats, Mapping):
        stats = [
            {"name": name, **(size if isinstance(size, Mapping) else {"device": size})}
            for name, size in stats.items()
        ]
    if isinstance(stats, (str, bytes)) or not isinstance(stats, Iterable):
        raise ValueTypeError("stats must be a list of segments or a mapping of name to bytes.")
    segments: list[dict[str, Any]] = []
    for given in as_list(stats, argument="stats"):
        item = given if isinstance(given, Mapping) else attempt(_places, given)[0]
        if item is None or not item.get("name"):
            raise ValueTypeError(
                f"a segment of memory is a mapping with a name and bytes in one of"
                f" {', '.join(ALLOCATOR_PLACES)}, not {shown_text(given):.80}."
            )
        name = shown_text(item["name"])
        segment = {
            place.name: size
            for place in field.fields
            if item.get(place.name) is not None and place.series
            if (size := call.field(place, item[place.name], name=f"{name}/{place.name}"))
            is not None
        }
        if segment:
            segments.append({"name": name, **segment})
    kept = [place for place in ALLOCATOR_PLACES if any(place in one for one in segments)]
    filled = [{"name": s["name"], **{p: s.get(p, 0) for p in kept}} for s in segments]
    return filled or None


def _places(segment: Any) -> dict[str, Any]:
    """A segment that is an object has every place; one that holds nothing was not given."""
    sizes = {place: getattr(segment, place) for place in ALLOCATOR_PLACES}
    held = {place: size for place, size in sizes.items() if size}
    return {"name": segment.name, **(held or {"device": 0})}
