r"""One line per epoch, step and evaluation: text from figures, and nothing else.

Every part except the counter is optional. Unknown parts (None) are omitted. An unknown percentage
becomes blanks, so that columns stay aligned. Figures may be nan and inf.

    epoch   1/100  loss=1.5264  [49ms  ETA 4.8s]  VRAM: 2.1/6.0 GB (82%)
    :: step     100 [ 12.5%] \ loss 2.3456 | norm  0.1234 | 125.3k tps |   156 ms | eta 02h15m
    >> eval     100              loss 2.1234 | gap +0.0123 (+0.6%) | 145.2k tps |   234 ms
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from epochal.records.format import format_clock, format_duration, format_number, format_tps
from epochal.records.values import as_float
from epochal.run.console.messages import printable

MOST_METRICS = 20  # a line that holds more is unreadable; the rest is counted, and is in the record
_SECONDS_FROM_MS = 100_000
_TENTHS_BELOW_MS = 10
_EXPONENT_FROM = 1e7  # an exploded norm must not fill the line with digits
_UNITS = (("TB", 2**40), ("GB", 2**30), ("MB", 2**20), ("KB", 2**10), ("B", 1))
_MIB = 2**20
# Parts of a step's line: a label, a field of its record, and the format. Shares of experts are 0-1,
# and the speed of light is in percent.
_OF_STEP = (
    ("aux ", "moe_aux_loss", ".4f"),
    ("imbal ", "moe_load_imbalance", ".2f"),
    ("util ", "moe_expert_utilization", ".2f"),
    ("hot ", "moe_max_expert_fraction", ".2f"),
    ("ent ", "moe_router_entropy", ".2f"),
    ("kd ", "kd_loss", ".4f"),
    ("sol ", "sol", "4.1f"),
)
_OF_MACHINE = ("vram_allocated_bytes", "vram_total", "gpu_pct")
# Readings of a GPU: a field of its record, its text, and its unit.
_OF_GPU = (
    ("power", "power {:4.0f} W", 1000),
    ("temperature", "temp {:3.0f}{limit} C", 1),
    ("clock", "clock {:4.0f} MHz", 1),
    ("gpu_util", "util {:3.0f}%", 1),
    ("dram_used", "mem {:6.0f} MiB", _MIB),
    ("pcie_rx", "PCIe down {:5.0f} MiB/s", _MIB),
    ("pcie_tx", "PCIe up {:5.0f} MiB/s", _MIB),
)


def epoch_line(record: Mapping[str, Any], *, eta_s: float | None = None) -> str:
    """The line of a finished epoch.

    VRAM is what the allocator holds against what the device has; more than that has spilled to the
    host and is named.
    """
    done, total, duration_s = record["epoch"], record.get("total"), number_in(record, "duration_s")
    number = f"{done:3d}" if total is None else f"{done:{len(str(total))}d}/{total}"
    timing = "?" if duration_s is None else format_duration(duration_s)
    if eta_s is not None:
        timing += f"  ETA {format_duration(eta_s)}"
    machine = record.get("resources") or {}
    parts = [f"  epoch {number}", *_shown(record["m"], "="), f"[{timing}]"]
    return "  ".join(parts + _memory(*(machine.get(name) for name in _OF_MACHINE)))


def closing_line(seconds: float, *, metrics: Mapping[str, float], verb: str = "complete in") -> str:
    """The last line of a training; ``verb`` may also be "stopped after" or "failed after"."""
    shown = [f"| {text}" for text in _shown(metrics, ": ")]
    return "  ".join([f"  training {verb} {format_duration(seconds)}", *shown])


def section_line(name: str, *, seconds: float) -> str:
    """The line of a timed section that has ended."""
    return f"{printable(name)} ... done in {format_duration(seconds)}"


def step_line(
    record: Mapping[str, Any],
    *,
    percent: float | None = None,
    trend: str = " ",
    spike: bool = False,
    eta_s: float | None = None,
    phase: str | None = None,
) -> str:
    r"""The line of a training step.

    ``percent`` of the run (0-100); ``trend`` is ``\`` falling, ``/`` rising or a blank; ``spike``
    puts ``!`` before the norm.
    """
    parts = [
        _part("loss ", number_in(record, "loss"), "6.4f"),
        _part("norm !" if spike else "norm  ", number_in(record, "norm"), "6.4f"),
        *_speed(record, "step_tokens"),
        *(_part(label, number_in(record, field), spec) for label, field, spec in _OF_STEP),
        None if eta_s is None else f"eta {format_clock(eta_s)}",
        None if not phase else printable(phase),
    ]
    return f":: step {record['step']:7d} {_percent(percent)} {trend} {_joined(parts)}".rstrip()


def metrics_line(
    step: int,
    *,
    percent: float | None = None,
    metrics: Mapping[str, float],
    eta_s: float | None = None,
) -> str:
    """The line of a step that has only free metrics."""
    eta = [] if eta_s is None else [f"eta {format_clock(eta_s)}"]
    return "  ".join([f":: step {step:7d} {_percent(percent)}", *_shown(metrics, "="), *eta])


def eval_line(
    record: Mapping[str, Any], *, gap: float | None = None, gap_percent: float | None = None
) -> str:
    """The line of an evaluation; ``gap`` is its loss less the mean training loss before it.

    ``gap_percent`` is the same in percent of that mean.
    """
    step = record.get("step")
    parts = [
        _part("loss ", number_in(record, "loss"), "6.4f"),
        gap_text(gap, percent=gap_percent),
        *_speed(record, "eval_tokens"),
        *_shown(record.get("m") or {}, " "),
    ]
    start = ">> eval" if step is None else f">> eval {step:7d}"
    return f"{start:<29}{_joined(parts)}".rstrip()


def gap_text(gap: float | None, *, percent: float | None = None) -> str | None:
    """The gap as an evaluation's line has it; None where it is not known."""
    text = _part("gap ", gap, "+7.4f")
    return text if text is None or percent is None else f"{text} ({percent:+.1f}%)"


def gpu_line(record: Mapping[str, Any]) -> str:
    """The state of one GPU, shown at VERBOSE; memory in MiB, PCIe in MiB/s."""
    slowdown = record.get("temp_slowdown")
    limit = "" if slowdown is None else f"/{slowdown:.0f}"
    parts = [f"[G] step {record.get('step', 0):5d} [gpu {record['id']:2d}]"]
    for field, text, unit in _OF_GPU:
        if record.get(field) is not None:
            parts.append(text.format(record[field] / unit, limit=limit))
    throttle = record.get("throttle")
    return " | ".join([*parts, *([f"throttle {printable(throttle)}"] if throttle else [])])


def number_in(record: Mapping[str, Any], field: str) -> float | None:
    """A number of a record; None for a field that is missing or has no number."""
    value = record.get(field)
    return as_float(value) if isinstance(value, (int, float)) else None


def _shown(metrics: Mapping[str, float], separator: str) -> list[str]:
    pairs = list(metrics.items())
    texts = [f"{printable(n)}{separator}{format_number(v)}" for n, v in pairs[:MOST_METRICS]]
    if len(pairs) > MOST_METRICS:
        texts.append(f"(+{len(pairs) - MOST_METRICS} more)")
    return texts


def _joined(parts: Iterable[str | None]) -> str:
    return " | ".join(part for part in parts if part is not None)


def _part(label: str, value: float | None, spec: str) -> str | None:
    if value is None:
        return None
    if spec.endswith("f") and _EXPONENT_FROM <= abs(value) < math.inf:
        spec = spec[:-1] + "e"
    return f"{label}{value:{spec}}"


def _percent(percent: float | None) -> str:
    if percent is None or not math.isfinite(percent):
        return " " * len("[ 12.5%]")
    return f"[{percent:5.1f}%]"


def _speed(record: Mapping[str, Any], field: str) -> list[str | None]:
    tokens, duration_ms = number_in(record, field), number_in(record, "duration_ms")
    if duration_ms is None or not math.isfinite(duration_ms):
        return []
    rate = tokens / duration_ms * 1000 if tokens is not None and duration_ms > 0 else math.nan
    return [None if tokens is None else f"{format_tps(rate)} tps", _milliseconds(duration_ms)]


def _milliseconds(duration_ms: float) -> str:
    if duration_ms >= _SECONDS_FROM_MS:
        return f"{int(duration_ms / 1000):5d}  s"
    if duration_ms < _TENTHS_BELOW_MS and duration_ms != int(duration_ms):
        return f"{duration_ms:5.1f} ms"
    return f"{round(duration_ms):5d} ms"


def _memory(used: float | None, total: float | None, gpu_percent: float | None) -> list[str]:
    if used is None:
        return [] if gpu_percent is None else [f"GPU: {gpu_percent:.0f}%"]
    unit, size = next(u for u in _UNITS if u[1] == 1 or (total or used) >= u[1])
    text = f"VRAM: {used / size:.1f}{'' if total is None else f'/{total / size:.1f}'} {unit}"
    if total is not None and used > total:
        text += f" +{(used - total) / size:.1f} {unit} spilled"
    return [text if gpu_percent is None else f"{text} ({gpu_percent:.0f}%)"]
