"""The finding of a run that did not end as it was meant to: how it ended, and how to go on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from epochal.health.finding import Finding, Severity, finding_id
from epochal.health.rules.memory import LESS_MEMORY, described, evidence_of
from epochal.records import finite
from epochal.records.format import format_bytes, format_reached

BadEnding = Literal["crashed", "failed", "terminated", "interrupted"]
BAD_ENDINGS: tuple[BadEnding, ...] = get_args(BadEnding)

# Whoever presses Ctrl-C knows that the run has ended; whoever is preempted may not.
_ENDINGS: Mapping[str, tuple[Severity, str]] = {
    "crashed": ("error", "The run crashed"),
    "failed": ("error", "The run failed"),
    "terminated": ("warning", "The run was ended from outside"),
    "interrupted": ("info", "The run was stopped by hand"),
}
_PLACE = re.compile(r'^\s*File "([^"]+)", line (\d+)', re.MULTILINE)
# What torch, its libraries and Python write when memory has run out.
_OF_MEMORY = re.compile(
    r"out of memory|outofmemory|memoryerror|can't allocate memory|not enough memory|alloc_failed",
    re.IGNORECASE,
)
_LONGEST = 200  # characters of a reason: some errors are pages long
_KILLED = "Use fewer loader workers, a smaller batch or more memory, or it will be killed again. "
_RAN_OUT = f"{LESS_MEMORY} The text 'out-of-memory' of the run shows how the memory was used. "
_RESUME = "'epochal resume {}' prints the command that continues from the last checkpoint."
_RESTART = (
    "The run has no checkpoint: 'epochal resume {}' prints the command that starts it again. Use "
    "epochal.Checkpoints to save checkpoints."
)


def ending_severity(state: str) -> Severity | None:
    """Return the severity of a status; None for a run that is running or finished well."""
    return _ENDINGS[state][0] if state in _ENDINGS else None


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
    """Return the finding of an attempt's end; its rule is named like the run's status.

    ``epoch`` is for runs that count no steps. ``reason`` is the reason in words. ``facts`` are the
    fields of its event (``traceback``, ``oom_kills``, ``rss``), ``memory`` those of the last
    out-of-memory event. ``has_checkpoint``: whether the run can be resumed. ``t`` is in Unix
    seconds.
    """
    facts, severity = facts or {}, _ENDINGS[how][0]
    is_of_memory = _OF_MEMORY.search(reason or "") is not None
    ran_out = dict(memory) if memory and is_of_memory else {}
    if ran_out:
        words = described(ran_out)
        reason = words[0].lower() + words[1:]
    advice = _KILLED if facts.get("oom_kills") else _RAN_OUT if is_of_memory else ""
    return Finding(
        id=finding_id(how, "", attempt),
        rule=how,
        severity=severity,
        sentence=_sentence(how, format_reached(step, epoch), reason),
        series=None,
        steps=None if step is None else (step, step),
        evidence={**_evidence(facts), **evidence_of(ran_out)},
        advice=advice + (_RESUME if has_checkpoint else _RESTART).format(run),
        state="open",
        t=t,
        certainty="fact",
    )


def _sentence(how: BadEnding, place: str, reason: str | None) -> str:
    words = (reason or "").strip().partition("\n")[0].rstrip(".")
    if words.startswith("the training process vanished"):
        return f"T{words[1:]}."  # it says where by itself
    if how == "interrupted" and words == "KeyboardInterrupt":
        words = ""
    if len(words) > _LONGEST:
        words = f"{words[:_LONGEST]} …"
    where = f"after {place}" if place else "before its first step"
    return f"{_ENDINGS[how][1]} {where}{f': {words}' if words else ''}."


def _evidence(facts: Mapping[str, Any]) -> dict[str, float | int | str]:
    evidence: dict[str, float | int | str] = {
        name: facts[name] for name in ("pid", "oom_kills") if isinstance(facts.get(name), int)
    }
    if places := _PLACE.findall(str(facts.get("traceback") or "")):
        evidence["at"] = "{}, line {}".format(*places[-1])
    rss = finite(facts.get("rss"))
    return evidence if rss is None else {**evidence, "memory": format_bytes(rss)}
