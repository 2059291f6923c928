"""Builds the records of the typed calls: arguments in, one plain dict out.

Field names and their order are those of the training logs people already parse; every number may be
a Python, numpy or 0-d torch one. A field whose value is None is left out: absent is absent, never
0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from epochal.errors import UsageError, ValueTypeError
from epochal.record import KINDS, Record
from epochal.values import (
    as_pairs,
    flatten,
    plain_float,
    plain_int,
    plain_json,
    plain_number,
    single,
)

_ALLOCATOR_PLACES = ("device", "managed", "pinned", "pageable")
_GPU_FIELDS = (*KINDS["gpu"].scalars, "throttle")
# Shares in half precision add up to one within this.
_SHARES_TOLERANCE = 0.02


def step_record(
    at: float,
    step: Any,
    epoch: Any,
    tokens: Any,
    duration_ms: Any,
    norm: Any,
    loss: Any,
    lr: Any,
    *,
    norm_clipped: Any = None,
    kd_loss: Any = None,
    sol: Any = None,
    phase: str | None = None,
    moe: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> Record:
    """One optimisation step; throughput is stored when it can be computed."""
    record: Record = {"log": "step", "t": at, "step": plain_int(step, name="step")}
    _put_numbers(record, epoch=epoch)
    record["step_tokens"] = plain_int(tokens, name="tokens")
    record["duration_ms"] = plain_number(duration_ms, name="duration_ms")
    _put_numbers(record, norm=norm, loss=loss, lr=lr, norm_clipped=norm_clipped)
    rate = tokens_per_second(record["step_tokens"], record["duration_ms"])
    _put_numbers(record, tokens_per_second=rate, kd_loss=kd_loss, sol=sol)
    if phase is not None:
        record["phase"] = str(phase)
    for name, value in (moe or {}).items():
        short = name.removeprefix("moe_")
        _put_numbers(record, **{f"moe_{short}": value})
    return _with_metrics(record, metrics)


def eval_record(
    at: float,
    step: Any,
    epoch: Any,
    tokens: Any,
    duration_ms: Any,
    loss: Any,
    *,
    metrics: Mapping[str, Any] | None = None,
) -> Record:
    """One evaluation."""
    record: Record = {"log": "eval", "t": at, "step": plain_int(step, name="step")}
    _put_numbers(record, epoch=epoch)
    record["eval_tokens"] = plain_int(tokens, name="tokens")
    record["duration_ms"] = plain_number(duration_ms, name="duration_ms")
    _put_numbers(record, loss=loss)
    rate = tokens_per_second(record["eval_tokens"], record["duration_ms"])
    _put_numbers(record, tokens_per_second=rate)
    return _with_metrics(record, metrics)


def epoch_record(
    at: float, epoch: Any, duration_s: Any, metrics: Mapping[str, Any], *, total: int | None
) -> Record:
    """One finished epoch; ``epoch`` counts completed epochs, so the first one is 1."""
    record: Record = {"log": "epoch", "t": at, "epoch": plain_int(epoch, name="epoch")}
    if total is not None:
        record["total"] = total
    record["duration_s"] = finite_float(duration_s, name="duration")
    record["m"] = dict(metrics)
    return record


def moe_record(at: float, *, step: Any, fields: Mapping[str, Any]) -> Record:
    """Router health of a mixture of experts."""
    record: Record = {"log": "moe", "t": at, "step": plain_int(step, name="step")}
    _put_numbers(record, **fields)
    return record


def experts_record(at: float, *, step: Any, layers: Any, load: Any, top_k: Any) -> Record:
    """How each layer's router shared its tokens out: one row of shares per layer."""
    if isinstance(layers, (str, bytes)) or not isinstance(layers, Iterable):
        raise ValueTypeError("layers must be a list of names, one for each row of load.")
    names = [checked_name(name) for name in layers]
    rows = [_shares(row) for row in (load.tolist() if hasattr(load, "tolist") else load)]
    if len(names) != len(rows):
        raise UsageError(f"load has {len(rows)} rows for {len(names)} layers: give one for each.")
    record: Record = {"log": "experts", "t": at, "step": plain_int(step, name="step")}
    record.update(layers=names, load=rows, top_k=plain_int(top_k, name="top_k"))
    return record


def gpu_record(at: float, *, step: Any, gpu_id: Any, fields: Mapping[str, Any]) -> Record:
    """One GPU's telemetry: MHz, mW, degrees Celsius, percent, bytes and bytes per second."""
    record: Record = {"log": "gpu", "t": at}
    if step is not None:
        record["step"] = plain_int(step, name="step")
    record["id"] = plain_int(gpu_id, name="gpu_id")
    for name, value in own_fields(fields).items():
        if name not in _GPU_FIELDS:
            raise UsageError(
                f"{name}= is no reading of a GPU: use {', '.join(_GPU_FIELDS)}; run.log takes"
                " figures of any name."
            )
        if isinstance(value, str):
            record[name] = value
        else:
            _put_numbers(record, **{name: value})
    return record


def facts_record(kind: str, at: float, fields: Mapping[str, Any]) -> Record:
    """Facts logged as they are: texts, switches and numbers; None is left out."""
    record: Record = {"log": kind, "t": at}
    for name, value in fields.items():
        if value is None:
            continue
        record[name] = value if isinstance(value, str) else plain_number(value, name=name)
    return record


def sol_record(at: float, estimate: Any, figures: Mapping[str, Any]) -> Record:
    """The speed of light: an estimate, which has ``fields()``, or the figures themselves."""
    if estimate is None:
        return facts_record("sol", at, figures)
    if not callable(getattr(estimate, "fields", None)):
        raise ValueTypeError(
            "estimate must be what epochal.speed_of_light gives, not a"
            f" {type(estimate).__name__}: figures of your own are named, as in blocks=."
        )
    return facts_record("sol", at, estimate.fields())


def allocator_record(at: float, *, stats: Any, step: Any, gpu: Any) -> Record:
    """Memory by segment; ``stats`` is a list of segments or a mapping of name to bytes.

    Segments that know which GPU they are of (``stats.gpu``) say so when ``gpu`` is None.
    """
    record: Record = {"log": "allocator", "t": at, "step": plain_int(step, name="step")}
    gpu = getattr(stats, "gpu", None) if gpu is None else gpu
    if gpu is not None:
        record["id"] = plain_int(gpu, name="gpu")
    segments = [_segment(item) for item in _segments(stats)]
    # A place where nothing of any segment is, such as a GPU in a training without one, is absent.
    empty = [p for p in _ALLOCATOR_PLACES if not any(one.get(p) for one in segments)]
    kept = [p for p in _ALLOCATOR_PLACES if p not in empty] or ["device"]
    record["stats"] = [
        {"name": one["name"], **{place: one.get(place, 0) for place in kept}} for one in segments
    ]
    return record


def dataset_record(at: float, split: str, files: int | Sequence[Any], **facts: Any) -> Record:
    """A data split: how many files and tokens, and where reading stands."""
    record: Record = {"log": "dataset", "t": at, "split": str(split)}
    if isinstance(files, (str, bytes)):
        raise ValueTypeError("files must be a count or a list of paths, not one text.")
    if isinstance(files, Iterable):
        record["names"] = [str(name) for name in files]
        record["files"] = len(record["names"])
    else:
        record["files"] = plain_int(files, name="files")
    for name, value in facts.items():
        if value is not None:
            record[name] = plain_int(value, name=name)
    return record


def text_record(at: float, *, name: str, text: str, step: int) -> Record:
    """A piece of text at a step."""
    if not isinstance(text, str):
        raise ValueTypeError(f"text {name!r} must be a str, not {type(text).__name__}.")
    return {"log": "text", "t": at, "step": step, "name": checked_name(name), "text": text}


def define_record(
    at: float,
    *,
    name: str,
    unit: str | None,
    goal: str | None,
    x: str | None,
    role: str | None,
    roles: Sequence[str],
) -> Record:
    """What a metric means: its unit, which way is better, its x axis, its role."""
    if goal not in (None, "min", "max"):
        raise UsageError(f"goal={goal!r} of {name!r} is not known: use 'min' or 'max'.")
    if role is not None and role not in roles:
        raise UsageError(f"role={role!r} of {name!r} is not known: use one of {', '.join(roles)}.")
    record: Record = {"log": "define", "t": at, "name": checked_name(name)}
    for key, value in (("unit", unit), ("goal", goal), ("x", x), ("role", role)):
        if value is not None:
            record[key] = str(value)
    return record


def tokens_per_second(tokens: float, duration_ms: float) -> float | None:
    """Tokens per second, or None when no time passed."""
    return single(tokens / duration_ms * 1000.0) if duration_ms > 0 else None


def checked_name(name: Any) -> str:
    """A series or sample name: a text that is not empty."""
    if not isinstance(name, str) or not name:
        raise ValueTypeError(f"a name must be a non-empty text, not {name!r}.")
    return name


def _put_numbers(record: Record, **fields: Any) -> None:
    for name, value in fields.items():
        if value is not None:
            record[name] = plain_number(value, name=name, wait=False)


def _with_metrics(record: Record, metrics: Mapping[str, Any] | None) -> Record:
    if metrics:
        record["m"] = flatten(as_pairs(metrics, argument="metrics"), wait=False)
    return record


def _segments(stats: Any) -> list[Any]:
    if isinstance(stats, Mapping):
        return [
            {"name": name, **(value if isinstance(value, Mapping) else {"device": value})}
            for name, value in stats.items()
        ]
    if isinstance(stats, (str, bytes)) or not isinstance(stats, Iterable):
        raise ValueTypeError("stats must be a list of segments or a mapping of name to bytes.")
    return list(stats)


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


def _segment(item: Any) -> dict[str, Any]:
    if is_dataclass(item) and not isinstance(item, type):
        wanted = ("name", *_ALLOCATOR_PLACES)
        item = {name: getattr(item, name) for name in wanted if hasattr(item, name)}
    if not isinstance(item, Mapping) or "name" not in item:
        raise ValueTypeError(f"an allocator segment must be a mapping with a name, not {item!r}.")
    segment: dict[str, Any] = {"name": checked_name(item["name"])}
    for place in _ALLOCATOR_PLACES:
        if item.get(place) is not None:
            segment[place] = plain_int(item[place], name=place)
    if len(segment) == 1:
        raise ValueTypeError(
            f"the segment {segment['name']!r} says nowhere how large it is: give its bytes as"
            f" {', '.join(_ALLOCATOR_PLACES)}."
        )
    return segment


def finite_float(value: Any, *, name: str) -> float:
    """A number that must be finite and not negative, such as a duration."""
    number = plain_float(value, name=name)
    if not 0 <= number < float("inf"):
        raise UsageError(f"{name}={number!r} must be a finite number, 0 or more.")
    return number


def own_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the caller's own, as JSON can hold them; those every record has are refused."""
    taken = sorted({"log", "t", "v", "nonfinite"} & fields.keys())
    if taken:
        raise UsageError(f"{taken[0]!r} is a field of every record: choose another name.")
    return dict(plain_json(fields))
