"""Builds the records of the typed calls: arguments in, one plain dict out.

Field names and their order are those of the training logs that people parse already. Every number
may be a Python, numpy or 0-d torch one. A field whose value is None is left out; absent is never 0.
The :class:`CallValues` of a call leaves out what cannot be recorded. A builder returns None if
nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, Protocol

import msgspec

from epochal.errors import UsageError, ValueTypeError
from epochal.guard import attempt
from epochal.records import ALLOCATOR_PLACES, KINDS, Field, Record
from epochal.run.accepted import CallValues, finite_float
from epochal.values import Array, Metrics, Number, Scalar, Values, plain_json, single

_STEP, _EVAL, _EPOCH = KINDS["step"], KINDS["eval"], KINDS["epoch"]
_ALLOCATOR, _DATASET, _DEFINE = KINDS["allocator"], KINDS["dataset"], KINDS["define"]
_READINGS = {
    field.name: field for field in KINDS["gpu"].fields if field.series or field.type == "text"
}
_SEGMENT = [field for field in _ALLOCATOR["stats"].fields if field.series]
# What an estimate of the speed of light is nothing without.
_SOL_PARTS = ("blocks", "lm_head", "attention")
# Shares in half precision add up to one within this.
_SHARES_TOLERANCE = 0.02


class HasFields(Protocol):
    """A result that gives the fields of its record: router statistics, a speed of light."""

    def fields(self) -> Mapping[str, Any]:
        """The fields by name."""


def step_record(
    at: float,
    call: CallValues,
    step: int,
    epoch: Scalar | None,
    tokens: Scalar,
    duration_ms: Scalar,
    norm: Scalar | None,
    loss: Scalar | None,
    lr: Scalar | None,
    *,
    norm_clipped: Scalar | None = None,
    kd_loss: Scalar | None = None,
    sol: Scalar | None = None,
    phase: str | None = None,
    moe: Mapping[str, Scalar | None] | None = None,
    metrics: Metrics | None = None,
) -> Record:
    """One optimisation step; throughput is stored when it can be computed."""
    record: Record = {"log": "step", "t": at, "step": step}
    call.put(record, {"epoch": epoch})
    rate = _put_speed(record, call, _STEP["step_tokens"], tokens, duration_ms)
    call.put(record, {"norm": norm, "loss": loss, "lr": lr, "norm_clipped": norm_clipped})
    call.put(record, {"tokens_per_second": rate, "kd_loss": kd_loss, "sol": sol})
    call.put_declared(record, _STEP["phase"], phase)
    if moe is not None:
        router = _mapping(moe, argument="moe").items()
        call.put(record, {f"moe_{str(name).removeprefix('moe_')}": v for name, v in router})
    return _with_metrics(record, call, metrics)


def eval_record(
    at: float,
    call: CallValues,
    step: int,
    epoch: Scalar | None,
    tokens: Scalar,
    duration_ms: Scalar,
    loss: Scalar | None,
    *,
    metrics: Metrics | None = None,
) -> Record:
    """One evaluation."""
    record: Record = {"log": "eval", "t": at, "step": step}
    call.put(record, {"epoch": epoch})
    rate = _put_speed(record, call, _EVAL["eval_tokens"], tokens, duration_ms)
    call.put(record, {"loss": loss, "tokens_per_second": rate})
    return _with_metrics(record, call, metrics)


def epoch_record(
    at: float,
    call: CallValues,
    epoch: int,
    duration_s: Scalar | None,
    metrics: Metrics,
    *,
    total: Scalar | None,
) -> Record:
    """One finished epoch; ``epoch`` counts completed epochs, so the first one is 1."""
    record: Record = {"log": "epoch", "t": at, "epoch": epoch}
    call.put_declared(record, _EPOCH["total"], total)
    call.put_declared(record, _EPOCH["duration_s"], duration_s, name="duration")
    record["m"] = call.metrics(metrics)
    return record


def moe_fields(
    call: CallValues,
    aux_loss: Scalar | HasFields | None,
    z_loss: Scalar | None,
    utilization: Scalar | None,
    imbalance: Scalar | None,
) -> Mapping[str, Any]:
    """Router health by field; ``aux_loss`` may be a result that has all of them."""
    if attempt(hasattr, aux_loss, "fields")[0]:
        return call.policy.read("moe", _fields_of, aux_loss) or {}
    return {
        "aux_loss": aux_loss,
        "z_loss": z_loss,
        "expert_utilization": utilization,
        "load_imbalance": imbalance,
    }


def moe_record(at: float, call: CallValues, step: int, fields: Mapping[str, Any]) -> Record:
    """Router health of a mixture of experts."""
    record: Record = {"log": "moe", "t": at, "step": step}
    call.put(record, {name: value for name, value in call.own(fields).items() if name != "step"})
    return record


def experts_record(
    at: float,
    call: CallValues,
    step: int,
    *,
    layers: Sequence[str],
    load: Array | Sequence[Values],
    top_k: Scalar,
) -> Record | None:
    """How the router of each layer distributed its tokens: one row of shares per layer."""
    table = call.policy.read("experts", _share_table, load, layers=layers)
    if table is None:
        return None
    names: list[str] = []
    rows: list[list[float]] = []
    for given, row in table:
        name = call.name(given)
        shares = None if name is None else call.policy.read(f"experts/{name}", _shares, row)
        if name is not None and shares is not None:
            names.append(name)
            rows.append(shares)
    if not names:
        return None
    record: Record = {"log": "experts", "t": at, "step": step, "layers": names, "load": rows}
    chosen = call.whole(top_k, name="top_k")
    if chosen is not None:
        record["top_k"] = chosen
    return record


def gpu_record(
    at: float,
    call: CallValues,
    step: int | None,
    gpu_id: int,
    fields: Mapping[str, Scalar | str | None],
) -> Record:
    """One GPU's telemetry: MHz, mW, degrees Celsius, percent, bytes and bytes per second."""
    record: Record = {"log": "gpu", "t": at}
    if step is not None:
        record["step"] = step
    record["id"] = gpu_id
    for name, value in fields.items():
        field = _READINGS.get(name)
        if field is not None:
            told = f"gpu/{name}" if field.type == "text" else name
            call.put_declared(record, field, value, name=told)
        else:
            unknown = UsageError(
                f"{name}= is no reading of a GPU: use {', '.join(_READINGS)}; run.log takes"
                " figures of any name."
            )
            call.policy.drop(f"gpu/{name}", value, unknown)
    return record


def facts_record(kind: str, at: float, call: CallValues, fields: Mapping[str, Any]) -> Record:
    """Facts as they are: texts, booleans and numbers; None is left out."""
    record: Record = {"log": kind, "t": at}
    declared = KINDS[kind].by_name
    for name, value in call.own(fields).items():
        is_number = name in declared and declared[name].is_numeric
        if isinstance(value, str) and not is_number:
            record[name] = value
        else:
            call.put(record, {name: value})
    return record


def sol_record(
    at: float,
    call: CallValues,
    estimate: HasFields | None,
    parts: Mapping[str, Scalar | None],
    figures: Mapping[str, Scalar | str | None],
    *,
    dtype: str,
) -> Record | None:
    """The speed of light: an estimate, which has ``fields()``, or the figures themselves."""
    given = [*parts.values(), *figures.values()]
    is_whole = None not in parts.values()
    if any(one is not None for one in given) if estimate is not None else not is_whole:
        raise UsageError(
            "log_sol_estimate takes an estimate of epochal.speed_of_light, or blocks=, lm_head="
            " and attention= with tps= and peaks."
        )
    if estimate is None:
        own: Mapping[str, Any] = {**parts, **figures, "dtype": dtype}
    elif callable(getattr(estimate, "fields", None)):
        own = estimate.fields()
    else:
        raise ValueTypeError(
            "estimate must be what epochal.speed_of_light gives, not a"
            f" {type(estimate).__name__}: figures of your own are named, as in blocks=."
        )
    record = facts_record("sol", at, call, own)
    return record if all(part in record for part in _SOL_PARTS) else None


def allocator_record(
    at: float, call: CallValues, step: int, *, stats: Iterable[Any], gpu: Scalar | None
) -> Record | None:
    """Memory by segment; ``stats`` is a list of segments or a mapping of name to bytes.

    If ``gpu`` is None, the GPU is ``stats.gpu`` where that exists.
    """
    record: Record = {"log": "allocator", "t": at, "step": step}
    gpu = attempt(getattr, stats, "gpu", None)[0] if gpu is None else gpu
    call.put_declared(record, _ALLOCATOR["id"], gpu, name="gpu")
    given = call.policy.read("allocator", _segments, stats) or []
    segments = [segment for item in given if (segment := _segment(call, item)) is not None]
    if given and not segments:
        return None
    # A place that no segment speaks of is absent; one that holds 0 bytes is not.
    kept = [p for p in ALLOCATOR_PLACES if any(p in one for one in segments)] or ["device"]
    record["stats"] = [
        {"name": one["name"], **{place: one.get(place, 0) for place in kept}} for one in segments
    ]
    return record


def dataset_record(
    at: float, call: CallValues, split: str, files: Any, **facts: Scalar | None
) -> Record:
    """A data split: numbers of files and tokens, and the position of the reader."""
    record: Record = {"log": "dataset", "t": at, "split": call.name(split) or "data"}
    counted: dict[str, Any] = dict(facts)
    if isinstance(files, (str, bytes)):
        wrong = ValueTypeError("files must be a count or a list of paths, not one text.")
        call.policy.drop("dataset/files", files, wrong)
    elif isinstance(files, Iterable):
        names = call.policy.read("dataset/files", _texts, files) or []
        record.update(names=names, files=len(names))
    else:
        counted = {"files": files, **facts}
    for name, value in counted.items():
        call.put_declared(record, _DATASET[name], value)
    return record


def text_record(at: float, *, name: str, text: str, step: int) -> Record:
    """A piece of text at a step."""
    return {"log": "text", "t": at, "step": step, "name": name, "text": text}


def graph_record(
    at: float, call: CallValues, name: Any, svg: Any, facts: Mapping[str, Any]
) -> Record | None:
    """A picture of a model as SVG text, with facts about it."""
    known = call.name(name)
    if not isinstance(svg, str):
        wrong = ValueTypeError("log_graph takes the text of an SVG picture.")
        call.policy.drop("graph", svg, wrong)
        return None
    if known is None:
        return None
    return {"log": "graph", "t": at, "name": known, "svg": svg, **plain_json(call.own(facts))}


def define_record(
    at: float, *, name: str, unit: str | None, goal: str | None, x: str | None, role: str | None
) -> Record:
    """What a metric means: its unit, which way is better, its x axis, its role."""
    given = {"unit": unit, "goal": goal, "x": x, "role": role}
    for key, value in given.items():
        choices = _DEFINE[key].choices
        if value is not None and choices and value not in choices:
            known = ", ".join(choices)
            raise UsageError(f"{key}={value!r} of {name!r} is not known: use one of {known}.")
    record: Record = {"log": "define", "t": at, "name": checked_name(name)}
    record.update({key: str(value) for key, value in given.items() if value is not None})
    return record


def tokens_per_second(tokens: float, duration_ms: float) -> float | None:
    """Tokens per second, or None when no time passed."""
    try:
        return single(tokens / duration_ms * 1000.0) if duration_ms > 0 else None
    except OverflowError:  # a whole number beyond every float
        return None


def checked_name(name: Any) -> str:
    """A series or sample name: a text that is not empty."""
    if not isinstance(name, str) or not name:
        raise ValueTypeError(f"a name must be a non-empty text, not {name!r}.")
    return name


def _put_speed(
    record: Record, call: CallValues, field: Field, tokens: Scalar, duration_ms: Scalar
) -> float | None:
    """Add tokens and duration; gives tokens per second where both are there."""
    count = call.whole(tokens, name="tokens")
    took: Number | None = call.number(duration_ms, name="duration_ms", wait=True)
    if count is not None:
        record[field.name] = count
    if took is not None:
        record["duration_ms"] = took
    return None if count is None or took is None else tokens_per_second(count, took)


def _with_metrics(record: Record, call: CallValues, metrics: Metrics | None) -> Record:
    flat = None if metrics is None else call.metrics(metrics)
    if flat:
        record["m"] = flat
    return record


def _mapping(value: Any, *, argument: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueTypeError(f"{argument} must be a mapping, not {type(value).__name__}.")
    return value


def _fields_of(result: HasFields) -> dict[str, Any]:
    return dict(result.fields())


def _texts(values: Iterable[Any]) -> list[str]:
    return [str(value) for value in values]


def _segments(stats: Any) -> list[Any]:
    if isinstance(stats, Mapping):
        return [
            {"name": name, **(value if isinstance(value, Mapping) else {"device": value})}
            for name, value in stats.items()
        ]
    if isinstance(stats, (str, bytes)) or not isinstance(stats, Iterable):
        raise ValueTypeError("stats must be a list of segments or a mapping of name to bytes.")
    return list(stats)


def _share_table(load: Any, *, layers: Any) -> list[tuple[Any, Any]]:
    if isinstance(layers, (str, bytes)) or not isinstance(layers, Iterable):
        raise ValueTypeError("layers must be a list of names, one for each row of load.")
    names, rows = list(layers), list(load.tolist() if hasattr(load, "tolist") else load)
    if len(names) != len(rows):
        raise UsageError(f"load has {len(rows)} rows for {len(names)} layers: give one for each.")
    return list(zip(names, rows, strict=True))


def _shares(row: Any) -> list[float]:
    values = row.tolist() if hasattr(row, "tolist") else row
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueTypeError("load must hold one row of shares for each layer.")
    shares = [finite_float(value, name="load") for value in values]
    total = sum(shares)
    # A layer without a token has no shares.
    if shares and total != 0 and abs(total - 1) > _SHARES_TOLERANCE:
        raise UsageError(
            f"a row of load adds up to {total:.4g}: give each expert's share of its layer's"
            " assignments, which add up to 1."
        )
    return shares


def _segment(call: CallValues, item: Any) -> dict[str, Any] | None:
    fields = call.policy.read("allocator", _segment_fields, item)
    if fields is None:
        return None
    segment: dict[str, Any] = {"name": fields["name"]}
    for place in _SEGMENT:
        call.put_declared(
            segment, place, fields.get(place.name), name=f"{fields['name']}/{place.name}"
        )
    if len(segment) > 1:
        return segment
    if all(fields.get(place) is None for place in ALLOCATOR_PLACES):
        sizeless = ValueTypeError(
            f"the segment {segment['name']!r} says nowhere how large it is: give its bytes as"
            f" {', '.join(ALLOCATOR_PLACES)}."
        )
        call.policy.drop(f"memory/{segment['name']}", item, sizeless)
    return None


def _segment_fields(item: Any) -> Mapping[str, Any]:
    if isinstance(item, msgspec.Struct) or (is_dataclass(item) and not isinstance(item, type)):
        places = {place: getattr(item, place, None) for place in ALLOCATOR_PLACES}
        # An object has every place; one that holds nothing was not given.
        given = {place: size for place, size in places.items() if size}
        item = {"name": getattr(item, "name", None), **(given or {"device": 0})}
    if not isinstance(item, Mapping) or "name" not in item:
        raise ValueTypeError(
            f"an allocator segment must be a mapping with a name, not a {type(item).__name__}."
        )
    return {**item, "name": checked_name(item["name"])}
