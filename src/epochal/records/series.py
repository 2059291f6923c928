"""What a record is: its kinds, the axis each lives on, and the series it speaks of.

A record is one JSON object. ``log`` is its kind, ``t`` Unix seconds, ``step`` where it has one,
then the kind's own fields; free metrics live in ``m`` so that no user name is ever reserved.
``spec/journal.md`` is the specification; this file is the part of it that programs need.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

FORMAT_VERSION = 1
# While a companion sees the process of its run alive, it writes something about this often.
HEARTBEAT_EVERY_S = 30.0
_LARGEST = sys.float_info.max

Record = dict[str, Any]
Axis = Literal["step", "epoch", "time", "none"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of record: the axis it lives on and the scalar fields that become series."""

    name: str
    axis: Axis
    prefix: str = ""
    scalars: tuple[str, ...] = ()


_STEP_SCALARS = (
    "loss",
    "norm",
    "norm_clipped",
    "lr",
    "epoch",
    "step_tokens",
    "duration_ms",
    "tokens_per_second",
    "kd_loss",
    "sol",
)
_MOE_SCALARS = (
    "aux_loss",
    "z_loss",
    "expert_utilization",
    "load_imbalance",
    "active_experts",
    "max_expert_fraction",
    "min_active_expert_fraction",
    "load_cv",
    "router_entropy",
    "router_confidence",
)
_GPU_SCALARS = (
    "clock",
    "max_clock",
    "fan",
    "power",
    "power_limit",
    "temperature",
    "temp_slowdown",
    "gpu_util",
    "mem_util",
    "dram_free",
    "dram_used",
    "dram_total",
    "pcie_rx",
    "pcie_tx",
    "sm_active",
    "tensor_active",
    "dram_active",
    "energy",
    "ecc_corrected",
    "ecc_uncorrected",
)
_SYSTEM_SCALARS = (
    "cpu_pct",
    "ram_used",
    "ram_total",
    "process_cpu_pct",
    "rss",
    "children",
    "children_rss",
    "threads",
    "disk_read",
    "disk_write",
    "disk_free",
    "disk_total",
    "net_rx",
    "net_tx",
    "epochal_cpu_pct",
    "epochal_rss",
)

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("run", "none"),
        Kind("step", "step", "train/", _STEP_SCALARS),
        Kind("eval", "step", "eval/", ("loss", "eval_tokens", "duration_ms", "tokens_per_second")),
        Kind("epoch", "epoch"),
        Kind("metrics", "step"),
        Kind("moe", "step", "moe/", _MOE_SCALARS),
        Kind("experts", "step"),
        Kind("phases", "step"),
        Kind("span", "time"),
        Kind("timeline", "time"),
        Kind("gpu", "time", "gpu/", _GPU_SCALARS),
        Kind("gpu-model", "none"),
        Kind("system", "time", "system/", _SYSTEM_SCALARS),
        Kind("heartbeat", "none"),
        Kind("sol", "none"),
        Kind("allocator", "step", "memory/"),
        Kind("dataset", "none"),
        Kind("option", "none"),
        Kind("abs-maxes", "step", "abs_max/"),
        Kind("histogram", "step"),
        Kind("text", "step"),
        Kind("blob", "step"),
        Kind("graph", "none"),
        Kind("event", "none"),
        Kind("finding", "none"),
        Kind("message", "none"),
        Kind("define", "none"),
        Kind("resume", "none"),
        Kind("finish", "none"),
    )
}

# Names tried in this order when no metric was defined with the role; the first that exists is it.
ROLE_GUESSES: Mapping[str, tuple[str, ...]] = {
    "loss": ("train/loss", "loss", "train_loss", "Loss/train", "total_loss", "training_loss"),
    "eval_loss": (
        "eval/loss",
        "val/loss",
        "val_loss",
        "eval_loss",
        "valid/loss",
        "validation/loss",
        "Loss/validation",
        "test/loss",
        "test_loss",
    ),
    "norm": (
        "train/norm",
        "grad_norm",
        "train/grad_norm",
        "norm",
        "gradient_norm",
        "Gradient/norm",
    ),
    "lr": ("train/lr", "lr", "learning_rate", "train/learning_rate", "Learning_Rate/lr"),
    "throughput": (
        "train/tokens_per_second",
        "tokens_per_second",
        "tokens_per_sec",
        "samples_per_second",
        "Performance/tokens_per_sec",
    ),
}
ROLES = tuple(ROLE_GUESSES)


class Position(NamedTuple):
    """Where a record stands: never a byte offset, so it survives sealing and copying."""

    writer: str
    attempt: int
    part: int
    ordinal: int

    def __str__(self) -> str:
        return f"{self.writer}.{self.attempt:04d}.{self.part:04d}.{self.ordinal}"


def moment_of(record: Mapping[str, Any]) -> float:
    """When a record was written, in Unix seconds; 0 where it does not say."""
    at = finite(record.get("t"))
    return 0.0 if at is None else at


def finite(value: Any) -> float | None:
    """A field's number, as a float; None for anything that is no finite number."""
    # An integer beyond every float cannot be asked whether it is finite.
    if not isinstance(value, (int, float)) or not -_LARGEST <= value <= _LARGEST:
        return None
    return float(value)


def axis_of(record: Mapping[str, Any]) -> Axis:
    """The axis a record lives on; unknown kinds with a step live on the step axis."""
    kind = KINDS.get(str(record.get("log")))
    if kind is not None:
        return kind.axis
    return "step" if "step" in record else "none"


def scalars_of(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every (series name, value) a record holds as floats, non-finite values included."""
    for name, number in numbers_of(record):
        try:
            yield name, float(number)
        except OverflowError:  # an integer beyond every float
            yield name, float("inf") if number > 0 else float("-inf")


def numbers_of(record: Mapping[str, Any]) -> Iterator[tuple[str, float | int]]:
    """Like ``scalars_of``, with whole numbers as they were written."""
    words = _words(record)
    yield from _free_metrics(record, words)
    kind = KINDS.get(str(record.get("log")))
    if kind is None:
        return
    if kind.name == "allocator":
        yield from _allocator_scalars(record)
        return
    if kind.name == "abs-maxes":
        values = record.get("values")
        for name, value in values.items() if isinstance(values, Mapping) else ():
            yield from _scalar(f"abs_max/{name}", value, words.get(word_key(name, record)))
        return
    prefix = f"gpu/{record.get('id', 0)}/" if kind.name == "gpu" else kind.prefix
    for field in kind.scalars:
        if field in record:
            yield from _scalar(prefix + field, record[field], words.get(field))
    if kind.name == "step":
        for field, value in record.items():
            if field.startswith("moe_"):
                yield from _scalar("moe/" + field[4:], value, words.get(field))


def _free_metrics(
    record: Mapping[str, Any], words: Mapping[str, str]
) -> Iterator[tuple[str, float | int]]:
    metrics = record.get("m")
    if isinstance(metrics, Mapping):
        for name, value in metrics.items():
            yield from _scalar(name, value, words.get(word_key(name, record)))


def _words(record: Mapping[str, Any]) -> Mapping[str, str]:
    words = record.get("nonfinite")
    if not isinstance(words, Mapping):
        return {}
    return {name: word for name, word in words.items() if word in ("nan", "inf", "-inf")}


def word_key(name: str, record: Mapping[str, Any]) -> str:
    """Where ``nonfinite`` keeps the word of a name inside ``m``, apart from a field's."""
    return f"m.{name}" if name in record else name


def _allocator_scalars(record: Mapping[str, Any]) -> Iterator[tuple[str, float | int]]:
    prefix = f"memory/gpu{record['id']}/" if "id" in record else "memory/"
    stats = record.get("stats")
    for segment in stats if isinstance(stats, list) else ():
        if not isinstance(segment, Mapping):
            continue
        for place in ("device", "managed", "pinned", "pageable"):
            yield from _scalar(f"{prefix}{segment.get('name')}/{place}", segment.get(place), None)


def _scalar(name: str, value: Any, word: str | None) -> Iterator[tuple[str, float | int]]:
    if value is None and word is not None:
        yield name, float(word)
    elif isinstance(value, (int, float)):
        yield name, value
