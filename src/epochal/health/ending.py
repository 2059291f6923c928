"""The finding of a run that did not end as it was meant to: how it ended, and how to go on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from epochal.format import format_bytes, format_reached
from epochal.health.finding import Finding, Severity, finding_id
from epochal.health.rules.out_of_memory import described, evidence_of
from epochal.records import finite

BadEnding = Literal["crashed", "failed", "terminated", "interrupted"]
BAD_ENDINGS: tuple[BadEnding, ...] = get_args(BadEnding)

# Whoever presses Ctrl-C knows that the run has ended; whoever is preempted may not.
_SEVERITIES: Mapping[str, Severity] = {
    "crashed": "error",
    "failed": "error",
    "terminated": "warning",
    "interrupted": "info",
}
_SENTENCES: Mapping[BadEnding, str] = {
    "crashed": "The run crashed",
    "failed": "The run failed",
    "terminated": "The run was ended from outside",
    "interrupted": "The run was stopped by hand",
}
_PLACE = re.compile(r'^\s*File "([^"]+)", line (\d+)', re.MULTILINE)
# What torch, its libraries and Python say.
_OF_MEMORY = (
    "out of memory",
    "outofmemory",
    "memoryerror",
    "can't allocate memory",
    "not enough memory",
    "alloc_failed",
)
_LONGEST = 200  # characters of a reason: some errors are pages long


def ending_severity(state: str) -> Severity | None:
    """The severity of a status; None for a run that is running or finished well."""
    return _SEVERITIES.get(state)


def ending_finding(
    how: BadEnding,
    *,
    run: str,
    attempt: int,
    step: int | None,
    epoch: int | None = None,
    t: float,
    reason: str | None = None,
    facts: Mapping[str, Any] | None = None,
    memory: Mapping[str, Any] | None = None,
    has_checkpoint: bool = True,
) -> Finding:
    """The finding of an attempt's end; its rule is named like the run's status.

    ``epoch`` is for runs that count no steps. ``reason`` is the reason in words. ``facts`` are the
    fields of its event (``traceback``, ``oom_kills``, ``rss``), ``memory`` those of the last
    out-of-memory event. ``has_checkpoint``: whether the run can be resumed. ``t`` is in Unix
    seconds.
    """
    known = dict(facts or {})
    ran_out = dict(memory or {}) if reason is not None and is_of_memory(reason) else {}
    words = _lowered(described(ran_out)) if ran_out else reason
    return Finding(
        id=finding_id(how, "", attempt),
        rule=how,
        severity=_SEVERITIES[how],
        sentence=_sentence(how, format_reached(step, epoch), words),
        series=None,
        steps=None if step is None else (step, step),
        evidence={**_evidence(known), **evidence_of(ran_out)},
        advice=_advice(run, reason or "", known, has_checkpoint=has_checkpoint),
        state="open",
        t=t,
    )


def _sentence(how: BadEnding, place: str, reason: str | None) -> str:
    where = f"after {place}" if place else "before its first step"
    reason_lines = (reason or "").strip().splitlines()
    words = reason_lines[0].rstrip(".") if reason_lines else ""
    if words.startswith("the training process vanished"):
        return f"T{words[1:]}."  # it says where by itself
    if how == "interrupted" and words == "KeyboardInterrupt":
        words = ""
    if len(words) > _LONGEST:
        words = f"{words[:_LONGEST]} …"
    return f"{_SENTENCES[how]} {where}{f': {words}' if words else ''}."


def _evidence(facts: Mapping[str, Any]) -> dict[str, float | int | str]:
    found: dict[str, float | int | str] = {}
    places = _PLACE.findall(str(facts.get("traceback") or ""))
    if places:
        file, line = places[-1]
        found["at"] = f"{file}, line {line}"
    for name in ("pid", "oom_kills"):
        value = facts.get(name)
        if isinstance(value, int):
            found[name] = value
    rss = finite(facts.get("rss"))
    if rss is not None:
        found["memory"] = format_bytes(rss)
    return found


def is_of_memory(reason: str) -> bool:
    """Whether the text of an error means that memory ran out."""
    words = reason.lower()
    return any(text in words for text in _OF_MEMORY)


def _lowered(words: str) -> str:
    return words[0].lower() + words[1:]


def _advice(run: str, reason: str, facts: Mapping[str, Any], *, has_checkpoint: bool) -> str:
    go_on = (
        f"'epochal resume {run}' gives the command that goes on from the last checkpoint."
        if has_checkpoint
        else f"No checkpoint of it is known: 'epochal resume {run}' gives the command that starts "
        "it anew. epochal.Checkpoints saves what a run can go on from."
    )
    if facts.get("oom_kills"):
        return (
            "Use fewer loader workers, a smaller batch or a machine with more memory, or it will "
            f"be killed again. {go_on}"
        )
    if is_of_memory(reason):
        return (
            "Use a smaller batch with gradient accumulation, shorter sequences or activation "
            "checkpointing; the text 'out-of-memory' of the run shows how the memory was used. "
            f"{go_on}"
        )
    return go_on
