"""What lists and commands say of a run: progress, findings, values, and records as lines."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime

from epochal.journal.layout import FINDINGS, LOOP
from epochal.journal.row import RunRow
from epochal.records import Position, Record, moment_of, scalars_of, unit_of
from epochal.records.format import UNKNOWN, format_bytes, format_number
from epochal.records.values import as_float

# Units of what is counted: their values are whole.
_COUNTED = frozenset({"tokens", "tokens/s", "experts", "errors", "processes", "threads"})
_WRITERS: Mapping[str, Callable[[float], str]] = {
    "bytes": format_bytes,
    "B": format_bytes,
    "bytes/s": lambda value: f"{format_bytes(value)}/s",
    "B/s": lambda value: f"{format_bytes(value)}/s",
    "%": lambda value: f"{value:.1f} %",
}
_DECLARED_WRITERS: Mapping[str, Callable[[float], str]] = {
    **_WRITERS,
    "mW": lambda value: f"{value / 1000:.0f} W",
    **dict.fromkeys(_COUNTED, lambda value: f"{value:.0f}"),
}


def format_value(name: str, value: float | None, *, unit: str | None = None) -> str:
    """A value of the series ``name``; ``unit`` is what the run has defined for it."""
    if value is None:
        return UNKNOWN
    write = _WRITERS.get(unit or "") or _DECLARED_WRITERS.get(unit_of(name))
    return format_number(value) if write is None or not math.isfinite(value) else write(value)


def format_moment(t: float) -> str:
    """A time in Unix seconds as local date and clock: ``2026-05-01 12:00:00``."""
    try:
        return datetime.fromtimestamp(t).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{t} s"


def progress_text(info: RunRow, *, between: str = "/") -> str | None:
    """The steps, or the epochs, that are done of those there are to be; None before the first.

    A run that has gone beyond what it was meant to do says both, but not as a share.
    """
    if info.step is not None:
        return _of_total(info.step, info.steps_done, info.total_steps, between)
    epochs = epochs_text(info, between=between)
    return None if epochs is None else f"ep {epochs}"


def epochs_text(info: RunRow, *, between: str = "/") -> str | None:
    """The epochs that are done of those there are to be; None before the first."""
    epoch = info.epoch
    return None if epoch is None else _of_total(epoch, epoch, info.num_epochs, between)


def _of_total(reached: int, done: int | None, total: int | None, between: str) -> str:
    if done is None or total is None:
        return str(reached)
    return f"{reached} (of {total})" if reached > total else f"{done}{between}{total}"


def state_text(info: RunRow) -> str | None:
    """How a training is, in a word; None if no rules ran.

    A ``+`` behind it means that an attempt was not watched to its end.
    """
    known = info.diagnosis
    if not known.is_judged and not known.causes:
        return None
    return f"{known.state} +" if info.is_partly_watched else known.state


# Of findings; the styles are those of ``tui.text.THEME``.
MARKS = {"error": "✗", "warning": "!", "info": "·", "note": "·"}
STYLES = {"error": "bad", "warning": "warn", "info": "", "note": ""}
STATE_STYLES = {"broken": "bad", "suspicious": "warn", "healthy": "good", "unknown": ""}
_LEVELS = {"warning": "warn", "stderr": "warn", "debug": "dim"}
_ALARMS = ("error", "critical", "fatal", "exception")
# What programs print when they fail; "error 0.31" and "0 errors" are values, not failures.
_FAILURE = re.compile(
    r"Traceback \(most recent call last\)|\b[A-Z]\w*(?:Error|Exception)\b|\b(?:ERROR|FATAL)\b"
)
_LONGEST_TEXT = 200
_TEXTS = ("name", "level", "status", "reason", "sentence", "text", "value")
# What people look for in a run's latest; the rest is how the program keeps its books.
_TOLD = frozenset("step metrics eval epoch message finding event text resume".split())
_BOOKKEEPING_EVENTS = frozenset({"telemetry", "hardware"})
_FAILURES = frozenset(
    "exception vanished callback-running records-lost sync-failed values-lost blob-lost"
    " sinks-failed companion-lost companion-failed alert-failed out-of-memory".split()
)
# Fields of events that are times, in Unix seconds.
_TIMES = frozenset({"asked", "at"})
_NOT_WORDS = frozenset("log t step epoch name rank traceback node m nonfinite".split())


def is_shown(position: Position, record: Record) -> bool:
    """Whether people mean this record when they ask what a run did last."""
    kind = record["log"]
    if kind == "finish":
        return position.writer == LOOP
    return kind in _TOLD and record.get("name") not in _BOOKKEEPING_EVENTS


def record_line(position: Position, record: Record) -> str:
    """The line of a record; its writer is named unless it is rank 0 or the run's companion."""
    kind, writer = str(record["log"]), position.writer
    is_usual = writer in (LOOP, FINDINGS) or writer.startswith("telemetry")
    words = [_clock(moment_of(record))]
    if writer != LOOP and not (is_usual and is_shown(position, record)):
        words.append(f"[{writer}]")
    words.append(kind)
    # The epoch of a step is one of its metrics.
    axes = ("step", "epoch") if kind == "epoch" else ("step",)
    words += [f"{axis} {record[axis]}" for axis in axes if axis in record]
    words += [f"{name}={format_value(name, value)}" for name, value in scalars_of(record)]
    if kind == "event":
        return "  ".join([*words, _event_text(record)])
    texts = ("severity", *_TEXTS) if kind == "finding" else _TEXTS
    words += [_short(record[field]) for field in texts if isinstance(record.get(field), str)]
    is_resolved = kind == "finding" and record.get("state") == "closed"
    return "  ".join([*words, *(["(resolved)"] if is_resolved else [])])


def style_of(record: Record) -> str:
    """Errors in red and warnings in yellow, by level or by what a program printed."""
    kind = record["log"]
    if kind == "message":
        return severity_of(str(record.get("level", "")), str(record.get("text", "")))
    if kind == "finding" and record.get("state") != "closed":
        return STYLES.get(str(record.get("severity")), "")
    if kind == "finish":
        return "good" if record.get("status") == "finished" else "bad"
    return "bad" if kind == "event" and record.get("name") in _FAILURES else ""


def _event_text(record: Record) -> str:
    """Its name and its facts: ``phase converging (was warm-up)``."""
    name = str(record.get("name", ""))
    words = [_short(name)]
    for key, value in record.items():
        if key in _NOT_WORDS or isinstance(value, bool) or not isinstance(value, (str, int, float)):
            continue
        if isinstance(value, str):
            text = _short(value)
        else:
            text = _clock(value) if key in _TIMES else f"{as_float(value):g}"
        is_plain = key in _TEXTS or key in name
        words.append(f"(was {text})" if key == "was" else text if is_plain else f"{key} {text}")
    return " ".join(words)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _clock(t: float) -> str:
    try:
        return datetime.fromtimestamp(t).strftime("%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def severity_of(level: str, text: str) -> str:
    """The style of a message: ``bad``, ``warn``, ``dim``, or empty for an ordinary one."""
    is_captured = level in ("stdout", "stderr")
    if level in _ALARMS or (is_captured and _FAILURE.search(text)):
        return "bad"
    return _LEVELS.get(level, "")
