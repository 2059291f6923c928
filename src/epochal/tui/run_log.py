"""The log of a run: messages, events, evaluations, text samples, findings, GPU throttling.

It is read once from the run's entries; after that only new records are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from epochal.format import format_duration, format_number
from epochal.records import LOG_KINDS, Position, Record, finite, moment_of, scalars_of
from epochal.store.answers import Cursor
from epochal.store.store import RunView
from epochal.tui.severity import severity_of

KEPT_LINES = 5000
KEPT_TEXTS = 100
# The newest records of the machine that are looked at for words: a minute and more of 8 GPUs.
_MACHINE_RECORDS = 64
_MACHINE_WRITER = "telemetry"
_ENDED_BADLY = ("failed", "crashed", "terminated")
_SEVERITIES = {"error": 0, "critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One thing that was said: Unix seconds, its words, and the style they are shown in."""

    t: float | None
    text: str
    style: str = ""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """A text that the run logged."""

    name: str
    step: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the health rules found, as it stands now."""

    severity: str
    sentence: str
    advice: str
    is_open: bool
    first_step: float | None
    t: float | None

    @property
    def style(self) -> str:
        """How grave it looks."""
        if not self.is_open:
            return "dim"
        return {0: "bad", 1: "warn"}.get(_SEVERITIES.get(self.severity, 2), "accent")


class RunLog:
    """The log of one run, up to the last ``read``.

    ``num_lines`` counts the lines ever added; ``generation`` changes when the log is read anew.
    """

    def __init__(self, run: RunView) -> None:
        self._run = run
        self._since: Cursor | None = None
        self.log: deque[LogLine] = deque(maxlen=KEPT_LINES)
        self.texts: deque[Sample] = deque(maxlen=KEPT_TEXTS)
        self.throttles: dict[tuple[int, str], str] = {}
        self._findings: dict[str, Finding] = {}
        self._ranks: dict[str, int] = {}
        self.num_lines = self.generation = 0

    @property
    def findings(self) -> list[Finding]:
        """What was found: what is open first, the gravest first, the newest first."""
        return sorted(
            self._findings.values(),
            key=lambda f: (not f.is_open, _SEVERITIES.get(f.severity, 2), -(f.t or 0.0)),
        )

    def read(self) -> None:
        """Take in what the run's last refresh found."""
        end = self._run.end()
        if self._since is None:
            self._read_all(end)
        elif end != self._since:
            new = list(self._run.records(self._since))
            if any(record["log"] == "resume" for _, record in new):
                # What the attempt before wrote beyond that step no longer stands.
                self._read_all(end)
            else:
                for position, record in sorted(new, key=lambda item: moment_of(item[1])):
                    self._take(position, record)
        self._since = end

    def _read_all(self, end: Cursor) -> None:
        for kept in (self.log, self.texts, self.throttles, self._findings):
            kept.clear()
        self.generation += 1
        for entry in sorted(
            self._run.entries(*LOG_KINDS, rank=None), key=lambda entry: entry.t or 0.0
        ):
            self._ranks[entry.position.writer] = entry.rank
            self._take(entry.position, entry.record)
        for entry in self._run.texts()[-KEPT_TEXTS:]:
            self._take(entry.position, entry.record)
        machine = {
            writer: position._replace(ordinal=max(position.ordinal - _MACHINE_RECORDS, -1))
            for writer, position in end.items()
            if writer.startswith(_MACHINE_WRITER)
        }
        for position, record in self._run.records({**end, **machine}):
            if record["log"] == "gpu":
                self._take(position, record)

    def _take(self, position: Position, record: Record) -> None:
        kind = record["log"]
        rank = self._rank(position, record)
        if kind == "gpu":
            if isinstance(record.get("throttle"), str):
                self.throttles[rank, str(record.get("id", 0))] = record["throttle"]
        elif kind == "text":
            self.texts.append(_sample(record))
        elif kind in LOG_KINDS:
            self.log.append(_log_line(record, rank))
            self.num_lines += 1
            if kind == "finding":
                self._findings[str(record.get("id"))] = _finding(record)

    def _rank(self, position: Position, record: Record) -> int:
        """Whose word it is: the first record of every part says its rank."""
        rank = record.get("rank")
        if record["log"] == "run" and isinstance(rank, int):
            self._ranks[position.writer] = rank
        return self._ranks.get(position.writer, 0)


def _log_line(record: Record, rank: int) -> LogLine:
    text, style = _WORDS.get(record["log"], _other_words)(record)
    return LogLine(finite(record.get("t")), text, style, rank)


def _message(record: Record) -> tuple[str, str]:
    text, level = str(record.get("text", "")), str(record.get("level", ""))
    duration_ms = finite(record.get("duration_ms"))
    if duration_ms is not None:
        text += f" ({format_duration(duration_ms / 1000)})"
    return text, severity_of(level, text)


def _finding_words(record: Record) -> tuple[str, str]:
    found = _finding(record)
    ended = "" if found.is_open else " (ended)"
    return f"found: {found.sentence}{ended}", found.style


def _finish(record: Record) -> tuple[str, str]:
    status, reason = str(record.get("status", "finished")), record.get("reason")
    text = f"{status}: {reason}" if reason else status
    return text, "bad" if status in _ENDED_BADLY else "good"


def _resume(record: Record) -> tuple[str, str]:
    return f"resumed at step {record.get('step')}, attempt {record.get('attempt')}", "accent"


def _measured(record: Record) -> tuple[str, str]:
    kind = str(record["log"])
    at = record.get("epoch" if kind == "epoch" else "step")
    left_out = ("eval/eval_tokens", "eval/duration_ms", "eval/tokens_per_second")
    scalars = [item for item in scalars_of(record) if item[0] not in left_out]
    # A loss is what an evaluation is for.
    scalars = sorted(scalars, key=lambda item: item[0] != "eval/loss")[:6]
    figures = "  ".join(f"{name} {format_number(value)}" for name, value in scalars)
    return f"{kind} {at}  {figures}" if kind == "epoch" else f"eval @ {at}  {figures}", "accent"


def _event(record: Record) -> tuple[str, str]:
    left_out = ("log", "t", "name")
    fields = " ".join(f"{k}={_short(v)}" for k, v in record.items() if k not in left_out)
    return f"{record.get('name')} {fields}".rstrip(), "accent"


def _other_words(record: Record) -> tuple[str, str]:
    return str(record["log"]), "dim"


_WORDS = {
    "message": _message,
    "finding": _finding_words,
    "finish": _finish,
    "resume": _resume,
    "eval": _measured,
    "epoch": _measured,
    "event": _event,
}


def _short(value: Any) -> str:
    return format_number(value) if isinstance(value, float) else str(value)[:200]


def _sample(record: Record) -> Sample:
    step = record.get("step")
    name, text = str(record.get("name", "")), str(record.get("text", ""))
    return Sample(name, step if isinstance(step, int) else None, text)


def _finding(record: Record) -> Finding:
    steps = record.get("steps")
    first = steps[0] if isinstance(steps, list) and steps else None
    return Finding(
        severity=str(record.get("severity", "info")),
        sentence=str(record.get("sentence", "")),
        advice=str(record.get("advice", "")),
        is_open=record.get("state") != "closed",
        first_step=finite(first),
        t=finite(record.get("t")),
    )


def flagged_steps(findings: Iterable[Finding]) -> tuple[float, ...]:
    """Where charts point at: the first steps of what was found."""
    return tuple(found.first_step for found in findings if found.first_step is not None)
