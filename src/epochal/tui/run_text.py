"""The texts of a run as lines: findings, log, samples, configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from epochal.format import format_number
from epochal.store.answers import RunInfo
from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import clip, printable, spread, wrap
from epochal.tui.run_log import Finding, LogLine, Sample
from epochal.values import flat_items

_FACTS = ("id", "folder", "host", "command", "python", "git", "tags", "notes", "problem")
_LONGEST_KEY = 32


def finding_lines(
    findings: Sequence[Finding], *, columns: int, rows: int, glyphs: Glyphs
) -> list[Text]:
    """The gravest findings, with their advice where there is room for all of it."""
    whole = [line for found in findings for line in _whole_finding(found, columns, glyphs=glyphs)]
    if len(whole) <= rows:
        return whole
    short = [
        Text.assemble((f"{_mark(found, glyphs)} {printable(found.sentence)}", found.style))
        for found in findings[:rows]
    ]
    left_out = len(findings) - len(short)
    if short and left_out:
        short[-1] = spread(short[-1], Text.assemble((f" +{left_out} more", "dim")), columns)
    return [clip(one, columns) for one in short]


def log_lines(log: Sequence[LogLine], *, columns: int, rows: int) -> list[Text]:
    """The newest lines of the log, each cut to one."""
    return [_short_line(entry, columns) for entry in log[-rows:]] if rows > 0 else []


def sample_lines(sample: Sample, *, columns: int) -> list[Text]:
    """A text sample, wrapped."""
    return [Text(text) for text in wrap(sample.text.rstrip(), columns)]


def sample_title(sample: Sample) -> str:
    """What a sample is called, and when it was taken."""
    step = "" if sample.step is None else f" @ {sample.step:,}"
    return f"{printable(sample.name)}{step}"


def config_lines(
    config: Mapping[str, Any], facts: Mapping[str, Any], info: RunInfo, *, columns: int
) -> list[Text]:
    """How a run was configured and started, one value on a line."""
    said = {**facts, "folder": info.folder, "tags": ", ".join(info.tags), "notes": info.notes}
    said["problem"] = info.problem
    pairs = [
        *((name, _value(value)) for name, value in flat_items(config)),
        ("", ""),
        *((name, _value(said[name])) for name in _FACTS if said.get(name)),
    ]
    longest = min(max((len(key) for key, _ in pairs), default=0), _LONGEST_KEY)
    lines = []
    for key, value in pairs:
        wrapped = wrap(value, max(columns - longest - 2, 10))
        lines.append(Text.assemble((f"{printable(key):<{longest}}  ", "dim"), wrapped[0]))
        lines += [Text(" " * (longest + 2) + more) for more in wrapped[1:]]
    return lines


def _whole_finding(found: Finding, columns: int, *, glyphs: Glyphs) -> Iterator[Text]:
    first, *more = wrap(found.sentence, columns - 2)
    yield Text.assemble((f"{_mark(found, glyphs)} {first}", found.style))
    for text in more:
        yield Text.assemble((f"  {text}", found.style))
    if found.is_open and found.advice:
        for text in wrap(found.advice, columns - 2):
            yield Text.assemble((f"  {text}", "dim"))


def _mark(found: Finding, glyphs: Glyphs) -> str:
    return glyphs.pointer if found.is_open else glyphs.ended


def wrapped_entry(entry: LogLine, columns: int) -> list[Text]:
    """One entry of the log in as many lines as it takes."""
    start = _prefix_of(entry)
    first, *more = wrap(entry.text, max(columns - len(start), 8))
    indent = " " * len(start)
    return [
        Text.assemble((start, "dim"), (first, entry.style)),
        *(Text.assemble(indent, (text, entry.style)) for text in more),
    ]


def _short_line(entry: LogLine, columns: int) -> Text:
    words = printable(" ".join(entry.text.split()))
    return clip(Text.assemble((_prefix_of(entry), "dim"), (words, entry.style)), columns)


def _prefix_of(entry: LogLine) -> str:
    rank = f"r{entry.rank} " if entry.rank else ""
    return f"{_clock(entry.t)} {rank}"


def _clock(t: float | None) -> str:
    try:
        return "--:--:--" if t is None else datetime.fromtimestamp(t).strftime("%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return format_number(value) if value else "0"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_value(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return str(value)
