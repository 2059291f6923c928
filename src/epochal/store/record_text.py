"""A record as one line of a log, and how it is marked by its severity."""

from __future__ import annotations

import re
from datetime import datetime

from epochal.journal.layout import FINDINGS, LOOP
from epochal.records import Position, Record, moment_of, scalars_of
from epochal.records.values import as_float
from epochal.store.words import format_value

# Of findings; the styles are those of ``tui.text.THEME``.
MARKS = {"error": "✗", "warning": "!", "info": "·"}
STYLES = {"error": "bad", "warning": "warn", "info": ""}
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
