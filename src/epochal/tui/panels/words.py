"""What runs said: findings, the log, text samples, what they were configured with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from epochal.format import format_number
from epochal.store.answers import RunInfo
from epochal.tui.cells import Line, Span, clip, printable, spread, wrap
from epochal.tui.glyphs import Glyphs
from epochal.tui.run_log import Finding, LogLine, Sample

_FACTS = ("id", "folder", "host", "command", "python", "git", "tags", "notes", "problem")
_LONGEST_KEY = 32


def finding_lines(
    findings: Sequence[Finding], *, columns: int, rows: int, glyphs: Glyphs
) -> list[Line]:
    """The gravest findings, with their advice where there is room for all of it."""
    whole = [line for found in findings for line in _whole_finding(found, columns, glyphs=glyphs)]
    if len(whole) <= rows:
        return whole
    short: list[Line] = [
        (Span(f"{_finding_mark(found, glyphs)} {printable(found.sentence)}", found.style),)
        for found in findings[:rows]
    ]
    left_out = len(findings) - len(short)
    if short and left_out:
        short[-1] = spread(short[-1], (Span(f" +{left_out} more", "dim"),), columns)
    return [clip(one, columns) for one in short]


def log_lines(log: Sequence[LogLine], *, columns: int, rows: int) -> list[Line]:
    """The newest lines of the log, each cut to one."""
    return [_short_line(entry, columns) for entry in log[-rows:]] if rows > 0 else []


def log_window(
    log: Sequence[LogLine], *, columns: int, rows: int, scroll: int = 0
) -> tuple[list[Line], int | None]:
    """The log wrapped, ``scroll`` lines above its end, and how far one can scroll.

    That is None while the first line has not been reached: the log is wrapped no further.
    """
    lines: list[Line] = []
    for entry in reversed(log):
        lines.extend(reversed(_wrapped_line(entry, columns)))
        if len(lines) > rows + scroll:
            return list(reversed(lines[scroll : scroll + rows])), None
    end = max(len(lines) - rows, 0)
    first = min(scroll, end)
    return list(reversed(lines[first : first + rows])), end


def sample_lines(sample: Sample, *, columns: int) -> list[Line]:
    """A text sample, wrapped."""
    return [(Span(text),) for text in wrap(sample.text.rstrip(), columns)]


def sample_title(sample: Sample) -> str:
    """What a sample is called, and when it was taken."""
    step = "" if sample.step is None else f" @ {sample.step:,}"
    return f"{printable(sample.name)}{step}"


def config_lines(
    config: Mapping[str, Any], facts: Mapping[str, Any], info: RunInfo, *, columns: int
) -> list[Line]:
    """How a run was configured and started, one value on a line."""
    said = {**facts, "folder": info.folder, "tags": ", ".join(info.tags), "notes": info.notes}
    said["problem"] = info.problem
    pairs = [
        *_flat(config, ""),
        ("", ""),
        *((name, _value(said[name])) for name in _FACTS if said.get(name)),
    ]
    longest = min(max((len(key) for key, _ in pairs), default=0), _LONGEST_KEY)
    lines: list[Line] = []
    for key, value in pairs:
        wrapped = wrap(value, max(columns - longest - 2, 10))
        lines.append((Span(f"{printable(key):<{longest}}  ", "dim"), Span(wrapped[0])))
        lines += [(Span(" " * (longest + 2)), Span(more)) for more in wrapped[1:]]
    return lines


def _whole_finding(found: Finding, columns: int, *, glyphs: Glyphs) -> Iterator[Line]:
    first, *more = wrap(found.sentence, columns - 2)
    yield (Span(f"{_finding_mark(found, glyphs)} {first}", found.style),)
    for text in more:
        yield (Span(f"  {text}", found.style),)
    if found.is_open and found.advice:
        for text in wrap(found.advice, columns - 2):
            yield (Span(f"  {text}", "dim"),)


def _finding_mark(found: Finding, glyphs: Glyphs) -> str:
    return glyphs.pointer if found.is_open else glyphs.ended


def _short_line(entry: LogLine, columns: int) -> Line:
    words = printable(" ".join(entry.text.split()))
    return clip((Span(_said_by(entry), "dim"), Span(words, entry.style)), columns)


def _wrapped_line(entry: LogLine, columns: int) -> list[Line]:
    start = _said_by(entry)
    first, *more = wrap(entry.text, max(columns - len(start), 8))
    indent = Span(" " * len(start))
    return [
        (Span(start, "dim"), Span(first, entry.style)),
        *((indent, Span(text, entry.style)) for text in more),
    ]


def _said_by(entry: LogLine) -> str:
    rank = f"r{entry.rank} " if entry.rank else ""
    return f"{_clock(entry.t)} {rank}"


def _clock(t: float | None) -> str:
    try:
        return "--:--:--" if t is None else datetime.fromtimestamp(t).strftime("%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _value(value)


def _value(value: Any) -> str:
    if isinstance(value, float):
        return format_number(value) if value else "0"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_value(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return str(value)
